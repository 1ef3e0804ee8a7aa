//! What happened in a test with locks, and whether a lock with leases and growing fencing tokens can have such a history.
//!
//! A test notes every call, every look at a guard and every fault as an [`Event`], in true time: a time that all clients and
//! nodes share, and that none of them needs to know. A [`Checker`] judges the events. Nothing of the library is in here, so the
//! judge can't share a mistake with it. `planted.rs` has a history that breaks each rule, and the nearest one that does not.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "what overflows in it fails the test that called it"
)]
#![expect(
    missing_docs,
    reason = "most fields and variants are what their names say"
)]

mod checker;
mod event;
mod leases;
mod places;
mod text;

#[cfg(test)]
mod planted;

pub use crate::checker::{Assumed, Checker, Rule, Violation};
pub use crate::event::{Asks, Call, Event, Given, Leased, Nanos, On, Says, Span, Way, What, Why};
pub use crate::text::{seconds, text, write};
