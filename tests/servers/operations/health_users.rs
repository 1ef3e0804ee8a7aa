//! `LockManager::health` for users without a password, without rights, or with too few of them.

use std::time::Duration;

use redis::Value;
use redlatch::{Health, LockManager, Protocol, Severity};
use redlatch_testing::{Server, eventually};

use crate::managers::{fenced, fenced_over};
use crate::servers::operations::health_servers::{assert_well, health, manager, of, remembering};
use crate::servers::operations::page;

const TTL: Duration = Duration::from_mins(1);
const BOUND: Duration = Duration::from_secs(50);

/// A manager whose user on each of these servers has these rights.
fn with_rights(servers: &[Server], rights: &[&str]) -> LockManager {
    give_rights(servers, rights);
    manager(urls_of(servers))
}

fn urls_of(servers: &[Server]) -> impl Iterator<Item = String> {
    let urls = servers.iter().map(Server::url);
    urls.map(|url| url.replace("//", "//looker:pw@"))
}

fn give_rights(servers: &[Server], rights: &[&str]) {
    for server in servers {
        let words = [
            "ACL", "SETUSER", "looker", "reset", "on", ">pw", "~*", "+ping",
        ];
        assert_eq!(server.command(&[&words, rights].concat()), Value::Okay);
    }
}

#[test]
fn what_an_acl_hides_is_unknown_and_nothing_else_is() {
    let servers = remembering(3);
    let locks = ["+set", "+eval", "+del", "+pttl"];
    let with = |looks: &[&str]| health(&with_rights(&servers, &[&locks, looks].concat()));
    assert_well(&with(&["+get", "+time", "+info"]));

    let found = with(&["+get", "+time"]);
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
}

/// The codes of the findings that are no notices, of the first server alone.
fn alarms(found: &Health) -> Vec<&str> {
    let findings = found.findings.iter();
    let alarms = findings.filter(|finding| finding.severity > Severity::Notice);
    let mut codes: Vec<&str> = alarms.map(|finding| finding.code).collect();
    codes.dedup();
    codes
}

#[test]
fn a_user_who_may_take_no_lock_is_told_that_none_could_be_tried() {
    let servers = remembering(3);
    let all = ["+set", "+eval", "+evalsha", "+get", "+mget", "+del"];
    let all = [&all[..], &["+pttl", "+time", "+info", "+exists"]].concat();
    let without = |rights: &[&str], less: &str| {
        let rest = rights.iter().filter(|right| **right != less).copied();
        let manager = with_rights(&servers, &rest.collect::<Vec<_>>());
        (health(&manager), manager)
    };
    let (found, _) = without(&all, "");
    assert_well(&found);

    let (found, manager) = without(&all, "+set");
    assert_eq!(alarms(&found), ["untried"], "{found}");
    assert_eq!(found.severity, Severity::Warning);
    let text = found.to_string();
    assert_eq!(text.matches("could not try").count(), 3, "{text}");
    assert_eq!(text.matches("allow SET").count(), 3, "{text}");
    assert!(!text.contains("pw"), "{text}");
    assert!(manager.try_lock("report", TTL).is_err());
    // A pattern that does not have the key that is tried.
    let keys = ["resetkeys", "~report*", "~redlatch:node"];
    let (found, manager) = without(&[&all[..], &keys].concat(), "");
    assert_eq!(alarms(&found), ["untried"], "{found}");
    assert!(
        found.to_string().contains("allow the key pattern"),
        "{found}"
    );
    manager.try_lock("report", TTL).unwrap().unlock().unwrap();

    // It gets locks, and keeps them.
    let less: Vec<&str> = all.iter().filter(|r| **r != "+evalsha").copied().collect();
    for right in ["+eval", "+get", "+del"] {
        let (found, manager) = without(&less, right);
        assert_eq!(alarms(&found), ["not_released"], "{right}: {found}");
        assert!(found.to_string().contains("allow SET, EVAL"), "{found}");
        assert_eq!(found.margin, 1);
        let guard = manager.try_lock("report", TTL).unwrap();
        assert!(guard.unlock().is_err());
        for server in &servers {
            server.command(&["DEL", "report"]);
        }
    }
}

