//! Servers that forget. With the classic protocol, each way lets two managers hold one lock; the fenced protocol prevents it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::Duration;

use redis::Value;
use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, Fanout, LockGuard, LockManager, NodeError, Protocol, Vote};
use redlatch_testing::{Proxy, Server, eventually, side_by_side};

use crate::kinds::outcomes::assert_unavailable;
use crate::managers::{fenced, with_protocol};
use crate::servers::faults::nodes::{granted, vote};
use crate::waiters::BOUND;

pub(crate) const TTL: Duration = Duration::from_mins(1);

/// Three servers, of which the second one forgets. It is reached by a path that can lead to another server.
pub(crate) struct Deployment {
    steady: [Server; 2],
    pub(crate) forgetful: Server,
    path: PathBuf,
    /// Replaces the forgetful one, if it is there.
    replica: Option<Server>,
    protocol: Protocol,
}

impl Deployment {
    pub(crate) fn new(protocol: Protocol) -> Self {
        let forgetful = with_socket();
        let deployment = Self {
            steady: [Server::start(), Server::start()],
            path: forgetful.dir().join("address"),
            forgetful,
            replica: None,
            protocol,
        };
        deployment.lead_to(&deployment.forgetful);
        if protocol == Protocol::Fenced {
            deployment.manager().open_nodes().unwrap();
        }
        deployment
    }

    fn manager(&self) -> LockManager {
        let builder = with_protocol(self.protocol).nodes(self.steady.iter().map(Server::url));
        let builder = builder.node(format!("unix://{}", self.path.display()));
        builder.build().unwrap()
    }

    pub(crate) fn lead_to(&self, server: &Server) {
        fs::remove_file(&self.path).ok();
        symlink(server.dir().join("redis.sock"), &self.path).unwrap();
    }
}

pub(crate) fn with_socket() -> Server {
    Server::start_with(&["--unixsocket", "{dir}/redis.sock"])
}

type Step = fn(&mut Deployment);

/// When the lock is held by one majority, `forget`. Returns both guards if another manager gets it then, or the vote of the server
/// that forgot.
#[track_caller]
pub(crate) fn hold_twice(
    deployment: &mut Deployment,
    forget: impl FnOnce(&mut Deployment),
) -> Result<[LockGuard; 2], Vote> {
    // The first majority does without the second steady server, which had another key at that moment.
    deployment.steady[1].hold("job", "someone", 60_000);
    let first = deployment.manager().try_lock("job", TTL).unwrap();
    deployment.steady[1].command(&["DEL", "job"]);

    forget(deployment);
    let second = deployment.manager().try_lock("job", TTL);
    first.check().expect("the first one still holds it");
    match second {
        Ok(second) => Ok([first, second]),
        Err(Error::Held { nodes, .. } | Error::Unavailable { nodes, .. }) => {
            Err(vote(&nodes, &deployment.path.display().to_string()).clone())
        }
        Err(error) => panic!("{error}"),
    }
}

fn restart(deployment: &mut Deployment) {
    deployment.forgetful.kill();
    deployment.forgetful.restart();
}

fn begin_to_lag(deployment: &mut Deployment) {
    let replica = with_socket();
    // By default, a server waits for more replicas before it sends its data.
    let at_once = ["CONFIG", "SET", "repl-diskless-sync-delay", "0"];
    deployment.forgetful.command(&at_once);
    let port = deployment.forgetful.port().to_string();
    replica.command(&["REPLICAOF", "127.0.0.1", &port]);
    let is_synced = || {
        replica
            .info("replication")
            .contains("master_link_status:up")
    };
    assert!(eventually(BOUND, is_synced));
    // From here on it hears no more: it asks where nobody answers.
    replica.command(&["REPLICAOF", "127.0.0.1", "1"]);
    deployment.replica = Some(replica);
}

fn promote(deployment: &mut Deployment) {
    deployment.forgetful.kill();
    let replica = deployment.replica.as_ref().unwrap();
    replica.command(&["REPLICAOF", "NO", "ONE"]);
    deployment.lead_to(replica);
}

fn command(deployment: &mut Deployment, words: &[&str]) {
    deployment.forgetful.command(words);
}

#[test]
fn a_server_that_forgets_votes_twice_and_abstains_with_the_fenced_protocol() {
    // What happened, before the lock was taken and then; and whether a marker is there.
    let cases: [(&str, Step, Step, bool); 5] = [
        ("killed, and nothing is persisted", |_| (), restart, false),
        // The snapshot has no marker of the classic protocol, and the lock came later than either.
        (
            "back with a snapshot",
            |it| command(it, &["SAVE"]),
            restart,
            true,
        ),
        ("a replica is promoted", begin_to_lag, promote, true),
        ("flushed", |_| (), |it| command(it, &["FLUSHALL"]), false),
        (
            "swapped",
            |_| (),
            |it| command(it, &["SWAPDB", "0", "1"]),
            false,
        ),
    ];
    side_by_side(cases, |(case, prepare, forget, is_marked)| {
        let twice = |protocol| {
            let mut deployment = Deployment::new(protocol);
            prepare(&mut deployment);
            hold_twice(&mut deployment, forget)
        };
        let classic = twice(Protocol::Classic);
        assert!(classic.is_ok(), "{case}: not even a danger: {classic:?}");
        let vote = twice(Protocol::Fenced);
        let Err(Vote::Failed(NodeError::Quarantined {
            remaining,
            has_marker,
            ..
        })) = vote
        else {
            panic!("{case}: {vote:?}");
        };
        assert_eq!(has_marker, is_marked, "{case}");
        // One hour and its drift, unless the builder says otherwise.
        assert!(
            remaining > Duration::from_secs(3500),
            "{case}: {remaining:?}"
        );
    });
}

