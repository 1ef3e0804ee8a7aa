//! A call for a lock of any kind, and what its error may be.

use std::time::Duration;

use redlatch::{Error, KeepAlive, LockGuard, LockManager, LossCause, NodeError, NodeReport, Vote};
use redlatch_history::Why;

use crate::on::{Kind, On};
use crate::options::PERMITS;
use crate::told::{counted, wrong};

/// How long a call waits.
#[derive(Clone, Copy)]
pub(crate) enum How {
    Once,
    Waiting,
    For(Duration),
}

/// What is asked for beside the lock.
pub(crate) struct Wishes {
    pub(crate) how: How,
    pub(crate) ttl_ms: u64,
    /// For how long it is held at least.
    pub(crate) at_least: Option<Duration>,
    pub(crate) label: Option<String>,
    /// Whether it is renewed in the background, and for how long at most.
    pub(crate) is_kept: bool,
    pub(crate) limit: Option<Duration>,
}

impl Wishes {
    /// Nothing beside the lock.
    pub(crate) fn new(how: How, ttl_ms: u64) -> Self {
        Self {
            how,
            ttl_ms,
            at_least: None,
            label: None,
            is_kept: false,
            limit: None,
        }
    }
}

/// Asks for a lock on the first of these names, or on all of them.
pub(crate) fn ask(
    manager: &LockManager,
    kind: Kind,
    names: &[String],
    wishes: &Wishes,
) -> Result<LockGuard, Error> {
    let ttl = Duration::from_millis(wishes.ttl_ms);
    let mut shared = manager.rw_lock(&names[0]).ttl(ttl);
    let mut request = match kind {
        Kind::Several => manager.request_all(names.iter().rev()),
        Kind::Permit => manager.semaphore(&names[0], PERMITS),
        Kind::Lock | Kind::Write | Kind::Read => manager.request(&names[0]),
    }
    .ttl(ttl);
    if let Some(label) = &wishes.label {
        (shared, request) = (shared.holder(label), request.holder(label));
    }
    // A reader has no minimum.
    if let Some(span) = wishes.at_least.filter(|_| kind != Kind::Read) {
        (shared, request) = (shared.at_least(span), request.at_least(span));
    }
    if wishes.is_kept {
        let limit = wishes.limit;
        let keep_alive = limit.map_or_else(KeepAlive::unbounded, KeepAlive::max_hold);
        shared = shared.keep_alive(keep_alive);
        request = request.keep_alive(keep_alive);
    }
    match (kind, wishes.how) {
        (Kind::Write, How::Once) => shared.try_write(),
        (Kind::Write, How::Waiting) => shared.write(),
        (Kind::Write, How::For(time)) => shared.try_write_for(time),
        (Kind::Read, How::Once) => shared.try_read(),
        (Kind::Read, How::Waiting) => shared.read(),
        (Kind::Read, How::For(time)) => shared.try_read_for(time),
        (_, How::Once) => request.try_lock(),
        (_, How::Waiting) => request.lock(),
        (_, How::For(time)) => request.try_lock_for(time),
    }
}

/// What the judge is told of an error; one that nothing in this test explains is told as wrong.
pub(crate) fn why(error: &Error, on: &On) -> Why {
    let why = match error {
        Error::Held {
            resource, nodes, ..
        } => {
            count_abstentions(nodes);
            // The error says which resource was in the way.
            let is_one = on.names().iter().any(|name| **name == **resource);
            is_one.then_some(Why::Held)
        }
        Error::Unavailable { nodes, .. }
        | Error::Unconfirmed { nodes, .. }
        | Error::TooSlow { nodes, .. } => {
            count_abstentions(nodes);
            Some(Why::Unknown)
        }
        Error::Lost { cause, .. } => why_lost(cause),
        _ => None,
    };
    why.unwrap_or_else(|| {
        wrong(&format!("{on}: {error}"));
        Why::Unknown
    })
}

pub(crate) fn why_lost(cause: &LossCause) -> Option<Why> {
    match cause {
        LossCause::Expired { .. } | LossCause::Unreachable { .. } => Some(Why::Expired),
        LossCause::Taken { .. } | LossCause::Vanished { .. } => Some(Why::Gone),
        LossCause::MaxHold { .. } => Some(Why::Limited),
        _ => None,
    }
}

/// Counts nodes that abstain, and tells what no node can have said in this test.
pub(crate) fn count_abstentions(nodes: &[NodeReport]) {
    for report in nodes {
        let Vote::Failed(error) = &report.vote else {
            continue;
        };
        match error {
            NodeError::Quarantined { has_marker, .. } => {
                let why = if *has_marker { "Reborn" } else { "Unmarked" };
                counted(&format!("abstentions: {why}"));
            }
            NodeError::TimedOut
            | NodeError::BreakerOpen { .. }
            | NodeError::Connect { .. }
            | NodeError::Closed { .. }
            | NodeError::Broken { .. }
            | NodeError::PoolExhausted => {}
            NodeError::Refused { code, .. } if code == "LOADING" => {}
            other => wrong(&format!("{} says: {other}", report.node)),
        }
    }
}
