//! Tests of the command `redlatch`, as a process, over real `redis-server` processes.

#![cfg(test)]
#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails, as it should"
)]

mod bad_input;
mod ended;
mod ending;
mod flush;
mod forever;
mod hold;
mod kinds;
mod list;
mod look;
mod loss;
mod metrics;
mod nodes;
mod open_nodes;
mod orphans;
mod output;
mod pages;
mod passwords;
mod permits;
mod process;
mod run;
mod settings;
#[cfg(feature = "tls-rustls")]
mod slow;
mod states;
mod terminal;
#[cfg(feature = "tls-rustls")]
mod tls;
mod trusted;
