//! Servers that forget. With the classic protocol, each way lets two managers hold one lock; the fenced protocol prevents it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::Duration;

use redis::Value;
use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, Fanout, LockManager, NodeError, NodeReport, Protocol, Vote};
use redlatch_testing::{Server, eventually};

use crate::managers::fenced;

const TTL: Duration = Duration::from_mins(1);

/// Three servers, of which the second one forgets. It is reached by a path that can lead to another server.
pub(crate) struct Deployment {
    pub(crate) steady: [Server; 2],
    pub(crate) forgetful: Server,
    pub(crate) path: PathBuf,
    /// Replaces the forgetful one, if it is there.
    pub(crate) replica: Option<Server>,
}

impl Deployment {
    pub(crate) fn new() -> Self {
        let forgetful = with_socket();
        let path = forgetful.dir().join("address");
        symlink(socket(&forgetful), &path).unwrap();
        Self {
            steady: [Server::start(), Server::start()],
            path,
            forgetful,
            replica: None,
        }
    }

    pub(crate) fn manager(&self, protocol: Protocol) -> LockManager {
        fenced()
            .protocol(protocol)
            .nodes(self.steady.iter().map(Server::url))
            .node(format!("unix://{}", self.path.display()))
            .build()
            .unwrap()
    }
}

pub(crate) fn with_socket() -> Server {
    Server::start_with(&["--unixsocket", "{dir}/redis.sock"])
}

pub(crate) fn socket(server: &Server) -> PathBuf {
    server.dir().join("redis.sock")
}

pub(crate) type Step = fn(&mut Deployment);

pub(crate) fn nothing(_: &mut Deployment) {}

/// Before the lock is taken, `prepare`; when it is held by one majority, `forget`. Returns whether another manager gets it
/// then, as the vote of the server that forgot.
#[track_caller]
pub(crate) fn is_held_twice(protocol: Protocol, prepare: Step, forget: Step) -> Result<(), Vote> {
    let mut deployment = Deployment::new();
    if protocol == Protocol::Fenced {
        deployment.manager(protocol).open_nodes().unwrap();
    }
    prepare(&mut deployment);
    // The first majority does without the second steady server, which had another key at that moment.
    deployment.steady[1].hold("job", "someone", 60_000);
    let first = deployment.manager(protocol).try_lock("job", TTL).unwrap();
    deployment.steady[1].command(&["DEL", "job"]);

    forget(&mut deployment);
    let second = deployment.manager(protocol).try_lock("job", TTL);
    first.check().expect("the first one still holds it");
    match second {
        Ok(_guard) => Ok(()),
        Err(Error::Held { nodes, .. } | Error::Unavailable { nodes, .. }) => {
            let path = deployment.path.display().to_string();
            let report = nodes.into_iter().find(|report| *report.node == *path);
            Err(report.unwrap().vote)
        }
        Err(error) => panic!("{error}"),
    }
}

#[track_caller]
pub(crate) fn assert_caught(prepare: Step, forget: Step, is_marked: bool) {
    let classic = is_held_twice(Protocol::Classic, prepare, forget);
    assert!(classic.is_ok(), "not even a danger: {classic:?}");
    let vote = is_held_twice(Protocol::Fenced, prepare, forget).expect_err("two holders");
    let Vote::Failed(NodeError::Quarantined {
        remaining,
        has_marker,
        ..
    }) = vote
    else {
        panic!("{vote:?}");
    };
    assert_eq!(has_marker, is_marked);
    // One hour and its drift, unless the builder says otherwise.
    assert!(remaining > Duration::from_secs(3500), "{remaining:?}");
}

fn restart(deployment: &mut Deployment) {
    deployment.forgetful.kill();
    deployment.forgetful.restart();
}

#[test]
fn a_server_that_is_killed_and_has_persisted_nothing() {
    assert_caught(nothing, restart, false);
}

#[test]
fn a_server_that_comes_back_with_an_older_snapshot() {
    let prepare = |deployment: &mut Deployment| {
        assert_eq!(deployment.forgetful.command(&["SAVE"]), Value::Okay);
    };
    // The snapshot has no marker of the classic protocol, and the lock came later than either.
    assert_caught(prepare, restart, true);
}

