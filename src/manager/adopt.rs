//! Taking a lock over from another holder.

use std::sync::Arc;
use std::time::Duration;

use super::LockManager;
use crate::clock::Timestamp;
use crate::error::{Error, LossCause, NodeReport, Vote};
use crate::fencing::Rules;
use crate::guard::LockGuard;
use crate::guard::held::Held;
use crate::lease::Lease;
use crate::node::command;
use crate::node::inspect::{inspect_all, inspect_with_counter};
use crate::status::{NodeStatus, View};
use crate::verdict;

impl LockManager {
    /// Takes over the lock of a [`Lease`] that another guard was made into, here or on another machine.
    ///
    /// The nodes are asked whether they still have its token, and for how long, by a script that only reads. The guard is
    /// valid for as long as a majority of them goes on having it, less the drift; [extend](LockGuard::extend) it, or have it
    /// [kept alive](LockGuard::keep_alive). Its [`votes`](LockGuard::votes) are what the nodes said now.
    ///
    /// A lease is for one taker. Nothing tells two that adopt the same one apart, so both would hold the lock.
    ///
    /// # Errors
    ///
    /// Whatever the error, nothing is touched: a lock that is still there ends with its time to live.
    ///
    /// - [`Error::Lost`] when the lease has expired, by its own word or by the nodes', or when a majority of them does not
    ///   have its token: the lock was given back, or the lease is of other nodes, or forged.
    /// - [`Error::Unavailable`] when too few nodes answered to tell.
    /// - [`Error::InvalidLease`] when it is of another number of nodes or of the other [`Protocol`](crate::Protocol),
    ///   [`Error::InvalidResource`] for a name that can't be locked, and [`Error::Forked`] in a forked child.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::{Error, KeepAlive};
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// let lease = manager.lock("invoices", Duration::from_secs(10))?.into_lease();
    /// let text = lease.to_string();
    ///
    /// let guard = manager.adopt(lease)?;
    /// guard.keep_alive(Duration::from_secs(10), KeepAlive::unbounded())?;
    /// guard.unlock()?;
    ///
    /// assert!(matches!(manager.adopt(text.parse()?), Err(Error::Lost { .. })));
    /// # Ok::<(), Error>(())
    /// ```
    #[expect(
        clippy::needless_pass_by_value,
        reason = "who adopts a lease has no use for it any more"
    )]
    pub fn adopt(&self, lease: Lease) -> Result<LockGuard, Error> {
        if self.is_forked() {
            return Err(Error::Forked);
        }
        let key = self.checked_key(lease.resource())?;
        self.check_origin(&lease)?;
        if lease.has_expired(self.clock().wall_micros()) {
            let cause = LossCause::Expired { nodes: Vec::new() };
            return Err(Error::Lost { cause });
        }

        let started = self.clock().now();
        let asked = self.each().zip(lease.owed().iter().copied());
        let answers = asked.clone().zip(self.look_at(&key, &lease));
        let votes = answers.map(|((node, _), answer)| match answer {
            Some(status) => vote(status, lease.token()),
            // There may be a key, but what undoes it is on its way.
            None => (node.unasked(Vote::NotAsked).report, Duration::ZERO),
        });
        let drift = |ttl| self.shared.options.drift(ttl);
        let (nodes, validity) = verdict::adopt(votes.collect(), drift)?;
        self.adopted(&lease, nodes, (started, started.saturating_add(validity)))
    }

    /// What the nodes have that may have a key of the lease.
    fn look_at(&self, key: &str, lease: &Lease) -> Vec<Option<NodeStatus>> {
        let asked = self.each().zip(lease.owed().iter().copied());
        let command = command::inspect(key);
        let Some(token) = lease.fencing_token() else {
            return inspect_all(asked, &command);
        };
        let command = command.followed_by(vec![command::get(&Rules::fence(key))]);
        let answers = inspect_with_counter(asked, &command).into_iter();
        let known = |(mut status, counter): (NodeStatus, Option<u64>)| {
            // A token that this node has not granted, and that a later one need not be larger than.
            let is_forged = counter.is_none_or(|counter| counter < u64::from(token));
            if is_forged && matches!(status.view, View::Held { .. }) {
                status.view = View::Free;
            }
            status
        };
        answers.map(|answer| answer.map(known)).collect()
    }

    /// Whether the lease can be of these nodes.
    fn check_origin(&self, lease: &Lease) -> Result<(), Error> {
        let invalid = |reason: String| Err(Error::InvalidLease { reason });
        let (theirs, ours) = (lease.owed().len(), self.nodes().len());
        if theirs != ours {
            return invalid(format!(
                "it is of a deployment of {theirs} nodes, and this manager has {ours}; give all clients the same nodes"
            ));
        }
        match (lease.fencing_token(), self.rules()) {
            (Some(_), None) => invalid(
                "it was taken with Protocol::Fenced; adopt it by a manager with that".to_owned(),
            ),
            (None, Some(_)) => invalid(
                "it was taken with Protocol::Classic; adopt it by a manager with that".to_owned(),
            ),
            (Some(_), Some(_)) | (None, None) => Ok(()),
        }
    }

    fn adopted(
        &self,
        lease: &Lease,
        nodes: Vec<NodeReport>,
        (started, deadline): (Timestamp, Timestamp),
    ) -> Result<LockGuard, Error> {
        if deadline <= self.clock().now() {
            let cause = LossCause::Expired { nodes };
            return Err(Error::Lost { cause });
        }
        let times = (started, deadline);
        let owed = lease.owed().into();
        let resource: Arc<str> = lease.resource().into();
        let held = Held::new(self.clock(), &resource, lease.tokens(), owed, times);
        let guard = LockGuard::new(self, held, nodes);
        self.recorder().adopted.count();
        guard.count_in(self.recorder());
        // Where a thread asks for the lock already, it goes on with that.
        let turn = self.shared.queue.step_in(&resource);
        Ok(guard.with_turn(turn))
    }
}

/// What a node's view says of the lock with this token, and for how long the node goes on having it.
fn vote(status: NodeStatus, own: &str) -> (NodeReport, Duration) {
    let mut left = Duration::ZERO;
    let vote = match status.view {
        View::Held { token, remaining } if token == own => {
            left = remaining;
            Vote::Granted
        }
        View::Held { remaining, .. } => Vote::Held {
            remaining: Some(remaining),
        },
        View::Free => Vote::Missing,
        View::Failed(error) => Vote::Failed(error),
    };
    let report = NodeReport {
        node: status.node,
        vote,
        elapsed: status.elapsed,
        server: status.server,
    };
    (report, left)
}
