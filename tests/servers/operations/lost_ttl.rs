//! A lock that lost its time to live, as by `PERSIST`, is told as a lock wherever it is in the way: its holder may still have it.

use std::time::Duration;

use redlatch::{Error, LockGuard, LockManager, LockStatus, Protocol};
use redlatch_testing::Server;

use crate::managers::{BOTH, two_processes};

const TTL: Duration = Duration::from_mins(10);
const ADVICE: &str = "is a lock that lost its time to live; delete it only if its holder is gone";

type Take = fn(&LockManager) -> Result<LockGuard, Error>;

/// Ways to have the lock on "job".
const LOCKS: [Take; 4] = [
    |manager| manager.lock("job", TTL),
    |manager| manager.lock_all(["job", "other"], TTL),
    |manager| manager.request("job").ttl(TTL).holder("web-3").lock(),
    |manager| manager.rw_lock("job").ttl(TTL).holder("web-3").read(),
];

/// Ways to ask for it.
const ASKS: [Take; 3] = [
    |manager| manager.try_lock("job", TTL),
    |manager| manager.request_all(["free", "job"]).ttl(TTL).try_lock(),
    |manager| manager.rw_lock("job").ttl(TTL).try_read(),
];

fn on_each(servers: &[Server], command: &[&str]) {
    for server in servers {
        server.command(command);
    }
}

#[track_caller]
fn assert_told(text: &str) {
    assert!(text.contains(ADVICE), "{text}");
    assert!(!text.contains("or delete the key"), "{text}");
    assert!(!text.contains("not a lock"), "{text}");
}

#[test]
fn one_who_asks_for_a_lock_that_lost_its_time_to_live_is_told_that_it_may_be_held() {
    for protocol in BOTH {
        let (servers, [one, other]) = two_processes(protocol);
        for take in LOCKS {
            let guard = take(&one).unwrap();
            on_each(&servers, &["PERSIST", "job"]);
            for ask in ASKS {
                let error = ask(&other).unwrap_err();
                assert!(matches!(error, Error::Unavailable { .. }), "{error}");
                assert_told(&error.to_string());
            }
            let status = other.status("job").unwrap();
            assert!(matches!(status, LockStatus::Unknown { .. }), "{status}");
            assert_told(&status.to_string());
            guard.check().unwrap();
            drop(guard);
            on_each(&servers, &["DEL", "job", "other"]);
        }
        // Its holder extends it and gives it back.
        let guard = one.lock("job", TTL).unwrap();
        on_each(&servers, &["PERSIST", "job"]);
        guard.extend(TTL).unwrap();
        assert!(servers.iter().all(|server| server.pttl("job") > 0));
        on_each(&servers, &["PERSIST", "job"]);
        guard.unlock().unwrap();
        drop(other.try_lock("job", TTL).unwrap());
    }
}

#[test]
fn a_permit_a_rest_and_a_lock_of_a_list_that_lost_their_time_to_live_are_told_so_as_well() {
    let (servers, [one, other]) = two_processes(Protocol::Classic);
    let permit = one.semaphore("jobs", 1).ttl(TTL).lock().unwrap();
    let resting = one.request("rest").ttl(TTL).at_least(TTL).lock().unwrap();
    resting.unlock().unwrap();
    on_each(&servers, &["PERSIST", "jobs:redlatch:slot:0"]);
    on_each(&servers, &["PERSIST", "rest"]);
    let error = other.semaphore("jobs", 1).ttl(TTL).try_lock().unwrap_err();
    assert_told(&error.to_string());
    let status = other.semaphore_status("jobs", 1).unwrap();
    assert_told(&status[0].to_string());
    assert_told(&other.try_lock("rest", TTL).unwrap_err().to_string());
    assert_told(&other.status("rest").unwrap().to_string());
    drop(permit);

    // A list tells it of the node where it is so.
    let guard = one.lock("job", TTL).unwrap();
    on_each(&servers[..1], &["PERSIST", "job"]);
    let lock = other.locks("job").unwrap().next().unwrap().unwrap();
    assert_told(&lock.status.to_string());
    guard.unlock().unwrap();
}

#[cfg(feature = "serde")]
#[test]
fn programs_are_told_that_it_never_expires_and_what_that_means() {
    let (servers, [one, other]) = two_processes(Protocol::Classic);
    let guard = one.lock("job", TTL).unwrap();
    on_each(&servers, &["PERSIST", "job"]);
    on_each(&servers, &["SET", "settings", "of another program"]);
    let of_nodes = |name: &str| {
        let status = serde_json::to_value(other.status(name).unwrap()).unwrap();
        status["nodes"].clone()
    };
    let nodes = of_nodes("job");
    assert_eq!(nodes[0]["view"], "never_expires");
    assert_told(nodes[0]["error"].as_str().unwrap());
    let nodes = of_nodes("settings");
    assert_eq!(nodes[0]["view"], "never_expires");
    assert!(nodes[0]["error"].is_null());
    guard.unlock().unwrap();
}

#[test]
fn what_is_no_lock_may_be_deleted_and_its_value_is_not_asked_for() {
    let (servers, [_, other]) = two_processes(Protocol::Classic);
    for value in [
        "settings",
        // As long as a token, and none.
        "0123456789ABCDEF0123456789abcdef01234567",
        // Longer than a token.
        "0123456789abcdef0123456789abcdef012345678",
    ] {
        on_each(&servers, &["SET", "job", value]);
        for text in [
            other.try_lock("job", TTL).unwrap_err().to_string(),
            other.status("job").unwrap().to_string(),
        ] {
            assert!(text.contains("the key is not a lock: it never expires"));
            assert!(text.contains("or delete the key"), "{text}");
            assert!(!text.contains(value), "{text}");
        }
    }
}
