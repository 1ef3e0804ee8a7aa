//! Runs of the checker, with what they took, and the shortest way to what must not be.

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;
use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Model};

use crate::liveness::{Goal, Graph};
use crate::state::State;
use crate::world::{Action, World};

/// Both cores of a small machine; more do not help much, because they share one table of states.
const THREADS: usize = 2;

/// Goes through every state of the world, and fails unless all promises hold in all of them.
#[track_caller]
pub(crate) fn check(name: &str, world: &World) {
    let (took, checker) = timed(|| {
        let checker = world.clone().checker().threads(THREADS);
        checker.spawn_bfs().join()
    });
    report(name, &checker, took);
    checker.assert_properties();
}

/// As `check`, but not further than so many steps from the beginning. What has to happen in some state may be further
/// away, so only the promises are looked at.
#[track_caller]
pub(crate) fn check_within(name: &str, world: &World, steps: usize) {
    let (took, checker) = timed(|| {
        // The checker counts states, not the steps between them, and does not look at the last.
        let checker = world.clone().checker().threads(THREADS);
        checker.target_max_depth(steps + 2).spawn_bfs().join()
    });
    report(name, &checker, took);
    for property in world.properties() {
        if property.expectation.discovery_is_failure() {
            checker.assert_no_discovery(property.name);
        }
    }
}

/// Fails unless the checker saw as many states as a search of a few lines sees: a checker that stops early, or takes two
/// states for one, finds no fault either.
#[track_caller]
pub(crate) fn check_against_a_plain_search(world: &World) {
    let mut seen: HashSet<State> = world.init_states().into_iter().collect();
    let mut waiting: Vec<State> = seen.iter().cloned().collect();
    while let Some(state) = waiting.pop() {
        for next in world.next_states(&state) {
            if seen.insert(next.clone()) {
                waiting.push(next);
            }
        }
    }
    let checker = world.clone().checker().threads(THREADS).spawn_bfs().join();
    assert_eq!(checker.unique_state_count(), seen.len());
}

/// Fails unless this many steps can break this promise, and fewer can't. Prints one way to it.
#[track_caller]
pub(crate) fn shortest_counterexample(
    name: &str,
    world: &World,
    broken: &'static str,
    steps: usize,
) {
    // The checker goes on for a while after a discovery, and keeps the last one. So it is told where to stop.
    let search = |steps: usize| {
        let checker = world.clone().checker().threads(THREADS);
        let checker = checker.finish_when(HasDiscoveries::AnyOf([broken].into()));
        checker.target_max_depth(steps + 2).spawn_bfs().join()
    };
    let fewer = search(steps - 1).discovery(broken);
    let (took, checker) = timed(|| search(steps));
    report(name, &checker, took);
    let path = checker.discovery(broken);
    let path = path.unwrap_or_else(|| panic!("{name}: after {steps} steps, still {broken}"));
    println!("  not so after {steps} steps: {broken}");
    for action in with_steady_names(world, path.into_states()) {
        println!("    {action:?}");
    }
    let fewer = fewer.map(|way| way.into_actions().len());
    assert!(fewer.is_none(), "{name}: {fewer:?} steps are enough");
}

/// Which promises are broken where these steps lead.
#[track_caller]
pub(crate) fn broken_by(world: &World, way: &[Action]) -> Vec<&'static str> {
    let end = end_of(world, way).expect("a way on which every step can be taken");
    let mut properties = world.properties();
    properties.retain(|property| property.expectation.discovery_is_failure());
    properties.retain(|property| !(property.condition)(world, &end));
    properties.iter().map(|property| property.name).collect()
}

/// Whether each of these steps can be taken after those before it.
pub(crate) fn is_possible(world: &World, way: &[Action]) -> bool {
    end_of(world, way).is_some()
}

fn end_of(world: &World, way: &[Action]) -> Option<State> {
    let mut state = world.init_states().pop()?;
    for action in way {
        let mut actions = Vec::new();
        world.actions(&state, &mut actions);
        if !actions.contains(action) {
            return None;
        }
        state = world.after(&state, *action);
    }
    Some(state)
}

