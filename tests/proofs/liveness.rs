//! What has to be possible, or to happen, as opposed to what must never be: a search of the whole graph of states, which the model
//! checker does not do.

use std::collections::HashMap;
use std::hash::Hash;

use stateright::Model;

/// What can be had from each state in which somebody waits for it.
pub(crate) struct Goal<M: Model> {
    pub(crate) waits: fn(&M::State) -> bool,
    pub(crate) has: fn(&M::State) -> bool,
    /// Whether a step may be counted on: it is no fault, and takes no goodwill.
    pub(crate) is_no_trouble: fn(&M::Action) -> bool,
}

/// All states that can be reached, and the steps between them.
pub(crate) struct Graph<M: Model> {
    pub(crate) states: Vec<M::State>,
    /// For each state, from which it was found first. So this way is a shortest one.
    parents: Vec<usize>,
    pub(crate) steps: Vec<Vec<(M::Action, usize)>>,
}

impl<M: Model> Graph<M>
where
    M::State: Clone + Eq + Hash,
    M::Action: Clone,
{
    /// With all steps that `keeps` takes.
    pub(crate) fn of(world: &M, keeps: impl Fn(&M::Action) -> bool) -> Self {
        let mut graph = Self {
            states: world.init_states(),
            parents: vec![0],
            steps: Vec::new(),
        };
        let numbered = graph.states.iter().cloned().zip(0..);
        let mut numbers: HashMap<M::State, usize> = numbered.collect();
        let mut actions = Vec::new();
        while let Some(state) = graph.states.get(graph.steps.len()).cloned() {
            let mut steps = Vec::new();
            world.actions(&state, &mut actions);
            for action in actions.drain(..) {
                let Some(next) = world.next_state(&state, action.clone()) else {
                    continue;
                };
                let number = *numbers.entry(next).or_insert_with_key(|next| {
                    graph.states.push(next.clone());
                    graph.parents.push(graph.steps.len());
                    graph.states.len() - 1
                });
                if keeps(&action) {
                    steps.push((action, number));
                }
            }
            graph.steps.push(steps);
        }
        graph
    }

    /// How many steps a state is from the beginning at least.
    pub(crate) fn depth(&self, mut number: usize) -> usize {
        let mut depth = 0;
        while number != 0 {
            number = self.parents[number];
            depth += 1;
        }
        depth
    }

    /// The states on a shortest way to this one.
    pub(crate) fn way_to(&self, mut number: usize) -> Vec<&M::State> {
        let mut way = vec![&self.states[number]];
        while number != 0 {
            number = self.parents[number];
            way.push(&self.states[number]);
        }
        way.reverse();
        way
    }

    /// The first of the states in which somebody waits, and from which no steps lead to what it waits for.
    pub(crate) fn dead_end(&self, goal: &Goal<M>) -> Option<usize> {
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); self.states.len()];
        for (number, steps) in self.steps.iter().enumerate() {
            for (_, next) in steps {
                before[*next].push(number);
            }
        }
        let mut can_have: Vec<bool> = self.states.iter().map(|state| (goal.has)(state)).collect();
        let mut waiting: Vec<usize> = (0..can_have.len()).filter(|n| can_have[*n]).collect();
        while let Some(number) = waiting.pop() {
            for earlier in &before[number] {
                if !std::mem::replace(&mut can_have[*earlier], true) {
                    waiting.push(*earlier);
                }
            }
        }
        (0..can_have.len()).find(|number| !can_have[*number] && (goal.waits)(&self.states[*number]))
    }
}
