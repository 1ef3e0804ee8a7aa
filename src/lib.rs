//! A blocking Redlock: a lock that a majority of independent Redis servers agree on, held by an RAII guard.
//!
//! ```
//! use std::time::Duration;
//! use redlatch::LockManager;
//! use redlatch::fake::FakeNode;
//!
//! // Five nodes inside this process. On servers, it is
//! // LockManager::new(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])?
//! let nodes = FakeNode::cluster(5);
//! let manager = LockManager::builder().fakes(&nodes).build()?;
//!
//! // Waits while others hold the lock, 10 s at most unless the builder says otherwise.
//! let guard = manager.lock("nightly-report", Duration::from_secs(30))?;
//! for chapter in ["sales", "stock"] {
//!     // Still ours? Looks at the clock, and asks no server.
//!     guard.check()?;
//!     println!("writing {chapter}, with {:?} left", guard.remaining());
//! }
//! // Dropping the guard would do; this tells whether the lock was ours up to now.
//! guard.unlock()?;
//! # Ok::<(), redlatch::Error>(())
//! ```
//!
//! # What is guaranteed
//!
//! - **Exclusion.** No two guards for one resource are valid at the same time, unless both are of readers, in whichever threads,
//!   processes and machines they are. A guard is valid while [`remaining`](LockGuard::remaining) is more than zero. This holds as
//!   long as all clients name the same nodes, the nodes don't forget keys, and the clocks of clients and nodes run at
//!   the same rate within the drift (1 % of the time to live, and 2 ms).
//! - **Every lock ends.** The lock of a process that crashed is free when its time to live ends.
//! - **A minority of the nodes may fail**: refuse, hang, answer late, lose replies.
//! - **Waiting is bounded.** One command to one node takes no longer than the node timeout (50 ms unless set) and a few
//!   milliseconds, or twice that where it has to wait for other threads of the manager. This holds over TLS as well.
//! - **A guard releases its lock** when it is dropped, also while a panic unwinds, and also on nodes whose answer never
//!   came. A key on a node that can't be reached expires. Give the guard a name:
//!   [`let _ =` drops it at once](LockGuard#let-_--gives-the-lock-back-at-once).
//!
//! # What is not
//!
//! - **No lock stops a late write.** A holder that is paused between its last [`check`](LockGuard::check) and its write
//!   may write after the next holder has begun. If that would do harm, the resource itself has to refuse the write.
//!   With [`Protocol::Fenced`] each guard has a [`FencingToken`] for the resource to compare; [`docs/safety.md`] has the
//!   rule.
//! - **A node that forgets can give its vote twice**, with the default, [`Protocol::Classic`]. After a restart without
//!   its data, keep a node out for longer than the longest time to live, or let it persist every write. With
//!   [`Protocol::Fenced`] such a node abstains for that long.
//! - **Redis expires keys by the wall clock** of its machine: if the clock is set forward, locks end early there.
//! - **No strict order among processes**: a process that asks at the right moment gets ahead. Threads of one manager
//!   get a lock in the order in which they asked.
//! - **No re-entrance.** A thread that asks for a lock that it holds waits for itself, and fails. Readers alone may read again,
//!   [unless a writer waits](RwLock#twice-in-one-thread).
//!
//! # Guide
//!
//! **Waiting.** [`lock`](LockManager::lock) waits up to the builder's [`acquire_timeout`](Builder::acquire_timeout),
//! [`try_lock`](LockManager::try_lock) makes one round over the nodes, and [`try_lock_for`](LockManager::try_lock_for)
//! and [`try_lock_until`](LockManager::try_lock_until) wait until a given end. While another process has the lock, one
//! node is asked for it, with a [random delay](Builder::retry_delay) in between, and a release wakes a waiting client
//! within milliseconds. A [`Cancel`] ends a wait from another thread, for example when the program shuts down.
//!
//! **The time to live** is how long the lock stays taken if this process crashes. Choose a short one, but far above the node
//! timeout times the number of nodes. A lock that is needed for longer has to be [extended](LockGuard::extend) in time,
//! or kept alive. Call [`check`](LockGuard::check) before each step that others must not see done twice.
//!
//! **Long work.** With [`KeepAlive`] a lock is renewed in the background, for [`max_hold`](KeepAlive::max_hold) at most
//! or for as long as its guard exists. It can still be lost: [`check`](LockGuard::check) tells at each step,
//! [`wait_lost`](LockGuard::wait_lost) waits for it, [`on_lost`](LockGuard::on_lost) calls a hook, and a [`LeaseWatch`]
//! is for threads that don't have the guard. [`LossCause`] tells the cause, with what each node said.
//!
//! ```
//! use std::time::Duration;
//! use redlatch::KeepAlive;
//! # use redlatch::{LockManager, fake::FakeNode};
//! # let nodes = FakeNode::cluster(3);
//! # let manager = LockManager::builder().fakes(&nodes).build()?;
//!
//! let two_hours = KeepAlive::max_hold(Duration::from_secs(2 * 60 * 60));
//! let guard = manager.request("nightly-report").keep_alive(two_hours).lock()?;
//! guard.on_lost(|cause| eprintln!("stop: {cause}"));
//! for chapter in ["sales", "stock"] {
//!     guard.check()?;
//!     println!("sending {chapter}");
//! }
//! guard.unlock()?;
//! # Ok::<(), redlatch::Error>(())
//! ```
//!
//! **Semaphores.** [`LockManager::semaphore`] is for work that at most so many may do at a time, whichever machines they
//! are on. Each holder has a [slot](LockGuard::slot) of its own. Everything else is as with a lock.
//!
//! **Several resources.** [`LockManager::request_all`] locks up to 64 resources together: all or none. Each of them is an ordinary lock
//! to everybody else.
//!
//! **Readers and writers.** [`LockManager::rw_lock`] gives a name many readers at a time, or one writer, which is an ordinary lock on
//! the name. Neither starves. There is no upgrade from a read lock to a write lock, and no downgrade.
//!
//! **Handing over.** [`LockGuard::into_lease`] turns a guard into a [`Lease`] without releasing the lock. A lease is a
//! line of text, for an environment variable or a queue. [`LockManager::adopt`] makes a guard of it again, in another
//! process or on another machine. Only one process may adopt a lease. [`LockManager::release`] releases the lock of a
//! holder that no longer runs.
//!
//! **Errors.** [`Error::Held`] is the normal "no": others have the lock. [`Error::Unavailable`] is an outage: too few
//! nodes answer to tell whether the lock is free. [`Error::TooSlow`] means that a majority granted the lock too late,
//! and [`Error::Lost`] that a guard's lock is no longer held. Where a node gave no vote, its [`NodeError`] says why.
//!
//! ```
//! use std::time::Duration;
//! use redlatch::{Error, LockManager};
//! # use redlatch::fake::FakeNode;
//!
//! fn report(manager: &LockManager) -> Result<(), Error> {
//!     let guard = match manager.try_lock("nightly-report", Duration::from_secs(30)) {
//!         Ok(guard) => guard,
//!         Err(Error::Held { .. }) => {
//!             println!("another machine is at it");
//!             return Ok(());
//!         }
//!         Err(error) => return Err(error),
//!     };
//!     println!("writing the report");
//!     guard.extend(Duration::from_secs(60))?;
//!     println!("sending it");
//!     guard.unlock()
//! }
//! # let nodes = FakeNode::cluster(3);
//! # let manager = LockManager::builder().fakes(&nodes).build()?;
//! # report(&manager)?;
//! # let _guard = manager.lock("nightly-report", Duration::from_secs(30))?;
//! # report(&manager)?;
//! # Ok::<(), Error>(())
//! ```
//!
//! **Threads.** One manager is for all threads of a program. What several of them ask of the nodes at the same time goes
//! in one write to each node and comes back in one read, whichever locks they want; a thread alone asks at once. A lock
//! goes from one thread to the next in one round trip, in the order in which they asked.
//!
//! **Connections.** [`Builder::credentials`] takes a callback for passwords that change. With the cargo feature
//! `tls-rustls`, `Builder::tls` takes certificates.
//!
//! **Votes.** [`LockGuard::votes`] and every error that comes from a round have a [`NodeReport`] for each node: its
//! name as `host:port`, its [`Vote`], and how long it took. Nodes that failed lately are left out while the others are
//! enough, and tried again in the background.
//!
//! **Status.** [`LockManager::status`] tells who holds a lock, for how long, and what each node has, and changes
//! nothing. It is for people and monitoring: to take the lock, call [`try_lock`](LockManager::try_lock).
//! [`LockManager::locks`] lists all locks that are held, shared by readers, or at rest.
//!
//! **Health.** [`LockManager::health`] examines every server, and tells what is wrong, what to do about it, and how
//! many more failures are survived: as a table for a person, and as a [`Severity`], a margin and [`Finding`]s for a
//! program. It finds a replica, two URLs of one server, a server that may evict locks, a wrong clock, and nodes that
//! abstain for clients with fencing.
//!
//! **Threads.** A [`LockManager`] is shared by cloning it. It has a pool of connections for each node, and connects
//! when it first needs to. It has one background thread, and one more for each of these when they are first needed:
//! nodes with a host name, renewals, and hooks for losses. The number of nodes and locks does not matter. A
//! [`LockGuard`] may be sent to another thread and dropped there.
//!
//! **Forks.** In a forked child neither managers nor guards work ([`Error::Forked`]), and dropping a guard there leaves
//! the parent's lock alone. The child can't build a manager either: let it execute a program, as
//! [`std::process::Command`] does, or fork before the first manager is built. In the child, [`LockGuard::check`] and
//! [`LockGuard::remaining`] only look at the clock, and don't see what the parent does with the lock. The child must
//! not rely on them.
//!
//! **Logs** go through the `log` crate. With the target `redlatch::lock`: `warn` when a lock is lost; `debug` when one is
//! acquired, held by another, or released. With the target `redlatch::node`: `warn` when a node failed and is left out,
//! `info` when it answers again. No password is ever in a log line, an error or a `Debug`. [`docs/operations.md`] has each
//! line; they are a contract.
//!
//! **Figures.** [`LockManager::stats`] has counters of calls, locks and nodes, and the quantiles of wait times.
//! Counting is always on. With the cargo feature `tracing` there are spans as well.
//!
//! **Tests** of programs that take locks run on [`fake`] nodes, with a clock that the test moves. They need the cargo feature `fake`
//! in `[dev-dependencies]`.
//!
//! # Cargo features
//!
//! - `tls-rustls`: `rediss://` nodes, with rustls. No crypto provider has to be installed.
//! - `serde`: `Serialize` and `Deserialize` for [`Lease`], as its text; `Serialize` for [`Health`], [`LockStatus`],
//!   [`SemaphoreStatus`], [`Stats`] and their parts.
//! - `tracing`: a span for each call for a lock, and one below it for each call of a node.
//! - `fake`: nodes and time for unit tests. Programs that ship don't need it, so it belongs into `[dev-dependencies]`:
//!   `redlatch = { version = "0.1", features = ["fake"] }`. It compiles Lua, with a C compiler, to run the scripts that servers run.
//!
//! # More
//!
//! The command `redlatch`, which runs a command under a lock, is the package `redlatch-cli`. In the repository there are
//! also five programs in `examples/`. The pages in `docs/` are in this package; [`docs/README.md`] lists them by role:
//!
//! - For programs: [`docs/testing.md`] (a complete example of a service under test), [`docs/command.md`] (long jobs in Rust
//!   and in shell, and what happens when a lock is lost), [`docs/leader.md`] (leader election), [`docs/contention.md`] (how
//!   threads send for each other, how waiting clients are woken, and how fair it is), [`docs/benchmarks.md`] (what it costs).
//! - For operators: [`docs/checklist.md`] (what to see to before production), [`docs/operations.md`] (servers, ACL, changes, and
//!   what to do about each error), [`docs/alternatives.md`] (Sentinel, Cluster, a managed Redis, only `PostgreSQL`).
//! - For reviewers: [`docs/safety.md`] (fencing tokens, and which hazards are prevented, detected or neither),
//!   [`docs/correctness.md`] (what is promised, how that is checked, and what is not promised), [`docs/algorithm.md`] (each step,
//!   each deviation from the Redis documentation page "Distributed Locks with Redis", and why), [`docs/wire.md`] (what is on
//!   the servers, for clients in other languages).
//! - For contributors: [`docs/architecture.md`] (modules and dependencies).
//!
//! [`docs/README.md`]: https://docs.rs/crate/redlatch/latest/source/docs/README.md
//! [`docs/algorithm.md`]: https://docs.rs/crate/redlatch/latest/source/docs/algorithm.md
//! [`docs/alternatives.md`]: https://docs.rs/crate/redlatch/latest/source/docs/alternatives.md
//! [`docs/architecture.md`]: https://docs.rs/crate/redlatch/latest/source/docs/architecture.md
//! [`docs/command.md`]: https://docs.rs/crate/redlatch/latest/source/docs/command.md
//! [`docs/benchmarks.md`]: https://docs.rs/crate/redlatch/latest/source/docs/benchmarks.md
//! [`docs/checklist.md`]: https://docs.rs/crate/redlatch/latest/source/docs/checklist.md
//! [`docs/contention.md`]: https://docs.rs/crate/redlatch/latest/source/docs/contention.md
//! [`docs/correctness.md`]: https://docs.rs/crate/redlatch/latest/source/docs/correctness.md
//! [`docs/leader.md`]: https://docs.rs/crate/redlatch/latest/source/docs/leader.md
//! [`docs/operations.md`]: https://docs.rs/crate/redlatch/latest/source/docs/operations.md
//! [`docs/safety.md`]: https://docs.rs/crate/redlatch/latest/source/docs/safety.md
//! [`docs/testing.md`]: https://docs.rs/crate/redlatch/latest/source/docs/testing.md
//! [`docs/wire.md`]: https://docs.rs/crate/redlatch/latest/source/docs/wire.md

