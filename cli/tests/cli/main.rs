//! Tests of the command `redlatch`, as a process, over real `redis-server` processes.

#![cfg(test)]
#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails, as it should"
)]

mod bad_input;
mod config_file;
mod ended;
mod exit_codes;
mod forever;
mod hold;
mod killed;
mod kinds;
mod labels;
mod list;
mod look;
mod loss;
mod make_room;
mod metrics;
mod notify;
mod open_nodes;
mod orphans;
mod output;
mod page;
mod passwords;
mod permits;
mod process;
mod resting;
mod screens;
mod settings;
mod several;
mod shared;
mod signals;
mod stopped;
mod terminal;
#[cfg(feature = "tls-rustls")]
mod tls;
mod watch;
