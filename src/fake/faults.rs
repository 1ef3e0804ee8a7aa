//! How a fake node fails, and comes back.

use std::time::Duration;

use super::store::Store;
use super::{FakeNode, Fault};

impl FakeNode {
    /// Closes all connections and refuses new ones, as a dead process does. The keys stay for a restart or recovery.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::{NodeError, Vote};
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// nodes[0].refuse();
    /// let guard = manager.lock("report", Duration::from_secs(10))?;
    /// assert!(matches!(guard.votes()[0].vote, Vote::Failed(NodeError::Connect { .. })));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn refuse(&self) {
        self.disconnect(Fault::Refuse, |_, _| ());
    }

    /// Stops answering, as a stopped process does: connections are accepted, and what is sent on them is executed when
    /// the node [recovers](Self::recover).
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::{NodeError, Vote};
    /// # let clock = redlatch::fake::FakeClock::new();
    /// # let nodes = redlatch::fake::FakeNode::cluster_on(3, &clock);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// nodes[0].hang();
    /// let guard = manager.lock("report", Duration::from_secs(10))?;
    /// assert!(matches!(guard.votes()[0].vote, Vote::Failed(NodeError::TimedOut { .. })));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn hang(&self) {
        self.server.state.lock().fault = Fault::Hang;
    }

    /// Executes commands at once, and lets each reply arrive after `span`.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let clock = redlatch::fake::FakeClock::new();
    /// # let nodes = redlatch::fake::FakeNode::cluster_on(3, &clock);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// let span = Duration::from_millis(20);
    /// nodes[0].delay(span);
    /// let guard = manager.lock("report", Duration::from_secs(10))?;
    /// assert!(guard.votes()[0].elapsed >= span);
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn delay(&self, span: Duration) {
        self.go_on(Fault::Delay(span));
    }

    /// Executes commands, and loses the replies.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlatch::{LockManager, NodeError, Vote};
    /// # use redlatch::fake::{FakeClock, FakeNode};
    /// # let nodes = FakeNode::cluster_on(3, &FakeClock::new());
    /// # let manager = LockManager::builder().fakes(&nodes).build()?;
    /// nodes[0].lose_replies();
    /// let guard = manager.lock("report", Duration::from_secs(10))?;
    /// assert!(matches!(guard.votes()[0].vote, Vote::Failed(NodeError::TimedOut { .. })));
    /// // Nobody can tell whether the command was executed, so an undo was sent behind it.
    /// assert_eq!(nodes[0].token_of("report"), None);
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn lose_replies(&self) {
        self.go_on(Fault::LoseReplies);
    }

    /// Ends the present fault. Commands that arrived while the node hung are executed now, in their order.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let clock = redlatch::fake::FakeClock::new();
    /// # let nodes = redlatch::fake::FakeNode::cluster_on(3, &clock);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// let ttl = Duration::from_secs(10);
    /// nodes[0].refuse();
    /// nodes[1].refuse();
    /// assert!(manager.try_lock("report", ttl).is_err());
    /// nodes[0].recover();
    /// // The manager tries it again in the background.
    /// clock.advance(Duration::from_secs(1));
    /// assert!(manager.try_lock("report", ttl).is_ok());
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn recover(&self) {
        self.go_on(Fault::None);
    }

    /// Changes the fault. Commands are executed in the order in which they arrived, so the backlog comes first.
    fn go_on(&self, fault: Fault) {
        let mut state = self.server.state.lock();
        state.fault = fault;
        while let Some((connection, command)) = state.backlog.pop_front() {
            self.execute(&mut state, connection, &command);
        }
        self.server.changed.notify_all();
    }

    /// Restarts the node without persistence: all keys and connections are gone, and no fault is left.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// let guard = manager.lock("report", Duration::from_secs(10))?;
    /// nodes[0].restart();
    /// assert_eq!(nodes[0].token_of("report"), None);
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn restart(&self) {
        self.disconnect(Fault::None, |store, now| {
            store.forget();
            store.restart(now);
        });
    }

    /// Deletes all keys, as `FLUSHALL` does; connections stay.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// let guard = manager.lock("report", Duration::from_secs(10))?;
    /// nodes[0].flush();
    /// assert_eq!(nodes[0].token_of("report"), None);
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn flush(&self) {
        self.with_store(|store, _| store.forget());
    }

    /// Restarts the node with every key persisted: the connections are gone, and no fault is left.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// let guard = manager.lock("report", Duration::from_secs(10))?;
    /// nodes[0].restart_persisted();
    /// assert_eq!(nodes[0].token_of("report").as_deref(), Some(guard.token()));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn restart_persisted(&self) {
        self.disconnect(Fault::None, Store::restart);
    }

    /// Ends all connections, and changes the fault and the keys.
    fn disconnect(&self, fault: Fault, change: impl FnOnce(&mut Store, Duration)) {
        let mut state = self.server.state.lock();
        let now = self.time(&state);
        change(&mut state.store, now);
        state.fault = fault;
        state.connections.clear();
        state.store.leave_all();
        state.backlog.clear();
        self.server.changed.notify_all();
    }

    /// Makes the node's own clock jump ahead by `span`, so that its keys expire too early.
    ///
    /// This is a fault that the algorithm does not survive. To let time pass, call [`FakeClock::advance`](super::FakeClock::advance).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// # let another = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// let ttl = Duration::from_secs(10);
    /// let first = manager.lock("report", ttl)?;
    /// nodes[0].advance(ttl);
    /// nodes[1].advance(ttl);
    /// // So there are two holders.
    /// let second = another.try_lock("report", ttl)?;
    /// assert!(first.check().is_ok() && second.check().is_ok());
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn advance(&self, span: Duration) {
        let mut state = self.server.state.lock();
        state.ahead = state.ahead.saturating_add(span);
    }
}
