//! Soak on real servers: processes contend for a few resources on five `redis-server`s while faults strike them all.
//!
//! ```text
//! cargo test --locked --release --test soak [-- [--fenced | --mixed] [--seconds 60] [--seed N]]
//! cargo test --locked --release --test soak -- --forget | --without-quarantine [--seed N]
//! ```
//!
//! A driver (`site.rs`) goes through a plan of faults that its seed decides (`plan.rs`), and so can be made again; when exactly each
//! strikes is up to the machine. Each of them is seen to strike, or it does not count. In the last seconds all is calm.
//!
//! The workers (`worker.rs`) take locks of every kind, with the classic protocol, the fenced one, or both beside each other.
//! What they tell is a history (`record.rs`), which the judge of `tests/history` hears in the end. Then no server may have a key left,
//! and each resource must have been had again after the last fault. That the test can fail is shown by two kinds of runs in which a
//! majority of the servers forgets, at least, and nothing keeps their votes from counting: there the exit code is 0 only if two
//! holders were found.
//!
//! The exit code is 1 after a violation, a leaked key or a resource that was not had again, and also when the run was vacuous: a
//! kind of lock that nobody had, or a kind of fault that was never seen to strike. Nothing depends on the speed of the machine.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails, as it should"
)]
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "each part of the test has to do with a few kinds of faults, events and errors"
)]

#[cfg(test)]
mod ask;
#[cfg(test)]
mod crew;
#[cfg(test)]
mod held;
#[cfg(test)]
mod keys;
#[cfg(test)]
mod node;
#[cfg(test)]
mod options;
#[cfg(test)]
mod plan;
#[cfg(test)]
mod record;
#[cfg(test)]
mod report;
#[cfg(test)]
mod site;
#[cfg(test)]
mod told;
#[cfg(test)]
#[path = "../sim/wish.rs"]
mod wish;
#[cfg(test)]
mod worker;

#[cfg(test)]
use redlatch::{Error, KeepAlive, LockGuard, LockManager, LossCause};

fn main() -> std::process::ExitCode {
    report::run()
}
