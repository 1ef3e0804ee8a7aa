//! A minimum, and the next thread in line.

use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Error, LockManager, NodeReport, Vote};

use crate::managers::PATIENCE;
use crate::waiters::{got, line_up};

const TTL: Duration = Duration::from_secs(30);
const MINIMUM: Duration = Duration::from_mins(10);

fn fakes() -> (Vec<FakeNode>, LockManager) {
    let nodes = FakeNode::cluster(3);
    let builder = LockManager::builder().fakes(&nodes);
    let builder = builder.node_timeout(PATIENCE);
    let manager = builder.build().unwrap();
    (nodes, manager)
}

#[test]
fn the_next_in_line_meets_the_rest() {
    let (nodes, manager) = fakes();
    let guard = manager.request("job").ttl(TTL).at_least(MINIMUM);
    let guard = guard.try_lock().unwrap();
    let rest = Some(format!("rest:{}", guard.token()));
    let waiting = {
        let manager = manager.clone();
        line_up(move || manager.try_lock_for("job", TTL, Duration::from_secs(1)))
    };
    guard.unlock().unwrap();
    match got(waiting) {
        // It has asked the nodes itself.
        Err(Error::Held { nodes, .. }) => {
            let is_held = |node: &NodeReport| matches!(node.vote, Vote::Held { .. });
            assert!(nodes.iter().any(is_held), "{nodes:?}");
        }
        other => panic!("{other:?}"),
    }
    assert!(nodes.iter().all(|node| node.token_of("job") == rest));
}

#[test]
fn who_gets_a_lock_from_another_thread_counts_its_own_minimum() {
    let (nodes, manager) = fakes();
    let first = manager.try_lock("job", TTL).unwrap();
    let waiting = {
        let manager = manager.clone();
        line_up(move || {
            manager
                .request("job")
                .ttl(TTL)
                .at_least(MINIMUM)
                .lock()
                .unwrap()
        })
    };
    first.unlock().unwrap();
    let second = got(waiting);
    let rest = Some(format!("rest:{}", second.token()));
    second.unlock().unwrap();
    for node in &nodes {
        assert_eq!(node.token_of("job"), rest);
        assert!(node.ttl_of("job") > Some(MINIMUM / 2));
    }
}
