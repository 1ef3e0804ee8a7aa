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
//! to raise the counter. The library sends an undo where no reply comes, and extends at no such node. But where a connection
//! breaks before the reply, there is no undo. So what is promised of writers and readers rests on validity, as in `terms`.
//!
//! # What can happen
//!
//! Three nodes, of which two are a quorum. Clients begin attempts, get guards, extend them, give up and give back. A
//! proposal is any number, whatever the client has seen, so nothing depends on a client's clock or memory. A guard
//! believes for ever, and extends whenever it likes. A lock key ends at any step. A message arrives at any later step,
//! before or behind any other, never, and (in `Network::Repeating`) more than once: TCP repeats nothing, but a client
//! sends a command again when a connection broke before the reply. A client that crashes is one that does nothing more.
//!
//! A reply is not a step. A vote counts from the moment when the node gives it, and the client acts on it at any later
//! one, so the time between them is the reply's. A failed attempt and a slow reply look alike to the promises.
//!
//! Nodes can lose data: all of it, or what came after a moment that is on their disk. Such a node stays closed until
//! `open_at`, and never grants a token that is ahead of its clock by more than the skew that is allowed, which is less
//! than it stays closed. So each token that it granted before is below `open_at`, whatever it has forgotten. The model
//! takes the lowest such `open_at`: the largest token that the node granted before. Until then the node has no marker
//! of its own process, or is closed: it grants nothing and makes no key again. Its own key is extended all the same.
//!
//! The clock of a node does not run backwards while it is away. So a key that has ended there is not in a snapshot
//! either (`Node::expire`). A key that a release deleted may be, and so may one that an undo deleted: the release that
//! a client sends behind an acquire when it no longer waits for the reply, while its attempt goes on at other nodes.
//! Such a key would be met again by an extension, so a holder does not extend where it sent an undo.
//!
//! Not in the model: clocks that differ, counters that end when they are idle, a node that loses everything and then reads
//! an older snapshot, and one that goes to another process and back while no acquire comes in between.
//!
//! # Where states are left out
//!
//! The number of clients, attempts, proposals and losses is small. Nodes are interchangeable, and so are clients: of
//! all states that differ by their names only, one is looked at (`State::representative`). Everything else is exhaustive.

use stateright::Model;

use self::world::Loss::{Everything, TheLatest};
use self::world::{Action, NO_REVIVAL, REAL_TIME, UNIQUE, World};
use crate::checks::{check, shortest_counterexample};
use crate::subject::Subject::{Both, Lock, Read};

mod node;
mod state;
mod world;

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
    /// `open_at` stands in for a counter that does not exist, and is forgotten as soon as one does.
    FloorOfMissingCounters,
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

use Rule::{
    AboveOneCounter, AsItIs, BlindExtension, ClockSteppedBack, EqualIsEnough, ExtendsByVotes,
    FloorOfMissingCounters, NoFloor, ReadersDontCount, ReadsPastWriters, RecreationWithoutFloor,
    SetOnHalf, UndoneIsExtended,
};

const TWO: [crate::subject::Subject; 2] = [Lock; 2];

#[test]
fn no_promise_is_broken() {
    for world in [
        World::new(&TWO, 1, 4),
        World::new(&TWO, 2, 2),
        World::new(&TWO, 1, 4).undoing(),
        World::new(&TWO, 1, 3).losing(Everything(2)),
        World::new(&TWO, 1, 3).losing(TheLatest(1)),
        World::new(&TWO, 1, 2).undoing().losing(TheLatest(1)),
        World::new(&[Lock; 3], 1, 5),
        World::new(&[Both, Lock], 1, 3),
        World::new(&[Both, Lock], 1, 2).losing(Everything(1)),
        World::new(&[Lock, Read], 1, 1)
            .by(ExtendsByVotes)
            .losing(TheLatest(1)),
        // Here a reader is not revived either.
        World::new(&[Lock, Read], 1, 1).by(ExtendsByVotes).once(),
    ] {
        check(&world);
    }
}

#[test]
#[ignore = "it takes minutes"]
fn no_promise_is_broken_in_larger_worlds() {
    for world in [
        World::new(&TWO, 2, 3),
        World::new(&TWO, 2, 2).losing(Everything(1)),
        World::new(&TWO, 1, 3).losing(TheLatest(2)),
        World::new(&TWO, 1, 3).undoing().losing(TheLatest(1)),
        World::new(&[Lock; 3], 1, 2).undoing(),
        World::new(&[Lock; 3], 1, 3).losing(Everything(1)),
        World::new(&[Lock; 3], 1, 2).losing(TheLatest(1)),
        World::new(&[Both, Both], 1, 2).losing(TheLatest(1)),
        World::new(&[Lock, Read, Read], 1, 1).by(ExtendsByVotes),
        World::new(&[Lock, Lock, Read], 1, 2).by(ExtendsByVotes),
        World::new(&[Lock, Read], 1, 1)
            .by(ExtendsByVotes)
            .undoing()
            .losing(TheLatest(1)),
    ] {
        check(&world);
    }
}

