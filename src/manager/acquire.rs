//! A call for a lock: the wait for other threads, attempts, and the waits between them.

use std::sync::Arc;
use std::time::Duration;

use super::LockManager;
use super::call::Call;
use crate::clock::{Clock, Timestamp};
use crate::contend::arbiter::Wait;
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

/// What one who has waited for other threads has got.
enum Entered {
    /// The turn to ask the servers.
    First(Turn<LockGuard>),
    /// The lock, from the thread before.
    Holder(LockGuard),
}

/// What a call asks for.
struct Wish {
    resource: Arc<str>,
    term: Term,
    keep_alive: Option<KeepAlive>,
    /// When the caller's time is over, if it ever is.
    end: Option<Timestamp>,
}

impl LockManager {
    /// Attempts until one succeeds or the time is over. With keep-alive, whoever asks has had that checked.
    pub(super) fn acquire(
        &self,
        resource: &str,
        ttl: Duration,
        timeout: Duration,
        keep_alive: Option<KeepAlive>,
    ) -> Result<LockGuard, Error> {
        let cluster = self.cluster();
        cluster.refuse_fork()?;
        let term = cluster.options.term(ttl)?;
        let key = cluster.checked_key(resource)?;
        let wish = Wish {
            resource: resource.into(),
            term,
            keep_alive,
            // None where the sum is beyond what time can count.
            end: cluster.clock.now().checked_add(timeout),
        };
        let mut call = Call::begin(cluster, resource, ttl);
        let turn = match self.line_up(&wish, &mut call)? {
            Entered::Holder(guard) => return Ok(guard),
            Entered::First(turn) => turn,
        };
        let mut wait = Wait::new(cluster, &key, wish.end);
        let all = Order::of(cluster.options.fanout);
        let mut order = all;
        if !timeout.is_zero()
            && let Manner::Polite = self.shared.courtesy.manner(&key, cluster.clock.now())
        {
            order = wait.wait(Manner::Polite)?;
        }
        let mut raised = 0_u32;
        loop {
            let error = match call.attempted(self.attempt(&wish, &key, order)) {
                Err(error) if is_worth_a_retry(&error) => error,
                Ok(guard) => return Ok(guard.with_turn(Some(turn))),
                Err(error) => return Err(error),
            };
            // Not contention: the next proposal is one that the nodes can grant.
            if was_ill_proposed(&error) && raised < MOST_RAISES {
                raised = raised.saturating_add(1);
                continue;
            }
            raised = 0;
            turn.met(&error);
            if cluster.left(wish.end).is_zero() {
                if order == all {
                    return Err(error);
                }
                // Of the last attempt each node is to say something.
                order = all;
                continue;
            }
            if let Error::Held { .. } = error {
                order = wait.wait(Manner::Eager)?;
            } else {
                cluster.sleep(cluster.delay()?, wish.end);
                order = all;
            }
        }
    }

    /// Makes one attempt, and a guard of what it has got.
    fn attempt(&self, wish: &Wish, key: &str, order: Order) -> Result<LockGuard, Error> {
        let (cluster, handover) = (self.cluster(), self.shared.handover);
        let won = attempt(cluster, &wish.resource, key, wish.term, order, handover)?;
        let guard = LockGuard::new(&self.shared, won);
        if let Some(keep_alive) = wish.keep_alive {
            guard.keep_from_the_beginning(wish.term, keep_alive);
        }
        // The last look at the clock. A guard that is dropped gives everything back.
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

    /// Waits until no other thread of this manager has the lock or asks for it.
    fn line_up(&self, wish: &Wish, call: &mut Call<'_>) -> Result<Entered, Error> {
        let (cluster, queue) = (self.cluster(), &self.shared.queue);
        if let Some(turn) = queue.step_in(&wish.resource) {
            return Ok(Entered::First(turn));
        }
        cluster.stats.queued.count();
        let validity = wish.term.validity;
        let (turn, guard) = match queue.enter(&wish.resource, validity, wish.end, &cluster.clock) {
            Ok(entered) => entered,
            Err(refusal) => {
                let error = self.refused(&wish.resource, refusal);
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
            // It has taken its time to come here. The guard gives the lock back.
            return Ok(Entered::First(turn));
        }
        cluster.stats.handed_over.count();
        call.acquired(&guard);
        Ok(Entered::Holder(guard.with_turn(Some(turn))))
    }

    /// Why a thread that has waited for others gets no lock.
    fn refused(&self, resource: &Arc<str>, refusal: Refusal<LockGuard>) -> Error {
        if let (None, Some(error)) = (refusal.lock, refusal.met) {
            return error;
        }
        // Nobody had to be asked.
        let unasked = |node: &Node| node.unasked(Vote::NotAsked).report;
        let nodes: Vec<NodeReport> = self.cluster().each().map(unasked).collect();
        Error::Held {
            resource: Arc::clone(resource),
            waited: Duration::ZERO,
            nodes,
        }
    }
}

/// The threads of a manager wait on its clock.
impl Time<LockGuard> for Clock {
    fn now(&self) -> Timestamp {
        Self::now(self)
    }

    fn pause(
        &self,
        called: &Condvar,
        lines: &mut MutexGuard<'_, Lines<LockGuard>>,
        until: Timestamp,
    ) {
        self.nap(called, lines, until);
    }
}

/// Whether nodes would have granted another fencing token: a larger one, or that of this machine's clock, which the last
/// one was ahead of.
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
