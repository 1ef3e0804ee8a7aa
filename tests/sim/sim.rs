//! The simulation: clients that run the crate's own code over a network, nodes and clocks that a seed makes misbehave.
//!
//! It is compiled into the library's unit tests (`src/lib.rs` names this file), because it stands where servers and the
//! system's clock stand otherwise: behind the crate's own seams for connections and time. What runs above these, from
//! `LockManager` down to the pool of connections, is the code that ships.
//! How it is run is in `tests/README.md`.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails, as it should"
)]

mod asking;
mod bell;
mod claims;
mod client;
mod clocks;
mod contents;
mod drawn;
mod history;
mod holding;
mod hooks;
mod kinds;
mod line;
mod network;
mod node;
mod parts;
mod plan;
mod preempt;
mod prelude;
mod process;
mod resting;
mod run;
mod trace;
mod trouble;
mod unread;
mod wall;
mod wanted;
mod wire;
#[expect(dead_code, reason = "the soak has calls that name no time")]
mod wish;
mod witness;
mod world;

use self::kinds::named;
use self::run::{KEPT_ALL, replay_text, run_one};
use self::trace::Trace;
use crate::{Error, KeepAlive, LockGuard, LockManager, LossCause};

#[test]
fn a_seed_is_the_same_run_each_time() {
    for kind in ["sound", "preempted"] {
        let draw = named(kind).draw;
        // In the last two, threads stop where the locks of a manager are walked: the order has to be the same.
        for seed in [0, 1, 2, 41, 107] {
            let plays = |seed, trace| {
                let world = run_one(&draw(seed), trace);
                let state = world.state();
                (state.trace.finish(), state.popped)
            };
            let first = plays(seed, Trace::digest_only());
            assert_eq!(first, plays(seed, Trace::text()), "{kind} {seed}");
            let other = plays(seed + 100, Trace::digest_only());
            assert_ne!(first.0, other.0, "{kind} {seed}");
        }
    }
}

/// Prints everything that happens in the run of `REDLATCH_SIM_SEED`, and fails if it breaks a promise.
#[test]
fn replay() {
    let Ok(seed) = std::env::var("REDLATCH_SIM_SEED") else {
        return;
    };
    let asked = std::env::var("REDLATCH_SIM_KIND");
    let kind = asked.as_deref().unwrap_or("sound");
    let plan = (named(kind).draw)(seed.parse().unwrap());
    let told = replay_text(kind, &plan, usize::MAX);
    println!("{plan:#?}\n{told}");
    assert!(told.ends_with(KEPT_ALL), "a promise is broken");
}