/// Fakes, and a manager that opens them or not.
fn over_fakes(n: usize, fanout: Fanout) -> (FakeClock, Vec<FakeNode>, LockManager) {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(n, &clock);
    let builder = fenced().fakes(&nodes).max_ttl(Duration::from_secs(100));
    (clock, nodes, builder.fanout(fanout).build().unwrap())
}

#[test]
fn a_node_votes_again_when_its_quarantine_is_over_with_tokens_above_all_before() {
    let (clock, nodes, manager) = over_fakes(3, Fanout::Sequential);
    manager.open_nodes().unwrap();
    let token = manager.try_lock("job", TTL).unwrap().fencing_token();
    // An operator reads in one line which nodes, for how long, and why. What several of them say is told once.
    let abstain = |cause: &str| {
        let result = manager.try_lock("job", TTL);
        assert_unavailable(&result);
        let text = result.unwrap_err().to_string();
        let told = format!(": abstains for another {cause}");
        assert_eq!(text.matches(&told).count(), 1, "{text}");
        assert!(!text.contains('\n'), "{text}");
        let names = nodes.iter().map(FakeNode::name);
        assert!(names.take(2).all(|name| text.contains(name)), "{text}");
    };
    nodes.iter().for_each(FakeNode::restart);
    abstain(
        "101s: it has no marker, so it is new, or was flushed or restarted without persistence; open a brand-new deployment, \
         and only that, with open_nodes() or 'redlatch open-nodes'",
    );
    // A restart meanwhile begins it anew.
    clock.advance(Duration::from_secs(100));
    nodes.iter().for_each(FakeNode::restart_persisted);
    abstain("101s: it was restarted");
    clock.advance(Duration::from_millis(101_002));
    abstain("");
    clock.advance(Duration::from_millis(1));
    let guard = manager.try_lock("job", TTL).unwrap();
    assert!(guard.fencing_token() > token);
    assert_eq!(granted(&guard.votes()), 3);
}

/// Else those that a majority does without would begin when the others have ended theirs.
#[test]
fn all_nodes_begin_their_quarantine_with_the_first_attempt() {
    for fanout in [Fanout::Sequential, Fanout::Overlapped] {
        let (clock, _nodes, manager) = over_fakes(5, fanout);
        let Err(Error::Unavailable { nodes, .. }) = manager.try_lock("job", TTL) else {
            panic!("{fanout:?}: not in quarantine");
        };
        let abstains = |vote: &Vote| matches!(vote, Vote::Failed(NodeError::Quarantined { .. }));
        assert!(
            nodes.iter().all(|report| abstains(&report.vote)),
            "{nodes:?}"
        );
        clock.advance(Duration::from_secs(102));
        let votes = manager.try_lock("job", TTL).unwrap().votes();
        assert_eq!(granted(&votes), 5, "{votes:?}");
    }
}

/// A proxy keeps the connections of its clients while the server behind it becomes another process with an older snapshot. The
/// run id is that of the process which executes the script, whatever the client knows of its connection.
#[test]
fn a_server_that_comes_back_with_an_older_snapshot_behind_connections_that_stay_abstains() {
    let steady = [Server::start(), Server::start()];
    let mut forgetful = Server::start();
    let proxy = Proxy::start(forgetful.port());
    let [first, second] = [(); 2].map(|()| {
        let builder = fenced().nodes(steady.iter().map(Server::url));
        builder.node(proxy.url()).build().unwrap()
    });
    first.open_nodes().unwrap();
    let extended = first.try_lock("extended", TTL).unwrap();
    // Both have a connection from here on, and know who is at the other end.
    drop(second.try_lock("warm", TTL).unwrap());
    // The key has ended and the counter is of the lock still, as before the server gave its word to somebody else.
    forgetful.command(&["DEL", "extended"]);
    assert_eq!(forgetful.command(&["SAVE"]), Value::Okay);
    // The first majority does without the second steady server, which has another key at that moment.
    steady[1].hold("job", "someone", 60_000);
    let guard = first.try_lock("job", TTL).unwrap();
    steady[1].command(&["DEL", "job"]);
    let clients = proxy.clients();

    forgetful.kill();
    proxy.has_lost_the_server();
    forgetful.restart();
    let result = second.try_lock("job", TTL);
    guard.check().expect("the first one still holds it");
    let Err(Error::Held { nodes, .. } | Error::Unavailable { nodes, .. }) = result else {
        panic!("two holders: {result:?}");
    };
    let vote = vote(&nodes, &proxy.name());
    let Vote::Failed(NodeError::Quarantined { has_marker, .. }) = vote else {
        panic!("{vote:?}");
    };
    assert!(*has_marker);
    // Nor does an extension put a key back there.
    extended.extend(TTL).unwrap();
    assert_eq!(forgetful.get("extended"), None);
    assert_eq!(proxy.clients(), clients, "a client has connected anew");
}
