//! A server that is given under two names: it has one vote, and its own key is no other holder's.

use redlatch::{Error, Fanout, LockGuard, LockManager, NodeError, NodeReport, Protocol, Vote};
use redlatch_testing::Server;

use crate::managers::{BOTH, with_protocol};
use crate::servers::faults::nodes::granted;
use crate::servers::fenced::setup::{CONFIG, TTL, open, unavailable};
use crate::servers::waiting::pass::wanted;
use crate::waiters::got;

type Take = fn(&LockManager) -> Result<LockGuard, Error>;

const TAKES: [Take; 6] = [
    |manager| manager.try_lock("job", TTL),
    // From another thread, in one command with the release.
    |manager| {
        let (guard, waiting) = wanted(manager);
        guard.unlock()?;
        Ok(got(waiting))
    },
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

/// A server under two names, of which one may name another database, where a lock would be granted a second time; and one more.
struct Aliased {
    twice: Server,
    other: Server,
    urls: [String; 3],
    protocol: Protocol,
}

impl Aliased {
    /// In each database, and with each protocol; the nodes are open.
    fn all() -> impl Iterator<Item = Self> {
        let all = BOTH.into_iter().flat_map(|one| [(one, ""), (one, "?db=1")]);
        all.map(|(protocol, database)| {
            let twice = Server::start_with(&["--unixsocket", "{dir}/redis.sock"]);
            let other = Server::start();
            let socket = format!("unix://{}/redis.sock{database}", twice.dir().display());
            let urls = [twice.url(), socket, other.url()];
            let nodes = Self {
                twice,
                other,
                urls,
                protocol,
            };
            if protocol == Protocol::Fenced {
                let error = nodes.manager(Fanout::Sequential).open_nodes().unwrap_err();
                assert!(error.to_string().contains("the same server as"), "{error}");
                open(&nodes.twice, CONFIG);
                open(&nodes.other, CONFIG);
                let copy = ["COPY", "redlatch:node", "redlatch:node", "DB", "1"];
                nodes.twice.command(&copy);
            }
            nodes
        })
    }

    fn manager(&self, fanout: Fanout) -> LockManager {
        let builder = with_protocol(self.protocol).fanout(fanout);
        builder.nodes(&self.urls).build().unwrap()
    }
}

const FANOUTS: [Fanout; 2] = [Fanout::Overlapped, Fanout::Sequential];

#[test]
fn a_server_under_two_names_has_one_vote() {
    for nodes in Aliased::all() {
        for (fanout, take) in FANOUTS
            .into_iter()
            .flat_map(|one| TAKES.map(|take| (one, take)))
        {
            let guard = take(&nodes.manager(fanout)).unwrap();
            assert_one_alias(&guard.votes());
            assert_eq!(granted(&guard.votes()), 2, "{:?}", guard.votes());
            guard.extend(TTL).unwrap();
            guard.unlock().unwrap();
        }
        if nodes.protocol == Protocol::Classic {
            // Both names were given back what they had granted.
            assert_eq!(nodes.twice.info("keyspace").matches("keys=").count(), 0);
        }
    }
}

#[test]
fn a_server_under_two_names_is_no_majority() {
    for nodes in Aliased::all() {
        let locks = FANOUTS.map(|fanout| (nodes.manager(fanout), format!("{fanout:?}")));
        let guards = locks.map(|(manager, name)| manager.try_lock(&name, TTL).unwrap());
        let Aliased {
            twice,
            other,
            urls,
            protocol,
        } = nodes;
        drop(other);
        let manager = with_protocol(protocol).nodes(&urls).build().unwrap();
        for guard in guards {
            guard.extend(TTL).unwrap_err();
            // A lease that says that both names have the key.
            let text = guard.into_lease().to_string();
            let counted = text.split(':').nth(4).unwrap();
            let forged = text.replace(&format!(":{counted}:"), ":111:");
            assert_one_alias(&unavailable(manager.adopt(&forged.parse().unwrap())));
        }
        // Nobody has the lock, and no majority is possible.
        assert_one_alias(&unavailable(manager.try_lock("job", TTL)));
        assert_eq!(twice.get("job"), None);
    }
}
