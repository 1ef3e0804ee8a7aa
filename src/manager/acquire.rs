//! A call for a lock: the wait for other threads, attempts, and the waits between them.

use std::sync::Arc;
use std::time::Duration;

use super::LockManager;
use super::call::Call;
use crate::clock::{Clock, Timestamp};
use crate::contend::arbiter::Wait;
use crate::contend::cancel::{Cancel, Patience};
use crate::contend::order::Order;
use crate::contend::queue::{Lines, Refusal, Time, Turn};
use crate::error::{Error, NodeError, NodeReport, Vote};
use crate::guard::LockGuard;
use crate::node::Node;
use crate::node::wait::Manner;
use crate::protocol::acquire::attempt;
use crate::quorum::Term;
use crate::renewal::KeepAlive;
use crate::sync::{Condvar, MutexGuard};

/// How often a larger fencing token is proposed at once. Each time, another client has been granted one meanwhile.
const MOST_RAISES: u32 = 8;

/// What a thread gets at the end of its wait in this process's queue.
enum Entered {
    /// The turn to ask the servers.
    First(Turn<LockGuard>),
    /// The lock, handed over by the thread that held it.
    Holder(LockGuard),
}

/// What a call asks for.
struct Wish {
    resource: Arc<str>,
    term: Term,
    keep_alive: Option<KeepAlive>,
    patience: Patience,
}

impl Wish {
    fn cancelled(&self) -> Error {
        Error::Cancelled {
            resource: Arc::clone(&self.resource),
            waited: Duration::ZERO,
        }
    }
}

/// The options of a call that only some callers set.
#[derive(Debug, Clone, Default)]
pub(super) struct Asked {
    pub(super) keep_alive: Option<KeepAlive>,
    pub(super) cancel: Option<Cancel>,
}

impl LockManager {
    /// Makes attempts until one succeeds or the time is over. The caller has checked that keep-alive is possible with
    /// this ttl.
    pub(super) fn acquire(
        &self,
        resource: &str,
        ttl: Duration,
        timeout: Duration,
        options: &Asked,
    ) -> Result<LockGuard, Error> {
        let cluster = self.cluster();
        cluster.refuse_fork()?;
        let term = cluster.options.term(ttl)?;
        let key = cluster.checked_key(resource)?;
        let wish = Wish {
            resource: resource.into(),
            term,
            keep_alive: options.keep_alive,
            patience: Patience {
                // None, which is no bound, if the sum overflows.
                end: cluster.clock.now().checked_add(timeout),
                cancel: options.cancel.clone(),
            },
        };
        let mut call = Call::begin(cluster, resource, ttl);
        let turn = match self.line_up(&wish, &mut call)? {
            Entered::Holder(guard) => return Ok(guard),
            Entered::First(turn) => turn,
        };
        let manner = if timeout.is_zero() {
            Manner::Eager
        } else {
            self.shared.courtesy.manner(&key, cluster.clock.now())
        };
        let guard = self.take(&wish, &key, manner, &turn, &mut call)?;
        Ok(guard.with_turn(Some(turn)))
    }

    /// Makes attempts, and waits between them.
    fn take(
        &self,
        wish: &Wish,
        key: &str,
        manner: Manner,
        turn: &Turn<LockGuard>,
        call: &mut Call<'_>,
    ) -> Result<LockGuard, Error> {
        let (cluster, patience) = (self.cluster(), &wish.patience);
        let mut wait = Wait::new(cluster, key, patience);
        let all = Order::of(cluster.options.fanout);
        let mut order = match manner {
            Manner::Polite => wait.wait(manner)?,
            Manner::Eager => all,
        };
        let mut raised = 0_u32;
        loop {
            if patience.is_cancelled() {
                return Err(call.refused(wish.cancelled()));
            }
            let error = match call.attempted(self.attempt(wish, key, order)) {
                Err(error) if is_worth_a_retry(&error) => error,
                result => return result,
            };
            // This is no contention: the nodes can grant the next proposal, so there is nothing to wait for.
            if was_ill_proposed(&error) && raised < MOST_RAISES {
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
                order = wait.wait(Manner::Eager)?;
            } else {
                patience.sleep(&cluster.clock, cluster.delay()?);
                order = all;
            }
        }
    }

