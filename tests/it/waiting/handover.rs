//! A lock is handed over from thread to thread of one manager.

use std::sync::mpsc;
use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{
    Builder, Error, FencingToken, KeepAlive, LockGuard, LockManager, LossCause, Protocol,
};
use redlatch_testing::scripted::{Kind, Scripted};
use redlatch_testing::{pause, within};

use crate::managers::PATIENCE;
use crate::waiting::queue::{BOUND, TTL, got, heard, line_up, listeners, next};

const LONG: Duration = Duration::from_mins(10);

fn over(nodes: &[Scripted]) -> Builder {
    let builder = LockManager::builder().nodes(nodes.iter().map(Scripted::url));
    builder.node_timeout(PATIENCE)
}

pub(super) fn fakes(times: u32) -> (Vec<FakeNode>, LockManager) {
    let nodes = FakeNode::cluster(3);
    let builder = LockManager::builder().fakes(&nodes);
    let builder = builder.node_timeout(PATIENCE);
    let manager = builder.local_handover(times, LONG).build().unwrap();
    (nodes, manager)
}

/// How often the first node was asked for the lock.
fn sets(nodes: &[Scripted]) -> usize {
    nodes[0].heard_of(Kind::Set).len() + nodes[0].heard_of(Kind::Pass).len()
}

fn fencing(guard: &LockGuard) -> FencingToken {
    guard.fencing_token().unwrap()
}

#[track_caller]
pub(super) fn assert_free(nodes: &[FakeNode]) {
    assert!(nodes.iter().all(|node| node.token_of("job").is_none()));
}

#[test]
fn a_lock_that_is_handed_over_costs_no_command() {
    let nodes = listeners(3);
    let manager = over(&nodes).local_handover(10, LONG).build().unwrap();
    let mut guard = manager.lock("job", TTL).unwrap();
    let (token, before) = (guard.token().to_owned(), heard(&nodes));
    for _ in 0..5 {
        let waiting = next(&manager, TTL);
        guard.unlock().unwrap();
        guard = got(waiting);
        guard.check().unwrap();
        assert_eq!(guard.token(), token);
        assert_eq!(guard.votes().len(), 3);
    }
    assert_eq!(heard(&nodes), before);
    // Nobody waits, so it goes back.
    guard.unlock().unwrap();
    assert_eq!(nodes[0].heard_of(Kind::Release).len(), 1);
    assert_eq!(sets(&nodes), 1);
}

#[test]
fn without_being_asked_for_it_is_not_done() {
    let nodes = listeners(1);
    let manager = over(&nodes).build().unwrap();
    let guard = manager.lock("job", TTL).unwrap();
    let waiting = next(&manager, TTL);
    drop(guard);
    got(waiting).unlock().unwrap();
    assert_eq!(sets(&nodes), 2);
}

#[test]
fn it_is_handed_over_so_many_times_and_no_more() {
    let nodes = listeners(1);
    let manager = over(&nodes).local_handover(2, LONG).build().unwrap();
    let mut guard = manager.lock("job", TTL).unwrap();
    let waiting: Vec<_> = (0..6).map(|_| next(&manager, TTL)).collect();
    let mut tokens = vec![guard.token().to_owned()];
    for thread in waiting {
        guard.unlock().unwrap();
        guard = got(thread);
        tokens.push(guard.token().to_owned());
    }
    let runs: Vec<usize> = tokens.chunk_by(|a, b| a == b).map(<[_]>::len).collect();
    assert_eq!(runs, [3, 3, 1]);
    assert_eq!(sets(&nodes), 3);
    // After so many threads it is released, for other processes as well, and not passed on.
    assert_eq!(nodes[0].heard_of(Kind::Pass).len(), 0);
    assert_eq!(nodes[0].heard_of(Kind::Release).len(), 2);
}

#[test]
fn it_is_handed_over_for_so_long_and_no_longer() {
    let nodes = listeners(1);
    let time = Duration::from_millis(50);
    let manager = over(&nodes).local_handover(1000, time).build().unwrap();
    let guard = manager.lock("job", TTL).unwrap();
    let (second, third) = (next(&manager, TTL), next(&manager, TTL));
    pause(time);
    guard.unlock().unwrap();
    let second = got(second);
    assert_eq!(sets(&nodes), 2);
    pause(time);
    second.unlock().unwrap();
    drop(got(third));
    assert_eq!(sets(&nodes), 3);
}

