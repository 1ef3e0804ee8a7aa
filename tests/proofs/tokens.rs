//! The tokens and counters of the fenced protocol, without any clock.
//!
//! A client proposes a token; a node grants it if the lock is free and the token is larger than the node's counter, which
//! then becomes the token. A majority of grants is the lock.
//!
//! # What is promised
//!
//! - No two winners have the same token.
//! - Whoever begins when another has returned gets the larger token.
//! - When a newer holder has returned, no extension that an older one begins gets a quorum.
//!
//! Of clients that share a resource, that is. A reader has no token. It is newer than a writer that had returned when it began,
//! and older than one that began when it had returned. A node that lets a reader in raises its counter by one, so that no
//! extension of an earlier writer makes its key again. That is enough if each holder extends only where it has counted a vote
//! (`Rule::ExtendsByVotes`), and not if an acquire may arrive when its attempt has returned: the reader does not know how far
//! to raise the counter. The library sends an undo where no reply comes, and extends at no such node; but where a connection
//! breaks before the reply, there is no undo. So what is promised of writers and readers rests on validity, as in `terms`.
//!
//! # What can happen
//!
//! Three nodes, of which two are a quorum. Clients begin attempts, get guards, extend them, give up and give back. A guard
//! believes for ever, and extends whenever it likes, however long ago it lost the lock. A lock key ends at any step. A message
//! arrives at any later step, before or behind any other, or never; that it is lost needs no step of its own. A vote counts from
//! the moment when the node gives it, and the client acts on it at any later step: the time between is the reply's.
//!
//! Nodes can lose data. Such a node stays closed until `open_at`, and never grants a token that is ahead of its clock by more than
//! the skew that is allowed, which is less than it stays closed. So each token that it granted before is below `open_at`, whatever
//! it has forgotten. The model takes the lowest such `open_at`: the largest token that the node granted before. Until then the
//! node has no marker of its own process: it grants nothing and makes no key again. Its own key is extended all the same. Which
//! command begins the quarantine is not in the model: the node opens at any later step.
//!
//! The clock of a node does not run backwards while it is away. So a key that has ended there is not in a snapshot either
//! (`Node::expire`). One that a release or an undo deleted may be: an undo is the release that a client sends behind an acquire
//! when it no longer waits for the reply, while its attempt goes on at other nodes. So a holder does not extend where it sent one.
//!
//! Not in the model: clocks that differ, counters that end when they are idle, a node that loses everything and then reads
//! an older snapshot, and one that goes to another process and back while no acquire comes in between.
//!
//! Nodes are all alike: of all states that differ by their names only, one is looked at. So are clients that want the same: they
//! are numbered in the order of what they propose at first.

use std::collections::HashSet;

use stateright::{Model, Property};

use self::node::{Claim, MOST_ATTEMPTS, Token};
use self::state::{Attempt, Extension, Phase, State};
use crate::checks::{Checked, Step, Steps};
use crate::subject::NODES;
use crate::subject::Subject::{self, Both, Lock, Read};

mod node;
mod state;

/// The rules of the fenced protocol, or what becomes of them when one is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    AsItIs,
    /// A node grants a token that is no smaller than its counter, where it has to be larger.
    EqualIsEnough,
    /// An extension makes a key again without a look at the counter.
    BlindExtension,
    /// A node that lost its counters grants every token.
    NoFloor,
    /// The clock of a node that lost its counters went back, so that `open_at` is not above all that it granted.
    ClockSteppedBack,
    /// A holder also extends on nodes that it sent an undo while it was asking.
    UndoneIsExtended,
    /// An extension makes a key again without a look at the marker.
    RecreationWithoutFloor,
    /// A reader does not raise the counter.
    ReadersDontCount,
    /// A reader is let in while a lock key is there.
    ReadsPastWriters,
    /// A holder extends only on nodes whose votes it counted. This is no fault, but more than the protocol asks for.
    ExtendsByVotes,
    /// A node grants several resources if one of them is free.
    SetOnHalf,
    /// A token for several resources is larger than the counter of one of them.
    AboveOneCounter,
}

