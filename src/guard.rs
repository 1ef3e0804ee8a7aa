//! The guard: a lease that is given back when it goes out of scope.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::Timestamp;
use crate::error::{Error, LossCause, NodeReport, Vote};
use crate::fencing::FencingToken;
use crate::manager::LockManager;
use crate::node::Ballot;
use crate::node::ask_all::{Ask, ask_all};
use crate::node::command::{Command, Packed};
use crate::node::fenced::Fence;
use crate::quorum;
use crate::token::Token;

/// A held lock. Dropping it gives the lock back on every node.
///
/// The lock is a lease: it is ours until its validity ends, see [`remaining`](Self::remaining), and after that someone
/// else may hold it whether or not the guard is still there. Look with [`check`](Self::check) before each step that
/// needs the lock, and [`extend`](Self::extend) it in time.
///
/// A guard can be sent to another thread, shared between threads, and dropped anywhere. In a forked child it does
/// nothing: the lock belongs to the parent.
///
/// # Drop
///
/// The release goes to all nodes in one round trip. Its errors are ignored: a node that can't be reached keeps the key
/// until its time to live ends, as the algorithm intends. It takes at most one node timeout for all nodes together, one
/// more for each that has to be connected to anew, and one and a half for each whose pooled connections are all in use. Call
/// [`unlock`](Self::unlock) to be told.
#[must_use = "a lock that is not bound to a variable is given back at once"]
pub struct LockGuard {
    manager: LockManager,
    resource: String,
    token: Token,
    fencing: Option<FencingToken>,
    /// The packed release.
    release: Packed,
    /// Where a key of this lock may be, in the order of the nodes.
    owed: Vec<bool>,
    votes: Vec<NodeReport>,
    /// When the validity ends on the manager's clock, in nanoseconds; zero once the lock is known to be lost.
    deadline: AtomicU64,
    /// One extension at a time, so that a loss that one found is not undone by another.
    extending: Mutex<()>,
    loss: Mutex<Option<Error>>,
}

impl LockGuard {
    pub(crate) fn new(
        manager: &LockManager,
        resource: &str,
        (token, fencing): (Token, Option<FencingToken>),
        release: Packed,
        ballots: Vec<Ballot>,
        deadline: Timestamp,
    ) -> Self {
        let owed = ballots.iter().map(|ballot| ballot.owed).collect();
        Self {
            manager: manager.clone(),
            resource: resource.to_owned(),
            token,
            fencing,
            release,
            owed,
            votes: ballots.into_iter().map(|ballot| ballot.report).collect(),
            deadline: AtomicU64::new(deadline.as_nanos()),
            extending: Mutex::new(()),
            loss: Mutex::new(None),
        }
    }

    /// Returns the name of the locked resource, without the manager's key prefix.
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// Returns the value of the key on the nodes: 40 hexadecimal characters that no other acquisition ever has.
    pub fn token(&self) -> &str {
        self.token.as_str()
    }

