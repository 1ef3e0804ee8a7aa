//! Which locks are renewed together, and what becomes of one for which nothing was decided.

use super::*;
use crate::LockManager;
use crate::claim::{Claim, Kind};
use crate::clock::{Clock, FakeClock, at};
use crate::cluster::{Cluster, Options};
use crate::error::{NodeError, Vote};
use crate::fake::FakeNode;
use crate::guard::LockGuard;
use crate::lease::state::Renewal;
use crate::node::Leftover;
use crate::renewal::agenda::tests::lease;

const ALL: [Leftover; 3] = [const { Leftover::Possible }; 3];

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
    let others = || [Leftover::Possible, Leftover::Possible, Leftover::None];
    let locks = [
        lease("third", 3, ALL),
        lease("first", 1, others()),
        lease("fourth", 4, others()),
        lease("second", 2, ALL),
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

/// A keeper without a thread, over the nodes of a manager.
fn keeper_over(nodes: &[FakeNode]) -> (LockManager, Arc<Keeper>) {
    let manager = LockManager::builder().fakes(nodes).build().unwrap();
    let of = manager.cluster().unwrap();
    let cluster = Cluster::new(of.nodes().to_vec(), of.clock.clone(), of.options.clone());
    (manager, Keeper::new(cluster))
}

fn keep(guard: &LockGuard, ttl: Duration) -> Arc<LeaseState> {
    guard.lease.keep(Renewal {
        ttl,
        margin: Duration::ZERO,
        until: None,
    });
    Arc::clone(&guard.lease)
}

/// Both locks were on the same nodes when they were chosen, and a call of `extend` has healed one since.
#[test]
fn a_lock_that_is_on_other_nodes_now_is_left_to_the_next_round() {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(3, &clock);
    let (manager, keeper) = keeper_over(&nodes);
    let ttl = Duration::from_secs(60);
    let everywhere = manager.lock("everywhere", ttl).unwrap();
    nodes[0].refuse();
    let elsewhere = manager.lock("elsewhere", ttl).unwrap();
    nodes[0].recover();
    clock.advance(Duration::from_secs(1));
    let locks = [&everywhere, &elsewhere].map(|guard| keep(guard, ttl));
    assert_ne!(
        locks[0].nodes(|nodes| nodes.counted()),
        locks[1].nodes(|nodes| nodes.counted())
    );
    for [first, second] in [[0, 1], [1, 0]].map(|places| places.map(|place: usize| &locks[place])) {
        clock.advance(Duration::from_secs(1));
        let before = [first, second].map(|lease| lease.deadline());
        let mut unfinished = Unfinished::default();
        let chunk = [first, second].map(Arc::clone);
        keeper.renew(&chunk, |_| true, &mut unfinished);
        assert!(first.deadline() > before[0]);
        assert_eq!(second.deadline(), before[1]);
        assert!(!unfinished.has(second));
    }
}

#[test]
fn the_most_urgent_heals_go_first_and_those_that_may_decide_before_all_others() {
    let cluster = Cluster::new(Vec::new(), FakeClock::new().into(), Options::default());
    let ttl = Duration::from_secs(10);
    let term = cluster.options.term(ttl).unwrap();
    let heal = |name: &str, end, votes: [Vote; 3]| {
        let lease = Arc::new(lease(name, end, ALL));
        Extension::begin(&cluster, &lease, term, at(0)).with_votes(votes)
    };
    let silent = || Vote::Failed(NodeError::silence());
    let decided = || [Vote::Granted, Vote::Granted, Vote::Missing];
    let open = || [Vote::Granted, silent(), Vote::Missing];
    let mut unfinished = Unfinished::default();
    for (name, end, votes) in [
        ("fourth", 20, decided()),
        ("third", 10, decided()),
        ("second", 40, open()),
        ("fifth", 30, decided()),
        ("first", 35, open()),
    ] {
        unfinished.heals.push(heal(name, end, votes));
    }
    let third = Arc::clone(&unfinished.heals[1].lease);
    assert!(unfinished.has(&third));
    for name in ["first", "second", "third", "fourth", "fifth"] {
        assert!(!unfinished.is_empty());
        assert_eq!(&**unfinished.next_heal().unwrap().lease.name(), name);
    }
    assert!(unfinished.next_heal().is_none() && unfinished.is_empty() && !unfinished.has(&third));
}

/// The keeper has no thread of its own, so that its waits take time. Two of the many locks go in one write, and each of them is
/// healed alone.
#[test]
fn a_lock_that_becomes_due_between_two_writes_or_two_heals_goes_before_the_next_one() {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(3, &clock);
    let (manager, keeper) = keeper_over(&nodes);
    let (short, long) = (Duration::from_secs(1), Duration::from_secs(60));
    let urgent = manager.lock("urgent", short).unwrap();
    let many: Vec<LockGuard> = (0..64)
        .map(|lock| (0..64).map(move |number| format!("{lock} {number}")))
        .map(|names| manager.lock_all(names, long).unwrap())
        .collect();
    let agenda = keeper.agendas.of(Purpose::Renew);
    let due = keeper.cluster.clock.now().saturating_add(short / 3);
    agenda.put(&keep(&urgent, short), |_| due);
    nodes[2].flush();
    for node in &nodes {
        node.delay(Duration::from_millis(40));
    }
    keeper.renew_all(many.iter().map(|guard| keep(guard, long)).collect());
    assert!(clock.elapsed() > short * 3, "{clock:?}");
    urgent.check().unwrap();
}
