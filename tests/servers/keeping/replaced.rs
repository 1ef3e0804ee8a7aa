//! A lock whose key was replaced by something that is no lock: its holder is told at the first renewal, and why.

#![expect(
    clippy::unchecked_time_subtraction,
    reason = "a test that underflows fails, as it should"
)]

use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Error, KeepAlive, LockGuard, LockManager, LossCause, NodeError, Vote};
use redlatch_testing::Server;

use crate::fakes::keeping::schedule::{TTL, cluster, kept, told};
use crate::managers::{BOTH, patient, two_processes};

const LONG: Duration = Duration::from_mins(10);

/// Commands that put something in place of a lock on "job".
const REPLACED: [&str; 4] = [
    "SET job x",
    "SET job 0123456789abcdef0123456789abcdef01234567",
    "DEL job, RPUSH job x",
    "DEL job, RPUSH job x, PEXPIRE job 600000",
];

type Take = fn(&LockManager) -> Result<LockGuard, Error>;

const LOCKS: [(&str, Take); 4] = [
    ("lock", |manager| manager.lock("job", LONG)),
    ("labelled lock", |manager| {
        manager.request("job").ttl(LONG).holder("web-3").lock()
    }),
    ("one of several", |manager| {
        manager.lock_all(["job", "other"], LONG)
    }),
    ("reader", |manager| manager.rw_lock("job").ttl(LONG).read()),
];

type Tell = fn(LockGuard) -> Result<(), Error>;

const TOLD_BY: [(&str, Tell); 2] = [
    ("unlock", LockGuard::unlock),
    ("extend", |guard| guard.extend(LONG)),
];

fn is_no_lock(vote: &Vote) -> bool {
    matches!(vote, Vote::Failed(NodeError::NotALock { .. }))
}

#[test]
fn a_kept_lock_whose_key_was_replaced_is_lost_at_the_first_renewal() {
    let (clock, nodes, manager) = cluster();
    let guard = kept(&manager, KeepAlive::unbounded());
    let told = told(&guard);
    // It has no end.
    let replace = |node: &FakeNode| node.hold("report", "settings", Duration::MAX);
    nodes[..2].iter().for_each(replace);
    clock.advance(TTL);
    guard.check().unwrap();
    replace(&nodes[2]);
    let at = clock.elapsed();
    let cause = guard.wait_lost(Duration::MAX).unwrap();
    assert!(clock.elapsed() - at <= TTL / 3, "not at once");
    let no_locks = cause.nodes().iter().filter(|node| is_no_lock(&node.vote));
    assert_eq!(no_locks.count(), 3, "{cause}");
    assert!(matches!(cause, LossCause::Taken { .. }), "{cause}");
    let head = "a majority of the nodes has lost it, and on most of them something else is under its key: ";
    assert!(cause.to_string().starts_with(head), "{cause}");
    clock.advance(Duration::ZERO);
    assert!(told.try_recv().is_ok());
    assert_eq!(manager.stats().lost, 1);
}

#[test]
fn a_release_and_an_extension_find_a_lock_lost_whose_key_was_replaced() {
    for protocol in BOTH {
        let (servers, [manager, _]) = two_processes(protocol);
        for (kind, take) in LOCKS {
            for commands in REPLACED {
                for (verb, tell) in TOLD_BY {
                    let guard = take(&manager).unwrap();
                    for server in &servers[..2] {
                        for command in commands.split(", ") {
                            server.command(&command.split(' ').collect::<Vec<_>>());
                        }
                    }
                    let of = format!("{verb} of a {kind}, {commands}");
                    let error = tell(guard).expect_err(&of);
                    let Error::Lost { cause, .. } = &error else {
                        panic!("{of}: {error}");
                    };
                    assert!(matches!(cause, LossCause::Taken { .. }), "{of}: {error}");
                    let no_locks = cause.nodes().iter().filter(|node| is_no_lock(&node.vote));
                    assert_eq!(no_locks.count(), 2, "{of}: {error}");
                    for server in &servers {
                        server.command(&["DEL", "job", "other"]);
                    }
                }
            }
        }
    }
}

#[test]
fn a_lease_whose_own_key_lost_its_time_to_live_is_not_told_as_lost() {
    let servers = Server::cluster(3);
    let manager = patient(servers.iter().map(Server::url));
    let lease = manager.lock("job", LONG).unwrap().into_lease();
    for server in &servers {
        server.command(&["PERSIST", "job"]);
    }
    let text = lease.to_string();
    let error = manager.adopt(lease).unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    for server in &servers {
        server.command(&["PEXPIRE", "job", "600000"]);
    }
    let adopted = manager.adopt(text.parse().unwrap()).unwrap();
    adopted.unlock().unwrap();
}
