//! A lock that lost its time to live, as by `PERSIST`, is told as a lock wherever it is in the way: its holder may still have it.

use std::time::Duration;

use redlatch::{Error, LockGuard, LockManager, LockStatus, Protocol};
use redlatch_testing::Server;

use crate::managers::two_processes;

const TTL: Duration = Duration::from_mins(10);
const ADVICE: &str = "is a lock that lost its time to live; delete it only if its holder is gone";

type Take = fn(&LockManager) -> Result<LockGuard, Error>;

/// Ways to have the lock on "job".
const LOCKS: [(&str, Take); 5] = [
    ("lock", |manager| manager.lock("job", TTL)),
    ("labelled lock", |manager| {
        manager.request("job").ttl(TTL).holder("web-3").lock()
    }),
    ("one of several", |manager| {
        manager.lock_all(["job", "other"], TTL)
    }),
    ("reader", |manager| manager.rw_lock("job").ttl(TTL).read()),
    ("labelled reader", |manager| {
        let ledger = manager.rw_lock("job").ttl(TTL);
        ledger.holder("web-3").read()
    }),
];

/// Ways to ask for it.
const ASKS: [(&str, Take); 3] = [
    ("lock", |manager| manager.try_lock("job", TTL)),
    ("one of several", |manager| {
        manager.request_all(["free", "job"]).ttl(TTL).try_lock()
    }),
    ("reader", |manager| {
        manager.rw_lock("job").ttl(TTL).try_read()
    }),
];

fn persist(servers: &[Server], key: &str) {
    for server in servers {
        server.command(&["PERSIST", key]);
    }
}

#[track_caller]
fn assert_told(text: &str, of: &str) {
    assert!(text.contains(ADVICE), "{of}: {text}");
    assert!(!text.contains("or delete the key"), "{of}: {text}");
    assert!(!text.contains("not a lock"), "{of}: {text}");
}

#[test]
fn one_who_asks_for_a_lock_that_lost_its_time_to_live_is_told_that_it_may_be_held() {
    for protocol in [Protocol::Classic, Protocol::Fenced] {
        let (servers, [one, other]) = two_processes(protocol);
        for (kind, take) in LOCKS {
            let guard = take(&one).unwrap();
            persist(&servers, "job");
            for (verb, ask) in ASKS {
                let of = format!("{verb} where it is a {kind}");
                let error = ask(&other).expect_err(&of);
                assert!(matches!(error, Error::Unavailable { .. }), "{of}: {error}");
                assert_told(&error.to_string(), &of);
            }
            let status = other.status("job").unwrap();
            assert!(matches!(status, LockStatus::Unknown { .. }), "{status}");
            assert_told(&status.to_string(), kind);
            guard.check().unwrap();
            drop(guard);
            for server in &servers {
                server.command(&["DEL", "job", "other"]);
            }
        }
    }
}

#[test]
fn a_permit_a_rest_and_a_lock_of_a_list_that_lost_their_time_to_live_are_told_so_as_well() {
    let (servers, [one, other]) = two_processes(Protocol::Classic);
    let permit = one.semaphore("jobs", 1).ttl(TTL).lock().unwrap();
    let resting = one.request("rest").ttl(TTL).at_least(TTL).lock().unwrap();
    resting.unlock().unwrap();
    persist(&servers, "jobs:redlatch:slot:0");
    persist(&servers, "rest");
    let error = other.semaphore("jobs", 1).ttl(TTL).try_lock().unwrap_err();
    assert_told(&error.to_string(), "permit");
    let status = other.semaphore_status("jobs", 1).unwrap();
    assert_told(&status[0].to_string(), "permit");
    let error = other.try_lock("rest", TTL).unwrap_err();
    assert_told(&error.to_string(), "rest");
    assert_told(&other.status("rest").unwrap().to_string(), "rest");
    drop(permit);

    // A list tells it of the node where it is so.
    let guard = one.lock("job", TTL).unwrap();
    persist(&servers[..1], "job");
    let mut listed = other.locks("job").unwrap();
    let lock = listed.next().unwrap().unwrap();
    assert_told(&lock.status.to_string(), "list");
    guard.unlock().unwrap();
}

#[cfg(feature = "serde")]
#[test]
fn programs_are_told_that_it_never_expires_and_what_that_means() {
    let (servers, [one, other]) = two_processes(Protocol::Classic);
    let guard = one.lock("job", TTL).unwrap();
    persist(&servers, "job");
    for server in &servers {
        server.command(&["SET", "settings", "of another program"]);
    }
    let of_nodes = |name: &str| {
        let status = serde_json::to_value(other.status(name).unwrap()).unwrap();
        status["nodes"].clone()
    };
    let nodes = of_nodes("job");
    assert_eq!(nodes[0]["view"], "never_expires");
    assert_told(nodes[0]["error"].as_str().unwrap(), "JSON");
    let nodes = of_nodes("settings");
    assert_eq!(nodes[0]["view"], "never_expires");
    assert!(nodes[0]["error"].is_null());
    guard.unlock().unwrap();
}

#[test]
fn the_holder_extends_a_lock_that_lost_its_time_to_live_and_gives_it_back() {
    for protocol in [Protocol::Classic, Protocol::Fenced] {
        let (servers, [one, other]) = two_processes(protocol);
        let guard = one.lock("job", TTL).unwrap();
        persist(&servers, "job");
        guard.extend(TTL).unwrap();
        assert!(servers.iter().all(|server| server.pttl("job") > 0));
        persist(&servers, "job");
        guard.unlock().unwrap();
        drop(other.try_lock("job", TTL).unwrap());
    }
}

#[test]
fn what_is_no_lock_may_be_deleted_and_its_value_is_not_asked_for() {
    let (servers, [_, other]) = two_processes(Protocol::Classic);
    let no_tokens = [
        "settings",
        // As long as a token, and none.
        "0123456789ABCDEF0123456789abcdef01234567",
        // Longer than a token.
        "0123456789abcdef0123456789abcdef012345678",
    ];
    for value in no_tokens {
        for server in &servers {
            server.command(&["SET", "job", value]);
        }
        for text in [
            other.try_lock("job", TTL).unwrap_err().to_string(),
            other.status("job").unwrap().to_string(),
        ] {
            assert!(
                text.contains("the key is not a lock: it never expires"),
                "{text}"
            );
            assert!(text.contains("or delete the key"), "{text}");
            assert!(!text.contains(value), "{text}");
        }
    }
}