#![cfg_attr(docsrs, feature(doc_cfg))]

mod callbacks;
mod claim;
mod clock;
mod cluster;
mod contend;
mod error;
#[cfg(feature = "fake")]
pub mod fake;
mod fanout;
mod fencing;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod guard;
mod health;
mod holder;
mod lease;
mod log_lines;
mod manager;
mod node;
mod process;
mod protocol;
mod quorum;
mod renewal;
mod retry;
mod shown;
mod spans;
mod stats;
mod status;
mod sync;
mod token;
mod value;
mod verdict;
mod wire;

pub use crate::manager::{Builder, LockManager, LockRequest, Locks, RwLock};

pub use crate::guard::LockGuard;

pub use crate::contend::cancel::Cancel;

pub use crate::renewal::KeepAlive;

pub use crate::lease::{Lease, LeaseWatch};

#[doc(inline)]
pub use crate::wire::Credentials;
#[cfg(feature = "tls-rustls")]
#[doc(inline)]
pub use crate::wire::Tls;

pub use crate::fanout::Fanout;

pub use crate::fencing::{FencingToken, Protocol};

pub use crate::holder::Holder;

pub use crate::status::{ListedLock, LockStatus, SemaphoreStatus};

pub use crate::health::{Finding, Health, Severity};

pub use crate::stats::{NodeStats, OpenMetrics, Stats, WaitTimes};

