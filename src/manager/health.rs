//! Looking at the servers, and at nobody's lock.

use super::LockManager;
use crate::error::Error;
use crate::fencing::MARKER;
use crate::health::Health;
use crate::node::health::question_all;

impl LockManager {
    /// Looks at every node, and tells what is wrong with it and what to do.
    ///
    /// It is for people and for monitoring: print it, or branch on [`Health::severity`] and [`Health::margin`].
    ///
    /// Every node is asked for `INFO` (the sections server, replication, memory and persistence), `TIME`, and the value
    /// of the key `<key_prefix>redlatch:node`. Nothing is changed on any node, and no lock is read. What the user's ACL
    /// forbids is unknown, and a [`Finding`](crate::Finding) with the code `hidden`; it stands in the way of nothing else.
    ///
    /// Each question goes to all nodes before any reply is read, also to nodes that failed a moment ago and that
    /// [`lock`](Self::lock) leaves out, so it takes six round trips. A node that does not answer is asked nothing more:
    /// it costs one node timeout, and one more where its connection can't be made. At worst, where nodes answer just in
    /// time, each question takes a node timeout. A node that answers is no longer left out, and one that is silent is, as
    /// with any other command.
    ///
    /// # Errors
    ///
    /// Whatever is wrong with the nodes is no error but a [`Finding`](crate::Finding) each. [`Error::Forked`] in a forked
    /// child, without asking any.
    ///
    /// ```
    /// use redlatch::Severity;
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    ///
    /// let health = manager.health()?;
    /// assert_eq!(health.severity, Severity::Ok, "{health}");
    ///
    /// nodes[0].refuse();
    /// let health = manager.health()?;
    /// println!("{health}");
    /// assert_eq!(health.severity, Severity::Warning);
    /// assert_eq!(health.margin, 0, "the next failure is an outage");
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn health(&self) -> Result<Health, Error> {
        if self.is_forked() {
            return Err(Error::Forked);
        }
        let nodes = question_all(&self.each(), &self.key(MARKER));
        Ok(Health::of(nodes, self.rules()))
    }
}
