//! `LockManager::health` for users without a password, without rights, or with too few of them.

use redis::Value;
use redlatch::{LockManager, Severity};
use redlatch_testing::Server;

use crate::operations::health_servers::{assert_well, health, manager, of, remembering};

/// A manager whose user on each of these servers has these rights.
fn with_rights(servers: &[Server], rights: &[&str]) -> LockManager {
    for server in servers {
        let words = [
            "ACL", "SETUSER", "looker", "reset", "on", ">pw", "~*", "+ping",
        ];
        assert_eq!(server.command(&[&words, rights].concat()), Value::Okay);
    }
    manager(
        servers
            .iter()
            .map(|server| server.url().replace("//", "//looker:pw@")),
    )
}

#[test]
fn what_an_acl_hides_is_unknown_and_nothing_else_is() {
    let servers = remembering(3);
    let found = health(&with_rights(&servers, &["+get", "+time", "+info"]));
    assert_well(&found);

    let found = health(&with_rights(&servers, &["+get", "+time"]));
    assert_eq!(found.severity, Severity::Notice, "{found}");
    assert_eq!(found.margin, 1);
    for server in &servers {
        assert_eq!(of(&found, server, "state"), "up", "{found}");
        for name in ["role", "version", "eviction", "run_id"] {
            assert_eq!(of(&found, server, name), "", "{name}");
        }
        assert_ne!(of(&found, server, "clock_ahead_us"), "");
        assert_eq!(of(&found, server, "quarantine"), "no_marker");
    }
    let text = found.to_string();
    assert_eq!(text.matches("allow the user INFO\n").count(), 3, "{text}");
    assert!(text.lines().nth(1).unwrap().contains("unknown"));
    assert!(!text.contains("pw"), "{text}");

    let found = health(&with_rights(&servers, &["+info"]));
    assert!(
        found.to_string().contains("allow the user GET and TIME"),
        "{found}"
    );
    for server in &servers {
        assert_eq!(of(&found, server, "role"), "master");
        assert_eq!(of(&found, server, "clock_ahead_us"), "");
        assert_eq!(of(&found, server, "quarantine"), "");
    }
    let found = health(&with_rights(&servers, &["-ping"]));
    assert_eq!(found.severity, Severity::Notice, "{found}");
}

#[test]
fn a_user_who_may_not_touch_the_keys_has_no_votes() {
    let servers = remembering(3);
    let rights = ["+@all", "resetkeys", "~other:*"];
    let found = health(&with_rights(&servers, &rights));
    assert_eq!(found.severity, Severity::Critical, "{found}");
    assert_eq!(found.margin, -2);
    let text = found.to_string();
    let advice = "allow the key pattern ~PREFIX*";
    assert_eq!(text.matches(advice).count(), 3, "{text}");
    assert!(!text.contains("allow the user"), "{text}");
}

#[test]
fn a_server_that_demands_a_password_or_refuses_it_is_of_no_use() {
    let server = Server::start_with(&["--requirepass", "secretpw", "--appendonly", "yes"]);
    let found = health(&manager([server.url()]));
    assert_eq!(of(&found, &server, "state"), "refuses");
    let error = of(&found, &server, "error");
    assert!(error.starts_with("the server answered NOAUTH "), "{found}");
    assert_eq!(found.margin, -1);
    let found = health(&manager([server.url().replace("//", "//:wrong@")]));
    assert_eq!(of(&found, &server, "state"), "failed");
    let error = of(&found, &server, "error");
    assert!(
        error.starts_with("AUTH was refused with WRONGPASS"),
        "{found}"
    );
    assert_well(&health(&manager([server
        .url()
        .replace("//", "//:secretpw@")])));
}

#[test]
fn a_server_without_a_password_refuses_one_and_the_message_says_so() {
    let server = Server::start();
    let found = health(&manager([server.url().replace("//", "//:needless@")]));
    let error = of(&found, &server, "error");
    assert!(error.contains("may have no password"), "{found}");
}
