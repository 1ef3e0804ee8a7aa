//! Passwords and ACL users: what opens a server, which rights a lock needs, and what a user without them is told.

use redlatch::{Error, LockManager, LockStatus};
use redlatch_testing::Server;

use crate::managers::{PATIENCE, patient};
use crate::servers::connecting::connections::{PASSWORD, TTL, assert_works, manager};

#[test]
fn a_password_opens_the_server() {
    let odd = Server::start_with(&["--requirepass", "p@ss:w/rd#1%"]);
    let url = format!("redis://:p%40ss%3Aw%2Frd%231%25@{}", odd.name());
    assert_works(&manager(&url));
}

#[test]
fn a_login_that_is_refused_is_told_with_what_to_do_and_without_the_password() {
    let server = Server::start_with(&["--requirepass", PASSWORD, "--databases", "4"]);
    let name = server.name();
    let other = Server::start();
    let no_select = other.user("~* +@all -select") + "/1";
    let out_of_range = "SELECT was refused with ERR DB index is out of range";
    for (url, words) in [
        (server.url(), ["NOAUTH", "demands a password"]),
        (
            format!("redis://:wrong-{PASSWORD}@{name}"),
            ["WRONGPASS", ""],
        ),
        (format!("redis://:{PASSWORD}@{name}/4"), [out_of_range, ""]),
        (format!("redis://:{PASSWORD}@{name}/99"), [out_of_range, ""]),
        (
            no_select,
            ["SELECT was refused with NOPERM", "allow SELECT, "],
        ),
    ] {
        let manager = manager(&url);
        let error = manager.try_lock("report", TTL).unwrap_err();
        let text = error.to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
        assert!(!text.contains("PEXPIRE"), "{text}");
        let builder = LockManager::builder().node(&url);
        let shown = format!("{text} {error:?} {manager:?} {builder:?}");
        assert!(!shown.contains(PASSWORD), "{shown}");
    }
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