    /// Makes one attempt, and a guard if it wins.
    fn attempt(&self, wish: &Wish, key: &str, order: Order) -> Result<LockGuard, Error> {
        let (cluster, handover) = (self.cluster(), self.shared.handover);
        let won = attempt(cluster, &wish.resource, key, wish.term, order, handover)?;
        let guard = LockGuard::new(&self.shared, won);
        if let Some(keep_alive) = wish.keep_alive {
            guard.keep_from_the_beginning(wish.term, keep_alive);
        }
        // The clock is read last, so a slow step above can't hide an expired lock. Dropping the guard releases the
        // lock.
        if !guard.remaining().is_zero() {
            return Ok(guard);
        }
        let elapsed = cluster.clock.now().saturating_since(guard.since());
        Err(Error::TooSlow {
            resource: Arc::clone(&wish.resource),
            waited: elapsed,
            elapsed,
            nodes: guard.votes().to_vec(),
        })
    }

    /// Waits in the queue of this process until no other thread has the lock or asks for it.
    fn line_up(&self, wish: &Wish, call: &mut Call<'_>) -> Result<Entered, Error> {
        let (cluster, queue) = (self.cluster(), &self.shared.queue);
        if let Some(turn) = queue.step_in(&wish.resource) {
            return Ok(Entered::First(turn));
        }
        cluster.stats.queued.count();
        let validity = wish.term.validity;
        let waiting = Waiting {
            clock: &cluster.clock,
            patience: &wish.patience,
        };
        let (turn, guard) = match queue.enter(&wish.resource, validity, wish.patience.end, &waiting)
        {
            Ok(entered) => entered,
            Err(refusal) => {
                let error = if wish.patience.is_cancelled() {
                    wish.cancelled()
                } else {
                    self.refused(&wish.resource, refusal)
                };
                return Err(call.refused(error));
            }
        };
        let Some(guard) = guard else {
            return Ok(Entered::First(turn));
        };
        if let Some(keep_alive) = wish.keep_alive {
            guard.keep_from_the_beginning(wish.term, keep_alive);
        }
        if guard.remaining().is_zero() {
            // The validity ended on the way from one thread to the other. Dropping the guard releases the lock.
            return Ok(Entered::First(turn));
        }
        cluster.stats.handed_over.count();
        call.acquired(&guard);
        Ok(Entered::Holder(guard.with_turn(Some(turn))))
    }

    /// The error for a thread that waited for other threads until its time was over.
    fn refused(&self, resource: &Arc<str>, refusal: Refusal<LockGuard>) -> Error {
        if let (None, Some(error)) = (refusal.lock, refusal.met) {
            return error;
        }
        let unasked = |node: &Node| node.unasked(Vote::NotAsked).report;
        let nodes: Vec<NodeReport> = self.cluster().each().map(unasked).collect();
        Error::Held {
            resource: Arc::clone(resource),
            waited: Duration::ZERO,
            nodes,
        }
    }
}

/// The clock and the patience of a thread that waits in the queue.
struct Waiting<'w> {
    clock: &'w Clock,
    patience: &'w Patience,
}

impl Time<LockGuard> for Waiting<'_> {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn has_given_up(&self) -> bool {
        self.patience.is_cancelled()
    }

    fn pause(
        &self,
        called: &Condvar,
        lines: &mut MutexGuard<'_, Lines<LockGuard>>,
        until: Timestamp,
    ) {
        self.clock.nap(called, lines, until);
    }
}

/// Whether nodes would have granted another fencing token: a larger one, or a smaller one if the last one was too far
/// ahead of the clocks.
fn was_ill_proposed(error: &Error) -> bool {
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
