//! Hand-overs in trouble: locks that are lost, hooks that panic, a time that ends at that moment.

use std::panic::panic_any;
use std::sync::mpsc;
use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Error, LockManager, LossCause};
use redlatch_testing::pause;

use crate::waiting::handover::{assert_free, fakes};
use crate::waiting::queue::{BOUND, TTL, got, next};

#[test]
fn a_lock_that_is_lost_is_not_handed_over() {
    let (nodes, manager) = fakes(10);
    let lost = manager.lock("job", TTL).unwrap();
    for node in &nodes {
        node.hold("job", "another", Duration::from_millis(300));
    }
    assert!(matches!(lost.extend(TTL), Err(Error::Lost { .. })));
    let waiting = next(&manager, TTL);
    let token = lost.token().to_owned();
    assert!(matches!(lost.unlock(), Err(Error::Lost { .. })));
    assert_ne!(got(waiting).token(), token);
    // Nor one that has ended.
    let ended = manager.lock("job", Duration::from_millis(100)).unwrap();
    let waiting = next(&manager, Duration::from_millis(100));
    let token = ended.token().to_owned();
    pause(Duration::from_millis(100));
    drop(ended);
    assert_ne!(got(waiting).token(), token);
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic_any("dropped");
    }
}

#[test]
fn hooks_that_panic_stop_no_hand_over_and_are_not_called_for_it() {
    let (nodes, manager) = fakes(10);
    let first = manager.lock("job", TTL).unwrap();
    let (tell, told) = mpsc::channel();
    let bomb = Bomb;
    first.on_lost(move |_| {
        tell.send(()).ok();
        drop(bomb);
    });
    let (token, watch) = (first.token().to_owned(), first.watch());
    let waiting = next(&manager, TTL);
    first.unlock().unwrap();
    let second = got(waiting);
    assert_eq!(second.token(), token);
    assert!(told.recv().is_err(), "it was called");
    assert!(matches!(watch.wait_lost(BOUND), Some(LossCause::Released)));

    // A hook that is being called, and panics, while the next one waits.
    second.on_lost(|_| panic_any("called"));
    let waiting = next(&manager, TTL);
    for node in &nodes {
        node.flush();
    }
    assert!(matches!(second.extend(TTL), Err(Error::Lost { .. })));
    drop(second);
    got(waiting).unlock().unwrap();
    assert_free(&nodes);
}

#[test]
fn one_whose_time_ends_at_the_moment_of_the_hand_over_has_the_lock_or_leaves_nothing() {
    let (nodes, manager) = fakes(1000);
    let span = Duration::from_millis(3);
    let mut handed = 0;
    for i in 0..100 {
        let guard = manager.lock("job", TTL).unwrap();
        let token = guard.token().to_owned();
        let waiting = std::thread::spawn({
            let manager = manager.clone();
            move || manager.try_lock_for("job", TTL, span)
        });
        pause(span + Duration::from_micros(i * 5));
        drop(guard);
        match got(waiting) {
            Ok(guard) => {
                handed += u32::from(guard.token() == token);
                guard.unlock().unwrap();
            }
            Err(Error::Held { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        assert_free(&nodes);
        manager.try_lock("job", TTL).unwrap().unlock().unwrap();
    }
    assert!(handed < 100, "nobody's time was over");
}

/// Its undo may still be on its way, and would delete the key of the next one.
#[test]
fn the_next_one_asks_no_node_that_was_sent_an_undo() {
    let nodes = FakeNode::cluster(3);
    let builder = LockManager::builder().fakes(&nodes);
    let builder = builder.node_timeout(Duration::from_millis(300));
    let manager = builder.local_handover(10, BOUND).build().unwrap();
    nodes[0].lose_replies();
    let first = manager.lock("job", BOUND).unwrap();
    nodes[0].recover();
    let token = first.token().to_owned();
    let waiting = next(&manager, TTL);
    first.unlock().unwrap();
    let second = got(waiting);
    assert_eq!(second.token(), token);
    // As if the undo were on its way.
    nodes[0].hold("job", &token, TTL);
    nodes[1].refuse();
    let error = second.extend(BOUND).unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
}
