//! Locks with a validity, model-checked: every order of events in a small world.
//!
//! A holder extends its lock. With the classic protocol it also sets its key again on nodes that have none. Contenders try to
//! get locks. Each client wants to write one resource, to read it, or to lock two resources at once.
//!
//! # What is promised
//!
//! - No two clients have valid locks at the same time, unless they share no resource, or both are readers.
//! - No lock is valid that such another client has had since it was acquired.
//! - As long as a lock is valid, a majority of the nodes has its keys, and keeps them for as long. (Not where nodes may lose
//!   their data.)
//! - A node has all keys of a lock on two resources, or none, until the first term has ended.
//! - When a lock was given back and nothing is on the way any more, no node has its key. So no two clients are in each other's
//!   way for ever with a half of what they want.
//!
//! # What can happen
//!
//! Three nodes, of which two are a quorum. There is no clock. Each acquisition and each extension is a *term*. The end of a
//! term comes at any time after its beginning, and the ends come in the order of the terms. A key that was set or extended
//! for a term expires at any time after the end of that term, and not before. That is what times to live and drifts are for.
//!
//! A message arrives at any later step or never; but an undo arrives after the command that it is behind. A reply counts
//! from the moment when the node gives it, and the client reads it at any later step, or gives the node up, also when the
//! reply is on its way. A contender asks all nodes once, waits for each, and does not extend: it is there to get what it must
//! not get.
//!
//! A server that stays away for longer than every ttl, and comes back empty, is a node that does not answer, and whose keys
//! expire. `Restarts` is about servers that come back sooner. With the fenced protocol such a server grants nothing before all
//! terms have ended that had begun before (`Node::closed_until`).
//!
//! In the fenced protocol a node grants only what is above its counter. Here it grants whatever it has no key against: what
//! holds there holds where it grants less. Of the counter is left whose token it is, for extensions make a key again only
//! where that is their own.
//!
//! To the nodes, a pass is a release, and an attempt of another client behind it. So it is one of the orders of these two.
//!
//! Not in the model: two extensions of one lock at the same time, connections that break while a heal is under way, and writers
//! that wait, for whom a node refuses readers. Of all states that differ by the names of nodes only, one is looked at. What
//! makes no difference any more is forgotten (`State::forget`).

use stateright::{Model, Property};

use self::node::Standing;
use self::state::State;
use crate::checks::{Checked, Step, Steps};
use crate::subject::NODES;
use crate::subject::Subject::{self, Both, Lock, Other, Read};

mod node;
mod state;

/// The holder, and those who are there to get what they must not get.
const CLIENTS: usize = 3;
const HOLDER: Client = 0;

type Client = usize;

/// Terms are numbered from 1.
type Term = u8;

/// What can happen, and how often.
#[derive(Clone, Debug)]
struct World {
    /// By which protocol each client takes its locks.
    protocols: [Protocol; CLIENTS],
    rule: Rule,
    restarts: Restarts,
    /// What each client wants.
    subjects: [Subject; CLIENTS],
    /// Whether the holder leaves a node out that can't be reached, and gives up on others that don't answer. Otherwise it
    /// waits, as a contender does. Nor does it hand its token on to another holder then.
    gives_up: bool,
    /// Whether the holder has the lock on two nodes, and nothing of it has reached the third. Otherwise nobody has asked for
    /// anything.
    is_held: bool,
    /// How many terms each client has at most: one for the acquisition, and one for each extension.
    terms: [Term; CLIENTS],
}

/// How a key is set again on a node that has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    /// By a heal, which the holder sends.
    Classic,
    /// By the extension, if the node has granted nobody else since.
    Fenced,
}

/// When a server may come back empty before its keys have expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Restarts {
    /// Never.
    Late,
    /// When every node has the key of the last term, and nothing is under way that could delete one.
    WhenHealed,
    /// At any time: what the algorithm does not survive.
    AtAnyTime,
}

const EXCLUSION: &str = "no two clients have valid locks";
const NO_REVIVAL: &str = "no lock is valid that another client has had since";
const MAJORITY: &str = "a majority has the key of a valid lock for as long";
const WHOLE: &str = "a node has all keys of a lock, or none, until its first term has ended";
const NOTHING_LEFT: &str = "no key is left of a lock that was given back";

/// What has to happen in some state, lest the world be empty.
const SUCCESSION: &str = "the contender gets the lock";

