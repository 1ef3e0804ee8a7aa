//! The verbs for operators: the status of a lock, its release by token, the health of the nodes, the counters.

use std::time::Duration;

use super::LockManager;
use crate::error::Error;
use crate::health::Health;
use crate::protocol;
use crate::stats::Stats;
use crate::status::LockStatus;

impl LockManager {
    /// Tells who holds the lock on `resource`, and for how long, without changing anything.
    ///
    /// It is for people and for monitoring. To take the lock, call [`try_lock`](Self::try_lock): the status may be out
    /// of date as soon as it is returned.
    ///
    /// Every node is asked for the value of the key and the time to live it has left, by a script that only reads: no
    /// key is set, no time to live changes, and no holder or contender is delayed or refused. All nodes are asked
    /// before any reply is read, so it takes one round trip. A node that does not answer costs one node timeout, and
    /// a [`connect_timeout`](crate::Builder::connect_timeout) where it needs a new connection. Nodes that failed a moment ago are left out
    /// ([`NodeError::BreakerOpen`](crate::NodeError::BreakerOpen)) if the others are enough to tell who holds the lock
    /// or that it is free. Otherwise they are asked in a second round.
    ///
    /// What readers share ([`rw_lock`](Self::rw_lock)) is [`LockStatus::Read`]: nodes tell how many readers they have. A lock
    /// on several resources is an ordinary lock on each of them, so ask for each.
    ///
    /// A key that never expires, or that holds another type, is no lock and counts for no holder. [`lock`](Self::lock)
    /// can't get a vote where there is such a key. If it is a lock that lost its time to live, the vote says so.
    ///
    /// # Errors
    ///
    /// A node that fails is no error, but has a [`Vote`](crate::Vote) that says so; if too many fail, the status is
    /// [`LockStatus::Unknown`]. Without asking any node: [`Error::Invalid`] for a name that can't be
    /// locked, [`Error::Forked`] in a forked child.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::LockStatus;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
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
        protocol::look::status(self.cluster()?, resource)
    }

    /// Releases the lock on `resource` that has this token, for an operator who knows that its holder no longer runs.
    ///
    /// [`LockManager::status`] tells the token, and this method takes it as shown there, with the escapes of
    /// [`Vote`](crate::Vote) for values of other programs. If the holder has a [label](crate::Builder::holder), the value of
    /// the key is longer than the token. Then the token stands for the whole value, which the nodes are asked for first, in
    /// one round trip more. The whole value is taken as well. A holder that still runs believes that it has the lock until
    /// it extends it or its validity ends. So call this only for a holder that certainly no longer runs. A key with
    /// another token is left alone. If the holder is a guard of this manager, its other threads go on waiting for that
    /// guard. A permit of a [semaphore](Self::semaphore) is released by [`release_slot`](Self::release_slot). Use the
    /// [`Protocol`](crate::Protocol) of the holder: after a release by a classic manager, a fenced
    /// holder that still runs sets its key again.
    ///
    /// The token of a [reader](Self::rw_lock) takes away that reader; the others read on. Nodes tell how many readers there are,
    /// and not their tokens. So the token comes from the reader: from its [`token`](crate::LockGuard::token), or from
    /// `REDLATCH_TOKEN` of the command. Each node goes through its readers, which takes it some 10 ms for 10,000 of them.
    ///
    /// Of a lock on [several resources](Self::request_all), it releases `resource` and leaves the others as they are, because each
    /// is an ordinary lock: call it for each of them. The next extension of the holder finds that the whole lock is lost.
    ///
    /// # Errors
    ///
    /// - [`Error::Lost`] when a majority of the nodes does not have this token: there was no such lock, or it has ended.
    /// - [`Error::Unconfirmed`] when too few nodes answered to tell.
    /// - [`Error::NotALock`] when something else is under the key.
    /// - [`Error::Invalid`] for a `token` that shows no value, or only the beginning of one, and for a name that can't be
    ///   locked; [`Error::Forked`] in a forked child.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::{Error, LockStatus};
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// # let _left = manager.lock("invoices", Duration::from_secs(10))?.into_lease();
    /// if let LockStatus::Held { token, .. } = manager.status("invoices")? {
    ///     println!("its holder is gone for good");
    ///     manager.release("invoices", &token)?;
    /// }
    /// # assert!(matches!(manager.status("invoices")?, LockStatus::Free { .. }));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn release(&self, resource: &str, token: &str) -> Result<(), Error> {
        let cluster = self.cluster()?;
        protocol::release::release_by_token(cluster, resource, None, token)
    }

    /// Waits until every node has answered the releases of this manager and its guards, for `timeout` at most. Returns at once if
    /// all have answered.
    ///
    /// A release that a node has not answered is repeated in the background: for up to 1 h, as long as a clone of the manager or a
    /// guard lives, and for 8,192 locks and 8 MiB of commands of each node. The same is done for attempts that failed. So call this
    /// before the program ends: a key that is left blocks its node for the lock until its time to live ends.
    ///
    /// Releases of locks that [rest](crate::LockRequest::at_least) beyond the timeout are not waited for. The error names them,
    /// too.
    ///
    /// # Errors
    ///
    /// [`Error::Unanswered`] with the nodes that have not answered, and the resources. Another call goes on waiting.
    /// [`Error::Forked`] in a forked child.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// drop(manager.lock("invoices", Duration::from_secs(10))?);
    /// if let Err(error) = manager.flush(Duration::from_secs(2)) {
    ///     eprintln!("{error}");
    /// }
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn flush(&self, timeout: Duration) -> Result<(), Error> {
        protocol::flush::flush(self.cluster()?, timeout)
    }

    /// Examines every node, and tells what is wrong with it and what to do.
    ///
    /// It is for people and for monitoring: print it, or branch on [`Health::severity`] and [`Health::margin`].
    ///
    /// Every node is asked for `INFO` (the sections server, replication, memory and persistence), `TIME`, and the value
    /// of the key `<key_prefix>redlatch:node`. What the user's ACL forbids to read is unknown, and reported by a
    /// [`Finding`](crate::Finding) with the code `hidden`; everything else is examined.
    ///
    /// Then a lock is taken on all nodes that may vote, extended and given back, by the commands of any other lock. So a node
    /// is found that answers and gives no lock, because its memory is full, its disk fails, its writes are paused or the
    /// user may not use a command. If that succeeds, a read lock is tried in the same way. The key is `<key_prefix>:redlatch:try:`
    /// and a random text. No lock has such a name, and nobody waits for it. The key is deleted at once, or ends after a second if
    /// it can't be deleted. With [`Protocol::Fenced`](crate::Protocol::Fenced), a report begins the quarantine of a node that may
    /// have forgotten locks, if other nodes are in use with the same settings; and where the lock can't be given back, its counter
    /// stays for a day. Nothing else is changed on any node.
    ///
    /// Each question goes to all nodes before any reply is read, so a report takes 13 round trips. Nodes that failed a moment ago,
    /// which [`lock`](Self::lock) leaves out, are asked as well. A node that does not answer is asked nothing more. Such a node
    /// costs a second, because a slow node has to show how long an answer takes, or a longer
    /// [`node_timeout`](crate::Builder::node_timeout). A node that hung a moment ago costs a node timeout. Add a
    /// [`connect_timeout`](crate::Builder::connect_timeout) for a new connection, and the same once more if the old connection was
    /// idle. A node that takes longer than `node_timeout` to answer has the finding `slow`, and can't vote. As with any other
    /// command, a node that answers a request for a lock is no longer left out, and a node that is silent is left out from then on.
    ///
    /// # Errors
    ///
    /// Problems of the nodes are no error: each is a [`Finding`](crate::Finding). [`Error::Forked`] in a forked child,
    /// without asking any node. [`Error::NoRandomness`] if there is no random name for the lock that is tried.
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
        protocol::examine::examine(self.cluster()?)
    }

    /// Opens the nodes of a brand-new deployment of [`Protocol::Fenced`](crate::Protocol::Fenced), so that they vote at
    /// once.
    ///
    /// A node without a marker may have forgotten locks, so it abstains for `max_ttl` and the drift. Only its operator
    /// knows that it is new. Call this once, before any client uses the nodes; or don't call it, and wait.
    ///
    /// It is refused, and changes nothing, unless every node answers and is fresh: it has no marker, or abstains
    /// because it had none. A node that serves fenced clients is not fresh, and neither is a node that was restarted and
    /// still has its keys. If a node fails while it is being opened, the nodes opened before it are closed again.
    ///
    /// Nodes that have lost all data look fresh. Don't call it after they were flushed, or restarted without
    /// persistence: earlier locks may still be valid. Waiting is always safe.
    ///
    /// # Errors
    ///
    /// - [`Error::NotOpened`], with what each node said: it was not reached, serves fenced clients or did before
    ///   ([`NodeError::Serving`](crate::NodeError::Serving)), or was set up by clients with other settings.
    /// - [`Error::Invalid`] with [`Protocol::Classic`](crate::Protocol::Classic), which has nothing to open, and
    ///   [`Error::Forked`] in a forked child.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::{Error, LockManager, Protocol};
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// let manager = LockManager::builder().fakes(&nodes).protocol(Protocol::Fenced).build()?;
    ///
    /// let ttl = Duration::from_secs(10);
    /// assert!(matches!(manager.try_lock("invoices", ttl), Err(Error::Unavailable { .. })));
    /// manager.open_nodes()?;
    /// let guard = manager.try_lock("invoices", ttl)?;
    ///
    /// // Never again: now they know of locks.
    /// assert!(matches!(manager.open_nodes(), Err(Error::NotOpened { .. })));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn open_nodes(&self) -> Result<(), Error> {
        protocol::open::open(self.cluster()?)
    }

    /// Returns what this manager and its clones have done up to now, and how long their calls for locks took.
    ///
    /// It asks no server and does not block. Counting is always on: a counter takes 3 ns and a wait time 13 ns, and a
    /// manager takes 27 kB more from its first lock on. In a forked child it returns what the parent had counted before
    /// the fork, without the wait times.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let guard = manager.lock("invoices", Duration::from_secs(10))?;
    /// assert!(manager.try_lock("invoices", Duration::from_secs(10)).is_err());
    ///
    /// let stats = manager.stats();
    /// println!("{stats}");
    /// println!("99 % of all locks within {:?}", stats.wait_quantile(0.99));
    /// assert_eq!((stats.acquired, stats.failed_held, stats.held()), (1, 1, 1));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn stats(&self) -> Stats {
        let cluster = self.shared.cluster();
        let waits = if cluster.is_forked() {
            // A thread of the parent may have held their mutex at the fork, and nobody unlocks it in the child.
            None
        } else {
            self.shared.held.note_ends(cluster.clock.now_for_records());
            cluster.stats.waits.snapshot()
        };
        let nodes = cluster
            .nodes()
            .iter()
            .map(|node| node.stats.snapshot(node.name().clone()));
        cluster.stats.snapshot(nodes.collect(), waits)
    }
}