#[test]
fn what_remains_is_no_more_than_was_asked_for_and_no_more_than_the_lease_has() {
    let (nodes, manager) = fakes(10);
    let guard = manager.lock("job", Duration::from_mins(1)).unwrap();
    let waiting = next(&manager, Duration::from_secs(1));
    drop(guard);
    let short = got(waiting);
    let remaining = short.remaining();
    assert!(
        !remaining.is_zero() && remaining < Duration::from_secs(1),
        "{remaining:?}"
    );
    // It is longer than that on the nodes, and yet no longer this guard's.
    assert!(nodes[0].ttl_of("job") > Some(Duration::from_secs(50)));
    drop(short);
    assert_free(&nodes);

    let guard = manager.lock("job", Duration::from_secs(8)).unwrap();
    let waiting = next(&manager, TTL);
    let (token, before) = (guard.token().to_owned(), guard.remaining());
    drop(guard);
    let second = got(waiting);
    assert_eq!(second.token(), token);
    let remaining = second.remaining();
    assert!(!remaining.is_zero() && remaining < before, "{remaining:?}");
    second.extend(TTL).unwrap();
    assert!(second.remaining() > before);
}

#[test]
fn it_goes_back_when_less_than_half_of_what_is_asked_for_remains() {
    let (_, manager) = fakes(10);
    let guard = manager.lock("job", Duration::from_secs(5)).unwrap();
    let waiting = next(&manager, TTL);
    let token = guard.token().to_owned();
    drop(guard);
    let second = got(waiting);
    assert_ne!(second.token(), token);
    assert!(second.remaining() > Duration::from_secs(5));
}

#[test]
fn the_next_one_has_it_kept_alive_if_it_asked_for_that_and_only_then() {
    let nodes = FakeNode::cluster(3);
    let builder = LockManager::builder().fakes(&nodes);
    let manager = builder
        .node_timeout(Duration::from_secs(1))
        .local_handover(10, LONG)
        .build()
        .unwrap();
    let ttl = Duration::from_secs(6);
    let kept = {
        let manager = manager.clone();
        move || {
            let request = manager.request("job").ttl(ttl);
            request.keep_alive(KeepAlive::unbounded()).lock().unwrap()
        }
    };
    let first = kept();
    let (token, watch) = (first.token().to_owned(), first.watch());
    let waiting = line_up(kept);
    first.unlock().unwrap();
    let second = got(waiting);
    let lost = second.wait_lost(ttl * 2);
    assert!(lost.is_none(), "{lost:?}");
    assert_eq!(second.token(), token);
    assert!(matches!(
        watch.check(),
        Err(Error::Lost {
            cause: LossCause::Released,
            ..
        })
    ));
    // The third one did not ask for it.
    let waiting = next(&manager, ttl);
    second.unlock().unwrap();
    let third = got(waiting);
    assert_eq!(third.token(), token);
    assert!(matches!(
        third.wait_lost(BOUND),
        Some(LossCause::Expired { .. })
    ));
}

#[test]
fn fencing_tokens_grow_from_guard_to_guard_and_from_manager_to_manager() {
    let nodes = FakeNode::cluster(3);
    let fenced = || {
        let builder = LockManager::builder().fakes(&nodes);
        let builder = builder.node_timeout(PATIENCE).protocol(Protocol::Fenced);
        builder.local_handover(3, LONG).build().unwrap()
    };
    let (manager, other) = (fenced(), fenced());
    manager.open_nodes().unwrap();
    let mut guard = manager.lock("job", TTL).unwrap();
    let (mut last, mut tokens) = (fencing(&guard), vec![guard.token().to_owned()]);
    for _ in 0..10 {
        let waiting = next(&manager, TTL);
        guard.unlock().unwrap();
        guard = got(waiting);
        assert!(fencing(&guard) > last);
        last = fencing(&guard);
        tokens.push(guard.token().to_owned());
    }
    let runs: Vec<usize> = tokens.chunk_by(|a, b| a == b).map(<[_]>::len).collect();
    assert_eq!(runs, [4, 4, 3]);
    guard.extend(TTL).unwrap();
    guard.unlock().unwrap();
    for manager in [&other, &manager, &other] {
        let guard = manager.try_lock("job", TTL).unwrap();
        assert!(fencing(&guard) > last);
        last = fencing(&guard);
    }
    assert_free(&nodes);
}

