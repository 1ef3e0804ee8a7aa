//! The wait of a call for its turn: in the queue of this process, behind other threads of the manager.

use std::sync::Arc;

use super::LockManager;
use super::call_record::CallRecord;
use super::params::LockParams;
use crate::claim::{Kind, Resource};
use crate::clock::{Clock, Timestamp};
use crate::contend::cancel::Patience;
use crate::contend::queue::{Lines, TurnAndGuard, WaitClock};
use crate::contend::turns::Turns;
use crate::error::Error;
use crate::guard::{Demand, LockGuard, Received, Takes};
use crate::sync::{Condvar, MutexGuard};

/// How a call begins when it has the turn.
pub(super) enum Start {
    /// It asks all nodes, or yields to a client that this manager has just woken.
    Ask,
    /// The thread before has made the first attempt.
    Passed(Result<LockGuard, Error>),
    /// The thread before has called the first attempt off for a client that it has woken.
    CalledOff,
    /// It is a reader whose first attempt was refused.
    Refused(Error),
}

impl LockManager {
    /// Waits in the queue of this process until no other thread has the lock or asks for it. Returns the turns to ask the
    /// servers, and how to begin.
    pub(super) fn wait_in_queue(
        &self,
        params: &LockParams,
        record: &mut CallRecord<'_>,
    ) -> Result<(Turns<LockGuard>, Start), Error> {
        if let Some(names) = params.resource.kind.names() {
            let turns = self.enter_all(params, names, record)?;
            return Ok((turns, Start::Ask));
        }
        let (turn, received) = self.enter(params, &line_of(&params.resource), record)?;
        let start = match received {
            // Only readers let others go ahead, in a line of their own.
            None | Some(Received::GoAhead) => Start::Ask,
            Some(Received::Passed(attempt)) => Start::Passed(attempt),
            Some(Received::CalledOff) => Start::CalledOff,
        };
        Ok((Turns::one(Some(turn)), start))
    }

    /// Waits for the turn in this line.
    pub(super) fn enter(
        &self,
        params: &LockParams,
        line: &Arc<str>,
        record: &mut CallRecord<'_>,
    ) -> Result<TurnAndGuard<LockGuard>, Error> {
        let (cluster, queue) = (self.cluster(), &self.shared.queue);
        if let Some(turn) = queue.try_enter(line) {
            return Ok((turn, None));
        }
        record.queued();
        let demand = Demand {
            term: params.term,
            label: params.label.clone(),
            patience: params.patience.clone(),
            takes: match params.resource.kind.names() {
                None => Takes::TheLock,
                Some(_) => Takes::TheTurn,
            },
        };
        let asks_once = params.resource.kind.permits().is_some() && params.timeout.is_zero();
        let node_timeout = cluster.options.node_timeout;
        let waiting = Waiting {
            clock: &cluster.clock,
            patience: &params.patience,
            for_an_answer_until: asks_once
                .then(|| cluster.clock.now().saturating_add(node_timeout)),
        };
        let entered = queue.enter(line, demand, params.patience.end, &waiting);
        entered.map_err(|refusal| {
            let error = if params.patience.is_cancelled() {
                params.cancelled()
            } else {
                self.refused(params, line, refusal)
            };
            record.refused(error)
        })
    }
}

/// The line in which the threads of this manager wait; the first of several. That of readers who have to wait is another one.
fn line_of(resource: &Resource) -> Arc<str> {
    match &resource.kind {
        Kind::Permit(permits) => line_of_permits(&resource.name, *permits),
        Kind::Lock | Kind::Slot(_) | Kind::Read | Kind::Several(_) => {
            let first = resource.names().first();
            Arc::clone(first.unwrap_or(&resource.name))
        }
    }
}

/// The line for a semaphore. No lock has such a name.
fn line_of_permits(semaphore: &str, permits: u32) -> Arc<str> {
    format!("{semaphore}:redlatch:slots:{permits}").into()
}

/// The line for the readers of a resource that have to wait. No lock has such a name.
pub(super) fn line_of_readers(resource: &str) -> Arc<str> {
    format!("{resource}:redlatch:readers").into()
}

/// The clock and the patience of a thread that waits in the queue.
struct Waiting<'w> {
    clock: &'w Clock,
    patience: &'w Patience,
    /// A thread that asks for a permit once lets those before it ask first: each takes a slot at most, and there are more.
    for_an_answer_until: Option<Timestamp>,
}

impl WaitClock<LockGuard> for Waiting<'_> {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn has_given_up(&self) -> bool {
        self.patience.is_cancelled()
    }

    fn waits_for_an_answer_until(&self) -> Option<Timestamp> {
        self.for_an_answer_until
    }

    fn pause(
        &self,
        admitted: &Condvar,
        lines: &mut MutexGuard<'_, Lines<LockGuard>>,
        until: Timestamp,
    ) {
        self.clock.nap(admitted, lines, until);
    }
}
