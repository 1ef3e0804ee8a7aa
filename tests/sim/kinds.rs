//! The kinds of runs by their names, as tests, replays and texts of violations call them: how each draws the plan of a seed, and what
//! has to happen in many seeds. A run in which nothing happens breaks no promise either.

use super::prelude::*;
use super::run::{Total, run_many};

/// What is asked of many runs of a kind.
pub(super) struct Runs {
    pub(super) draw: fn(u64) -> Plan,
    /// How many of the seeds that are asked for: so many, of so many.
    share: (u64, u64),
    /// How often something has to happen in a run at least, on average.
    often: &'static [(&'static str, u64)],
    /// What has to happen, and what has to in 200 seeds, with commas between.
    seen: &'static str,
    seen_in_many: &'static str,
    /// What happens for less than one lock of a hundred.
    rare: &'static str,
    /// How the promise is called that has to be broken, and that in so many of a hundred runs.
    broken: Option<(&'static str, u64)>,
}

const RUNS: Runs = Runs {
    draw: |seed| Plan::draw(seed, Kind::Sound),
    share: (1, 10),
    often: &[("taken", 20)],
    seen: "",
    seen_in_many: "",
    rare: "",
    broken: None,
};

/// As many troubles as there are.
const FULL: Runs = Runs {
    often: &[("taken", 20), ("extended", 2), ("refused", 5)],
    ..RUNS
};

const REFUSED: Runs = Runs {
    often: &[("taken", 20), ("refused", 5)],
    ..RUNS
};

/// Without an assumption of the algorithm, two holders have to be found: a checker that sees nothing is blind.
const TWO_HOLDERS: Runs = Runs {
    broken: Some(("two holders", 10)),
    ..RUNS
};

const MANY: u64 = 200;

/// Of each kind: the name of its test, its own name, and what is asked of its runs.
macro_rules! kinds {
    ($($test:ident, $kind:literal: $runs:expr;)*) => {
        const KINDS: &[(&str, Runs)] = &[$(($kind, $runs)),*];
        $(
            #[test]
            fn $test() {
                keeps_its_promises($kind);
            }
        )*
    };
}

kinds! {
    sound, "sound": Runs { share: (1, 1), seen_in_many: SOUND, ..FULL };
    // Nodes that restart at once without memory, go back to an earlier state, as from a snapshot or by the promotion of a
    // replica that lags, and are flushed: the fenced protocol survives all of it, and its tokens stay in order.
    fenced, "fenced": Runs { draw: |seed| Plan::draw(seed, Kind::Fenced), share: (1, 2), seen_in_many: FENCED, ..FULL };
    mixed, "mixed": Runs { draw: Plan::mixed, seen: "kept", ..REFUSED };
    // Readers, writers, locks, and locks on several resources, with both protocols and in crowds.
    shared, "shared": Runs { draw: Plan::shared, share: (1, 3), seen_in_many: SHARED, ..FULL };
    // Threads that send for each other, on slow and on fast links, and that panic while they do.
    crowd, "crowd": Runs {
        draw: Plan::crowd, share: (1, 2), often: &[("taken", 100), ("led for others", 20)], seen_in_many: CROWD, ..RUNS
    };
    // Threads that stop at mutexes and atomics. A race needs many seeds, and each is short.
    preempted, "preempted": Runs { draw: Plan::preempted, share: (4, 1), often: &[("taken", 10)], seen_in_many: PREEMPTED, ..RUNS };
    // Permits of a semaphore: never more holders than permits, and one in each slot.
    permits_sound, "permits-sound": Runs {
        draw: |seed| Plan::draw(seed, Kind::Sound).with_permits(), seen: PERMITS, ..REFUSED
    };
    permits_fenced, "permits-fenced": Runs {
        draw: |seed| Plan::draw(seed, Kind::Fenced).with_permits(), seen: PERMITS, ..REFUSED
    };
    // Locks that are held for a time at least: nobody gets one that rests.
    rests_sound, "rests-sound": Runs {
        draw: |seed| Plan { rests: true, ..Plan::draw(seed, Kind::Sound) }, seen: RESTS, ..FULL
    };
    rests_fenced, "rests-fenced": Runs {
        draw: |seed| Plan { rests: true, ..Plan::draw(seed, Kind::Fenced) }, seen: RESTS, ..FULL
    };
    // Locks that pass from thread to thread again and again, while most messages are late.
    relay, "relay": Runs { draw: Plan::relay, seen: "passed to the next thread, undo", ..RUNS };
    // A lock that is kept is never lost while servers without persistence are restarted one after the other.
    rolling, "rolling": Runs { draw: Plan::rolling, often: &[("a key set again", 5)], seen: ROLLING, ..RUNS };
    rolling_shared, "rolling-shared": Runs {
        draw: Plan::rolling_shared, often: &[("a key set again", 5)], seen: ROLLING, ..RUNS
    };
    // Neither readers nor writers wait for long.
    stream, "stream": Runs {
        draw: Plan::stream, often: &[("taken", 100)],
        seen: "a reader is held back for a writer, readers at the same time, several resources",
        ..RUNS
    };
    // A lost wake-up would leave a lock free until somebody looks again, a second later.
    woken, "woken": Runs {
        draw: Plan::woken, often: &[("taken", 20), ("woken by the bell", 5)],
        rare: "a free lock that somebody got by its timer alone",
        ..RUNS
    };
    // Fencing tokens grow when their counters are gone.
    idle, "idle": Runs { draw: Plan::idle, seen: "a pause of a day, a counter is gone, a larger token", ..RUNS };
    opening, "opening": Runs { draw: Plan::opening, seen: "nodes opened, nodes not opened, abstained", ..RUNS };
    sealed, "sealed": Runs {
        draw: Plan::sealed, seen: "a part of a reply, records without data, too many records without data", ..RUNS
    };
    // Wall clocks beyond what is allowed cost locks, and no promise.
    beyond, "beyond": Runs {
        draw: Plan::beyond_the_bound, often: &[("taken", 5)], seen: "a token too far ahead, a larger token", ..RUNS
    };
    set_back, "set-back": Runs {
        draw: Plan::with_clocks_set_back, often: &[("taken", 5)], seen: "a node's clock is set back", ..RUNS
    };
    amnesia, "amnesia": Runs { draw: |seed| Plan::draw(seed, Kind::Amnesia), ..TWO_HOLDERS };
    jumps, "jumps": Runs { draw: |seed| Plan::draw(seed, Kind::Jumps), ..TWO_HOLDERS };
    shared_amnesia, "shared-amnesia": Runs { draw: Plan::shared_and_forgotten, ..TWO_HOLDERS };
    permit_too_many, "permit-too-many": Runs {
        draw: |seed| Plan::draw(seed, Kind::Sound).with_a_permit_too_many(), broken: Some(("too many holders", 50)), ..RUNS
    };
}

