//! How a lock is taken: what `run` and `hold` have in common; and `redlatch hold`.

use std::time::Duration;

use clap::builder::RangedI64ValueParser;
use clap::{Args, value_parser};

use super::servers::Servers;
use crate::durations;
use crate::label;
use crate::name::Name;

/// As the library takes it.
pub(super) fn permits() -> RangedI64ValueParser<u32> {
    value_parser!(u32).range(1..=256)
}

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option")]
pub(crate) struct Lock {
    /// What the lock is called
    pub(crate) name: Name,

    /// How long to wait [default: the ttl and 10s]
    ///
    /// The default is longer than a holder that was killed leaves its lock behind.
    #[arg(long, value_name = "DURATION", value_parser = durations::parse_wait)]
    pub(crate) wait: Option<Duration>,

    /// Doesn't wait for another holder
    #[arg(short, long, conflicts_with = "wait")]
    pub(crate) no_wait: bool,

    /// How long a crash blocks others [default: 30s]
    ///
    /// From three node timeouts to max_ttl. The lock is renewed in time. If --max-hold is shorter than the default, that counts.
    #[arg(long, value_name = "DURATION", value_parser = durations::parse_some)]
    pub(crate) ttl: Option<Duration>,

    /// The longest time to hold the lock [default: none]
    ///
    /// After that it counts as lost.
    #[arg(long, value_name = "DURATION", value_parser = durations::parse_some)]
    pub(crate) max_hold: Option<Duration>,

    /// Lets so many have it at a time (a semaphore)
    ///
    /// Each is in a slot of its own. All who use the name have to give the same number, from 1 to 256.
    #[arg(long, value_name = "NUMBER", value_parser = permits())]
    pub(crate) max: Option<u32>,

    /// Uses the fenced protocol, for a fencing token
    ///
    /// All users of the lock have to. New servers have to be opened for it first, by 'redlatch open-nodes'.
    #[arg(long)]
    pub(crate) fenced: bool,

    /// What others are told of the holder, beside host and process
    ///
    /// Up to 100 bytes. Everybody who may ask for the lock can read it. With --shared, others learn only how many share the
    /// lock.
    #[arg(long, value_name = "TEXT", value_parser = label::parse)]
    pub(crate) label: Option<String>,

    /// Tells others nothing of the holder, neither host nor process
    #[arg(long, conflicts_with = "label")]
    pub(crate) no_label: bool,

    /// The exit code when another holder has the lock
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = crate::failure::HELD)]
    pub(crate) conflict_exit_code: u8,

    /// Says nothing when another holder has the lock
    ///
    /// The exit code tells it. Faults are still told.
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
}

/// Holds a lock until standard input ends or a signal comes.
///
/// When the lock is held, one line is printed: the token, and with --fenced a space and the fencing token. From then on
/// the lock is renewed. It is released when standard input ends, or at INT, TERM, HUP or QUIT. If the lock is lost,
/// redlatch says so and ends with 76. Nothing else is stopped then: whoever relies on the lock has to notice that
/// redlatch has ended, by the end of its standard output. Input is read and thrown away.
///
/// The token tells who holds the lock. It is no lease that another process could take over: 'unlock' with it ends the
/// lock, for this redlatch as well.
#[derive(Debug, Args)]
pub(crate) struct Hold {
    #[command(flatten)]
    pub(crate) lock: Lock,

    /// Prints JSON, for programs
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) servers: Servers,
}