/// What happens, and how often, so that there is an end.
#[derive(Clone, Debug)]
struct World {
    rule: Rule,
    /// Whether a message may arrive any number of times, as when a client repeats a command on another connection. Whatever can
    /// happen without it can happen with it, so this is where the protocol is checked. Without it, messages arrive once at most, as
    /// over TCP, so that no counterexample needs a repetition.
    repeats: bool,
    /// How many times a node loses data: everything, as by `FLUSHALL` or a restart without persistence.
    losses: u8,
    /// Whether it may lose only what came after some earlier moment, as by a snapshot that is read back, or the promotion of a replica
    /// that lags. The moments of two nodes do not overlap, or there would be too many states.
    saves: bool,
    /// Whether a client that is still asking gives up on single nodes. Only where messages are repeated, and so known for ever.
    undoes: bool,
    /// What each client wants.
    subjects: Vec<Subject>,
    /// How often each client tries to get the lock, one attempt after the other.
    attempts: usize,
    /// Every proposal is any number from 1 to this, whatever the client has seen: a clock that is wrong and a memory
    /// that is lost cost liveness only.
    largest_proposal: Token,
}

const UNIQUE: &str = "no two winners of a resource have the same token";
const REAL_TIME: &str = "who began when another had returned has the larger token";
const NO_REVIVAL: &str = "no extension succeeds that began when a newer holder had returned";

/// What has to happen in some state, lest the model be empty.
const SUCCESSION: &str = "a lock is given back and won again";

impl Checked for World {}

impl Model for World {
    type State = State;
    type Action = Step<State>;

    fn init_states(&self) -> Vec<State> {
        let mut state = State::default();
        for (id, attempt) in state.attempts.iter_mut().enumerate() {
            let subject = self.subjects.get(id / self.attempts).copied();
            attempt.claim.subject = subject.unwrap_or_default();
        }
        state.losses = self.losses;
        vec![state]
    }

    fn actions(&self, state: &State, all: &mut Vec<Step<State>>) {
        let mut steps = Steps { from: state, all };
        for id in 0..self.subjects.len() * self.attempts {
            self.steps_of(id, &mut steps);
            (0..NODES).for_each(|place| self.steps_of_at(id, place, &mut steps));
        }
        (0..NODES).for_each(|place| self.steps_at(place, &mut steps));
    }

    fn next_state(&self, last: &State, step: Step<State>) -> Option<State> {
        let mut state = step.next;
        // A message is kept with the node that it is for.
        state.nodes.sort_unstable();
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(UNIQUE, |_, state| tokens_are_unique(state)),
            Property::always(REAL_TIME, |_, state: &State| {
                let mut winners = state.attempts.iter().filter(|attempt| attempt.won());
                winners.all(|winner| winner.is_reader() || winner.claim.token > winner.behind)
            }),
            Property::always(NO_REVIVAL, nothing_is_revived),
            Property::sometimes(SUCCESSION, |_, state: &State| {
                let has = |phase| state.attempts.iter().any(|attempt| attempt.phase == phase);
                has(Phase::Released) && has(Phase::Holding)
            }),
        ]
    }
}

fn tokens_are_unique(state: &State) -> bool {
    let winners = state.attempts.iter().filter(|attempt| attempt.won());
    let writers = winners.filter(|winner| !winner.is_reader());
    let mut tokens = writers.flat_map(|winner| {
        let Claim { subject, token } = winner.claim;
        subject.resources().map(move |resource| (resource, token))
    });
    let mut seen = HashSet::new();
    tokens.all(|token| seen.insert(token))
}

/// A reader leaves no tombstone, so this is promised to it only where no acquire arrives twice.
fn nothing_is_revived(world: &World, state: &State) -> bool {
    let is_promised = |attempt: &Attempt| {
        let is_late = attempt.extension == Extension::Late;
        is_late && (!attempt.is_reader() || !world.repeats)
    };
    let mut late = (0..MOST_ATTEMPTS).filter(|id| is_promised(&state.attempts[*id]));
    !late.any(|id| state.has_quorum(|node| node.renewed[id]))
}

impl World {
    /// The protocol as it is, over a network that repeats messages, and nodes that lose nothing, unless these words say otherwise.
    fn of(subjects: &[Subject], attempts: usize, largest_proposal: Token, words: &str) -> Self {
        let mut world = Self {
            rule: Rule::AsItIs,
            repeats: true,
            losses: 0,
            saves: false,
            undoes: false,
            subjects: subjects.to_vec(),
            attempts,
            largest_proposal,
        };
        for word in words.split_whitespace() {
            match word {
                "once" => world.repeats = false,
                "undoes" => world.undoes = true,
                "loses" => world.losses += 1,
                "saves" => world.saves = true,
                "extends-by-votes" => world.rule = Rule::ExtendsByVotes,
                other => panic!("what is {other}?"),
            }
        }
        world
    }