#[test]
fn where_one_rule_is_another_a_promise_is_broken() {
    let lossy = || World::new(&TWO, 1, 2).losing(Everything(1));
    let read = || World::new(&[Lock, Read], 1, 1);
    let both = || World::new(&[Both, Lock], 1, 2);
    for (world, rule, promise, steps) in [
        (World::new(&TWO, 1, 2), EqualIsEnough, UNIQUE, 9),
        (World::new(&TWO, 1, 2), EqualIsEnough, REAL_TIME, 9),
        (World::new(&TWO, 1, 2), BlindExtension, NO_REVIVAL, 13),
        (lossy(), NoFloor, UNIQUE, 9),
        (lossy(), NoFloor, NO_REVIVAL, 12),
        (lossy(), ClockSteppedBack, UNIQUE, 10),
        (both(), SetOnHalf, NO_REVIVAL, 11),
        (both(), AboveOneCounter, UNIQUE, 9),
        // The counter is still the writer's token, so its key is made again where the reader was.
        (read(), ReadersDontCount, NO_REVIVAL, 13),
        (read(), ReadsPastWriters, NO_REVIVAL, 11),
    ] {
        shortest_counterexample(&world.by(rule).once(), promise, steps);
    }
}

/// A reader has no token, so it can't raise a counter above one that the node has not seen yet.
#[test]
fn a_writer_that_extends_where_its_acquire_arrived_behind_a_reader_revives_its_lock() {
    let world = World::new(&[Lock, Read], 1, 1).by(AsItIs).once();
    shortest_counterexample(&world, NO_REVIVAL, 14);
}

#[test]
#[ignore = "it takes a minute"]
fn where_a_node_went_back_and_one_rule_is_another_a_lock_is_revived() {
    // The counter is an old one again, and so is the key: the node acknowledges what it took away from the holder since.
    let world = World::new(&TWO, 1, 2).losing(TheLatest(1));
    let world = world.by(RecreationWithoutFloor).once();
    shortest_counterexample(&world, NO_REVIVAL, 14);
    // An undo deletes the key that a snapshot or a replica still has, so the next client is granted that node before the key
    // has ended there. Then the node goes back, and has the key again: the first client's own key, which is a vote, next to
    // its own key on the node that the second client never reached.
    let world = World::new(&TWO, 1, 3).losing(TheLatest(1)).undoing();
    shortest_counterexample(&world.by(UndoneIsExtended), NO_REVIVAL, 17);
}

/// A release that arrives behind the loss makes a counter of its own small token. Were the floor there only for want
/// of a counter, it would be gone. A search takes more memory than there is, so these are the steps.
#[test]
fn a_floor_that_a_late_release_takes_away_lets_a_token_be_given_out_twice() {
    // The first client has attempts 0 and 1, the second 2 and 3.
    let way = [
        Action::Begin(0, 1),
        Action::GiveUp(0),
        Action::Begin(2, 3),
        Action::AcquireArrives(2, 0),
        Action::AcquireArrives(2, 1),
        Action::Return(2),
        Action::LoseData(0),
        Action::Reopen(0),
        Action::ReleaseArrives(0, 0),
        Action::Begin(1, 3),
        Action::AcquireArrives(1, 0),
        Action::AcquireArrives(1, 2),
        Action::Return(1),
    ];
    let lossy = World::new(&TWO, 2, 3).losing(Everything(1)).once();
    // Without the rule, all steps can be taken. As it is, the last one can't: one of the two nodes knows better.
    for (rule, taken) in [(FloorOfMissingCounters, way.len()), (AsItIs, way.len() - 1)] {
        let world = lossy.clone().by(rule);
        let mut state = world.init_states().remove(0);
        let mut is_taken = |action: &&Action| {
            let mut actions = Vec::new();
            world.actions(&state, &mut actions);
            let is_possible = actions.contains(action);
            if is_possible {
                state = world.after(&state, **action);
            }
            is_possible
        };
        assert_eq!(way.iter().take_while(&mut is_taken).count(), taken);
    }
}
