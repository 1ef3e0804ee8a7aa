//! The subcommands that take no lock: `status`, `list`, `watch`, `health`, `unlock` and `open-nodes`.

use std::time::Duration;

use clap::Args;

use super::servers::Servers;
use super::taking::permits;
use crate::durations;
use crate::name::Name;

/// Tells who holds a lock, for how long, and what each server has.
#[derive(Debug, Args)]
pub(crate) struct Status {
    /// What the lock is called
    pub(crate) name: Name,

    /// Looks at a semaphore with so many permits, as --max of run
    #[arg(long, value_name = "NUMBER", value_parser = permits())]
    pub(crate) max: Option<u32>,

    /// Prints nothing: the exit code tells whether the lock is held
    #[arg(short, long, conflicts_with_all = ["json", "verbose"])]
    pub(crate) quiet: bool,

    /// Prints JSON, for programs
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) servers: Servers,
}

/// Lists the locks that are held, shared or rest.
///
/// The list is sorted by name. With --json, each lock is a line as soon as it is found, in no order. A lock that is acquired
/// or released meanwhile may be missing. On a terminal, standard error shows how far the list has come.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only locks whose names begin with this text
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    pub(crate) prefix: String,

    /// Also keys whose value is not one of redlatch
    ///
    /// Any text with a time to live may be the lock of another program, or something else, such as a session.
    #[arg(long)]
    pub(crate) all: bool,

    /// Prints JSON, for programs
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) servers: Servers,
}

/// Shows locks and servers live, until q is pressed.
///
/// Without names, it shows all locks that are held, shared or rest. Where standard output is no terminal, it prints a line
/// whenever something has changed.
#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// What the locks are called [default: all that are held]
    pub(crate) names: Vec<Name>,

    /// How often the servers are asked
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = durations::parse_some)]
    pub(crate) every: Duration,

    #[command(flatten)]
    pub(crate) servers: Servers,
}

/// Tells what is wrong with the servers and what to do about it.
///
/// It takes a lock of its own on each server, extends it and releases it. It judges by the timeouts of `redlatch run`.
#[derive(Debug, Args)]
pub(crate) struct Health {
    /// Judges the servers as for a client of the fenced protocol
    #[arg(long)]
    pub(crate) fenced: bool,

    /// Prints JSON, for programs
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) servers: Servers,
}

/// Releases a lock in place of its holder.
///
/// It is released only if it is held with this token.
///
/// A holder that still runs goes on until it notices. 'redlatch status' shows the token and the line to type; the token of a
/// lock that rests begins with 'rest:'. Of a lock that is --shared, it removes the reader with this token, which that reader's
/// command got as REDLATCH_TOKEN; the other readers go on. Of a run with --also it releases this name alone, so give each name.
#[derive(Debug, Args)]
pub(crate) struct Unlock {
    /// What the lock is called
    pub(crate) name: Name,

    /// The token that the lock is held with, as status shows it
    ///
    /// With its backslash escapes.
    #[arg(long, allow_hyphen_values = true)]
    pub(crate) token: String,

    /// The slot of a semaphore, as 'status --max' and 'list' show it
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(..256))]
    pub(crate) slot: Option<u32>,

    /// For a lock that was taken with --fenced
    ///
    /// The servers remember the release, so that its holder can't renew the lock. [default: as the key protocol of the
    /// configuration file says]
    #[arg(long)]
    pub(crate) fenced: bool,

    /// Also deletes a key whose value is not one of redlatch
    ///
    /// Such a key may be the lock of another program, or something else, such as a session.
    #[arg(long)]
    pub(crate) foreign: bool,

    /// Prints JSON, for programs
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) servers: Servers,
}

/// Opens the servers of a new deployment of the fenced protocol.
///
/// A server without a marker may be new, or may have forgotten locks. It can't tell, so it does not vote for max_ttl
/// and the drift, unless you open it. Call this once, before the first client, with the settings of all clients. It is
/// refused if a server does not answer, or serves fenced clients, or did before.
///
/// Never call it after the servers were flushed, or restarted without persistence. They look new then, and locks of
/// before may still be valid. To wait is always right.
#[derive(Debug, Args)]
pub(crate) struct OpenNodes {
    #[command(flatten)]
    pub(crate) servers: Servers,
}
