//! Fake nodes in place of servers.

use super::Builder;
use super::given_node::GivenNode;
use crate::clock::Clock;
use crate::error::Error;
use crate::fake::{FakeClock, FakeNode};

impl Builder {
    /// Adds a fake node, for tests.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::{LockManager, fake::FakeNode};
    /// let (first, second) = (FakeNode::new(), FakeNode::new());
    /// let manager = LockManager::builder().fake(&first).fake(&second).build()?;
    /// assert_eq!(manager.lock("invoices", Duration::from_secs(10))?.votes().len(), 2);
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn fake(mut self, node: &FakeNode) -> Self {
        self.nodes.push(Ok(GivenNode::Fake(node.clone())));
        self
    }

    /// Adds fake nodes, for tests.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::{LockManager, fake::FakeNode};
    /// let nodes = FakeNode::cluster(3);
    /// let manager = LockManager::builder().fakes(&nodes).build()?;
    /// assert_eq!(manager.lock("invoices", Duration::from_secs(10))?.votes().len(), 3);
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn fakes(mut self, nodes: &[FakeNode]) -> Self {
        let nodes = nodes.iter().cloned().map(GivenNode::Fake);
        self.nodes.extend(nodes.map(Ok));
        self
    }
}

pub(super) fn common_clock<'n>(nodes: impl Iterator<Item = &'n GivenNode>) -> Result<Clock, Error> {
    let mut clocks = nodes.map(|node| match node {
        GivenNode::Server(_) => None,
        GivenNode::Fake(node) => node.fake_clock(),
    });
    let first = clocks.next().flatten();
    let same = |other: Option<&FakeClock>| match first.zip(other) {
        Some((a, b)) => a.is_same(b),
        None => first.is_none() && other.is_none(),
    };
    if !clocks.all(same) {
        let reason = "the nodes are on different clocks; make all of them with FakeNode::cluster_on and one FakeClock";
        return Err(Error::invalid("nodes", reason));
    }
    Ok(first.cloned().map_or_else(Clock::system, Clock::from))
}
