//! The simulation: clients that run the crate's own code over a network, nodes and clocks that a seed makes misbehave.
//!
//! It is compiled into the library's unit tests (`src/lib.rs` names this file), because it stands where servers and the
//! system's clock stand otherwise: behind the crate's own seams for connections and time. What runs above these, from
//! `LockManager` down to the pool of connections, is the code that ships.
//!
//! ```text
//! cargo test --release --lib sim                                          a few hundred seeds
//! REDLATCH_SIM_SEEDS=0..20000 cargo test --release --lib sim -- --nocapture
//! REDLATCH_SIM_SEED=42 cargo test --release --lib sim::replay -- --nocapture
//! ```

#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails, as it should"
)]

use std::ops::Range;

mod access;
mod answers;
mod asking;
mod bell;
mod claims;
mod client;
mod clocks;
mod contents;
mod cramped;
mod crowds;
mod dialer;
mod episodes;
mod history;
mod hooks;
mod idle;
mod in_time;
mod keeping;
mod kinds;
mod line;
mod looks;
mod mail;
mod mixed;
mod network;
mod node;
mod opening;
mod permits;
mod plan;
mod preempt;
mod process;
mod queue;
mod relays;
mod replacing;
mod resting;
mod returned;
mod rolling;
mod run;
mod sealed;
mod sharing;
mod stream;
mod told;
mod trace;
mod trouble;
mod unread;
mod waiting;
mod wall;
mod wire;
mod wish;
mod witness;
mod woken;
mod world;

use self::kinds::drawn_as;
use self::plan::{Kind, Plan};
use self::run::{Total, Until, none_breaks_a_promise, replay_text, run_many, run_one};
use self::trace::Trace;

/// The seeds of a plain `cargo test`, which is not built for speed.
const USUAL_SEEDS: Range<u64> = 0..12;

/// The seeds that the environment asks for, as `from..to`.
fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("REDLATCH_SIM_SEEDS") else {
        return USUAL_SEEDS;
    };
    let (from, to) = text.split_once("..").expect("REDLATCH_SIM_SEEDS=from..to");
    from.parse().unwrap()..to.parse().unwrap()
}

/// Half of them, but no fewer than usual.
fn half_the_seeds() -> Range<u64> {
    let Range { start, end } = seeds();
    start..(start + (end - start).div_ceil(2)).max(USUAL_SEEDS.end)
}

/// Four times as many: a race needs many, and each is short. Ranges that don't overlap become others that don't.
fn four_times_the_seeds() -> Range<u64> {
    let Range { start, end } = seeds();
    start * 4..end * 4
}

/// A third of them, but no fewer than usual.
fn a_third_of_the_seeds() -> Range<u64> {
    let Range { start, end } = seeds();
    start..(start + (end - start).div_ceil(3)).max(USUAL_SEEDS.end)
}

/// A tenth of them, but no fewer than usual.
fn fewer_seeds() -> Range<u64> {
    let Range { start, end } = seeds();
    start..(start + (end - start).div_ceil(10)).max(USUAL_SEEDS.end)
}

#[test]
fn no_seed_breaks_a_promise() {
    let total = none_breaks_a_promise("sound", seeds(), drawn_as("sound"));
    assert_is_not_vacuous(&total);
}

/// Nodes that restart at once without memory, go back to an earlier state, as from a snapshot or by the promotion of a
/// replica that lags, and are flushed: the fenced protocol survives all of it, and its tokens stay in order.
#[test]
fn no_seed_breaks_a_promise_of_the_fenced_protocol() {
    let total = none_breaks_a_promise("fenced", half_the_seeds(), drawn_as("fenced"));
    assert_is_not_vacuous(&total);
    let expected = if total.runs < 200 { &[][..] } else { &FENCED };
    total.has_seen(expected);
}

/// What has to happen in 200 seeds of the fenced protocol.
const FENCED: [&str; 8] = [
    "abstained",
    "node flushed",
    "node went back",
    "node died and forgets",
    "node replaced",
    "a larger token",
    "a healed key",
    "lost: vanished",
];

/// What has to happen in 200 seeds.
const FAULTS: [&str; 21] = [
    "SET after its release",
    "SET repeated",
    "client stopped",
    "connection not made",
    "connection refused",
    "connection reset",
    "connections ended",
    "cut",
    "extension: lost",
    "long delay",
    "lost reply",
    "lost request",
    "message cut off",
    "message held back",
    "node died and forgets",
    "node died and remembers",
    "node stopped",
    "pause",
    "stuck write",
    "too slow",
    "undo",
];

/// What clients have to do, and to be told, in 200 seeds.
const HOLDING: [&str; 14] = [
    "a key set again",
    "a wait for a loss ended",
    "adopted",
    "adoption not decided",
    "adoption refused",
    "handed on",
    "hook called",
    "kept",
    "lost: expired",
    "lost: held for long enough",
    "lost: unreachable",
    "released by token",
    "renewed in the background",
    "several at once",
];

/// How the nodes have to be asked, in 200 seeds.
const ASKING: [&str; 3] = ["asked an arbiter alone", "asked at once", "asked in turn"];

