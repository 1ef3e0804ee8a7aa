//! Passwords and ACL users: what opens a server, which rights a lock needs, and what a user without them is told.

use redlatch::{Error, LockManager, LockStatus};
use redlatch_testing::Server;

use crate::managers::{PATIENCE, patient};
use crate::servers::connecting::connections::{PASSWORD, TTL, assert_works, manager};

#[test]
fn a_password_opens_the_server_and_is_never_shown() {
    let odd = Server::start_with(&["--requirepass", "p@ss:w/rd#1%"]);
    let url = format!("redis://:p%40ss%3Aw%2Frd%231%25@{}", odd.name());
    assert_works(&manager(&url));
    let server = Server::start_with(&["--requirepass", PASSWORD]);
    let good = manager(&format!("redis://:{PASSWORD}@{}", server.name()));
    assert_works(&good);

    let without = manager(&server.url());
    let error = without.try_lock("report", TTL).unwrap_err();
    assert!(error.to_string().contains("NOAUTH"), "{error}");
    assert!(error.to_string().contains("demands a password"), "{error}");

    let wrong = manager(&format!(
        "redis://:wrong-{PASSWORD}@127.0.0.1:{}",
        server.port()
    ));
    let error = wrong.try_lock("report", TTL).unwrap_err();
    assert!(error.to_string().contains("WRONGPASS"), "{error}");
    for text in [
        error.to_string(),
        format!("{error:?}"),
        format!("{wrong:?}"),
        format!("{good:?}"),
        format!(
            "{:?}",
            LockManager::builder().node(format!("redis://:{PASSWORD}@h"))
        ),
    ] {
        assert!(!text.contains(PASSWORD), "{text}");
    }
}

#[test]
fn a_refused_database_is_told_in_the_servers_words() {
    let server = Server::start_with(&["--requirepass", PASSWORD, "--databases", "4"]);
    for db in [4, 99] {
        let url = format!("redis://:{PASSWORD}@{}/{db}", server.name());
        let error = manager(&url).try_lock("report", TTL).unwrap_err();
        let text = error.to_string();
        let words = "SELECT was refused with ERR DB index is out of range";
        assert!(text.contains(words), "{text}");
        assert!(!text.contains(PASSWORD), "{text}");
    }
}

#[test]
fn a_user_who_may_not_select_is_told_what_to_allow() {
    let server = Server::start();
    let url = server.user("~* +@all -select") + "/1";
    let error = manager(&url).try_lock("report", TTL).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("SELECT was refused with NOPERM"), "{text}");
    assert!(text.contains("allow SELECT, "), "{text}");
    assert!(!text.contains("PEXPIRE"), "{text}");
}

#[test]
fn an_acl_user_with_the_documented_commands_can_lock() {
    let server = Server::start();
    let url = server.user("~app:* +set +get +del +pttl +pexpire +eval +ping");
    let allowed = LockManager::builder().node(&url).node_timeout(PATIENCE);
    let allowed = allowed.key_prefix("app:").build().unwrap();
    assert_works(&allowed);
    let guard = allowed.lock("report", TTL).unwrap();
    let status = allowed.status("report").unwrap();
    let is_mine = matches!(&status, LockStatus::Held { token, .. } if token == guard.token());
    assert!(is_mine, "{status}");

    let elsewhere = patient([url]);
    let error = elsewhere.try_lock("report", TTL).unwrap_err();
    assert!(error.to_string().contains("NOPERM"), "{error}");
    let status = elsewhere.status("report").unwrap();
    assert!(matches!(status, LockStatus::Unknown { .. }), "{status}");
    assert!(status.to_string().contains("NOPERM"), "{status}");
}

#[test]
fn an_acl_user_for_looking_alone_needs_eval_get_and_pttl() {
    let server = Server::start();
    server.hold("report", "someone", 60_000);
    let watcher = patient([server.user("~* +eval +get +pttl")]);
    let status = watcher.status("report").unwrap();
    assert!(
        matches!(&status, LockStatus::Held { token, .. } if token == "someone"),
        "{status}"
    );
    // It is told apart from a key of another type.
    server.user("~* -get");
    let status = watcher.status("report").unwrap();
    assert!(matches!(status, LockStatus::Unknown { .. }), "{status}");
    let refused = watcher.try_lock("report", TTL);
    assert!(matches!(refused, Err(Error::Unavailable { .. })));
}

#[test]
fn an_acl_user_that_may_not_read_is_told_so() {
    let server = Server::start();
    let url = server.user("~* +set +del +pttl +pexpire +eval +ping");
    let guard = patient([url]).lock("report", TTL).unwrap();
    let error = guard.extend(TTL).unwrap_err();
    // As Redis says it before 7.2, and as later servers do.
    let texts = ["can't run this command", "ACL failure in script"];
    let is_told = texts.iter().any(|text| error.to_string().contains(text));
    assert!(is_told, "{error}");
    assert!(!error.to_string().contains("another type"), "{error}");
}
