//! `LockManager::open_nodes`: nodes are opened if every one is fresh, and all of them or none.

use redlatch::fake::FakeNode;
use redlatch::{Error, LockManager, NodeError, NodeReport, Vote};
use redlatch_testing::Server;
use redlatch_testing::scripted::Scripted;

use crate::managers::{fenced, invalid_field};
use crate::servers::fenced::setup::{TTL, failure, unavailable};

#[test]
fn nodes_are_opened_only_if_every_one_is_fresh_and_all_or_none() {
    let manager = |nodes: &[FakeNode]| fenced().fakes(nodes).build().unwrap();
    let is_locked = |nodes: &[FakeNode]| manager(nodes).try_lock("job", TTL).is_ok();

    // Locks that were refused before leave the deployment brand-new.
    let nodes = FakeNode::cluster(3);
    assert!(!is_locked(&nodes));
    manager(&nodes).open_nodes().unwrap();
    assert!(is_locked(&nodes));

    // In use, also when two of three were restarted or flushed since.
    nodes[0].restart();
    nodes[1].flush();
    let error = manager(&nodes).open_nodes().unwrap_err();
    let Error::NotOpened { nodes: reports, .. } = &error else {
        panic!("{error}");
    };
    let is_serving = matches!(failure(&reports[2].vote), NodeError::Serving);
    assert!(is_serving, "{error}");
    assert!(error.to_string().contains("not all nodes grant that"));
    assert!(!is_locked(&nodes));

    // Restarted with their memory, which nobody knows how old it is.
    let nodes = FakeNode::cluster(3);
    manager(&nodes).open_nodes().unwrap();
    nodes.iter().for_each(FakeNode::restart_persisted);
    for _ in 0..2 {
        assert!(manager(&nodes).open_nodes().is_err());
        assert!(!is_locked(&nodes));
    }

    // One is away.
    let nodes = FakeNode::cluster(3);
    nodes[2].refuse();
    let error = manager(&nodes).open_nodes().unwrap_err();
    assert!(matches!(error, Error::NotOpened { .. }), "{error}");
    nodes[2].recover();
    let is_closed = |node: &FakeNode| node.token_of("redlatch:node").is_none();
    assert!(nodes.iter().all(is_closed));
    manager(&nodes).open_nodes().unwrap();

    let classic = LockManager::builder().fakes(&nodes).build().unwrap();
    let error = classic.open_nodes().unwrap_err();
    assert_eq!(invalid_field(&error), "protocol");
}

#[test]
fn nodes_that_were_opened_are_closed_again_when_another_fails_meanwhile() {
    let servers = Server::cluster(2);
    // Answers what a fresh node does, and then fails.
    let moody = Scripted::start(|peer, command| match command.words[4].as_str() {
        "look" => peer.say(b"+OK\r\n"),
        _ => peer.say(b"-OOM out of memory\r\n"),
    });
    let builder = fenced().nodes(servers.iter().map(Server::url));
    let manager = builder.node(moody.url()).build().unwrap();
    let error = manager.open_nodes().unwrap_err();
    assert!(error.to_string().contains("OOM"), "{error}");
    for server in &servers {
        let marker = server.get("redlatch:node").unwrap();
        assert!(marker.ends_with("|new"), "{marker}");
    }
    let nodes = unavailable(manager.try_lock("job", TTL));
    let abstains =
        |report: &&NodeReport| matches!(report.vote, Vote::Failed(NodeError::Quarantined { .. }));
    assert_eq!(nodes.iter().filter(abstains).count(), 2, "{nodes:?}");
}