#[test]
fn a_user_without_what_the_scripts_of_fencing_need_is_told_that_none_could_be_tried() {
    let servers = remembering(3);
    fenced_over(&servers);
    let rights = ["+eval", "+evalsha", "+set", "+get", "+mget", "+del"];
    let rights = [&rights[..], &["+pttl", "+pexpire", "+time", "+exists"]].concat();
    for less in ["", "+eval", "+set", "+mget", "+time"] {
        let rest = rights.iter().filter(|right| **right != less).copied();
        let rest: Vec<&str> = rest
            .filter(|r| less != "+eval" || *r != "+evalsha")
            .collect();
        give_rights(&servers, &[&rest[..], &["+info"]].concat());
        let manager = fenced().nodes(urls_of(&servers)).build().unwrap();
        let found = health(&manager);
        let can_lock = manager.try_lock("report", TTL).is_ok();
        assert_eq!(can_lock, less.is_empty(), "{less}");
        let expected: &[&str] = if can_lock { &[] } else { &["untried"] };
        assert_eq!(alarms(&found), expected, "{less}: {found}");
    }
}

#[test]
fn a_replica_that_hides_its_role_gives_no_lock() {
    let master = remembering(1).remove(0);
    let port = master.port().to_string();
    let replicas = [(); 3].map(|()| Server::start_with(&["--replicaof", "127.0.0.1", &port]));
    let is_linked = |server: &Server| server.info("replication").contains("link_status:up");
    assert!(eventually(BOUND, || replicas.iter().all(is_linked)));
    let found = health(&with_rights(&replicas, &["+@all", "-info"]));
    assert_eq!(found.severity, Severity::Critical, "{found}");
    assert_eq!(found.margin, -2);
    assert_eq!(found.to_string().matches("READONLY").count(), 3, "{found}");
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
fn a_password_that_is_missing_wrong_or_needless_is_told_as_such() {
    let server = Server::start_with(&["--requirepass", "secretpw", "--appendonly", "yes"]);
    let open = Server::start();
    for (server, login, state, told) in [
        (&server, "", "refuses", "the server answered NOAUTH "),
        (
            &server,
            ":wrong@",
            "failed",
            "AUTH was refused with WRONGPASS",
        ),
        (&open, ":needless@", "failed", "may have no password"),
    ] {
        let found = health(&manager([server
            .url()
            .replace("//", &format!("//{login}"))]));
        assert_eq!(of(&found, server, "state"), state, "{found}");
        assert!(of(&found, server, "error").contains(told), "{found}");
        assert_eq!(found.margin, -1);
    }
    let right = server.url().replace("//", "//:secretpw@");
    assert_well(&health(&manager([right])));
}

#[test]
fn the_user_of_the_page_who_looks_may_be_let_try_a_lock_and_still_takes_no_other() {
    let selector = page::PAGE.lines().find(|line| line.contains(" (~"));
    let selector: Vec<&str> = selector.unwrap().split(' ').collect();
    for (locker, protocol) in page::USERS {
        let servers = remembering(3);
        if servers[0].info("server").contains("redis_version:6.") {
            return println!("not tested: the server knows no selectors");
        }
        for server in &servers {
            page::apply(server, &page::rules(locker));
            page::apply(server, &page::rules("locks-viewer"));
        }
        if protocol == Protocol::Fenced {
            let locker = page::manager(&servers, locker, protocol);
            locker.open_nodes().unwrap();
        }
        let viewer = page::manager(&servers, "locks-viewer", protocol);
        assert_eq!(alarms(&health(&viewer)), ["untried"]);

        for server in &servers {
            let more = [&["ACL", "SETUSER", "locks-viewer"][..], &selector].concat();
            page::apply(server, &more);
        }
        assert_well(&health(&viewer));
        let refusal = viewer.try_lock("report", TTL).unwrap_err().to_string();
        assert!(refusal.contains(page::FORBIDDEN), "{refusal}");
        for server in &servers {
            assert_eq!(server.get("billing:report"), None);
        }
    }
}
