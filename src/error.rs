//! `Error`: why a call failed, with the vote of each node.
//!
//! `message` has its text, `held` what it tells of who has the lock, and `loss` how a lock was lost; `report` is what one node
//! said, and `reports` what all of them say together; `node` is why a node gave no vote, and `unanswered` which releases it has not
//! answered.

use std::io;
use std::sync::Arc;
use std::time::Duration;

mod held;
mod loss;
mod message;
mod node;
mod report;
mod reports;
#[cfg(test)]
mod sizes;
mod unanswered;
mod words;

pub use self::loss::LossCause;
pub use self::node::NodeError;
#[cfg(feature = "tls-rustls")]
pub(crate) use self::node::advice::ENDED_TLS;
pub(crate) use self::node::advice::{ENDED_PLAIN, TOO_MANY};
pub(crate) use self::node::silence::{CONNECT_TIMEOUT, NODE_TIMEOUT};
pub use self::report::{NodeReport, Vote};
pub(crate) use self::reports::Told;
pub use self::unanswered::UnansweredReleases;
pub(crate) use self::words::{done_by, named, read_by};
use crate::holder::Holder;

/// Why a lock was not acquired, extended or released.
///
/// Contention is [`Held`](Self::Held), the normal "no". Every other variant is a failure, a loss or a bad argument, or
/// [`Unconfirmed`](Self::Unconfirmed), which says nothing of the work. The variants that come from a round over the nodes
/// have a [`NodeReport`] for each node, which is also in their message.
///
/// ```
/// use std::time::Duration;
/// use redlatch::{Error, LockManager};
/// # let nodes = redlatch::fake::FakeNode::cluster(3);
/// # for node in &nodes[..2] { node.refuse() }
///
/// let manager = LockManager::builder().fakes(&nodes).build()?;
/// match manager.try_lock("nightly-report", Duration::from_secs(10)) {
///     Ok(guard) => println!("ours for {:?}", guard.remaining()),
///     Err(Error::Held { .. }) => println!("someone else is at it"),
///     Err(error @ Error::Unavailable { .. }) => println!("call the operator: {error}"),
///     Err(error) => return Err(error),
/// }
/// # Ok::<(), Error>(())
/// ```
///
/// A message names the resource, how long the call has taken and what each node said, so that one line in a log is
/// enough. [`source`](std::error::Error::source) returns only what the message leaves out.
/// Its `Debug` is the message as well, because a program that returns an error from `main` prints that.
#[derive(Clone)]
#[non_exhaustive]
pub enum Error {
    /// No majority is possible, because others hold the lock, or all permits of the semaphore.
    ///
    /// A [reader](crate::LockManager::rw_lock) is refused so too while other readers have the lock and a writer waits for it:
    /// nobody excludes readers yet, but the writer comes first. [`writer_waits`](Self::writer_waits) tells.
    ///
    /// If another thread of the same manager has the lock or asks for it, no node is asked: each vote is
    /// [`NotAsked`](Vote::NotAsked).
    #[non_exhaustive]
    Held {
        /// The resource that was asked for; of [several](crate::LockManager::request_all), the one that was in the way.
        resource: Arc<str>,
        /// How many permits it has, if it is a [semaphore](crate::LockManager::semaphore).
        permits: Option<u32>,
        /// How long the call has taken.
        waited: Duration,
        /// Who has the lock, if the holder says so and this call could learn it.
        holder: Option<Holder>,
        /// What each node said, in the order in which they are asked; of a semaphore, what it said of the last slot
        /// that was asked for.
        nodes: Vec<NodeReport>,
    },
    /// Failures alone rule out a majority: the lock may be free, but too few nodes can say so. Or its key lost its time to
    /// live, as by `PERSIST`: then its holder may still have it.
    #[non_exhaustive]
    Unavailable {
        /// The resource that was asked for.
        resource: Arc<str>,
        /// How long the call has taken.
        waited: Duration,
        /// What each node said, in the order in which they are asked.
        nodes: Vec<NodeReport>,
    },
    /// Something that is no lock is under the key on so many nodes that the others make no majority: a key of another program,
    /// which never expires or has another type ([`NodeError::NotALock`]). With three nodes this is two, and with four nodes two as
    /// well.
    ///
    /// The nodes are well. Choose another name or another [`key_prefix`](crate::Builder::key_prefix), or delete the key.
    #[non_exhaustive]
    NotALock {
        /// The resource that was asked for.
        resource: Arc<str>,
        /// How long the call has taken.
        waited: Duration,
        /// What each node said, in the order in which they are asked.
        nodes: Vec<NodeReport>,
    },
    /// The wait was ended by its [`Cancel`](crate::Cancel). No lock is held, and no key of the lock is left.
    ///
    /// The announcement that somebody waits ends by itself a moment later; see [`RwLock`](crate::RwLock#fairness).
    #[non_exhaustive]
    Cancelled {
        /// The resource that was asked for.
        resource: Arc<str>,
        /// How long the call has taken.
        waited: Duration,
    },
    /// A majority granted the lock, but so late that its validity had ended.
    ///
    /// A longer time to live, or a shorter node timeout, leaves more time.
    #[non_exhaustive]
    TooSlow {
        /// The resource that was asked for.
        resource: Arc<str>,
        /// How long the call has taken.
        waited: Duration,
        /// The time from before the first send of the last attempt to after its last reply.
        elapsed: Duration,
        /// What each node said, in the order in which they are asked.
        nodes: Vec<NodeReport>,
    },
    /// This guard's lock is no longer held.
    #[non_exhaustive]
    Lost {
        /// The resource that was locked.
        resource: Arc<str>,
        /// How it was lost, and what each node said.
        cause: LossCause,
    },
    /// The lock was given back, and too few nodes have answered to confirm it. No loss is known.
    ///
    /// **The work is done**, and nobody else had the lock meanwhile: don't report it as failed, and don't do it again. At
    /// worst the lock blocks others until its time to live ends. A guard goes on telling the nodes in the background.
    ///
    /// ```
    /// use std::time::Duration;
    /// use redlatch::{Error, LockManager};
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = LockManager::builder().fakes(&nodes).build()?;
    ///
    /// let guard = manager.lock("invoices", Duration::from_secs(10))?;
    /// println!("sending the invoices");
    /// # for node in &nodes[..2] { node.refuse() }
    /// match guard.unlock() {
    ///     // They are sent.
    ///     Err(error @ Error::Unconfirmed { .. }) => eprintln!("{error}"),
    ///     other => other?,
    /// }
    /// # Ok::<(), Error>(())
    /// ```
    #[non_exhaustive]
    Unconfirmed {
        /// The resource that was locked.
        resource: Arc<str>,
        /// How long the release has taken.
        waited: Duration,
        /// What each node said, in the order in which they are asked.
        nodes: Vec<NodeReport>,
    },
    /// The time of a [`flush`](crate::LockManager::flush) is over, and some nodes have not answered releases.
    ///
    /// The manager goes on repeating them as long as it or a guard lives. Keys that remain end with their time to live.
    ///
    /// ```
    /// use std::time::Duration;
    /// use redlatch::{Error, LockManager};
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = LockManager::builder().fakes(&nodes).build()?;
    /// # let guard = manager.lock("invoices", Duration::from_secs(10))?;
    /// # nodes[0].refuse();
    /// # drop(guard);
    ///
    /// match manager.flush(Duration::from_millis(100)) {
    ///     Err(Error::Unanswered { nodes, .. }) => assert_eq!(nodes[0].resources, ["invoices"]),
    ///     other => panic!("{other:?}"),
    /// }
    /// # Ok::<(), Error>(())
    /// ```
    #[non_exhaustive]
    Unanswered {
        /// How long the call has waited.
        waited: Duration,
        /// The nodes that have not answered releases, in the order in which they are asked.
        nodes: Vec<UnansweredReleases>,
    },
    /// A list of locks lacks some, because too many nodes failed while it was made.
    #[non_exhaustive]
    Incomplete {
        /// How long it has taken.
        waited: Duration,
        /// The nodes that failed, in the order in which they are asked to lock.
        nodes: Vec<NodeReport>,
    },
    /// With the fenced protocol: no node was opened.
    #[non_exhaustive]
    NotOpened {
        /// What each node said, in the order in which they are asked.
        nodes: Vec<NodeReport>,
    },
    /// An argument, or an option of the [`Builder`](crate::Builder), can't be used. No node was asked.
    ///
    /// ```
    /// use std::time::Duration;
    /// use redlatch::{Error, LockManager};
    /// # let manager = LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let error = manager.try_lock("invoices", Duration::from_millis(1)).expect_err("it is too short");
    /// assert!(matches!(error, Error::Invalid { field: "ttl", .. }), "{error}");
    /// # Ok::<(), Error>(())
    /// ```
    #[non_exhaustive]
    Invalid {
        /// The name of the argument or of the option: `ttl`, `max_hold`, `at_least`, `resource` (also a prefix of names, and
        /// names that can't be locked together), `permits`, `slot`, `holder`, `lease` or `token`; or `nodes`, `node_timeout`,
        /// `key_prefix` and so on, as the options of the builder are called.
        field: &'static str,
        /// What is wrong with the value and what to do.
        reason: String,
    },
    /// The manager or guard was inherited through `fork`, or a manager was built in the child of a process that has
    /// built one.
    ///
    /// The lock belongs to the parent, and both processes would use the same sockets. A manager built in the child
    /// could hang or crash: the child has only the thread that forked, and its mutexes still wait for the others. So
    /// let the child execute a program, as [`std::process::Command`] does, or fork before the first manager is built.
    Forked,
    /// The operating system could not start a thread: for a manager, for keep-alive or for hooks. Nothing has changed, and no
    /// node was asked.
    #[non_exhaustive]
    NoThread {
        /// The operating system's answer.
        source: Arc<io::Error>,
    },
    /// The operating system gave no random bytes for a token.
    #[non_exhaustive]
    NoRandomness {
        /// The operating system's answer.
        source: Arc<io::Error>,
    },
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if let Self::NoThread { source } | Self::NoRandomness { source } = self {
            Some(source)
        } else {
            None
        }
    }
}

