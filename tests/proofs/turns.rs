//! Readers and writers that come and go without an end: neither kind keeps the other away for ever.
//!
//! One node, the arbiter, which all of them ask first. Writers that wait leave an intent there, readers are refused while there is
//! one, and a writer that gives back lets the readers go first that wait at that moment. The node may lose the entry of a reader,
//! which has the lock on the other nodes all the same, again and again: it forgets, or the release of the reader comes to it first.
//! Then it lets a writer in, the other nodes refuse it, and what it has set is undone. Times to live are not in it: a section ends,
//! an intent is made again as long as its writer waits, and ends when none does.
//!
//! There is no run without an end in which somebody of a kind waits and nobody of that kind gets the lock, if each is fair: whoever
//! has the lock gives it back; whoever waits looks again, and again; what has to end ends. Nobody has to come, and a writer may
//! give up at any time, but not again and again without an end. That is weak fairness: what can be done all the time is done at some
//! time. That one writer does not keep another one away for ever is not promised, and not so.

use std::collections::HashMap;
use std::ops::Range;

use crate::checks::{Step, Steps};

/// The first two write, the others read.
const CLIENTS: usize = 4;
const WRITERS: Range<usize> = 0..2;
const READERS: Range<usize> = 2..CLIENTS;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    AsItIs,
    /// Readers heed no intent.
    ReadersHeedNothing,
    /// A writer that gives back takes no intent away, and lets nobody go first.
    WritersLetNobodyGoFirst,
    /// A writer that gives up leaves an intent that never ends.
    IntentsForEver,
    /// An attempt that is undone takes the intent away, and lets readers go first, as if the writer had had the lock.
    AnUndoIsARelease,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Place {
    #[default]
    Away,
    Waits,
    Has,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct State {
    places: [Place; CLIENTS],
    /// The readers that have the lock, but no entry at this node.
    lost: [bool; CLIENTS],
    /// The writers whose attempt was just undone: each leaves its intent, whoever goes first.
    undone: [bool; CLIENTS],
    has_intent: bool,
    /// The readers that go first. Until then writers neither look nor ask, some milliseconds at most.
    first: [bool; CLIENTS],
}

impl State {
    /// What can happen.
    fn steps(&self, rule: Rule) -> Vec<Step<Self>> {
        let mut all = Vec::new();
        let mut steps = Steps {
            from: self,
            all: &mut all,
        };
        for (client, place) in self.places.into_iter().enumerate() {
            let is_writer = WRITERS.contains(&client);
            let asks =
                self.is_let_in(rule, client) || self.leaves_intent(client) || self.first[client];
            match place {
                Place::Away => steps.add(format!("{client} comes"), |state| {
                    state.places[client] = Place::Waits;
                }),
                Place::Waits if asks => {
                    steps.add(format!("{client} asks"), |state| state.ask(rule, client));
                }
                Place::Waits => {}
                Place::Has => steps.add(format!("{client} gives back"), |state| {
                    state.places[client] = Place::Away;
                    state.lost[client] = false;
                    if is_writer && rule != Rule::WritersLetNobodyGoFirst {
                        state.let_readers_go_first();
                    }
                }),
            }
            if is_writer && place == Place::Waits {
                steps.add(format!("{client} gives up"), |state| {
                    state.places[client] = Place::Away;
                    state.undone[client] = false;
                });
            }
            if !is_writer && place == Place::Has {
                steps.add(format!("{client} is forgotten"), |state| {
                    state.lost[client] = true;
                });
            }
        }
        let is_wanted = self.has_any(WRITERS, Place::Waits);
        if self.has_intent && !is_wanted && rule != Rule::IntentsForEver {
            steps.add("the intent ends".to_owned(), |state| {
                state.has_intent = false;
            });
        }
        all
    }

    /// A client gets the lock, or a writer leaves its intent, or has its attempt undone.
    fn ask(&mut self, rule: Rule, client: usize) {
        let is_refused_elsewhere = WRITERS.contains(&client) && self.lost.contains(&true);
        if self.undone[client] {
            (self.undone[client], self.has_intent) = (false, true);
        } else if self.is_let_in(rule, client) && is_refused_elsewhere {
            self.undone[client] = true;
            if !self.has_intent || rule == Rule::AnUndoIsARelease {
                self.let_readers_go_first();
            }
        } else if self.is_let_in(rule, client) {
            self.places[client] = Place::Has;
        } else if self.leaves_intent(client) {
            self.has_intent = true;
        }
        self.first[client] = false;
    }

    fn is_let_in(&self, rule: Rule, client: usize) -> bool {
        let is_kept = |reader: usize| self.places[reader] == Place::Has && !self.lost[reader];
        let is_free = if WRITERS.contains(&client) {
            !READERS.into_iter().any(is_kept) && !self.first.contains(&true)
        } else {
            !self.has_intent || rule == Rule::ReadersHeedNothing
        };
        is_free && !self.has_any(WRITERS, Place::Has)
    }

    fn leaves_intent(&self, client: usize) -> bool {
        let may_leave = self.undone[client] || !self.has_intent && !self.first.contains(&true);
        WRITERS.contains(&client) && may_leave
    }

    /// Those that wait now, if there are any.
    fn let_readers_go_first(&mut self) {
        if self.has_any(READERS, Place::Waits) {
            self.has_intent = false;
            READERS.for_each(|reader| self.first[reader] = self.places[reader] == Place::Waits);
        }
    }

    fn has_any(&self, mut who: Range<usize>, place: Place) -> bool {
        who.any(|client| self.places[client] == place)
    }

    /// Whether somebody of these goes from one place to another.
    fn goes(&self, next: &Self, mut who: Range<usize>, from: Place, to: Place) -> bool {
        who.any(|client| self.places[client] == from && next.places[client] == to)
    }
}

/// For each state the number of steps to it, and the steps from it with the numbers of the next states.
type Graph = Vec<(State, usize, Vec<(String, usize)>)>;

/// All states that can be reached.
fn graph(rule: Rule) -> Graph {
    let mut numbers = HashMap::from([(State::default(), 0)]);
    let mut graph: Graph = vec![(State::default(), 0, Vec::new())];
    let mut number = 0;
    while let Some((state, depth, _)) = graph.get(number).cloned() {
        for Step { name, next } in state.steps(rule) {
            let next = *numbers.entry(next).or_insert_with_key(|next| {
                graph.push((next.clone(), depth + 1, Vec::new()));
                graph.len() - 1
            });
            graph[number].2.push((name, next));
        }
        number += 1;
    }
    graph
}

/// How many steps lead, at least, to where a kind may be kept away for ever; none if nothing does.
fn kept_away(rule: Rule, kind: Range<usize>) -> Option<usize> {
    let graph = graph(rule);
    // Without the steps by which somebody of the kind gets the lock, or nobody of it waits.
    let mut kept = graph.clone();
    for (state, _, steps) in &mut kept {
        steps.retain(|(_, next)| {
            let next = &graph[*next].0;
            let waits = |state: &State| state.has_any(kind.clone(), Place::Waits);
            let gets = state.goes(next, kind.clone(), Place::Waits, Place::Has);
            let gives_up = state.goes(next, 0..CLIENTS, Place::Waits, Place::Away);
            waits(state) && waits(next) && !gets && !gives_up
        });
    }
    let reached: Vec<Vec<bool>> = (0..kept.len()).map(|from| reached(&kept, from)).collect();
    let is_kept_away = |number: &usize| {
        let (state, _, _) = &graph[*number];
        let returns = |other: &usize| reached[*number][*other] && reached[*other][*number];
        let others = (0..kept.len()).filter(|other| other == number || returns(other));
        let circle: Vec<usize> = others.collect();
        state.has_any(kind.clone(), Place::Waits) && is_a_fair_run(&graph, &kept, &circle)
    };
    let first = (0..kept.len()).find(is_kept_away);
    first.map(|number| graph[number].1)
}

/// Which states can be reached from one by a step or more.
fn reached(graph: &Graph, from: usize) -> Vec<bool> {
    let mut reached = vec![false; graph.len()];
    let mut waiting = vec![from];
    while let Some(number) = waiting.pop() {
        for (_, next) in &graph[number].2 {
            if !std::mem::replace(&mut reached[*next], true) {
                waiting.push(*next);
            }
        }
    }
    reached
}

/// Whether a run may stay for ever within states that can all be reached from each other, and be fair: each fair step is taken
/// there, or can't be taken in one of them.
fn is_a_fair_run(graph: &Graph, kept: &Graph, circle: &[usize]) -> bool {
    let fair = (0..CLIENTS).flat_map(|i| [format!("{i} asks"), format!("{i} gives back")]);
    fair.chain(["the intent ends".to_owned()]).all(|fair| {
        let is_taken = circle.iter().any(|number| {
            let mut steps = kept[*number].2.iter();
            steps.any(|(name, next)| *name == fair && circle.contains(next))
        });
        let can_be = |number: &usize| graph[*number].2.iter().any(|(name, _)| *name == fair);
        is_taken || !circle.iter().all(can_be)
    })
}

#[test]
fn neither_kind_is_kept_away_for_ever_but_where_one_rule_is_another() {
    for (rule, kind, steps) in [
        (Rule::AsItIs, WRITERS, None),
        (Rule::AsItIs, READERS, None),
        (Rule::ReadersHeedNothing, WRITERS, Some(4)),
        (Rule::WritersLetNobodyGoFirst, READERS, Some(1)),
        (Rule::IntentsForEver, READERS, Some(7)),
        (Rule::AnUndoIsARelease, WRITERS, Some(4)),
    ] {
        assert_eq!(kept_away(rule, kind.clone()), steps, "{rule:?} {kind:?}");
    }
    // What is not promised: of two writers, one may always be the first.
    assert!(kept_away(Rule::AsItIs, 0..1).is_some());
}