/// The steps of a way through representatives, whose names may be others in each, as steps with one name for each
/// node and client throughout.
fn with_steady_names(world: &World, representatives: Vec<State>) -> Vec<Action> {
    let mut states = representatives.into_iter();
    let mut state = states.next().expect("a way begins somewhere");
    let mut way = Vec::new();
    for next in states {
        let mut actions = Vec::new();
        world.actions(&state, &mut actions);
        let leads_there = |action: &Action| {
            let after = world.after(&state, *action);
            world.representative(&after) == next
        };
        let action = actions.into_iter().find(leads_there);
        let action =
            action.expect("a step from one representative is one from all that it stands for");
        state = world.after(&state, action);
        way.push(action);
    }
    way
}

#[expect(clippy::disallowed_methods, reason = "how long it really took")]
fn timed<T>(run: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let result = run();
    (start.elapsed(), result)
}

fn report<M: Model>(name: &str, checker: &impl Checker<M>, took: Duration)
where
    M::State: Hash,
{
    println!(
        "{name}: {} states, {} transitions, at most {} steps deep, {took:.1?}",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth() - 1,
    );
}

/// As [`check`], of any model.
#[track_caller]
pub(crate) fn check_any<M>(name: &str, world: &M)
where
    M: Model + Clone + Send + Sync + 'static,
    M::State: Clone + Debug + PartialEq + Hash + Send + Sync,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    let (took, checker) = timed(|| {
        let checker = world.clone().checker().threads(THREADS);
        checker.spawn_bfs().join()
    });
    report(name, &checker, took);
    checker.assert_properties();
}

/// As [`shortest_counterexample`], of any model. The nodes in the way may have other names in each state.
#[track_caller]
pub(crate) fn shortest_of<M>(name: &str, world: &M, broken: &'static str, steps: usize)
where
    M: Model + Clone + Send + Sync + 'static,
    M::State: Clone + Debug + PartialEq + Hash + Send + Sync,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    let search = |steps: usize| {
        let checker = world.clone().checker().threads(THREADS);
        let checker = checker.finish_when(HasDiscoveries::AnyOf([broken].into()));
        checker.target_max_depth(steps + 2).spawn_bfs().join()
    };
    let fewer = search(steps - 1).discovery(broken);
    let (took, checker) = timed(|| search(steps));
    report(name, &checker, took);
    let path = checker.discovery(broken);
    let path = path.unwrap_or_else(|| panic!("{name}: after {steps} steps, still {broken}"));
    println!("  not so after {steps} steps: {broken}");
    for action in path.into_actions() {
        println!("    {action:?}");
    }
    let fewer = fewer.map(|way| way.into_actions().len());
    assert!(fewer.is_none(), "{name}: {fewer:?} steps are enough");
}

/// Fails unless, from every state in which somebody waits, there is a way to what it waits for.
#[track_caller]
pub(crate) fn check_that_it_can_be_had<M>(name: &str, world: &M, goal: &Goal<M>)
where
    M: Model,
    M::State: Clone + Debug + Eq + Hash,
    M::Action: Clone,
{
    let (took, graph) = timed(|| Graph::of(world, goal.is_no_trouble));
    let waiting = graph.states.iter().filter(|state| (goal.waits)(state));
    let waiting = waiting.count();
    println!(
        "{name}: {} states, somebody waits in {waiting}, {took:.1?}",
        graph.states.len()
    );
    assert!(waiting > 0, "{name}: nobody waits");
    let dead_end = graph.dead_end(goal);
    let way = dead_end.map(|number| graph.way_to(number));
    assert!(way.is_none(), "{name}: a dead end: {way:#?}");
}

/// Fails unless so many steps, and no fewer, lead to where somebody waits in vain.
#[track_caller]
pub(crate) fn shortest_to_a_dead_end<M>(name: &str, world: &M, goal: &Goal<M>, steps: usize)
where
    M: Model,
    M::State: Clone + Debug + Eq + Hash,
    M::Action: Clone,
{
    let graph = Graph::of(world, goal.is_no_trouble);
    let dead_end = graph.dead_end(goal);
    let dead_end = dead_end.unwrap_or_else(|| panic!("{name}: no dead end"));
    println!("{name}: a dead end after {} steps", graph.depth(dead_end));
    assert_eq!(graph.depth(dead_end), steps, "{name}");
}
