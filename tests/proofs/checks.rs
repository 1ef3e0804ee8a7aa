//! What can happen in a state, and the checker that goes through all of it.

use std::fmt::{self, Debug};
use std::hash::Hash;

use stateright::{Checker, HasDiscoveries, Model, Path};

/// Something that can happen: what it is, in words, and the state behind it.
#[derive(Clone, PartialEq)]
pub(crate) struct Step<S> {
    pub(crate) name: String,
    pub(crate) next: S,
}

impl<S> Debug for Step<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// All that can happen in one state.
pub(crate) struct Steps<'a, S> {
    pub(crate) from: &'a S,
    pub(crate) all: &'a mut Vec<Step<S>>,
}

impl<S: Clone> Steps<'_, S> {
    pub(crate) fn add(&mut self, name: String, happens: impl FnOnce(&mut S)) {
        let mut next = self.from.clone();
        happens(&mut next);
        self.all.push(Step { name, next });
    }
}

/// A world whose every state is looked at.
pub(crate) trait Checked
where
    Self: Clone + Debug + Send + Sync + 'static,
    Self: Model<State: Clone + Debug + PartialEq + Hash + Send + Sync>,
    Self: Model<Action: Clone + Debug + PartialEq + Send + Sync>,
{
    /// Fails unless all promises hold in all states, and what has to happen does.
    #[track_caller]
    fn check(&self) {
        // Both cores of a small machine; more do not help much, because they share one table of states.
        let checker = self.clone().checker().threads(2).spawn_bfs().join();
        let (states, depth) = (checker.unique_state_count(), checker.max_depth() - 1);
        println!("{self:?}\n  {states} states, {depth} steps deep");
        checker.assert_properties();
    }

    /// Fails unless this many steps can break this promise, and fewer can't. Prints one way to it; the nodes and clients in it
    /// may have other names after each step.
    #[track_caller]
    fn breaks(&self, promise: &'static str, steps: usize) {
        // The checker goes on for a while after a discovery, and keeps the last one. So it is told where to stop. It counts
        // states, not the steps between them, and does not look at the last. With two threads it may come to a state by more
        // steps than it has to, and stop too early.
        let way = |steps: usize| {
            let checker = self.clone().checker().threads(1);
            let checker = checker.finish_when(HasDiscoveries::AnyOf([promise].into()));
            let checker = checker.target_max_depth(steps + 2).spawn_bfs().join();
            checker.discovery(promise).map(Path::into_actions)
        };
        println!("{self:?}\n  not so after {steps} steps: {promise}");
        assert_eq!(way(steps - 1), None, "fewer steps break it");
        println!("{:#?}", way(steps).expect("a way that breaks it"));
    }
}
