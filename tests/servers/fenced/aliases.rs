//! A server that is given under two names: it has one vote, and its own key is no other holder's.

use redlatch::{Error, Fanout, LockGuard, LockManager, NodeError, NodeReport, Protocol, Vote};
use redlatch_testing::Server;

use crate::managers::{BOTH, with_protocol};
use crate::servers::faults::nodes::granted;
use crate::servers::fenced::setup::{CONFIG, TTL, open, unavailable};

type Take = fn(&LockManager) -> Result<LockGuard, Error>;

const TAKES: [Take; 5] = [
    |manager| manager.try_lock("job", TTL),
    |manager| manager.request("job").holder("web-3").try_lock(),
    |manager| manager.request_all(["job", "work"]).try_lock(),
    |manager| manager.semaphore("jobs", 2).try_lock(),
    |manager| manager.rw_lock("job").try_read(),
];

#[track_caller]
fn assert_one_alias(votes: &[NodeReport]) {
    let is_alias = |vote: &Vote| matches!(vote, Vote::Failed(NodeError::SameServer { .. }));
    let aliases = votes.iter().filter(|report| is_alias(&report.vote));
    assert_eq!(aliases.count(), 1, "{votes:?}");
}

#[test]
fn a_server_under_two_names_has_one_vote() {
    // Another database has other keys, so that a lock is granted a second time there.
    for database in ["", "?db=1"] {
        let twice = Server::start_with(&["--unixsocket", "{dir}/redis.sock"]);
        let other = Server::start();
        let socket = format!("unix://{}/redis.sock{database}", twice.dir().display());
        let urls = [twice.url(), socket, other.url()];
        let manager = |protocol, fanout| {
            let builder = with_protocol(protocol).fanout(fanout).nodes(&urls);
            builder.build().unwrap()
        };
        let mut guards = Vec::new();
        for protocol in BOTH {
            if protocol == Protocol::Fenced {
                // Both names were given back what they had granted.
                assert_eq!(twice.info("keyspace").matches("keys=").count(), 0);
                let error = manager(protocol, Fanout::Sequential).open_nodes();
                let text = error.unwrap_err().to_string();
                assert!(text.contains("the same server as"), "{text}");
                open(&twice, CONFIG);
                open(&other, CONFIG);
                twice.command(&["COPY", "redlatch:node", "redlatch:node", "DB", "1"]);
            }
            for fanout in [Fanout::Overlapped, Fanout::Sequential] {
                for take in TAKES {
                    let guard = take(&manager(protocol, fanout)).unwrap();
                    assert_one_alias(&guard.votes());
                    assert_eq!(granted(&guard.votes()), 2, "{:?}", guard.votes());
                    guard.extend(TTL).unwrap();
                    guard.unlock().unwrap();
                }
                if protocol == Protocol::Fenced {
                    guards.extend(BOTH.map(|one| {
                        let name = format!("{one:?} {fanout:?}");
                        manager(one, fanout).try_lock(&name, TTL).unwrap()
                    }));
                }
            }
        }
        // Nobody has the lock, and no majority is possible.
        drop(other);
        for guard in guards {
            guard.extend(TTL).unwrap_err();
        }
        for protocol in BOTH {
            let result = manager(protocol, Fanout::Sequential).try_lock("job", TTL);
            assert_one_alias(&unavailable(result));
            assert_eq!(twice.get("job"), None);
        }
    }
}