/// The rules, or what becomes of them without a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    AsItIs,
    /// A node is healed before its undo is answered, as where only the repetition on another connection is answered.
    HealsUndone,
    /// A holder that got the token from another one heals a node on which the former one was healing the lock.
    HealsForKeeper,
    /// Votes of an extension count also when the old end has come before they are all there.
    CountsAfterTheEnd,
    /// A heal replaces another client's key.
    HealsTaken,
    /// No undo is sent behind a heal whose reply does not come.
    NoUndo,
    /// A heal that is under way when the lock is given back is not undone.
    KeeperForgets,
    /// A node that is being healed is passed on to the next holder.
    PassesOn,
    /// A reader is granted while a writer's key is there.
    ReadsPastWriters,
    /// A node that has lost its data grants readers at once.
    ReadsInQuarantine,
    /// A node grants several resources if one of them is free.
    SetOnHalf,
    /// The release of several resources deletes the first key only.
    LeavesOneKey,
}

impl Checked for World {}

impl Model for World {
    type State = State;
    type Action = Step<State>;

    fn init_states(&self) -> Vec<State> {
        let mut state = State::default();
        if self.is_held {
            state.begin(HOLDER, Some(2));
            for node in &mut state.nodes[..2] {
                node.set(self, HOLDER);
                node.links[HOLDER].standing = Standing::MayHaveKey;
            }
            state.return_guard(self, HOLDER);
        }
        vec![state]
    }

    fn actions(&self, state: &State, all: &mut Vec<Step<State>>) {
        let mut steps = Steps { from: state, all };
        (0..CLIENTS).for_each(|client| self.steps_of(client, &mut steps));
        (0..NODES).for_each(|place| self.steps_at(place, &mut steps));
    }

    fn next_state(&self, last: &State, step: Step<State>) -> Option<State> {
        let mut state = step.next;
        state.forget();
        state.nodes.sort();
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(EXCLUSION, Self::is_exclusive),
            Property::always(WHOLE, |world: &Self, state| {
                (0..CLIENTS).all(|client| world.is_whole(state, client))
            }),
            Property::always(NOTHING_LEFT, |_, state: &State| {
                (0..CLIENTS).all(|client| state.has_left_nothing(client))
            }),
            Property::always(NO_REVIVAL, |_, state: &State| {
                let is_over = |client: Client| state.holders[client].had_a_successor;
                !(0..CLIENTS).any(|client| state.is_valid(client) && is_over(client))
            }),
        ];
        // Nodes keep what they have, or break what they must not.
        let remember = self.protocols.contains(&Protocol::Classic);
        if remember || self.restarts == Restarts::Late {
            properties.push(Property::always(MAJORITY, |world: &Self, state| {
                (0..CLIENTS).all(|client| world.has_its_majority(state, client))
            }));
        }
        if self.terms[1] > 0 {
            properties.push(Property::sometimes(SUCCESSION, |_, state: &State| {
                state.is_valid(1)
            }));
        }
        properties
    }
}

impl World {
    /// Clients of the classic protocol that wait for every node, and servers that stay away, unless these words say otherwise.
    fn of(subjects: [Subject; CLIENTS], terms: [Term; CLIENTS], words: &str) -> Self {
        let mut world = Self {
            protocols: [Protocol::Classic; CLIENTS],
            rule: Rule::AsItIs,
            restarts: Restarts::Late,
            subjects,
            gives_up: false,
            is_held: false,
            terms,
        };
        let (classic, fenced) = (Protocol::Classic, Protocol::Fenced);
        for word in words.split_whitespace() {
            match word {
                "gives-up" => world.gives_up = true,
                "held" => world.is_held = true,
                "fenced" => world.protocols = [fenced; CLIENTS],
                "fenced-holder" => world.protocols = [fenced, classic, classic],
                "classic-holder" => world.protocols = [classic, fenced, fenced],
                "restarts" => world.restarts = Restarts::AtAnyTime,
                "restarts-when-healed" => world.restarts = Restarts::WhenHealed,
                other => panic!("what is {other}?"),
            }
        }
        world
    }

    fn by(self, rule: Rule) -> Self {
        Self { rule, ..self }
    }
}

