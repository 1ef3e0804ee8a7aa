//! The protocols, model-checked: every order of events in small worlds, and in every state what is promised.
//!
//! In `terms` locks are valid for a time; it is about who has a lock, with either protocol. `tokens` is about the tokens and
//! counters of the fenced protocol, without any clock. In both, clients want one resource, or two, or to read. `turns` is
//! about readers and writers that take turns. These are models of the protocol alone: no code of the library is in them.
//!
//! ```text
//! cargo test --locked --release -p redlatch-proofs --test proofs -- --nocapture --test-threads 1
//! cargo test --locked --release -p redlatch-proofs --test proofs -- --nocapture --test-threads 1 --ignored   # larger worlds, minutes each
//! ```

#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails, as it should"
)]

#[cfg(test)]
mod checks;
#[cfg(test)]
mod subject;
#[cfg(test)]
mod terms;
#[cfg(test)]
mod tokens;
#[cfg(test)]
mod turns;
