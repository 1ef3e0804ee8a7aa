//! A call for a lock: the wait for other threads, attempts, and the waits between them.

use std::sync::Arc;
use std::time::Duration;

use super::LockManager;
use super::call_record::CallRecord;
use crate::clock::{Clock, Timestamp};
use crate::contend::arbiter::Wait;
use crate::contend::cancel::{Cancel, Patience};
use crate::contend::order::Order;
use crate::contend::queue::{Lines, Refusal, Turn, WaitClock};
use crate::error::{Error, NodeError, NodeReport, Vote};
use crate::guard::{Demand, LockGuard};
use crate::holder::Label;
use crate::node::Node;
use crate::node::wait::WhenFree;
use crate::protocol::acquire::{Asked, attempt};
use crate::quorum::Term;
use crate::renewal::KeepAlive;
use crate::sync::{Condvar, MutexGuard};

/// How often a larger fencing token is proposed at once. Each time, another client has been granted one meanwhile.
const MOST_RAISES: u32 = 8;

/// What a thread gets at the end of its wait in this process's queue.
enum FromQueue {
    /// The turn to ask the servers.
    Turn(Turn<LockGuard>),
    /// The lock, handed over by the thread that held it.
    Guard(LockGuard),
}

/// What a call asks for.
struct LockParams {
    resource: Arc<str>,
    term: Term,
    keep_alive: Option<KeepAlive>,
    /// For how long nobody else may have the lock, from when it was acquired.
    minimum: Option<Duration>,
    label: Option<Label>,
    patience: Patience,
}

impl LockParams {
    fn cancelled(&self) -> Error {
        Error::Cancelled {
            resource: Arc::clone(&self.resource),
            waited: Duration::ZERO,
        }
    }
}

/// The options of a call that only some callers set.
#[derive(Debug, Clone, Default)]
pub(super) struct LockOptions {
    pub(super) keep_alive: Option<KeepAlive>,
    pub(super) cancel: Option<Cancel>,
    pub(super) at_least: Option<Duration>,
    /// What the holder calls itself, if not as the builder says.
    pub(super) holder: Option<Result<Label, String>>,
}

impl LockManager {
    /// Makes attempts until one succeeds or the time is over. The caller has checked that keep-alive is possible with
    /// this ttl.
    pub(super) fn acquire(
        &self,
        resource: &str,
        ttl: Duration,
        timeout: Duration,
        options: &LockOptions,
    ) -> Result<LockGuard, Error> {
        let cluster = self.cluster();
        cluster.refuse_fork()?;
        let term = cluster.options.term(ttl)?;
        let minimum = options.at_least.map(|span| cluster.options.minimum(span));
        let key = cluster.checked_key(resource)?;
        let params = LockParams {
            resource: resource.into(),
            term,
            keep_alive: options.keep_alive,
            minimum: minimum.transpose()?,
            label: self.label(options)?,
            patience: Patience {
                // None, which is no bound, if the sum overflows.
                end: cluster.clock.now().checked_add(timeout),
                cancel: options.cancel.clone(),
            },
        };
        let mut record = CallRecord::begin(cluster, resource, ttl);
        let turn = match self.wait_in_queue(&params, &mut record)? {
            FromQueue::Guard(guard) => return Ok(guard),
            FromQueue::Turn(turn) => turn,
        };
        let when_free = if timeout.is_zero() {
            WhenFree::Take
        } else {
            self.shared.courtesy.when_free(&key, cluster.clock.now())
        };
        let guard = self.take(&params, &key, when_free, &turn, &mut record)?;
        Ok(guard.with_turn(Some(turn)))
    }

    /// What the holder of this call calls itself.
    fn label(&self, options: &LockOptions) -> Result<Option<Label>, Error> {
        let of_builder = || self.cluster().options.holder.clone();
        let of_call = options.holder.clone().transpose();
        let of_call = of_call.map_err(|reason| Error::InvalidHolder { reason })?;
        Ok(of_call.or_else(of_builder))
    }

    /// Makes attempts, and waits between them.
    fn take(
        &self,
        params: &LockParams,
        key: &str,
        when_free: WhenFree,
        turn: &Turn<LockGuard>,
        record: &mut CallRecord<'_>,
    ) -> Result<LockGuard, Error> {
        let (cluster, patience) = (self.cluster(), &params.patience);
        let mut wait = Wait::new(cluster, key, patience);
        let all = Order::of(cluster.options.fanout);
        let mut order = match when_free {
            WhenFree::Yield => wait.wait(when_free)?,
            WhenFree::Take => all,
        };
        let mut raised = 0_u32;
        loop {
            if patience.is_cancelled() {
                return Err(record.refused(params.cancelled()));
            }
            let error = match record.attempted(self.attempt(params, key, order)) {
                Err(error) if is_worth_a_retry(&error) => error,
                result => return result,
            };
            // This is no contention: the nodes can grant the next proposal, so there is nothing to wait for.
            if needs_another_token(&error) && raised < MOST_RAISES {
                raised = raised.saturating_add(1);
                continue;
            }
            raised = 0;
            turn.met(&error);
            if patience.left(&cluster.clock).is_zero() {
                if order == all && !patience.is_cancelled() {
                    return Err(error);
                }
                // The error of the last attempt reports on every node.
                order = all;
                continue;
            }
            if let Error::Held { .. } = error {
                order = wait.wait(WhenFree::Take)?;
            } else {
                patience.sleep(&cluster.clock, cluster.delay()?);
                order = all;
            }
        }
    }