#[test]
fn a_replica_that_lags_and_is_promoted() {
    let prepare = |deployment: &mut Deployment| {
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
        assert!(eventually(Duration::from_secs(20), is_synced));
        // From here on it hears no more: it asks where nobody answers.
        replica.command(&["REPLICAOF", "127.0.0.1", "1"]);
        deployment.replica = Some(replica);
    };
    let forget = |deployment: &mut Deployment| {
        deployment.forgetful.kill();
        let replica = deployment.replica.as_ref().unwrap();
        replica.command(&["REPLICAOF", "NO", "ONE"]);
        fs::remove_file(&deployment.path).unwrap();
        symlink(socket(replica), &deployment.path).unwrap();
    };
    assert_caught(prepare, forget, true);
}

#[test]
fn a_server_that_is_flushed() {
    let forget = |deployment: &mut Deployment| {
        deployment.forgetful.command(&["FLUSHALL"]);
    };
    assert_caught(nothing, forget, false);
}

/// What an operator reads: which node, why, and for how long.
#[test]
fn an_error_says_in_one_line_who_abstains_why_and_until_when() {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(3, &clock);
    let max_ttl = Duration::from_secs(100);
    let manager = fenced().fakes(&nodes).max_ttl(max_ttl).build().unwrap();
    let text = manager.try_lock("job", TTL).unwrap_err().to_string();
    assert!(!text.contains('\n'));
    // What several nodes say is told once.
    let line = ": abstains for another 101s: it has no marker, so it is new, or was flushed or restarted without \
                persistence; open a brand-new deployment, and only that, with open_nodes() or 'redlatch open-nodes'";
    assert_eq!(text.matches(line).count(), 1, "{text}");
    for node in &nodes[..2] {
        assert!(text.contains(node.name()), "{text}");
    }
    manager.open_nodes().unwrap();
    assert!(manager.try_lock("job", TTL).is_ok());
    nodes[0].restart_persisted();
    nodes[1].restart_persisted();
    let text = manager.try_lock("job", TTL).unwrap_err().to_string();
    assert!(
        text.contains("abstains for another 101s: it was restarted"),
        "{text}"
    );
}

#[test]
fn a_node_votes_again_when_its_quarantine_is_over_with_tokens_above_all_before() {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(3, &clock);
    let max_ttl = Duration::from_secs(100);
    let manager = fenced().fakes(&nodes).max_ttl(max_ttl).build().unwrap();
    manager.open_nodes().unwrap();
    let token = manager.try_lock("job", TTL).unwrap().fencing_token();
    for node in &nodes {
        node.restart();
    }
    assert!(matches!(
        manager.try_lock("job", TTL),
        Err(Error::Unavailable { .. })
    ));
    clock.advance(Duration::from_millis(101_002));
    assert!(manager.try_lock("job", TTL).is_err(), "too early");
    clock.advance(Duration::from_millis(1));
    let guard = manager.try_lock("job", TTL).unwrap();
    assert!(guard.fencing_token() > token);
    assert_eq!(granted(&guard.votes()), 3);
}

fn granted(nodes: &[NodeReport]) -> usize {
    let is_granted = |report: &&NodeReport| matches!(report.vote, Vote::Granted);
    nodes.iter().filter(is_granted).count()
}

/// Else those that a majority does without would begin when the others have ended theirs.
#[test]
fn all_nodes_begin_their_quarantine_with_the_first_attempt() {
    for fanout in [Fanout::Sequential, Fanout::Overlapped] {
        let clock = FakeClock::new();
        let nodes = FakeNode::cluster_on(5, &clock);
        let builder = fenced().fakes(&nodes).max_ttl(TTL).fanout(fanout);
        let manager = builder.build().unwrap();
        let Err(Error::Unavailable { nodes, .. }) = manager.try_lock("job", TTL) else {
            panic!("{fanout:?}: not in quarantine");
        };
        let abstains = |vote: &Vote| matches!(vote, Vote::Failed(NodeError::Quarantined { .. }));
        assert!(
            nodes.iter().all(|report| abstains(&report.vote)),
            "{nodes:?}"
        );
        clock.advance(TTL + Duration::from_secs(1));
        let guard = manager.try_lock("job", TTL).unwrap();
        assert_eq!(granted(&guard.votes()), 5, "{:?}", guard.votes());
    }
}

#[test]
fn a_restart_within_the_quarantine_begins_it_anew() {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(1, &clock);
    let manager = fenced().fakes(&nodes).max_ttl(TTL).build().unwrap();
    assert!(manager.try_lock("job", TTL).is_err());
    clock.advance(TTL);
    nodes[0].restart_persisted();
    assert!(manager.try_lock("job", TTL).is_err());
    clock.advance(TTL);
    assert!(manager.try_lock("job", TTL).is_err());
    clock.advance(Duration::from_secs(1));
    assert!(manager.try_lock("job", TTL).is_ok());
}