/// How threads and clients have to wait for each other, in 200 seeds.
const WAITING: [&str; 7] = [
    "passed to the next thread",
    "looked while waiting",
    "queued",
    "taken over from one that has expired",
    "the bell had rung",
    "woken by the bell",
    "listened in vain",
];

/// A run in which nothing happens breaks no promise either.
fn assert_is_not_vacuous(total: &Total) {
    assert!(total.acquired > 20 * total.runs, "{total}");
    assert!(total.extended > 2 * total.runs, "{total}");
    assert!(total.refused > 5 * total.runs, "{total}");
    if total.runs < 200 {
        return;
    }
    let seen = FAULTS.iter().chain(&HOLDING).chain(&ASKING);
    for seen in seen.chain(&WAITING) {
        assert!(total.tally.contains_key(seen), "no {seen}: {total}");
    }
}

#[test]
fn nodes_that_forget_are_seen_to_break_exclusion() {
    assert_two_holders_are_seen("amnesia");
}

#[test]
fn clocks_that_jump_are_seen_to_break_exclusion() {
    assert_two_holders_are_seen("jumps");
}

/// The algorithm does not survive this, so that a checker that sees nothing is blind.
#[track_caller]
fn assert_two_holders_are_seen(kind: &str) {
    let total = run_many(fewer_seeds(), Until::TheEnd, drawn_as(kind));
    println!("{kind}: {total}");
    let broken = total.violations.iter();
    let others = broken.filter(|(_, what)| !what.starts_with("two holders"));
    assert_eq!(others.collect::<Vec<_>>(), Vec::<&(u64, String)>::new());
    let seen = u64::try_from(total.violations.len()).unwrap();
    assert!(seen > total.runs / 10, "{total}");
}

#[test]
fn a_seed_is_the_same_run_each_time() {
    for seed in 0..5 {
        let plan = Plan::draw(seed, Kind::Sound);
        let first = run_one(&plan, Trace::digest_only());
        let again = run_one(&plan, Trace::text());
        assert_eq!(first.digest, again.digest, "seed {seed}");
        assert_eq!(first.events, again.events, "seed {seed}");
        let other = run_one(&Plan::draw(seed + 100, Kind::Sound), Trace::digest_only());
        assert_ne!(first.digest, other.digest, "seed {seed}");
    }
}

/// The size that the speed is measured at.
#[test]
fn four_clients_on_five_nodes() {
    none_breaks_a_promise("sized", fewer_seeds(), drawn_as("sized"));
}

/// Looks between all other calls: every promise holds as without them, and what they tell a holder is true.
#[test]
fn to_look_at_a_lock_disturbs_nothing_and_tells_the_truth() {
    let total = none_breaks_a_promise("looks", fewer_seeds(), drawn_as("looks"));
    assert_is_not_vacuous(&total);
    total.has_seen(&[
        "looked: held",
        "looked: free",
        "looked: blocked",
        "looked: unknown",
        "looked: a majority",
        "looked: no majority",
    ]);
}

/// Permits of a semaphore, with both protocols: never more holders than permits, and one in each slot.
#[test]
fn no_seed_gives_a_permit_too_many() {
    for kind in ["permits-sound", "permits-fenced"] {
        let total = none_breaks_a_promise(kind, fewer_seeds(), drawn_as(kind));
        assert!(total.acquired > 20 * total.runs, "{total}");
        assert!(total.refused > 5 * total.runs, "{total}");
        total.has_seen(&[
            "adopted",
            "all permits at once",
            "kept",
            "looked while waiting",
            "queued",
            "renewed in the background",
        ]);
    }
}

/// The checker is not blind.
#[test]
fn a_permit_too_many_is_seen() {
    let draw = drawn_as("permit-too-many");
    let total = run_many(fewer_seeds(), Until::TheEnd, draw);
    let broken = total.violations.iter();
    let others = broken.filter(|(_, what)| !what.starts_with("too many holders"));
    assert_eq!(others.collect::<Vec<_>>(), Vec::<&(u64, String)>::new());
    let seen = u64::try_from(total.violations.len()).unwrap();
    assert!(seen > total.runs / 2, "{total}");
}

/// Locks that are held for a time at least: every promise holds as without them, and nobody gets one that rests.
#[test]
fn no_seed_gives_a_lock_that_rests_to_anybody() {
    for kind in ["rests-sound", "rests-fenced"] {
        let total = none_breaks_a_promise(kind, fewer_seeds(), drawn_as(kind));
        assert_is_not_vacuous(&total);
        total.has_seen(&[
            "a lock rests",
            "held for a time at least",
            "adopted with a minimum",
            "given back at once",
        ]);
    }
}

/// Prints everything that happens in the run of `REDLATCH_SIM_SEED`.
#[test]
fn replay() {
    let Ok(seed) = std::env::var("REDLATCH_SIM_SEED") else {
        return;
    };
    let named = std::env::var("REDLATCH_SIM_KIND");
    let kind = named.as_deref().unwrap_or("sound");
    let plan = drawn_as(kind)(seed.parse().unwrap());
    println!("{plan:#?}\n{}", replay_text(kind, &plan, usize::MAX));
}