    /// Makes one attempt, and a guard if it wins.
    fn attempt(&self, params: &LockParams, key: &str, order: Order) -> Result<LockGuard, Error> {
        let (cluster, handover) = (self.cluster(), self.shared.handover);
        let asked = Asked {
            resource: &params.resource,
            key,
            term: params.term,
            label: params.label.as_ref(),
        };
        let won = attempt(cluster, asked, order, handover)?;
        let guard = LockGuard::new(&self.shared, won);
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
            resource: Arc::clone(&params.resource),
            waited: elapsed,
            elapsed,
            nodes: guard.votes().to_vec(),
        })
    }

    /// Waits in the queue of this process until no other thread has the lock or asks for it.
    fn wait_in_queue(
        &self,
        params: &LockParams,
        record: &mut CallRecord<'_>,
    ) -> Result<FromQueue, Error> {
        let (cluster, queue) = (self.cluster(), &self.shared.queue);
        if let Some(turn) = queue.try_enter(&params.resource) {
            return Ok(FromQueue::Turn(turn));
        }
        cluster.stats.queued.count();
        let demand = Demand {
            validity: params.term.validity,
            label: params.label.clone(),
        };
        let waiting = Waiting {
            clock: &cluster.clock,
            patience: &params.patience,
        };
        let (turn, guard) =
            match queue.enter(&params.resource, demand, params.patience.end, &waiting) {
                Ok(entered) => entered,
                Err(refusal) => {
                    let error = if params.patience.is_cancelled() {
                        params.cancelled()
                    } else {
                        self.refused(&params.resource, refusal)
                    };
                    return Err(record.refused(error));
                }
            };
        let Some(guard) = guard else {
            return Ok(FromQueue::Turn(turn));
        };
        if let Some(keep_alive) = params.keep_alive {
            guard.begin_keep_alive(params.term, keep_alive);
        }
        let now = cluster.clock.now();
        if now >= guard.deadline() {
            // The validity ended on the way from one thread to the other. Dropping the guard releases the lock.
            return Ok(FromQueue::Turn(turn));
        }
        cluster.stats.handed_over.count();
        record.acquired(&guard);
        let guard = guard.held_at_least(params.minimum, now);
        Ok(FromQueue::Guard(guard.with_turn(Some(turn))))
    }

    /// The error for a thread that waited for other threads until its time was over.
    fn refused(&self, resource: &Arc<str>, refusal: Refusal<LockGuard>) -> Error {
        let lock = refusal.lock;
        if let (None, Some(error)) = (&lock, refusal.met) {
            return error;
        }
        let unasked = |node: &Node| node.unasked(Vote::NotAsked).report;
        let nodes: Vec<NodeReport> = self.cluster().each().map(unasked).collect();
        Error::Held {
            resource: Arc::clone(resource),
            waited: Duration::ZERO,
            holder: lock.and_then(|lock| lock.tokens.value.holder()),
            nodes,
        }
    }
}

/// The clock and the patience of a thread that waits in the queue.
struct Waiting<'w> {
    clock: &'w Clock,
    patience: &'w Patience,
}

impl WaitClock<LockGuard> for Waiting<'_> {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn has_given_up(&self) -> bool {
        self.patience.is_cancelled()
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

/// Whether nodes would have granted another fencing token: a larger one, or a smaller one if the last one was too far
/// ahead of the clocks.
fn needs_another_token(error: &Error) -> bool {
    let (Error::Held { nodes, .. } | Error::Unavailable { nodes, .. }) = error else {
        return false;
    };
    nodes.iter().any(|report| match &report.vote {
        Vote::Stale { .. } => true,
        Vote::Failed(NodeError::ClockSkew {
            difference,
            allowed,
            ..
        }) => difference <= allowed,
        Vote::Granted
        | Vote::Released
        | Vote::Held { .. }
        | Vote::Missing
        | Vote::Failed(_)
        | Vote::NotAsked => false,
    })
}

fn is_worth_a_retry(error: &Error) -> bool {
    matches!(
        error,
        Error::Held { .. } | Error::Unavailable { .. } | Error::TooSlow { .. }
    )
}