/// Faults, what clients do and are told, and how threads and clients wait for each other.
const SOUND: &str = "SET after its release, SET repeated, client stopped, connection not made, connection refused, connection reset, \
    connections ended, cut, extension: lost, long delay, lost reply, lost request, message cut off, message held back, \
    node died and forgets, node died and remembers, node stopped, pause, stuck write, too slow, undo, a key set again, \
    a key set again behind an undo, \
    a wait for a loss ended, adopted, adoption not decided, adoption refused, handed on, hook called, kept, \
    lost: expired, lost: held for long enough, lost: unreachable, released by token, renewed in the background, \
    several at once, passed to the next thread, looked while waiting, queued, the bell had rung, woken by the bell, \
    listened in vain";

const ROLLING: &str = "node stopped, undo, a key set again behind an undo";

const FENCED: &str = "abstained, node flushed, node went back, node died and forgets, node replaced, a larger token, a healed key, \
    lost: vanished";

const SHARED: &str = "a lock on several resources rests, a read lock, a reader is held back for a writer, a key set again, \
    led for others, passed to the next thread, readers at the same time, several resources, renewed in the background";

const CROWD: &str = "a panic in the middle of a call, a panic of a leader, a text sent again in the middle of a batch, \
    led from the background, several threads in one write, two connections to a node at once";

const PREEMPTED: &str = "adopted, a read lock, hook called, kept, led for others, passed to the next thread, preempted, queued, \
    renewed in the background, several resources, waited for a mutex";

const PERMITS: &str =
    "adopted, all permits at once, kept, looked while waiting, queued, renewed in the background";

const RESTS: &str =
    "a lock rests, held for a time at least, adopted with a minimum, given back at once";

#[track_caller]
pub(super) fn named(name: &str) -> &'static Runs {
    let found = KINDS.iter().find(|(other, _)| *other == name);
    let Some((_, runs)) = found else {
        let names: Vec<_> = KINDS.iter().map(|(name, _)| name).collect();
        panic!("no runs are called {name}; there are {names:?}");
    };
    runs
}

fn listed(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.split(", ").filter(|what| !what.is_empty())
}

/// The seeds of a plain `cargo test`, which is not built for speed.
const USUAL_SEEDS: Range<u64> = 0..12;

impl Runs {
    /// The seeds that the environment asks for, as `from..to`, or this share of them, but no fewer than usual. Ranges that don't overlap
    /// become others that don't.
    fn seeds(&self) -> Range<u64> {
        let asked = std::env::var("REDLATCH_SIM_SEEDS").map_or(USUAL_SEEDS, |text| {
            let (from, to) = text.split_once("..").expect("REDLATCH_SIM_SEEDS=from..to");
            from.parse().unwrap()..to.parse().unwrap()
        });
        let (times, of) = self.share;
        let start = asked.start * times;
        let count = ((asked.end - asked.start) * times).div_ceil(of);
        start..(start + count).max(if of > 1 { USUAL_SEEDS.end } else { 0 })
    }

    #[track_caller]
    fn has_shown_enough(&self, total: &Total) {
        let runs = total.runs;
        let times = |what: &str| total.tally.get(what).copied().unwrap_or_default();
        for what in listed(self.rare) {
            assert!(100 * times(what) <= times("taken"), "{what}: {total}");
        }
        for (what, often) in self.often {
            assert!(times(what) >= *often * runs, "{what}: {total}");
        }
        let in_many = listed(self.seen_in_many).filter(|_| runs >= MANY);
        for what in listed(self.seen).chain(in_many) {
            assert!(times(what) > 0, "no {what}: {total}");
        }
    }
}

#[track_caller]
fn keeps_its_promises(kind: &str) {
    let runs = named(kind);
    let allowed = runs.broken.map(|(promise, _)| promise);
    let total = run_many(kind, runs.seeds(), runs.draw, allowed);
    match runs.broken {
        None => runs.has_shown_enough(&total),
        Some((_, share)) => assert!(100 * total.broken > share * total.runs, "{total}"),
    }
}

#[test]
#[should_panic(expected = "there are [\"sound\", \"fenced\"")]
fn a_name_that_no_kind_has_is_refused() {
    named("fensed");
}
