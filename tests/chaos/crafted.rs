//! Crafted records of what workers tell.

use crate::event::{Claim, Event};
use crate::on::{Kind, On};
use crate::witness::{Verdict, Witness};

pub(crate) const MS: u64 = 1_000_000;

/// The ordinary lock on a resource.
pub(crate) fn locked(resource: u32, token: &str, start_ms: u64, until_ms: u64) -> Event {
    taken(On::one(Kind::Lock, resource), token, start_ms, until_ms)
}

pub(crate) fn taken(on: On, token: &str, start_ms: u64, until_ms: u64) -> Event {
    Event::Locked {
        on,
        token: token.to_owned(),
        ttl_ms: 1_000,
        returned: start_ms * MS,
        spent: 0,
        claim: Some(sharp(until_ms)),
    }
}

pub(crate) fn sharp(until_ms: u64) -> Claim {
    Claim {
        low: until_ms * MS,
        high: until_ms * MS + 1,
    }
}

pub(crate) fn releasing(token: &str, at_ms: u64) -> Event {
    Event::Releasing {
        token: token.to_owned(),
        at: at_ms * MS,
    }
}

pub(crate) fn extended(token: &str, returned_ms: u64, until_ms: u64) -> Event {
    Event::Extended {
        token: token.to_owned(),
        ttl_ms: 1_000,
        returned: returned_ms * MS,
        claim: Some(sharp(until_ms)),
    }
}

pub(crate) fn unlocked(token: &str, returned_ms: u64, outcome: &str) -> Event {
    Event::Unlocked {
        token: token.to_owned(),
        returned: returned_ms * MS,
        outcome: outcome.to_owned(),
    }
}

/// The verdict on events that two workers told in turn.
pub(crate) fn verdict(events: &[Event]) -> Verdict {
    let mut witness = Witness::default();
    for (worker, event) in [1, 2].into_iter().cycle().zip(events) {
        witness.hear(worker, event.clone());
    }
    witness.verdict()
}
