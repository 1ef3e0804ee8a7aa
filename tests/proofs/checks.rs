//! Runs of the checker, with what they took, and the shortest way to what must not be.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model, Path};

/// Both cores of a small machine; more do not help much, because they share one table of states.
const THREADS: usize = 2;

/// Goes through every state of the world, and fails unless all promises hold in all of them, and what has to happen does.
#[track_caller]
pub(crate) fn check<M>(world: &M)
where
    M: Model + Clone + Debug + Send + Sync + 'static,
    M::State: Clone + Debug + PartialEq + Hash + Send + Sync,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    println!("{world:?}");
    let started = now();
    let checker = world.clone().checker().threads(THREADS);
    let checker = checker.spawn_bfs().join();
    let (states, depth) = (checker.unique_state_count(), checker.max_depth() - 1);
    println!(
        "  {states} states, {depth} steps deep, {:.1?}",
        started.elapsed()
    );
    checker.assert_properties();
}

/// Fails unless this many steps can break this promise, and fewer can't. Prints one way to it; the nodes and clients in it may
/// have other names after each step.
#[track_caller]
pub(crate) fn shortest_counterexample<M>(world: &M, broken: &'static str, steps: usize)
where
    M: Model + Clone + Debug + Send + Sync + 'static,
    M::State: Clone + Debug + PartialEq + Hash + Send + Sync,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    println!("{world:?}");
    let started = now();
    // The checker goes on for a while after a discovery, and keeps the last one. So it is told where to stop. It counts
    // states, not the steps between them, and does not look at the last.
    let way = |steps: usize| {
        let checker = world.clone().checker().threads(THREADS);
        let checker = checker.finish_when(HasDiscoveries::AnyOf([broken].into()));
        let checker = checker.target_max_depth(steps + 2).spawn_bfs().join();
        checker.discovery(broken)
    };
    let fewer = way(steps - 1).map(Path::into_actions);
    assert!(fewer.is_none(), "fewer steps break it: {fewer:?}");
    let found = way(steps).unwrap_or_else(|| panic!("after {steps} steps, still {broken}"));
    let took = started.elapsed();
    println!("  not so after {steps} steps, {took:.1?}: {broken}");
    for action in found.into_actions() {
        println!("    {action:?}");
    }
}

#[expect(clippy::disallowed_methods, reason = "how long it really took")]
fn now() -> Instant {
    Instant::now()
}
