//! The verbs of the protocol, one file each: a round over the cluster, and a verdict on the votes.

use crate::lease::state::LeaseState;
use crate::lease::votes::Votes;

pub(crate) mod acquire;
pub(crate) mod adopt;
pub(crate) mod examine;
pub(crate) mod extend;
pub(crate) mod flush;
pub(crate) mod list;
pub(crate) mod look;
pub(crate) mod open;
pub(crate) mod pass;
pub(crate) mod release;

/// A lock that was just acquired or adopted, before a guard is made of it.
pub(crate) struct Won {
    pub(crate) lease: LeaseState,
    /// What each node said, in the canonical order.
    pub(crate) votes: Votes,
}
