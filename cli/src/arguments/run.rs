//! `redlatch run`.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::lock::Lock;
use super::servers::{SERVERS, Servers};
use crate::durations;

pub(super) const EXIT_CODES: &str = "\
Exit codes of run: that of the command, or 128 and the number of the signal that ended it; 75 (or -E) another holder has \
the lock, 69 too few servers answer, 76 the lock was lost, 64 usage, 126 and 127 the command can't be run or is not \
there, 71 and 74 faults of the system. A signal while waiting ends with 128 and its number.";

/// Runs a command under a lock, which is renewed until the command has ended.
///
/// The command gets REDLATCH_RESOURCE, REDLATCH_TOKEN and, with --fenced, REDLATCH_FENCING_TOKEN in its environment. It
/// runs in a process group of its own, to which INT, TERM, HUP and QUIT are forwarded. The lock is released when the
/// command has ended, even if processes that it has started still run. If redlatch is killed, the group is killed too.
/// If redlatch is stopped, the group is ended before the lock is.
#[derive(Debug, Args)]
#[command(after_long_help = [EXIT_CODES, "\n\n", SERVERS].concat())]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) servers: Servers,

    #[command(flatten)]
    pub(crate) lock: Lock,

    /// What to do when the lock is lost while the command runs
    #[arg(long, value_name = "ACTION", default_value = "term")]
    pub(crate) on_loss: OnLoss,

    /// The time from TERM to KILL when the lock is lost
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = durations::parse)]
    pub(crate) grace: Duration,

    /// The command and its arguments, after --
    #[arg(last = true, required = true, value_hint = clap::ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLoss {
    /// TERM to the command's process group, KILL after --grace
    Term,
    /// KILL to the command's process group at once
    Kill,
    /// A message, and the command goes on without the lock
    Ignore,
}
