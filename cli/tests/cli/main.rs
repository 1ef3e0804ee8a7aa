//! Tests of the command `redlatch`, as a process, over real `redis-server` processes.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails, as it should"
)]

mod bad_input;
#[cfg(test)]
mod config_file;
#[cfg(test)]
mod exit_codes;
#[cfg(test)]
mod forever;
#[cfg(test)]
mod forgotten;
#[cfg(test)]
mod hold;
#[cfg(test)]
mod killed;
#[cfg(test)]
mod kinds;
#[cfg(test)]
mod labels;
#[cfg(test)]
mod list;
#[cfg(test)]
mod look;
#[cfg(test)]
mod loss;
#[cfg(test)]
mod make_room;
#[cfg(test)]
mod metrics;
#[cfg(test)]
mod notify;
#[cfg(test)]
mod open_nodes;
#[cfg(test)]
mod orphans;
#[cfg(test)]
mod output;
#[cfg(test)]
mod page;
#[cfg(test)]
mod passwords;
#[cfg(test)]
mod pasted;
#[cfg(test)]
mod permits;
#[cfg(test)]
mod process;
#[cfg(test)]
mod resting;
#[cfg(test)]
mod screens;
#[cfg(test)]
mod settings;
#[cfg(test)]
mod several;
#[cfg(test)]
mod shared;
#[cfg(test)]
mod signals;
#[cfg(test)]
mod stopped;
#[cfg(test)]
mod terminal;
#[cfg(test)]
#[cfg(feature = "tls-rustls")]
mod tls;
#[cfg(test)]
mod watch;
