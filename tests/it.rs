//! The integration tests: what users see over fake nodes, and over real and scripted servers; and the rules of the house.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails, as it should"
)]

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

/// Counts for `servers::locking::memory`.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

#[cfg(test)]
mod log_lines;
#[cfg(test)]
mod managers;
#[cfg(test)]
mod waiters;

/// What locks of all kinds have in common: each case once, for every kind in every way.
#[cfg(test)]
mod kinds {
    pub(crate) mod adopt;
    pub(crate) mod broken;
    pub(crate) mod call;
    pub(crate) mod extend;
    pub(crate) mod keep;
    pub(crate) mod outcomes;
    pub(crate) mod refused;
    pub(crate) mod release;
    pub(crate) mod rest;
    pub(crate) mod shown;
    pub(crate) mod take;
    pub(crate) mod waits;
    pub(crate) mod world;
}

/// What a unit test of a user sees: fake nodes in its own process.
#[cfg(test)]
mod fakes {
    pub(crate) mod faults;
    /// One lock on several resources.
    pub(crate) mod several;
    pub(crate) mod waiting;

    /// Read-write locks: many readers at a time, or one writer.
    pub(crate) mod readers;

    /// At most so many holders at a time.
    pub(crate) mod semaphore {
        pub(crate) mod permits;
        #[cfg(target_os = "linux")]
        pub(crate) mod threads;
    }

    /// Keep-alive, and what a holder is told when its lock is lost.
    pub(crate) mod keeping {
        pub(crate) mod healed;
        pub(crate) mod loss;
        mod margin;
        pub(crate) mod restarted;
        pub(crate) mod schedule;
    }

    /// What a builder takes: addresses, logins, certificates.
    pub(crate) mod connecting;

    /// What an operator sees: health, status, figures, log lines, spans.
    pub(crate) mod operations {
        #[cfg(all(feature = "metrics", feature = "serde"))]
        pub(crate) mod alerts;
        pub(crate) mod broken;
        pub(crate) mod health;
        pub(crate) mod list;
        #[cfg(all(feature = "metrics", feature = "serde"))]
        pub(crate) mod recorded;
        #[cfg(feature = "tracing")]
        pub(crate) mod spans;
        pub(crate) mod status;
    }
}

/// Real servers, scripted and hostile ones, and other programs on the same keys.
#[cfg(test)]
mod servers {
    /// The calls for a lock, its guard and its lease.
    pub(crate) mod locking {
        pub(crate) mod guard;
        pub(crate) mod lock;
        pub(crate) mod memory;
    }

    /// The label of a holder, and who is told of it.
    #[cfg(target_os = "linux")]
    pub(crate) mod holders;

    /// Which nodes are asked, and when.
    pub(crate) mod fanout;

    /// Those who want a lock that another has: threads of one manager, and processes.
    pub(crate) mod waiting {
        pub(crate) mod cancelled;
        pub(crate) mod fairness;
        #[cfg(target_os = "linux")]
        pub(crate) mod pass;
        #[cfg(target_os = "linux")]
        pub(crate) mod queue;
        pub(crate) mod trouble;
        pub(crate) mod wake_up;
        #[cfg(target_os = "linux")]
        pub(crate) mod wanted;
    }

    /// One lock on several resources.
    pub(crate) mod several {
        #[cfg(target_os = "linux")]
        pub(crate) mod lines;
        pub(crate) mod on_servers;
    }

    /// Read-write locks: many readers at a time, or one writer.
    pub(crate) mod readers {
        pub(crate) mod many;
        pub(crate) mod waiting;
    }

    /// Other implementations of Redlock on the same keys.
    pub(crate) mod interop;

    /// Keep-alive, and what a holder is told when its lock is lost.
    pub(crate) mod keeping {
        pub(crate) mod healing;
        pub(crate) mod on_servers;
    }

    /// The fenced protocol.
    pub(crate) mod fenced {
        pub(crate) mod aliases;
        pub(crate) mod opening;
        pub(crate) mod protocol;
        pub(crate) mod setup;
    }

    /// What docs/safety.md says of both protocols.
    pub(crate) mod safety {
        pub(crate) mod hazards;
        pub(crate) mod rebirth;
    }

    /// Servers that fail, lie, or are set up so that they can't vote.
    pub(crate) mod faults {
        pub(crate) mod forgotten;
        pub(crate) mod hostile;
        pub(crate) mod introduced;
        pub(crate) mod nodes;
        pub(crate) mod owed;
        pub(crate) mod replies;
        pub(crate) mod restart;
        pub(crate) mod scripts;
    }

    /// What a builder takes: addresses, logins, certificates.
    pub(crate) mod connecting {
        pub(crate) mod connections;
        pub(crate) mod logins;
        pub(crate) mod misnamed;
        #[cfg(feature = "tls-rustls")]
        pub(crate) mod tls;
        #[cfg(feature = "tls-rustls")]
        pub(crate) mod tls_peers;
    }

    /// What an operator sees: health, status, figures, log lines, spans.
    pub(crate) mod operations {
        pub(crate) mod foreign_text;
        pub(crate) mod health_servers;
        pub(crate) mod health_users;
        pub(crate) mod list_servers;
        pub(crate) mod odd_keys;
        pub(crate) mod page;
        pub(crate) mod page_users;
        pub(crate) mod secrets;
        pub(crate) mod stats;
    }

    /// The threads of a program, those of a manager, and forks.
    pub(crate) mod threads {
        #[cfg(target_os = "linux")]
        pub(crate) mod forks;
        pub(crate) mod many;
        #[cfg(target_os = "linux")]
        pub(crate) mod none;
        #[cfg(target_os = "linux")]
        pub(crate) mod own;
        #[cfg(target_os = "linux")]
        pub(crate) mod valgrind;
    }
}

/// The repository itself.
#[cfg(test)]
mod house {
    mod circles;
    #[cfg(target_os = "linux")]
    mod dependencies;
    mod examples;
    mod first_hour;
    mod guide;
    mod instructions;
    mod links;
    #[cfg(target_os = "linux")]
    mod packaging;
    mod pages;
    mod repository;
    mod rooms;
    mod source;
    mod tidy;
}
