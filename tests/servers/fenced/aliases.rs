//! A server that is given under two names: its own key is no other holder's.

use redlatch::{Error, Fanout, LockGuard, LockManager, NodeError, NodeReport, Protocol, Vote};
use redlatch_testing::Server;

use crate::managers::{fenced, patient};
use crate::servers::fenced::setup::{TTL, open};

type Take = fn(&LockManager) -> Result<LockGuard, Error>;

#[test]
fn a_server_that_refuses_its_own_key_under_another_name_is_named_as_the_same_server() {
    let twice = Server::start_with(&["--unixsocket", "{dir}/redis.sock"]);
    let other = Server::start();
    let socket = format!("unix://{}/redis.sock", twice.dir().display());
    let urls = [twice.url(), socket, other.url()];
    for server in [&twice, &other] {
        open(server, "3:2:3600000:3636003:86400000:v2");
    }
    let same =
        |report: &&NodeReport| matches!(&report.vote, Vote::Failed(NodeError::SameServer { .. }));
    let takes: [(&str, Take); 5] = [
        ("lock", |manager| manager.try_lock("job", TTL)),
        ("labelled", |manager| {
            manager.request("job").holder("web-3").try_lock()
        }),
        ("several", |manager| {
            manager.request_all(["job", "work"]).try_lock()
        }),
        ("permit", |manager| manager.semaphore("jobs", 2).try_lock()),
        ("reader", |manager| manager.rw_lock("job").try_read()),
    ];
    for protocol in [Protocol::Classic, Protocol::Fenced] {
        for fanout in [Fanout::Overlapped, Fanout::Sequential] {
            for (kind, take) in takes {
                let builder = fenced().protocol(protocol).fanout(fanout);
                let manager = builder.nodes(&urls).build().unwrap();
                let guard = take(&manager).unwrap();
                let votes = guard.votes();
                let is_granted = |report: &&NodeReport| matches!(report.vote, Vote::Granted);
                let aliases = votes.iter().filter(same).count();
                let granted = votes.iter().filter(is_granted).count();
                assert_eq!((aliases, granted), (1, 2), "{kind}: {votes:?}");
                guard.unlock().unwrap();
            }
        }
    }
    // Nobody has the lock, and no majority is possible.
    drop(other);
    let error = patient(urls).try_lock("job", TTL).unwrap_err();
    let Error::Unavailable { nodes, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(nodes.iter().filter(same).count(), 1, "{error}");
}
