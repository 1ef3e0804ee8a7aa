//! Which locks are renewed together, and what becomes of one for which nothing was decided.

use super::*;
use crate::LockManager;
use crate::claim::{Claim, Kind};
use crate::clock::{Clock, FakeClock, at};
use crate::cluster::{Cluster, Options};
use crate::fake::FakeNode;
use crate::guard::LockGuard;
use crate::lease::state::Renewal;
use crate::node::Leftover;
use crate::renewal::agenda::tests::lease;

const ALL: [Leftover; 3] = [Leftover::Possible; 3];

/// The names of the locks of each chunk.
fn chunks(locks: impl IntoIterator<Item = LeaseState>) -> Vec<Vec<String>> {
    let mut locks = locks.into_iter().map(Arc::new).collect();
    let mut chunks = Vec::new();
    while let Some(chunk) = next_chunk(&mut locks) {
        chunks.push(chunk.iter().map(|lease| lease.name().to_string()).collect());
        assert!(chunks.len() < 1_000, "it has no end");
    }
    chunks
}

fn lengths(locks: impl IntoIterator<Item = LeaseState>) -> Vec<usize> {
    chunks(locks).iter().map(Vec::len).collect()
}

#[test]
fn the_most_urgent_locks_go_first_and_with_those_on_the_same_nodes() {
    let [a, b, c] = ALL;
    let others = [a, b, Leftover::Undone];
    let locks = [
        lease("third", 3, [a, b, c]),
        lease("first", 1, others),
        lease("fourth", 4, others),
        lease("second", 2, [a, b, c]),
    ];
    assert_eq!(chunks(locks), [["first", "fourth"], ["second", "third"]]);
}

#[test]
fn as_many_locks_go_together_as_a_node_takes_at_once() {
    let names = |count: u32| (0..count).map(|number| Arc::from(number.to_string()));
    let several = |count, end| {
        let mut lease = lease("several", end, ALL);
        lease.claim = Claim::of_kind("several", Kind::Several(names(count).collect()));
        lease
    };
    // Of 128 resources.
    assert_eq!(lengths((0..64).map(|end| several(2, end))), [64]);
    assert_eq!(lengths((0..130).map(|end| several(2, end))), [64, 64, 2]);
    // For the last with three there is no room, and for two with one there is.
    let locks = (0..43).map(|end| several(3, end));
    let locks = locks.chain((100..103).map(|end| lease("one", end, ALL)));
    let chunks = chunks(locks);
    assert_eq!(chunks[0].len(), 44);
    assert_eq!(chunks[0][42..], ["one", "one"]);
    assert_eq!(chunks[1..], [["several", "one"]]);
}

#[test]
fn locks_with_long_names_go_together_until_the_write_is_large_enough() {
    // Four of them are as large as a write may be.
    let length = MOST_BYTES / 4 - EXTENSION - KEY;
    let of = |length: usize| (0..5).map(move |end| lease(&"x".repeat(length), end, ALL));
    assert_eq!(lengths(of(length)), [4, 1]);
    assert_eq!(lengths(of(length - 1)), [5]);
    // A lock that is too large for any other goes alone.
    assert_eq!(lengths(of(MOST_BYTES)), [1; 5]);
}

fn kept(name: &str) -> Arc<LeaseState> {
    let lease = lease(name, 9_000, ALL);
    let ttl = Duration::from_secs(10);
    lease.keep(Renewal {
        ttl,
        margin: Duration::ZERO,
        until: None,
    });
    Arc::new(lease)
}

#[test]
fn a_lock_for_which_a_step_decides_nothing_is_renewed_soon_also_if_the_step_panics() {
    let clock = Clock::from(FakeClock::new());
    let keeper = Keeper::new(Cluster::new(Vec::new(), clock, Options::default()));
    keeper.start(Purpose::Renew).unwrap();
    let locks = ["settled", "undecided", "passed over"].map(kept);
    let [settled, undecided, passed_over] = &locks;
    let late = at(8_000);
    let mut unfinished = Unfinished::default();
    keeper.step(&locks, &mut unfinished, |unfinished| {
        keeper.plan(Purpose::Renew, settled, |_| late);
        unfinished.undecided.push(Arc::clone(undecided));
        panic!("the step ends early");
    });
    assert!(unfinished.has(undecided) && !unfinished.has(settled) && !unfinished.has(passed_over));
    let agenda = keeper.agendas.of(Purpose::Renew);
    let before = late.saturating_sub(Duration::from_nanos(1));
    let soon = agenda.take_due(before, Duration::ZERO);
    assert!(matches!(soon.as_slice(), [lease] if Arc::ptr_eq(lease, passed_over)));
    assert!(agenda.has(settled) && !agenda.has(undecided));
}

/// The keeper has no thread of its own, so that its waits take time. Two of the many locks go in one write, and each of them is
/// healed alone.
#[test]
fn a_lock_that_becomes_due_between_two_writes_or_two_heals_goes_before_the_next_one() {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(3, &clock);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    let of = manager.cluster();
    let cluster = Cluster::new(of.nodes().to_vec(), of.clock.clone(), of.options.clone());
    let keeper = Keeper::new(cluster);
    let (short, long) = (Duration::from_secs(1), Duration::from_secs(60));
    let keep = |guard: &LockGuard, ttl| {
        guard.lease.keep(Renewal {
            ttl,
            margin: Duration::ZERO,
            until: None,
        });
        Arc::clone(&guard.lease)
    };
    let urgent = manager.lock("urgent", short).unwrap();
    let many: Vec<LockGuard> = (0..64)
        .map(|lock| (0..64).map(move |number| format!("{lock} {number}")))
        .map(|names| manager.lock_all(names, long).unwrap())
        .collect();
    let agenda = keeper.agendas.of(Purpose::Renew);
    let due = of.clock.now().saturating_add(short / 3);
    agenda.put(&keep(&urgent, short), |_| due);
    nodes[2].flush();
    for node in &nodes {
        node.delay(Duration::from_millis(40));
    }
    keeper.renew_all(many.iter().map(|guard| keep(guard, long)).collect());
    assert!(clock.elapsed() > short * 3, "{clock:?}");
    urgent.check().unwrap();
}
