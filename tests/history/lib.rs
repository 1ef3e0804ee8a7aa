//! What happened in a test with locks, and whether a lock with leases and growing fencing tokens can have such a history.
//!
//! A test notes every call, every look at a guard and every fault as an [`Event`] in a [`History`], in true time: a time that
//! all clients and nodes share, and that none of them needs to know. A [`Checker`] judges it. Nothing of the library is in
//! here, so the judge can't share a mistake with it.
//!
//! ```text
//! let mut history = History::default();
//! let call = history.asks(10, who, On::alone(7), Some(ttl));          // a call begins
//! history.notes(12, What::Gets { call, token, fencing, slot, end, origin });
//! history.notes(20, What::Releases { hold: call, way: Way::Unlock });  // a guard has the number of the call that got it
//! history.notes(21, What::Released { hold: call, says: Says::Okay });
//! let violations = history.violations(&Assumed::default());
//! ```

#![expect(
    clippy::arithmetic_side_effects,
    reason = "what overflows in it fails the test that called it"
)]
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "each part hears the events that it is about"
)]

mod checker;
mod event;
mod exclusion;
mod history;
mod leases;
mod order;
mod page;

mod text;

#[cfg(test)]
mod linear;
#[cfg(test)]
mod planted;
#[cfg(test)]
mod random;
#[cfg(test)]
mod shown;

pub use crate::checker::{Assumed, Checker, Rule, Violation};
pub use crate::event::{
    Access, Call, Does, Event, Leased, Nanos, On, Origin, Restart, Says, Span, Way, What, Who, Why,
};
pub use crate::history::History;
pub use crate::page::page;
pub use crate::text::text;
