//! How a lock is taken: what all subcommands that take one have in common.

use std::time::Duration;

use clap::builder::RangedI64ValueParser;
use clap::{Args, value_parser};

use crate::durations;
use crate::label;
use crate::name::Name;

/// As the library takes it.
pub(super) fn permits() -> RangedI64ValueParser<u32> {
    value_parser!(u32).range(1..=256)
}

#[derive(Debug, Args)]
pub(crate) struct Lock {
    /// How long others wait if this machine crashes; from three node timeouts to max_ttl. The lock is renewed in time
    /// [default: 30s, or --max-hold if that is shorter]
    #[arg(long, value_name = "DURATION", value_parser = durations::parse_some)]
    pub(crate) ttl: Option<Duration>,

    /// How long to wait for the lock [default: the ttl and 10s more, which is longer than a holder that was killed
    /// leaves its lock behind]
    #[arg(long, value_name = "DURATION", value_parser = durations::parse_wait)]
    pub(crate) wait: Option<Duration>,

    /// Doesn't wait: if another holder has the lock, the exit code says so
    #[arg(short, long, conflicts_with = "wait")]
    pub(crate) no_wait: bool,

    /// The longest time to hold the lock; after that it counts as lost [default: none]
    #[arg(long, value_name = "DURATION", value_parser = durations::parse_some)]
    pub(crate) max_hold: Option<Duration>,

    /// Lets so many hold it at a time, each in a slot of its own: a semaphore in place of a lock. All who use the name
    /// have to give the same number, from 1 to 256
    #[arg(long, value_name = "NUMBER", value_parser = permits())]
    pub(crate) max: Option<u32>,

    /// Uses the fenced protocol, for a fencing token (all users of the lock have to)
    #[arg(long)]
    pub(crate) fenced: bool,

    /// The exit code when another holder has the lock
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = crate::failure::HELD)]
    pub(crate) conflict_exit_code: u8,

    #[command(flatten)]
    pub(crate) told: Told,

    /// Says nothing when another holder has the lock: the exit code tells it. Faults are still told
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// What the lock is called
    #[arg(value_parser = Name::parse)]
    pub(crate) name: Name,
}

/// What others are told of the holder.
#[derive(Debug, Args)]
pub(crate) struct Told {
    /// What others are told of the holder, beside the host and the process: up to 100 bytes. Everybody who may ask for
    /// the lock can read it. With --shared, others learn only how many share the lock
    #[arg(long, value_name = "TEXT", value_parser = label::parse)]
    pub(crate) label: Option<String>,

    /// Tells others nothing of the holder, neither the host nor the process
    #[arg(long, conflicts_with = "label")]
    pub(crate) no_label: bool,
}
