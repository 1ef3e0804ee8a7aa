//! A blocking Redlock: a lock that a majority of independent Redis servers agree on, held by an RAII guard.
//!
//! ```
//! use std::time::Duration;
//! use redlatch::LockManager;
//!
//! # /*
//! let manager = LockManager::new(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])?;
//! # */
//! # let manager = LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
//! let guard = manager.lock("nightly-report", Duration::from_secs(30))?; // Waits while others have the lock.
//! for chapter in ["sales", "stock"] {
//!     guard.check()?; // Before each side effect: is the lock still ours? It asks no server.
//!     println!("writing {chapter}, with {:?} left", guard.remaining());
//! }
//! guard.unlock()?; // Or drop it. This tells whether the lock was ours up to now.
//! # Ok::<(), redlatch::Error>(())
//! ```
//!
//! - **One holder.** No two guards for a name are valid at once, unless both are of readers. This needs clients that name the same
//!   nodes, nodes that keep their keys, and clocks that don't jump and run at the same rate to within 1 %.
//! - **Every lock and every wait ends**, also after a crash and with servers that hang. A minority of the nodes may fail.
//! - **No lock stops a late write** after the last [`check`](LockGuard::check). With [`Protocol::Fenced`], the resource can
//!   refuse that write by its [fencing token](LockGuard::fencing_token).
//! - **A node that forgets can vote twice.** After a restart without its data, keep it out for the longest time to live. With
//!   [`Protocol::Fenced`] it abstains by itself.
//! - **A lock is not re-entrant**: a thread that asks for a lock it holds waits for itself, and fails. The order among processes is
//!   not strict.
//!
//! # Guide
//!
//! **Waiting.** [`lock`](LockManager::lock) waits up to the builder's [`acquire_timeout`](Builder::acquire_timeout),
//! [`try_lock`](LockManager::try_lock) makes one round over the nodes, and [`try_lock_for`](LockManager::try_lock_for)
//! and [`try_lock_until`](LockManager::try_lock_until) wait until a given end. A release wakes a waiting client within milliseconds.
//! A [`Cancel`] ends a wait from another thread.
//!
//! **The time to live** is how long the lock stays taken if this process crashes. Choose a short one, but far above the node
//! timeout times the number of nodes. Work that takes longer [extends](LockGuard::extend) the lock, or keeps it alive.
//!
//! **Long work.** With [`KeepAlive`] a lock is renewed in the background. It can still be lost: [`check`](LockGuard::check) tells at
//! each step, [`wait_lost`](LockGuard::wait_lost) waits for it, [`on_lost`](LockGuard::on_lost) calls a hook, and a [`LeaseWatch`]
//! is for threads that don't have the guard. [`LossCause`] tells the cause, with what each node said.
//!
//! ```
//! use std::time::Duration;
//! use redlatch::KeepAlive;
//! # use redlatch::{LockManager, fake::FakeNode};
//! # let manager = LockManager::builder().fakes(&FakeNode::cluster(3)).build()?;
//!
//! let two_hours = KeepAlive::max_hold(Duration::from_secs(2 * 60 * 60));
//! let guard = manager.request("nightly-report").keep_alive(two_hours).lock()?;
//! guard.on_lost(|cause| eprintln!("stop: {cause}"))?;
//! guard.check()?;
//! guard.unlock()?;
//! # Ok::<(), redlatch::Error>(())
//! ```
//!
//! **Semaphores.** With [`LockManager::semaphore`] up to a given number of holders have a permit at a time, each with a
//! [slot](LockGuard::slot) of its own.
//!
//! **Several resources.** [`LockManager::request_all`] locks up to 64 names together: all or none.
//!
//! **Readers and writers.** [`LockManager::rw_lock`] gives a name many readers at a time, or one writer. Neither starves.
//!
//! **Handing over.** [`LockGuard::into_lease`] turns a guard into a [`Lease`], a line of text, without releasing the lock.
//! [`LockManager::adopt`] makes a guard of it again, in another process or on another machine. [`LockManager::release`] releases the
//! lock of a holder that no longer runs.
//!
//! **Errors.** [`Error::Held`] is the normal "no": others have the lock. [`Error::Unavailable`] is an outage: too few nodes answer to
//! tell whether the lock is free. [`Error::Unconfirmed`] comes from a release: the work is done, and the lock ends with its time to
//! live at the latest. [`LockManager::flush`] waits until all nodes have answered. [`Error::TooSlow`] means that a majority granted the lock too late, and [`Error::Lost`] that a
//! guard's lock is no longer held. Where nodes were asked, the error has a [`NodeReport`] of each, with its [`Vote`] or the
//! [`NodeError`].
//!
//! ```
//! use std::time::Duration;
//! use redlatch::{Error, LockManager};
//!
//! fn report(manager: &LockManager) -> Result<(), Error> {
//!     let guard = match manager.try_lock("nightly-report", Duration::from_secs(30)) {
//!         Ok(guard) => guard,
//!         Err(Error::Held { .. }) => return Ok(()), // Another machine is at it.
//!         Err(error) => return Err(error),
//!     };
//!     println!("writing the report");
//!     guard.extend(Duration::from_secs(60))?;
//!     guard.unlock()
//! }
//! # let manager = LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
//! # report(&manager)?;
//! # let _guard = manager.lock("nightly-report", Duration::from_secs(30))?;
//! # report(&manager)?;
//! # Ok::<(), Error>(())
//! ```
//!
//! **Threads.** A [`LockManager`] is shared by cloning it, and says which threads and connections it has. Requests that several
//! threads make at the same time share one write to each node, also for different locks; a thread alone sends at once. The threads
//! of a manager get a lock in the order in which they asked. A [`LockGuard`] may be sent to another thread and dropped there. From
//! async code, call the library on a thread for blocking calls; `docs/guide.md` has the code.
//!
//! **Forks.** In a forked child neither managers nor guards work ([`Error::Forked`]), and dropping a guard there leaves the parent's
//! lock alone. Let the child execute a program, as [`std::process::Command`] does, or fork before the first manager is built.
//! [`LockGuard::check`] and [`LockGuard::remaining`] only look at the clock there, so the child must not rely on them.
//!
//! **Connections.** [`Builder::credentials`] takes a callback for passwords that change. With the cargo feature `tls-rustls`,
//! `Builder::tls` takes certificates.
//!
//! **For people and monitoring.** [`LockManager::status`] tells who holds a lock, [`LockManager::locks`] lists all, and neither changes
//! anything. [`LockManager::health`] examines every server, and tells what is wrong and what to do. [`LockManager::stats`] has
//! counters and the quantiles of wait times. Lines go to the `log` crate, with the targets `redlatch::lock`, `redlatch::node` and
//! `redlatch::renewal`. No password is ever in a line, an error or a `Debug`.
//!
//! **Tests** of programs that take locks run on [`fake`] nodes, with a clock that the test moves.
//!
//! # Cargo features
//!
//! - `tls-rustls`: `rediss://` nodes, with rustls. No crypto provider has to be installed.
//! - `serde`: `Serialize` and `Deserialize` for [`Lease`], as its text; `Serialize` for [`Health`], [`LockStatus`],
//!   [`ListedLock`], [`Stats`] and their parts.
//! - `metrics`: the figures of [`Stats`] for the recorder that the program has installed for the crate
//!   [`metrics`](https://docs.rs/metrics), as they happen.
//! - `tracing`: a span for each call for a lock, and one below it for each call of a node.
//! - `fake`: nodes and time for unit tests. It compiles Lua with a C compiler, and belongs in `[dev-dependencies]`:
//!   `redlatch = { path = "../redlatch", features = ["fake"] }`.
//!
//! # More
//!
//! The pages are in the folder `docs` of this package and of the repository: `docs/guide.md` for authors of programs,
//! `docs/command.md` for the command `redlatch`, `docs/operations.md` for operators, and `docs/safety.md` for reviewers. `README.md`
//! lists all of them. The repository has programs to run in `examples/`.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(test), warn(clippy::disallowed_types))]

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
// `cargo fuzz` sets the word for programs of users, too.
#[cfg(all(fuzzing, feature = "fake", target_os = "linux"))]
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