impl Error {
    pub(crate) fn invalid(field: &'static str, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Invalid { field, reason }
    }

    pub(crate) fn no_thread(source: io::Error) -> Self {
        let source = Arc::new(source);
        Self::NoThread { source }
    }

    pub(crate) fn no_randomness(source: getrandom::Error) -> Self {
        let source = Arc::new(source.into());
        Self::NoRandomness { source }
    }

    /// The same error, for a thread that waited for the one which met it, in the line of `in_the_way`, and that asks for
    /// `asked`. None if it is about another one of several resources, which this thread may not want.
    pub(crate) fn met_by_another(
        mut self,
        in_the_way: &Arc<str>,
        asked: &Arc<str>,
    ) -> Option<Self> {
        if let Self::Unavailable { resource, .. }
        | Self::NotALock { resource, .. }
        | Self::TooSlow { resource, .. } = &mut self
        {
            *resource = Arc::clone(asked);
        }
        let is_about_another = self.resource().is_some_and(|name| name != &**in_the_way);
        (!is_about_another).then_some(self)
    }

    /// Returns whether a further call may get the lock without a change of the program: others have it, too few nodes answered,
    /// a key is in the way, or a majority granted it too late. A call that may wait tries again by itself.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// let refused = manager.try_lock("invoices", Duration::from_millis(1)).expect_err("too short");
    /// assert!(!refused.is_transient());
    /// for node in &nodes {
    ///     node.refuse();
    /// }
    /// let outage = manager.try_lock("invoices", Duration::from_secs(10)).expect_err("an outage");
    /// assert!(outage.is_transient() && !outage.is_held());
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Held { .. }
                | Self::Unavailable { .. }
                | Self::NotALock { .. }
                | Self::TooSlow { .. }
        )
    }

    /// The same error, with how long the call has taken.
    pub(crate) fn after(mut self, taken: Duration) -> Self {
        if let Self::Held { waited, .. }
        | Self::Unavailable { waited, .. }
        | Self::NotALock { waited, .. }
        | Self::Cancelled { waited, .. }
        | Self::TooSlow { waited, .. } = &mut self
        {
            *waited = taken;
        }
        self
    }
}