    fn by(self, rule: Rule) -> Self {
        Self { rule, ..self }
    }
}

const TWO: &[Subject] = &[Lock; 2];
const THREE: &[Subject] = &[Lock; 3];

#[test]
fn no_promise_is_broken() {
    for (subjects, attempts, proposals, words) in [
        (TWO, 1, 4, ""),
        (TWO, 2, 2, ""),
        (TWO, 1, 4, "undoes"),
        (TWO, 1, 3, "loses loses"),
        (TWO, 1, 3, "loses saves"),
        (TWO, 1, 2, "loses saves undoes"),
        (THREE, 1, 5, ""),
        (&[Both, Lock], 1, 3, ""),
        (&[Both, Lock], 1, 2, "loses"),
        (&[Lock, Read], 1, 1, "loses saves extends-by-votes"),
        // Here a reader is not revived either.
        (&[Lock, Read], 1, 1, "once extends-by-votes"),
    ] {
        World::of(subjects, attempts, proposals, words).check();
    }
}

#[test]
#[ignore = "it takes minutes"]
fn no_promise_is_broken_in_larger_worlds() {
    for (subjects, attempts, proposals, words) in [
        (TWO, 2, 3, ""),
        (TWO, 2, 2, "loses"),
        (TWO, 1, 3, "loses loses saves"),
        (TWO, 1, 3, "loses saves undoes"),
        (THREE, 1, 2, "undoes"),
        (THREE, 1, 3, "loses"),
        (THREE, 1, 2, "loses saves"),
        (&[Both, Both], 1, 2, "loses saves"),
        (&[Lock, Read, Read], 1, 1, "extends-by-votes"),
        (&[Lock, Lock, Read], 1, 2, "extends-by-votes"),
        (&[Lock, Read], 1, 1, "loses saves undoes extends-by-votes"),
    ] {
        World::of(subjects, attempts, proposals, words).check();
    }
}

#[test]
fn where_one_rule_is_another_a_promise_is_broken() {
    let lossy = || World::of(TWO, 1, 2, "once loses");
    let read = || World::of(&[Lock, Read], 1, 1, "once");
    let both = || World::of(&[Both, Lock], 1, 2, "once");
    let two = || World::of(TWO, 1, 2, "once");
    for (world, rule, promise, steps) in [
        (two(), Rule::EqualIsEnough, UNIQUE, 9),
        (two(), Rule::EqualIsEnough, REAL_TIME, 9),
        (two(), Rule::BlindExtension, NO_REVIVAL, 13),
        (lossy(), Rule::NoFloor, UNIQUE, 9),
        (lossy(), Rule::NoFloor, NO_REVIVAL, 12),
        (lossy(), Rule::ClockSteppedBack, UNIQUE, 10),
        (both(), Rule::SetOnHalf, NO_REVIVAL, 11),
        (both(), Rule::AboveOneCounter, UNIQUE, 9),
        // The counter is still the writer's token, so its key is made again where the reader was.
        (read(), Rule::ReadersDontCount, NO_REVIVAL, 13),
        (read(), Rule::ReadsPastWriters, NO_REVIVAL, 11),
    ] {
        world.by(rule).breaks(promise, steps);
    }
}

/// A reader has no token, so it can't raise a counter above one that the node has not seen yet.
#[test]
fn a_writer_that_extends_where_its_acquire_arrived_behind_a_reader_revives_its_lock() {
    World::of(&[Lock, Read], 1, 1, "once").breaks(NO_REVIVAL, 14);
}

#[test]
#[ignore = "it takes a minute"]
fn where_a_node_went_back_and_one_rule_is_another_a_lock_is_revived() {
    // The counter is an old one again, and so is the key: the node acknowledges what it took away from the holder since.
    let world = World::of(TWO, 1, 2, "once loses saves");
    world
        .by(Rule::RecreationWithoutFloor)
        .breaks(NO_REVIVAL, 14);
    // An undo deletes the key that a snapshot or a replica still has, so the next client is granted that node before the key
    // has ended there. Then the node goes back, and has the key again: the first client's own key, which is a vote, next to
    // its own key on the node that the second client never reached.
    let world = World::of(TWO, 1, 3, "loses saves undoes");
    world.by(Rule::UndoneIsExtended).breaks(NO_REVIVAL, 17);
}
