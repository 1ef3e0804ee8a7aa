//! Chaos on real servers: processes contend for a few resources on five `redis-server`s while faults strike them all.
//!
//! ```text
//! cargo test --locked --release --test chaos [-- [--seconds 60] [--seed N] [--verbose]]
//! cargo test --locked --release --test chaos -- --forget [--seconds 20] [--seed N]
//! ```
//!
//! A driver goes through a plan of faults that its seed decides, and so can be made again; when exactly each strikes
//! is up to the machine. It stops servers, kills them and restarts them without memory after the longest ttl (as the
//! algorithm asks), stops and kills workers, and lets a proxy on loopback part two groups of workers from servers,
//! delay bytes, lose them, reset and refuse connections. In the last seconds all is calm.
//!
//! The workers take locks, write locks, read locks and locks on several resources, in a mixture that the seed decides. They tell
//! each critical section with its times to a witness, which must find none that overlaps another one on the same resource, but
//! for readers with each other; see `witness.rs` for what else must not be. In the end no server may have a key left, and each
//! resource must have been acquired again soon after the last fault. That the witness can fail is shown at the start of
//! each run on crafted records, and by `--forget`: there a majority of the servers, at least, is killed and comes back
//! at once without memory, which no Redlock can survive, and the exit code is 0 only if overlaps were found.
//!
//! The exit code is 1 after a violation, a leaked key or a resource that was not acquired again, and also when the run
//! was vacuous: too few critical sections, or none of one kind, or from 60 s on a kind of fault that never came.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails, as it should"
)]

#[cfg(test)]
mod connection;
#[cfg(test)]
mod crafted;
#[cfg(test)]
mod crew;
#[cfg(test)]
mod driver;
#[cfg(test)]
mod event;
#[cfg(test)]
mod held;
#[cfg(test)]
mod keys;
#[cfg(test)]
mod on;
#[cfg(test)]
mod options;
#[cfg(test)]
mod pipe;
#[cfg(test)]
mod plan;
#[cfg(test)]
mod proxy;
#[cfg(test)]
mod report;
#[cfg(test)]
mod self_check;
#[cfg(test)]
mod sharing;
#[cfg(test)]
mod start;
#[cfg(test)]
mod witness;
#[cfg(test)]
mod worker;

fn main() -> std::process::ExitCode {
    start::run()
}
