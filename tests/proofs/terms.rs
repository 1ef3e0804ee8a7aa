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
//! Each entry of a reader has an end of its own, and so has each key of several.
//!
//! A message arrives at any later step or never; but an undo arrives after the command that it is behind. A reply counts
//! from the moment when the node gives it, and the client reads it at any later step, or gives the node up, also when the
//! reply is on its way.
//!
//! A server that stays away for longer than every ttl, and comes back empty, needs no step of its own. To the clients it is
//! a node that does not answer, and whose keys expire. `Restarts` is about servers that come back sooner. With the fenced
//! protocol such a server grants nothing before all terms have ended that had begun before (`Node::closed_until`).
//!
//! A contender asks all nodes once, waits for each, and does not extend: it is there to get what it must not get.
//!
//! In the fenced protocol a node grants only what is above its counter. Here it grants whatever it has no key against: what
//! holds there holds where it grants less. Of the counter is left whose token it is, for extensions make a key again only
//! where that is their own. Nor are the writers that wait in the model, for whom a node refuses readers.
//!
//! Not in the model: two extensions of one lock at the same time, and connections that break while a heal is under way. The
//! right to heal keeps two of them from healing at once, and tests with peers that follow a script are about the others; after
//! the second the node is released with the others.
//!
//! # Where states are left out
//!
//! The number of clients and terms is small. Of all states that differ by the names of nodes only, one is looked at. What makes
//! no difference any more is forgotten (`State::forget`).

mod node;
mod state;
mod steps;
mod world;

use self::world::{EXCLUSION, MAJORITY, NO_REVIVAL, NOTHING_LEFT, Rule, WHOLE, World};
use crate::checks::{check, shortest_counterexample};
use crate::subject::Subject::{Both, Lock, Other, Read};

#[test]
fn no_promise_is_broken() {
    for (subjects, terms, words) in [
        // A holder that extends and heals. All that can happen without servers that come back soon can happen here.
        ([Lock; 3], [3, 0, 0], "gives-up restarts-when-healed"),
        ([Lock; 3], [2, 1, 0], "gives-up restarts-when-healed"),
        // Beside clients of the other protocol, which heed no counter and no marker, or leave them.
        ([Lock; 3], [2, 1, 0], "held fenced-holder"),
        ([Lock; 3], [2, 1, 0], "held classic-holder"),
        // To the nodes, a pass is a release, and an attempt of another client behind it.
        ([Lock; 3], [2, 1, 0], "held passes gives-up"),
        ([Lock; 3], [1, 1, 1], "held passes"),
        ([Lock; 3], [1, 1, 1], "held passes fenced"),
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
        check(&World::of(subjects, terms, words));
    }
}

#[test]
#[ignore = "it takes minutes"]
fn no_promise_is_broken_in_larger_worlds() {
    for (subjects, terms, words) in [
        ([Lock, Lock, Read], [2, 1, 1], "held classic-holder"),
        ([Lock; 3], [2, 1, 0], "fenced restarts held passes gives-up"),
        ([Lock, Read, Read], [2, 1, 1], "held"),
        ([Lock, Read, Read], [2, 1, 1], "fenced restarts held"),
        ([Read, Lock, Read], [2, 1, 1], "fenced restarts held"),
        ([Both, Lock, Lock], [2, 1, 0], "gives-up"),
        ([Both, Lock, Other], [1, 1, 1], "fenced restarts"),
    ] {
        check(&World::of(subjects, terms, words));
    }
}

#[test]
fn without_a_part_of_a_rule_a_promise_is_broken() {
    let free = |terms, words| World::of([Lock; 3], terms, &format!("gives-up {words}"));
    let pass = |terms| free(terms, "held passes");
    let reader = |terms, words| World::of([Read, Lock, Read], terms, words);
    let both = |other| World::of([Both, other, Lock], [1, 1, 0], "");
    let fenced_readers = World::of([Lock, Read, Read], [1, 1, 0], "fenced restarts");
    let free_reader = reader([2, 1, 1], "held gives-up");
    let (extends, all) = ([2, 1, 0], [2, 1, 1]);
    for (world, rule, promise, steps) in [
        // What the algorithm does not survive.
        (free([1, 1, 0], "restarts"), Rule::AsItIs, EXCLUSION, 12),
        (free(extends, ""), Rule::HealsUndone, MAJORITY, 19),
        (free(extends, ""), Rule::CountsAfterTheEnd, NO_REVIVAL, 21),
        (free(extends, ""), Rule::HealsTaken, MAJORITY, 16),
        (free(extends, ""), Rule::NoUndo, NOTHING_LEFT, 11),
        (free(extends, ""), Rule::KeeperForgets, NOTHING_LEFT, 10),
        (free([3, 0, 0], ""), Rule::PassesOn, MAJORITY, 16),
        (pass([1, 1, 1]), Rule::PassesBlindly, MAJORITY, 9),
        (pass([1, 1, 0]), Rule::PassesTooEarly, EXCLUSION, 5),
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
        shortest_counterexample(&world.by(rule), promise, steps);
    }
}

/// Among fenced clients alone, counters refuse what comes too late. A classic client does not raise the counter. So the node sets
/// the key of the fenced one again, and only the clock tells that this came too late.
#[test]
fn a_fenced_holder_that_counts_votes_after_its_old_end_is_revived_after_a_classic_one() {
    let late = |words| World::of([Lock; 3], [2, 1, 0], words).by(Rule::CountsAfterTheEnd);
    check(&late("held fenced"));
    shortest_counterexample(&late("held fenced-holder"), NO_REVIVAL, 13);
}
