//! `LockGuard`: a held lock, which is released when the guard is dropped; and what a manager shares with its guards.
//!
//! `end` is the release, the pass to the next thread and the lease; `extend` the extension and keep-alive; `losses` and
//! `wanted` tell the program what happens to the lock, and `identity` which lock it is.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

mod end;
mod extend;
mod identity;
mod losses;
mod wanted;

use crate::clock::Timestamp;
use crate::cluster::Cluster;
use crate::contend::courtesy::Courtesy;
use crate::contend::held::Held;
use crate::contend::queue::{Queue, Turn};
use crate::error::{Error, NodeReport};
use crate::lease::state::LeaseState;
use crate::lease::votes::Votes;
use crate::protocol::Won;
use crate::renewal::Keeper;
use crate::token::Hint;

/// How often a lock is passed on from thread to thread before it is released once, so that clients which only poll can get it.
const MOST_PASSES: u32 = 15;

/// A held lock. Dropping it releases the lock on every node.
///
/// The lock is a lease: it is valid until its validity ends, see [`remaining`](Self::remaining). After that another
/// holder may have it, even while the guard still exists. Call [`check`](Self::check) before each step that needs the
/// lock, and [`extend`](Self::extend) it in time.
///
/// A guard can be sent to another thread, shared between threads, and dropped anywhere. In a forked child it does
/// nothing: the lock belongs to the parent.
///
/// # Drop
///
/// A lock that was taken [for a time at least](crate::LockRequest::at_least) rests until that time is over, unless the thread
/// panics or the lock is lost. The release goes to all nodes in one round trip, and asks for the lock for the thread of the same
/// manager that has waited longest for it. Errors are ignored: a node that does not answer is told again in the background, for an hour
/// at most and while a manager or a guard lives. Until then, or until its time to live ends, its key stays. The release takes
/// at most one node timeout for all nodes together, and one more if no majority has answered on connections of earlier commands.
/// Add a [`connect_timeout`](crate::Builder::connect_timeout) for each node that needs a new connection, or a node timeout if that
/// node hung a moment ago; and one and a half node timeouts for each node whose pooled connections are all in use. Call
/// [`unlock`](Self::unlock) to see the errors.
///
/// # `let _ =` gives the lock back at once
///
/// A name, such as `_guard`, keeps the guard to the end of its block; `_` alone keeps nothing. The compiler does not say so
/// unless it is asked: write `#![warn(let_underscore_drop)]` at the head of the program, or let Clippy check it with
/// `clippy::let_underscore_must_use`. Neither finds a guard that ends within its statement, as in `manager.lock(…).ok();`.
///
/// ```
/// # use std::time::Duration;
/// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
/// let ttl = Duration::from_secs(10);
/// let _ = manager.lock("invoices", ttl)?; // Nobody has the lock after this line.
/// let _guard = manager.try_lock("invoices", ttl)?;
/// assert!(manager.try_lock("invoices", ttl).is_err());
/// # Ok::<(), redlatch::Error>(())
/// ```
#[must_use = "without a variable the lock is given back at once, with `let _ =` too: write `let _guard =`"]
pub struct LockGuard {
    shared: Arc<Shared>,
    pub(crate) lease: Arc<LeaseState>,
    pub(crate) votes: Votes,
    /// Whether the guard still has to release the lock.
    must_release: bool,
    /// How often the lock may still be passed on before it is released once, so that clients which only poll can get it.
    passes: u32,
    /// Until when the lock has to rest if it is given back before, if it has a minimum.
    pub(crate) rests_until: Option<Timestamp>,
    /// Keep the other threads of this manager waiting until they are dropped, after the release.
    turns: Turns,
}

/// The turns of a call or of a guard in the queue: one for each resource, in their order. An adopted lock lacks those that other
/// threads have, and readers and permits keep none.
///
/// Threads wait for several resources in the order of the names, so two of them never wait for each other. A thread has its turn
/// for the first ones while it waits for the next one, so nobody comes before it there.
pub(crate) type Turns = SmallVec<[Turn<Received>; 1]>;

impl LockGuard {
    pub(crate) fn new(shared: &Arc<Shared>, won: Won) -> Self {
        let lease = Arc::new(won.lease);
        shared.held.add(&lease);
        Self {
            shared: Arc::clone(shared),
            lease,
            votes: won.votes,
            must_release: true,
            passes: MOST_PASSES,
            rests_until: None,
            turns: Turns::new(),
        }
    }

    pub(crate) fn keep_turns(&mut self, turns: Turns) {
        for turn in &turns {
            turn.got(Arc::clone(&self.lease));
        }
        self.turns = turns;
    }

    /// Returns how long the lock is still valid, or zero when it no longer is.
    ///
    /// This is the time to live less the drift and the [margin](crate::KeepAlive::margin) of a keep-alive, counted from before
    /// the first command was sent, on a clock that goes on while the machine is suspended. This method asks no server. Only
    /// [`extend`](Self::extend) notices that nodes forgot the lock.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let clock = redlatch::fake::FakeClock::new();
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster_on(3, &clock)).build()?;
    /// let guard = manager.lock("invoices", Duration::from_secs(10))?;
    /// // Less 1 % and 2 ms for the drift.
    /// assert!(guard.remaining() <= Duration::from_millis(9_898));
    /// clock.advance(Duration::from_secs(10));
    /// assert!(guard.remaining().is_zero());
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn remaining(&self) -> Duration {
        self.lease.remaining()
    }

    /// Checks, without asking a server, that the lock is still held.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] when the validity, less the [margin](crate::KeepAlive::margin) of a keep-alive, has ended, or when an extension
    /// found that the lock was lost.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let guard = manager.lock("invoices", Duration::from_secs(10))?;
    /// for invoice in 1..=3 {
    ///     guard.check()?;
    ///     println!("sending invoice {invoice}");
    /// }
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn check(&self) -> Result<(), Error> {
        self.lease.check()
    }

    /// Returns what each node said when the lock was acquired, in the canonical order. The list is made at each call.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::Vote;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    ///
    /// let guard = manager.lock("invoices", Duration::from_secs(10))?;
    /// assert!(guard.votes().iter().all(|report| matches!(report.vote, Vote::Granted)));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn votes(&self) -> Vec<NodeReport> {
        let names = self.shared.cluster().nodes().iter().map(|node| node.name());
        self.votes.reports(names)
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard")
            .field("resource", &self.resource())
            .field("token", &Hint(self.token()))
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}

/// What a manager and its guards share. It is dropped with the last clone of the manager or the last guard, whichever is later.
pub(crate) struct Shared {
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) queue: Arc<Queue<Received>>,
    pub(crate) held: Held,
    pub(crate) courtesy: Courtesy,
}

impl Shared {
    pub(crate) fn new(cluster: Cluster) -> Arc<Self> {
        Arc::new(Self {
            keeper: Keeper::new(cluster),
            queue: Queue::new(),
            held: Held::default(),
            courtesy: Courtesy::default(),
        })
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        &self.keeper.cluster
    }

    /// Ends what is done for a lock as long as its guard has it.
    fn forget(&self, lease: &LeaseState) {
        self.keeper.forget(lease);
        self.held.remove(lease);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Only a probe or a renewal can still be waiting, and nobody needs it any more.
        self.cluster().clock.end();
    }
}

/// What a thread gets from the thread before it.
pub(crate) enum Received {
    /// The result of its first attempt, which rode with the release.
    Passed(Result<LockGuard, Error>),
    /// Nothing: its first attempt was called off, because the release has woken another client.
    CalledOff,
    /// Nothing: it is a reader, and one before it in the line has got the lock.
    GoAhead,
}
