//! The integration tests: everything that users see, over fake nodes and over real `redis-server` processes. One folder a
//! subject.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails, as it should"
)]

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

/// Counts for `locking::memory`.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

#[cfg(test)]
mod managers;

/// The calls for a lock, its guard and its lease.
#[cfg(test)]
mod locking {
    mod extend;
    mod guard;
    mod lease;
    mod lock;
    mod memory;
    mod refused_leases;
    mod reserved;
    mod rounds;
    mod tokens;
}

/// The label of a holder, and who is told of it.
#[cfg(test)]
mod holders {
    mod labels;
    mod told;
}

/// Which nodes are asked, and when.
#[cfg(test)]
mod fanout {
    mod faults;
    mod order;
}

/// Commands of several threads that go together.
#[cfg(test)]
#[cfg(all(target_os = "linux", feature = "tracing"))]
mod combining {
    mod batches;
    mod broken;
    mod crowd;
    mod hanging;
    mod limits;
    mod threads;
    mod undo;
}

/// Those who want a lock that another has: threads of one manager, and processes.
#[cfg(test)]
mod waiting {
    mod cancelled;
    mod cancelled_before;
    mod fairness;
    #[cfg(target_os = "linux")]
    #[cfg(target_os = "linux")]
    #[cfg(target_os = "linux")]
    mod pass;
    #[cfg(target_os = "linux")]
    mod pass_trouble;
    #[cfg(target_os = "linux")]
    pub(crate) mod queue;
    mod trouble;
    #[cfg(target_os = "linux")]
    mod turns;
    pub(crate) mod wake_up;
    #[cfg(target_os = "linux")]
    mod wanted;
}

/// At most so many holders at a time.
#[cfg(test)]
mod semaphore {
    #[cfg(target_os = "linux")]
    mod on_servers;
    mod permits;
    mod shown;
}

/// One lock on several resources.
#[cfg(test)]
mod several {
    mod faults;
    mod fenced;
    mod hostile;
    mod keeping;
    mod leases;
    #[cfg(target_os = "linux")]
    mod lines;
    mod names;
    mod on_servers;
    mod trouble;
    mod waiting;
}

/// Read-write locks: many readers at a time, or one writer.
#[cfg(test)]
mod readers {
    mod crowd;
    mod fairness;
    mod hostile;
    mod on_fakes;
    pub(super) mod on_servers;
    mod own;
    mod shown;
    mod strangers;
    #[cfg(target_os = "linux")]
    mod trouble;
    mod waiting;
}

/// Other implementations of Redlock on the same keys.
#[cfg(test)]
mod interop {
    mod old_scripts;
    mod page;
    mod port;
    mod refused;
    mod wire;
    mod wire_fenced;
}

/// Keep-alive, and what a holder is told when its lock is lost.
#[cfg(test)]
mod keeping {
    mod expiry;
    mod healed;
    mod healing;
    mod loss;
    mod on_servers;
    mod pace;
    mod replaced;
    mod rolling;
    mod schedule;
}

/// Locks that rest after they were given back, because of their minimum.
#[cfg(test)]
mod resting {
    mod ends;
    mod late;
    mod lease;
    mod on_servers;
    mod outages;
    #[cfg(target_os = "linux")]
    mod queue;
    mod shown;
}

/// The fenced protocol.
#[cfg(test)]
mod fenced {
    mod aliases;
    mod opening;
    mod protocol;
    mod setup;
    mod trouble;
}

/// What docs/safety.md says of both protocols.
#[cfg(test)]
mod safety {
    mod hazards;
    mod proxied;
    mod rebirth;
}

/// Servers that fail, lie, or are set up so that they can't vote.
#[cfg(test)]
mod faults {
    mod forgotten;
    mod full;
    mod hostile;
    mod introduced;
    mod nodes;
    mod paused;
    mod replies;
    mod restart;
    mod scripts;
    mod undone;
}

/// What a builder takes: addresses, logins, certificates.
#[cfg(test)]
mod connecting {
    #[cfg(feature = "tls-rustls")]
    mod certificates;
    mod config;
    mod connections;
    mod credentials;
    mod storms;
    #[cfg(feature = "tls-rustls")]
    mod tls;
    #[cfg(feature = "tls-rustls")]
    mod tls_hostile;
    #[cfg(feature = "tls-rustls")]
    mod tls_peers;
    mod users;
}

/// What an operator sees: health, status, figures, log lines, spans.
#[cfg(test)]
mod operations {
    mod alerts;
    #[cfg(feature = "serde")]
    mod exported;
    mod foreign_text;
    mod health;
    mod health_hostile;
    mod health_servers;
    mod health_tried;
    mod health_users;
    mod list;
    mod list_servers;
    pub(crate) mod logs;
    mod lost_ttl;
    mod page;
    mod page_shared;
    #[cfg(all(feature = "metrics", feature = "serde"))]
    mod recorded;
    mod secrets;
    #[cfg(feature = "tracing")]
    mod spans;
    mod stats;
    mod stats_guards;
    mod status;
    mod status_servers;
}

/// The threads of a program, those of a manager, and forks.
#[cfg(test)]
mod threads {
    #[cfg(target_os = "linux")]
    pub(crate) mod forks;
    #[cfg(target_os = "linux")]
    mod held_at_a_fork;
    mod many;
    #[cfg(target_os = "linux")]
    mod own;
}

/// The fake nodes that users have for their unit tests.
#[cfg(test)]
mod fakes {
    mod clock;
    mod faults;
    mod woken;
}

/// The repository itself.
#[cfg(test)]
mod house {
    mod circles;
    #[cfg(target_os = "linux")]
    mod dependencies;
    mod examples;
    mod guide;
    mod links;
    mod locks;
    #[cfg(target_os = "linux")]
    mod packaging;
    mod pages;
    mod paths;
    mod picture;
    mod rooms;
    pub(crate) mod tidy;
    mod tokens;
}
