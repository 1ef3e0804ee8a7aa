//! A call for a lock: the wait for other threads, attempts, and the waits between them.

use std::sync::Arc;
use std::time::Duration;

use super::call_record::CallRecord;
use super::params::LockParams;
use super::turn::Start;
use super::{LockManager, LockRequest};
use crate::claim::Kind;
use crate::contend::arbiter::{Round, Semaphore, Wait, Wanted};
use crate::contend::cancel::Patience;
use crate::contend::order::Order;
use crate::contend::turns::Turns;
use crate::error::{Error, NodeError, Vote};
use crate::guard::LockGuard;
use crate::node::command::WhenFree;
use crate::protocol::acquire::{Asked, attempt};

/// How often a larger fencing token is proposed at once. Each time, another client has been granted one meanwhile.
const MOST_RAISES: u32 = 8;

impl LockManager {
    /// Makes attempts until one succeeds or the time is over. The caller has checked that keep-alive is possible with
    /// this ttl.
    pub(super) fn acquire(
        &self,
        request: &LockRequest<'_>,
        kind: &Kind,
        ttl: Duration,
        timeout: Duration,
    ) -> Result<LockGuard, Error> {
        let (cluster, options) = (self.cluster(), &request.options);
        cluster.refuse_fork()?;
        let term = cluster.options.term(ttl)?;
        let minimum = options.at_least.map(|span| cluster.options.minimum(span));
        let params = LockParams {
            resource: Arc::new(self.resource(request.name, kind)?),
            term,
            timeout,
            keep_alive: options.keep_alive,
            minimum: minimum.transpose()?,
            label: self.label(options)?,
            patience: Patience {
                // None, which is no bound, if the sum overflows.
                end: cluster.clock.now().checked_add(timeout),
                cancel: options.cancel.clone(),
            },
        };
        let mut record = CallRecord::begin(cluster, &params.resource, ttl);
        if params.patience.is_cancelled() {
            return Err(record.refused(params.cancelled()));
        }
        if params.resource.is_read() {
            let result = self.read(&params, &mut record);
            return result.map_err(|error| self.with_holder(&params, error));
        }
        let (turns, start) = self.wait_in_queue(&params, &mut record)?;
        match self.take(&params, start, &turns, &mut record) {
            // With a semaphore, the next thread asks for another slot.
            Ok(guard) if kind.permits().is_some() => Ok(guard),
            Ok(guard) => Ok(guard.with_turns(turns)),
            Err(error) => {
                drop(turns);
                Err(self.with_holder(&params, error))
            }
        }
    }

    /// Makes attempts, and waits between them. The first may have been made already.
    pub(super) fn take(
        &self,
        params: &LockParams,
        start: Start,
        turns: &Turns<LockGuard>,
        record: &mut CallRecord<'_>,
    ) -> Result<LockGuard, Error> {
        let (cluster, patience) = (self.cluster(), &params.patience);
        let mut wait = Wait::new(cluster, self.wanted(params), patience);
        let all = Order::of(cluster.options.fanout);
        let mut passed = None;
        let mut round = match start {
            Start::Passed(attempt) => {
                passed = Some(attempt);
                wait.at_all_nodes()?
            }
            Start::CalledOff => {
                wait.stay_away();
                wait.wait(WhenFree::Take)?
            }
            Start::Refused(error) => {
                wait.refused(&error);
                wait.wait(WhenFree::Take)?
            }
            Start::Ask if self.yields(params) => wait.wait(WhenFree::Yield)?,
            Start::Ask => wait.begin()?,
        };
        loop {
            let result = match passed.take() {
                Some(attempt) => self.passed(params, attempt, round.order, record),
                None if patience.is_cancelled() => return Err(record.refused(params.cancelled())),
                None => self.ask(params, &round, record),
            };
            let error = match result {
                Err(error) if error.is_transient() => error,
                result => return result,
            };
            turns.met(&error);
            if patience.left(&cluster.clock).is_zero() {
                if round.order == all && !patience.is_cancelled() {
                    return Err(error);
                }
                // The error of the last attempt reports on every node.
                round = wait.at_all_nodes()?;
                continue;
            }
            round = if let Error::Held { .. } = error {
                let key = params.resource.key_of(error.resource());
                self.shared.courtesy.note_holder(key);
                wait.refused(&error);
                wait.wait(WhenFree::Take)?
            } else {
                patience.sleep(&cluster.clock, cluster.delay()?);
                wait.at_all_nodes()?
            };
        }
    }

    /// What the call waits for at the nodes.
    fn wanted<'c>(&'c self, params: &'c LockParams) -> Wanted<'c> {
        let resource = &params.resource;
        let semaphore = resource.kind.permits().map(|permits| Semaphore {
            name: &resource.name,
            permits,
            slots: &self.shared.slots,
        });
        Wanted {
            resource,
            semaphore,
        }
    }