    /// Returns the fencing token, or none with [`Protocol::Classic`](crate::Protocol::Classic).
    ///
    /// It is larger than that of every guard of this resource before. The locked resource should refuse what comes with
    /// a smaller one than it has seen; see [`FencingToken`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::{LockManager, Protocol};
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// let manager = LockManager::builder().fakes(&nodes).protocol(Protocol::Fenced).build()?;
    /// manager.open_nodes()?;
    /// let guard = manager.lock("invoices", Duration::from_secs(10))?;
    /// println!("write with {:?}", guard.fencing_token());
    /// # assert!(guard.fencing_token().is_some());
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.fencing
    }

    /// Returns how long the lock is still ours, or zero when it no longer is.
    ///
    /// This is the time to live less the drift, counted from before the first command was sent, on a clock that goes on
    /// while the machine is suspended. It asks no server: a lock that was lost because nodes forgot it is found out by
    /// [`extend`](Self::extend).
    pub fn remaining(&self) -> Duration {
        self.deadline().saturating_since(self.manager.clock().now())
    }

    /// Checks, without asking a server, that the lock is still ours.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] when the validity has ended, or when an extension found that the lock was lost.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// let guard = manager.lock("invoices", Duration::from_secs(10))?;
    /// for invoice in 1..=3 {
    ///     guard.check()?;
    ///     println!("sending invoice {invoice}");
    /// }
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn check(&self) -> Result<(), Error> {
        if !self.remaining().is_zero() {
            return Ok(());
        }
        Err(self.loss.lock().clone().unwrap_or(Error::Lost {
            cause: LossCause::Expired,
            nodes: Vec::new(),
        }))
    }

    /// Returns what each node said when the lock was acquired, in the canonical order.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::Vote;
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    ///
    /// let guard = manager.lock("invoices", Duration::from_secs(10))?;
    /// assert!(guard.votes().iter().all(|report| matches!(report.vote, Vote::Granted)));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn votes(&self) -> &[NodeReport] {
        &self.votes
    }

    /// Gives the lock a validity of `ttl` from now, less the drift.
    ///
    /// All nodes are asked at once. A lease is never shortened: with a `ttl` below what is left, nothing changes. An
    /// extension that fails deletes nothing, and unless it fails as `Lost` the lock stays ours for as long as it was.
    ///
    /// # Errors
    ///
    /// - [`Error::Lost`] when the validity ended before or meanwhile, or when a majority no longer has our key.
    /// - [`Error::Unavailable`] when too few nodes answered to tell.
    /// - [`Error::TooSlow`] when a majority did extend, but the new validity was used up by then.
    /// - [`Error::InvalidTtl`] as for [`LockManager::lock`], and [`Error::Forked`] in a forked child.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// let guard = manager.lock("invoices", Duration::from_secs(10))?;
    /// guard.extend(Duration::from_secs(60))?;
    /// assert!(guard.remaining() > Duration::from_secs(50));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn extend(&self, ttl: Duration) -> Result<(), Error> {
        if self.manager.is_forked() {
            return Err(Error::Forked);
        }
        let (ttl, validity) = self.manager.validity(ttl)?;
        let key = self.manager.key(&self.resource);
        let fence = self.manager.rules().zip(self.fencing);
        let command = Command {
            key: &key,
            token: self.token(),
            fence: fence.map(|(rules, token)| Fence { rules, token }),
        }
        .extend(ttl);

        let _turn = self.extending.lock();
        self.check()?;
        let started = self.manager.clock().now();
        let nodes = self.ask_all(Ask::Extend, &command);
        let now = self.manager.clock().now();
        if now >= self.deadline() {
            // The keys may be there, but in between they may not have been.
            return Err(self.lose(LossCause::Expired, nodes));
        }
        let granted = nodes
            .iter()
            .filter(|report| report.vote.is_granted())
            .count();
        if quorum::is_reached(nodes.len(), granted) {
            let deadline = started.saturating_add(validity);
            if deadline <= now {
                let elapsed = now.saturating_since(started);
                return Err(Error::TooSlow { elapsed, nodes });
            }
            self.deadline
                .fetch_max(deadline.as_nanos(), Ordering::AcqRel);
            return Ok(());
        }
        if is_gone(&nodes) {
            return Err(self.lose(cause(&nodes), nodes));
        }
        Err(Error::Unavailable { nodes })
    }

    /// Gives the lock back and tells how that went.
    ///
    /// # Errors
    ///
    /// - [`Error::Lost`] when a majority no longer has our key: the lock was not ours up to now.
    /// - [`Error::Unavailable`] when too few nodes answered to tell. The keys that are left expire by themselves.
    /// - [`Error::Forked`] in a forked child; the parent keeps its lock.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// let guard = manager.lock("invoices", Duration::from_secs(10))?;
    /// guard.unlock()?;
    /// assert_eq!(nodes[0].token_of("invoices"), None);
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn unlock(mut self) -> Result<(), Error> {
        if self.manager.is_forked() {
            return Err(Error::Forked);
        }
        // A loss that an extension found says more than the clock, which stands at "expired" then.
        let known = match self.check() {
            Err(Error::Lost { cause, .. }) => Some(cause),
            _ => None,
        };
        let nodes = self.give_back();
        let deleted = nodes
            .iter()
            .filter(|report| report.vote.is_granted())
            .count();
        if quorum::is_reached(nodes.len(), deleted) {
            return Ok(());
        }
        if is_gone(&nodes) {
            let cause = known.unwrap_or_else(|| cause(&nodes));
            return Err(Error::Lost { cause, nodes });
        }
        Err(Error::Unavailable { nodes })
    }

    /// Releases every node that may have our key, once.
    fn give_back(&mut self) -> Vec<NodeReport> {
        let nodes = self.ask_all(Ask::Release, &self.release);
        self.owed.clear();
        nodes
    }

    fn ask_all(&self, ask: Ask, command: &Packed) -> Vec<NodeReport> {
        let nodes = self.manager.each().zip(self.owed.iter().copied());
        ask_all(nodes, ask, command)
    }

    fn deadline(&self) -> Timestamp {
        Timestamp::from_nanos(self.deadline.load(Ordering::Acquire))
    }

    /// Notes that the lock is lost, for [`check`](Self::check) to repeat.
    fn lose(&self, cause: LossCause, nodes: Vec<NodeReport>) -> Error {
        let error = Error::Lost { cause, nodes };
        *self.loss.lock() = Some(error.clone());
        self.deadline.store(0, Ordering::Release);
        error
    }
}

/// Whether nodes that certainly don't have our key rule out a majority.
fn is_gone(nodes: &[NodeReport]) -> bool {
    let gone = nodes.iter().filter(|report| report.vote.is_gone()).count();
    quorum::is_ruled_out(nodes.len(), gone)
}

fn cause(nodes: &[NodeReport]) -> LossCause {
    let held = |vote: &Vote| matches!(vote, Vote::Held { .. });
    let missing = |vote: &Vote| matches!(vote, Vote::Missing);
    let count = |kind: fn(&Vote) -> bool| nodes.iter().filter(|r| kind(&r.vote)).count();
    if count(held) > count(missing) {
        LossCause::Taken
    } else {
        LossCause::Vanished
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if self.owed.is_empty() || self.manager.is_forked() {
            return;
        }
        // Nothing in here panics but, perhaps, the program's logger; a second panic while unwinding would abort.
        let released = catch_unwind(AssertUnwindSafe(|| self.give_back()));
        drop(released);
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard")
            .field("resource", &self.resource)
            .field("token", &self.token())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
