//! The verbs of the protocol, one file each: a round over the cluster, and a verdict on the votes.

use crate::clock::Timestamp;
use crate::cluster::Cluster;
use crate::contend::handover::Cohort;
use crate::lease::state::LeaseState;
use crate::lease::votes::Votes;
use crate::node::command::{Command, Keys};
use crate::node::fence::Fence;

pub(crate) mod acquire;
pub(crate) mod adopt;
pub(crate) mod examine;
pub(crate) mod extend;
pub(crate) mod heal;
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
    /// Until when the lock has to rest if it is given back before, if it has a minimum.
    pub(crate) rests_until: Option<Timestamp>,
    /// How often and for how long the lock may be handed over from thread to thread, if at all.
    pub(crate) cohort: Option<Cohort>,
}

/// The command for the nodes about a held lock.
fn command<'a>(cluster: &'a Cluster, lease: &'a LeaseState, keys: &'a Keys) -> Command<'a> {
    let fence = cluster.rules.as_ref().zip(lease.claim());
    Command {
        keys,
        value: lease.value.as_bytes(),
        fence: fence.map(|(rules, token)| Fence {
            rules,
            token,
            reserve: 0,
        }),
    }
}