    /// Whether a client that this manager has just woken comes first.
    fn yields(&self, params: &LockParams) -> bool {
        if params.timeout.is_zero() {
            return false;
        }
        let now = self.cluster().clock.now();
        let keys = params.resource.keys.iter();
        // All keys are asked about: one is polite once.
        keys.filter(|key| self.shared.courtesy.is_owed(key, now))
            .count()
            > 0
    }

    /// Asks for the lock; or for one slot after the other, until one is granted or the nodes fail.
    fn ask(
        &self,
        params: &LockParams,
        round: &Round,
        record: &mut CallRecord<'_>,
    ) -> Result<LockGuard, Error> {
        let Some(slots) = &round.slots else {
            return self.ask_for(params, None, round.order, record);
        };
        let mut last = None;
        for slot in slots {
            let result = self.ask_for(params, Some(*slot), round.order, record);
            if !matches!(result, Err(Error::Held { .. })) {
                return result;
            }
            last = Some(result);
        }
        // Guards of this manager have them all.
        last.unwrap_or_else(|| {
            Err(record.refused(self.held_here(params, &params.resource.name, None)))
        })
    }

    /// Makes an attempt, and further ones at once while the nodes can grant another fencing token. This is no
    /// contention, so there is nothing to wait for. Once the call is cancelled, it makes none.
    pub(super) fn ask_for(
        &self,
        params: &LockParams,
        slot: Option<u32>,
        order: Order,
        record: &mut CallRecord<'_>,
    ) -> Result<LockGuard, Error> {
        let mut raised = 0_u32;
        loop {
            if params.patience.is_cancelled() {
                return Err(record.refused(params.cancelled()));
            }
            match record.attempted(self.attempt(params, slot, order)) {
                Err(error) if needs_another_token(&error) && raised < MOST_RAISES => {
                    raised = raised.saturating_add(1);
                }
                result => return result,
            }
        }
    }

    /// Makes one attempt, and a guard if it wins.
    fn attempt(
        &self,
        params: &LockParams,
        slot: Option<u32>,
        order: Order,
    ) -> Result<LockGuard, Error> {
        let cluster = self.cluster();
        let in_slot = slot.map(|slot| Arc::new(params.resource.in_slot(slot)));
        let asked = Asked {
            resource: in_slot.as_ref().unwrap_or(&params.resource),
            term: params.term,
            label: params.label.as_ref(),
        };
        let won = attempt(cluster, asked, order);
        let won = won.map_err(|error| error.of_semaphore(params.resource.kind.permits()))?;
        self.begin(params, LockGuard::new(&self.shared, won))
    }

    /// Begins to keep a lock that was just acquired, if its validity has not ended.
    fn begin(&self, params: &LockParams, guard: LockGuard) -> Result<LockGuard, Error> {
        let cluster = self.cluster();
        if let Some(keep_alive) = params.keep_alive {
            guard.begin_keep_alive(params.term, keep_alive);
        }
        // The clock is read last, so that no slow step above hides an expired lock. A dropped guard releases it.
        let now = cluster.clock.now();
        if now < guard.deadline() {
            return Ok(guard.held_at_least(params.minimum, now));
        }
        let elapsed = cluster.clock.now().saturating_since(guard.since());
        Err(Error::TooSlow {
            resource: Arc::clone(&params.resource.name),
            waited: elapsed,
            elapsed,
            nodes: guard.votes().to_vec(),
        })
    }

    /// Ends the attempt that the thread before has made for this one. Makes another one at once if that needs a larger token.
    fn passed(
        &self,
        params: &LockParams,
        attempt: Result<LockGuard, Error>,
        order: Order,
        record: &mut CallRecord<'_>,
    ) -> Result<LockGuard, Error> {
        let attempt = attempt.and_then(|guard| self.begin(params, guard));
        match record.attempted(attempt) {
            Err(error) if needs_another_token(&error) => self.ask_for(params, None, order, record),
            result => result,
        }
    }
}

/// Whether nodes would have granted another fencing token: a larger one, or a smaller one if the last one was too far
/// ahead of the clocks.
fn needs_another_token(error: &Error) -> bool {
    let (Error::Held { nodes, .. } | Error::Unavailable { nodes, .. }) = error else {
        return false;
    };
    nodes.iter().any(|report| {
        if let Vote::Failed(NodeError::ClockSkew {
            difference,
            allowed,
            ..
        }) = &report.vote
        {
            difference <= allowed
        } else {
            matches!(report.vote, Vote::Stale { .. })
        }
    })
}
