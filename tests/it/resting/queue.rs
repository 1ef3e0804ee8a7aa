//! A minimum, and the threads of one manager: the hand-over from thread to thread, and the next in line.

use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Error, LockManager, NodeReport, Vote};
use redlatch_testing::pause;

use super::ends::ms;
use crate::managers::PATIENCE;
use crate::waiting::queue::{got, line_up, next};

const TTL: Duration = Duration::from_secs(30);
const MINIMUM: Duration = Duration::from_mins(10);

fn with_handover() -> (Vec<FakeNode>, LockManager) {
    let nodes = FakeNode::cluster(3);
    let builder = LockManager::builder().fakes(&nodes);
    let builder = builder.node_timeout(PATIENCE);
    let manager = builder.local_handover(10, MINIMUM).build().unwrap();
    (nodes, manager)
}

#[test]
fn a_lock_is_not_handed_over_within_its_minimum_and_the_next_in_line_meets_the_rest() {
    let (nodes, manager) = with_handover();
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
    assert_eq!(manager.stats().handed_over, 0);
}

#[test]
fn a_lock_that_is_given_back_at_once_or_after_its_minimum_is_handed_over() {
    let (nodes, manager) = with_handover();
    let request = manager.request("job").ttl(TTL).at_least(MINIMUM);
    let first = request.try_lock().unwrap();
    let token = first.token().to_owned();
    let waiting = next(&manager, TTL);
    first.unlock_now().unwrap();
    let second = got(waiting);
    assert_eq!(second.token(), token);
    // It has no minimum of its own.
    second.unlock().unwrap();
    assert!(nodes.iter().all(|node| node.token_of("job").is_none()));

    let first = manager.request("job").ttl(TTL).at_least(ms(5));
    let first = first.try_lock().unwrap();
    let waiting = next(&manager, TTL);
    pause(ms(5));
    first.unlock().unwrap();
    drop(got(waiting));
    assert_eq!(manager.stats().handed_over, 2);
}

#[test]
fn who_gets_a_lock_from_another_thread_counts_its_own_minimum() {
    let (nodes, manager) = with_handover();
    let first = manager.try_lock("job", TTL).unwrap();
    let token = first.token().to_owned();
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
    assert_eq!(second.token(), token);
    second.unlock().unwrap();
    for node in &nodes {
        assert_eq!(node.token_of("job"), Some(format!("rest:{token}")));
        assert!(node.ttl_of("job") > Some(MINIMUM.saturating_sub(ms(20_000))));
    }
}
