//! Keys on servers that are no locks, or that are locks without a time to live, as after `PERSIST`: the holder
//! of such a lock may still have it.

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
fn assert_told(text: &impl ToString) {
    let text = text.to_string();
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
                assert_told(&error);
            }
            let status = other.status("job").unwrap();
            assert!(matches!(status, LockStatus::Unknown { .. }), "{status}");
            assert_told(&status);
            guard.check().unwrap();
            drop(guard);
            on_each(&servers, &["DEL", "job", "other"]);
        }
        // Its holder extends it and gives it back.
        let guard = one.lock("job", TTL).unwrap();
        on_each(&servers, &["PERSIST", "job"]);
        guard.extend(TTL).unwrap();
        assert!(servers.iter().all(|server| server.pttl("job") > 0));
        // A list tells it of the node where it is so.
        on_each(&servers[..1], &["PERSIST", "job"]);
        let lock = other.locks("job").unwrap().next().unwrap().unwrap();
        assert_told(&lock.status);
        on_each(&servers, &["PERSIST", "job"]);
        guard.unlock().unwrap();
        drop(other.try_lock("job", TTL).unwrap());
    }
}

#[test]
fn a_permit_and_a_rest_that_lost_their_time_to_live_are_told_so_as_well() {
    let (servers, [one, other]) = two_processes(Protocol::Classic);
    let _permit = one.semaphore("jobs", 1).ttl(TTL).lock().unwrap();
    let resting = one.request("rest").ttl(TTL).at_least(TTL).lock().unwrap();
    resting.unlock().unwrap();
    on_each(&servers, &["PERSIST", "jobs:redlatch:slot:0"]);
    on_each(&servers, &["PERSIST", "rest"]);
    assert_told(&other.semaphore("jobs", 1).ttl(TTL).try_lock().unwrap_err());
    assert_told(&other.semaphore_status("jobs", 1).unwrap()[0]);
    assert_told(&other.try_lock("rest", TTL).unwrap_err());
    assert_told(&other.status("rest").unwrap());
}

#[test]
fn what_is_no_lock_may_be_deleted_and_its_value_is_not_asked_for() {
    let (servers, [_, other]) = two_processes(Protocol::Classic);
    // The last two are as long as a token, and none; and longer than a token.
    for command in [
        "LPUSH job private",
        "SET job private",
        "SET job 0123456789ABCDEF0123456789abcdef01234567",
        "SET job 0123456789abcdef0123456789abcdef012345678",
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        on_each(&servers, &words);
        let status = other.status("job").unwrap();
        assert!(matches!(status, LockStatus::Blocked { .. }), "{status}");
        let refused = other.try_lock("job", TTL).unwrap_err();
        for text in [refused.to_string(), status.to_string()] {
            assert!(text.contains("the key is not a lock: it "), "{text}");
            assert!(text.contains("or delete the key"), "{text}");
            assert!(!text.contains(words[2]), "{text}");
        }
        on_each(&servers, &["DEL", "job"]);
    }
}