pub use crate::manager::{Builder, LockManager, LockRequest, RwLock};

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

pub use crate::fencing::Protocol;

pub use crate::holder::Holder;

pub use crate::status::{ListedLock, LockStatus};

pub use crate::health::{Finding, Health, Severity};

pub use crate::stats::{NodeStats, Stats};

pub use crate::error::{Error, LossCause, NodeError, NodeReport, UnansweredReleases, Vote};

/// Clients of this very code, over simulated nodes, network and clocks.
#[cfg(test)]
#[path = "../tests/sim/sim.rs"]
mod sim;

/// The scripts and commands of fake nodes beside those of a server.
#[cfg(test)]
#[path = "../tests/scripts/scripts.rs"]
mod scripts;

/// The code on these pages is run as doctests.
#[cfg(doctest)]
mod pages {
    macro_rules! pages {
        ($($name:ident: $path:literal)*) => {
            $(#[doc = include_str!($path)] mod $name {})*
        };
    }

    pages! {
        readme: "../README.md"
        architecture: "../docs/architecture.md"
        benchmarks: "../docs/benchmarks.md"
        command: "../docs/command.md"
        guide: "../docs/guide.md"
        operations: "../docs/operations.md"
        protocol: "../docs/protocol.md"
        releasing: "../docs/releasing.md"
        safety: "../docs/safety.md"
        testing: "../docs/testing.md"
        wire: "../docs/wire.md"
    }
}
