//! Looking at a lock without touching it.

use std::sync::Arc;

use super::LockManager;
use crate::error::Error;
use crate::node::Node;
use crate::node::command::{self, Packed};
use crate::node::inspect::inspect_all;
use crate::status::{LockStatus, NodeStatus};
use crate::verdict;

impl LockManager {
    /// Looks who holds the lock on `resource`, and for how long, without touching it.
    ///
    /// It is for people and for monitoring. Whoever wants the lock asks for it: between a look and what follows,
    /// everything may change, and [`try_lock`](Self::try_lock) looks as well.
    ///
    /// Every node is asked for the value of the key and the time to live it has left, by a script that only reads: no key
    /// is set, no time to live changes, and no holder or contender is delayed or refused. All nodes are asked before any
    /// reply is read, so it takes one round trip. A node that does not answer costs one node timeout, and one more where
    /// its connection can't be made. Nodes that failed a moment ago are left out
    /// ([`NodeError::BreakerOpen`](crate::NodeError::BreakerOpen)) as long as the others are enough to tell who holds the lock or that it is free, and
    /// else are asked in a second round.
    ///
    /// A key that never expires counts for nobody, whatever its value, and neither does one of another type: they are
    /// no locks, and [`lock`](Self::lock) is refused by them as well.
    ///
    /// # Errors
    ///
    /// Nodes that fail are not an error but a [`View`] each, and [`LockStatus::Unknown`] if too many do. Without asking
    /// any: [`Error::InvalidResource`] for an empty name or one beyond 64 KiB, [`Error::Forked`] in a forked child.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::LockStatus;
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    ///
    /// let guard = manager.lock("invoices", Duration::from_secs(10))?;
    /// let status = manager.status("invoices")?;
    /// println!("{status}");
    /// assert!(matches!(status, LockStatus::Held { token, .. } if token == guard.token()));
    ///
    /// guard.unlock()?;
    /// assert!(matches!(manager.status("invoices")?, LockStatus::Free { .. }));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn status(&self, resource: &str) -> Result<LockStatus, Error> {
        if self.is_forked() {
            return Err(Error::Forked);
        }
        let command = command::inspect(&self.checked_key(resource)?);
        let drift = |ttl| self.shared.options.drift(ttl);

        let status = verdict::of_views(self.look(&command), drift);
        if status.is_decided() {
            return Ok(status);
        }
        let mut nodes = status.into_nodes();
        self.look_again(&command, &mut nodes);
        Ok(verdict::of_views(nodes, drift))
    }

    /// Asks the nodes that did not fail lately, or all if these are no majority.
    fn look(&self, command: &Packed) -> Vec<NodeStatus> {
        let heed_breakers = self.heeds_breakers();
        let failure = |node: &Node| node.recent_failure().filter(|_| heed_breakers);
        // Looked up once, because a breaker may close meanwhile.
        let failures: Vec<Option<Arc<str>>> = self.each().map(failure).collect();
        let asked = failures.iter().map(Option::is_none);
        let answers = inspect_all(self.each().zip(asked), command);
        let nodes = self.each().zip(answers).zip(failures);
        nodes
            .map(|((node, answer), failure)| {
                answer.unwrap_or_else(|| node.left_out(failure.unwrap_or_default()))
            })
            .collect()
    }

    /// Asks the nodes that were left out.
    fn look_again(&self, command: &Packed, nodes: &mut [NodeStatus]) {
        let asked: Vec<bool> = nodes.iter().map(|node| node.view.is_left_out()).collect();
        let answers = inspect_all(self.each().zip(asked.iter().copied()), command);
        for (node, answer) in nodes.iter_mut().zip(answers) {
            if let Some(answer) = answer {
                *node = answer;
            }
        }
    }
}