#[test]
fn tokens_that_are_set_apart_do_not_run_away_from_the_clock() {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(3, &clock);
    let builder = LockManager::builder().fakes(&nodes);
    let builder = builder
        .protocol(Protocol::Fenced)
        .max_ttl(Duration::from_secs(1));
    let manager = builder.local_handover(1000, LONG).build().unwrap();
    manager.open_nodes().unwrap();
    // No time goes by at all.
    let mut last = None;
    for _ in 0..3000 {
        let guard = manager.try_lock("job", Duration::from_secs(1)).unwrap();
        assert!(guard.fencing_token() > last);
        last = guard.fencing_token();
    }
}

#[test]
fn a_lease_of_a_guard_that_was_handed_over_can_be_adopted() {
    for protocol in [Protocol::Classic, Protocol::Fenced] {
        let nodes = FakeNode::cluster(3);
        let builder = LockManager::builder().fakes(&nodes).protocol(protocol);
        let builder = builder.node_timeout(PATIENCE);
        let manager = builder.clone().local_handover(3, LONG).build().unwrap();
        if protocol == Protocol::Fenced {
            manager.open_nodes().unwrap();
        }
        let first = manager.lock("job", TTL).unwrap();
        let waiting = next(&manager, TTL);
        drop(first);
        let second = got(waiting);
        let before = second.fencing_token();
        let lease = second.into_lease();
        let other = builder.build().unwrap();
        let adopted = other.adopt(lease.to_string().parse().unwrap()).unwrap();
        assert!(adopted.fencing_token() >= before);
        adopted.extend(TTL).unwrap();
        assert!(matches!(
            manager.try_lock("job", TTL),
            Err(Error::Held { .. })
        ));
        let last = adopted.fencing_token();
        adopted.unlock().unwrap();
        assert_free(&nodes);
        let guard = manager.try_lock("job", TTL).unwrap();
        assert!(protocol == Protocol::Classic || guard.fencing_token() > last);
    }
}

#[test]
fn another_process_has_the_lock_as_well() {
    let (nodes, manager) = fakes(8);
    let other = LockManager::builder().fakes(&nodes);
    let other = other.node_timeout(PATIENCE).build().unwrap();
    let (end, is_over) = mpsc::channel::<()>();
    let is_over = std::sync::Arc::new(parking_lot::Mutex::new(is_over));
    let threads = (0..4).map(|_| {
        let (manager, is_over) = (manager.clone(), is_over.clone());
        std::thread::spawn(move || {
            while is_over.lock().try_recv() == Err(mpsc::TryRecvError::Empty) {
                drop(manager.try_lock_for("job", TTL, BOUND).unwrap());
            }
        })
    });
    let threads: Vec<_> = threads.collect();
    within(BOUND * 2, move || {
        for _ in 0..3 {
            drop(other.try_lock_for("job", TTL, BOUND).unwrap());
        }
    });
    drop(end);
    for thread in threads {
        got(thread);
    }
}

#[test]
fn bounds_that_make_no_sense_are_refused() {
    for (times, time) in [(0, TTL), (1001, TTL), (u32::MAX, TTL), (1, Duration::ZERO)] {
        let builder = LockManager::builder().fakes(&FakeNode::cluster(3));
        match builder.local_handover(times, time).build() {
            Err(Error::InvalidConfig { reason, .. }) => {
                assert!(reason.contains("local_handover"), "{reason}");
            }
            other => panic!("{other:?}"),
        }
    }
    for (times, time) in [(1, Duration::from_nanos(1)), (1000, Duration::MAX)] {
        let builder = LockManager::builder().fakes(&FakeNode::cluster(3));
        let manager = builder.local_handover(times, time).build().unwrap();
        manager.lock("job", TTL).unwrap().unlock().unwrap();
    }
}