pub use crate::error::{Error, LossCause, NodeError, NodeReport, QuarantineCause, Vote};

/// Clients of this very code, over simulated nodes, network and clocks.
#[cfg(test)]
#[path = "../tests/sim/sim.rs"]
mod sim;

/// The code on these pages is run as doctests.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../README.md")]
    mod readme {}

    #[doc = include_str!("../docs/README.md")]
    mod index {}

    #[doc = include_str!("../docs/algorithm.md")]
    mod algorithm {}

    #[doc = include_str!("../docs/alternatives.md")]
    mod alternatives {}

    #[doc = include_str!("../docs/architecture.md")]
    mod architecture {}

    #[doc = include_str!("../docs/command.md")]
    mod command {}

    #[doc = include_str!("../docs/benchmarks.md")]
    mod benchmarks {}

    #[doc = include_str!("../docs/chaos.md")]
    mod chaos {}

    #[doc = include_str!("../docs/checklist.md")]
    mod checklist {}

    #[doc = include_str!("../docs/contention.md")]
    mod contention {}

    #[doc = include_str!("../docs/correctness.md")]
    mod correctness {}

    #[doc = include_str!("../docs/delivery.md")]
    mod delivery {}

    #[doc = include_str!("../docs/fencing.md")]
    mod fencing {}

    #[doc = include_str!("../docs/guide.md")]
    mod guide {}

    #[doc = include_str!("../docs/healing.md")]
    mod healing {}

    #[doc = include_str!("../docs/leader.md")]
    mod leader {}

    #[doc = include_str!("../docs/models.md")]
    mod models {}

    #[doc = include_str!("../docs/mutation.md")]
    mod mutation {}

    #[doc = include_str!("../docs/operations.md")]
    mod operations {}

    #[doc = include_str!("../docs/readers.md")]
    mod readers {}

    #[doc = include_str!("../docs/releasing.md")]
    mod releasing {}

    #[doc = include_str!("../docs/rests.md")]
    mod rests {}

    #[doc = include_str!("../docs/safety.md")]
    mod safety {}

    #[doc = include_str!("../docs/semaphores.md")]
    mod semaphores {}

    #[doc = include_str!("../docs/several.md")]
    mod several {}

    #[doc = include_str!("../docs/simulation.md")]
    mod simulation {}

    #[doc = include_str!("../docs/status.md")]
    mod status {}

    #[doc = include_str!("../docs/testing.md")]
    mod testing {}

    #[doc = include_str!("../docs/track-record.md")]
    mod track_record {}

    #[doc = include_str!("../docs/versions.md")]
    mod versions {}

    #[doc = include_str!("../docs/waiting.md")]
    mod waiting {}

    #[doc = include_str!("../docs/wire.md")]
    mod wire {}
}