#[test]
fn no_promise_is_broken() {
    for (subjects, terms, words) in [
        // A holder that extends and heals. All that can happen without servers that come back soon can happen here.
        ([Lock; 3], [3, 0, 0], "gives-up restarts-when-healed"),
        ([Lock; 3], [2, 1, 0], "gives-up restarts-when-healed"),
        // Beside clients of the other protocol, which heed no counter and no marker, or leave them.
        ([Lock; 3], [2, 1, 0], "held fenced-holder"),
        ([Lock; 3], [2, 1, 0], "held classic-holder"),
        ([Lock; 3], [1, 1, 1], "held"),
        ([Lock; 3], [1, 1, 1], "held fenced"),
        // Any number of valid readers, or one valid writer.
        ([Lock, Read, Read], [1, 1, 1], ""),
        ([Read, Lock, Read], [2, 1, 1], "held"),
        ([Lock, Read, Read], [1, 1, 1], "fenced restarts"),
        ([Lock, Read, Read], [2, 1, 0], "gives-up fenced restarts"),
        // Several resources at once.
        ([Both, Lock, Other], [1, 1, 1], ""),
        ([Both, Both, Lock], [1, 1, 1], ""),
        ([Both, Lock, Lock], [2, 1, 0], "held"),
        ([Both; 3], [3, 0, 0], "gives-up"),
        ([Both, Lock, Other], [2, 1, 0], "fenced restarts"),
    ] {
        World::of(subjects, terms, words).check();
    }
}

#[test]
#[ignore = "it takes minutes"]
fn no_promise_is_broken_in_larger_worlds() {
    for (subjects, terms, words) in [
        ([Lock, Lock, Read], [2, 1, 1], "held classic-holder"),
        ([Lock; 3], [2, 1, 0], "fenced restarts held gives-up"),
        ([Lock, Read, Read], [2, 1, 1], "held"),
        ([Lock, Read, Read], [2, 1, 1], "fenced restarts held"),
        ([Read, Lock, Read], [2, 1, 1], "fenced restarts held"),
        ([Both, Lock, Lock], [2, 1, 0], "gives-up"),
        ([Both, Lock, Other], [1, 1, 1], "fenced restarts"),
    ] {
        World::of(subjects, terms, words).check();
    }
}

#[test]
fn without_a_part_of_a_rule_a_promise_is_broken() {
    let free = |terms, words| World::of([Lock; 3], terms, &format!("gives-up {words}"));
    let reader = |terms, words| World::of([Read, Lock, Read], terms, words);
    let both = |other| World::of([Both, other, Lock], [1, 1, 0], "");
    let fenced_readers = World::of([Lock, Read, Read], [1, 1, 0], "fenced restarts");
    let free_reader = reader([2, 1, 1], "held gives-up");
    let (extends, all) = ([2, 1, 0], [2, 1, 1]);
    for (world, rule, promise, steps) in [
        // What the algorithm does not survive.
        (free([1, 1, 0], "restarts"), Rule::AsItIs, EXCLUSION, 12),
        (free(extends, ""), Rule::HealsUndone, MAJORITY, 19),
        (free([3, 0, 0], ""), Rule::HealsForKeeper, MAJORITY, 22),
        (free(extends, ""), Rule::CountsAfterTheEnd, NO_REVIVAL, 21),
        (free(extends, ""), Rule::HealsTaken, MAJORITY, 16),
        (free(extends, ""), Rule::NoUndo, NOTHING_LEFT, 11),
        (free(extends, ""), Rule::KeeperForgets, NOTHING_LEFT, 10),
        (free([3, 0, 0], ""), Rule::PassesOn, MAJORITY, 16),
        (reader([1, 1, 0], ""), Rule::ReadsPastWriters, EXCLUSION, 10),
        (reader(all, "held"), Rule::HealsTaken, EXCLUSION, 12),
        (reader(all, "held"), Rule::CountsAfterTheEnd, NO_REVIVAL, 14),
        (free_reader, Rule::HealsUndone, MAJORITY, 10),
        (fenced_readers, Rule::ReadsInQuarantine, EXCLUSION, 11),
        (both(Lock), Rule::SetOnHalf, WHOLE, 4),
        (both(Lock), Rule::SetOnHalf, EXCLUSION, 10),
        (both(Both), Rule::LeavesOneKey, WHOLE, 7),
        (both(Both), Rule::LeavesOneKey, NOTHING_LEFT, 7),
    ] {
        world.by(rule).breaks(promise, steps);
    }
}

/// Among fenced clients alone, counters refuse what comes too late. A classic client does not raise the counter. So the node sets
/// the key of the fenced one again, and only the clock tells that this came too late.
#[test]
fn a_fenced_holder_that_counts_votes_after_its_old_end_is_revived_after_a_classic_one() {
    let late = |words| World::of([Lock; 3], [2, 1, 0], words).by(Rule::CountsAfterTheEnd);
    late("held fenced").check();
    late("held fenced-holder").breaks(NO_REVIVAL, 13);
}
