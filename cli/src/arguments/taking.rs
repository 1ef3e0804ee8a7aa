//! The subcommands that take a lock: `run` and `hold`, and what they have in common.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, RangedI64ValueParser};
use clap::{Args, ValueEnum, value_parser};
use rustix::process::Signal;

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
    /// From three node timeouts to max_ttl. The lock is renewed in time. If --max-hold or max_ttl is shorter than the default, the
    /// shorter one is the ttl.
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
    #[arg(short, long, conflicts_with = "verbose", hide_short_help = true)]
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

/// Runs a command under a lock.
///
/// The lock is renewed until the command has ended.
///
/// The command gets REDLATCH_RESOURCE, REDLATCH_TOKEN, with --max REDLATCH_SLOT, with --also REDLATCH_RESOURCES, and with
/// --fenced REDLATCH_FENCING_TOKEN in its environment. It runs in a process group of its own, to which INT, TERM, HUP and QUIT
/// are forwarded. The lock is released when the command has ended, even if processes that it has started still run. If redlatch
/// is killed, the group is killed too. If redlatch is stopped, the group is ended before the lock is.
#[derive(Debug, Args)]
#[command(override_usage = "redlatch run [OPTIONS] <NAME> -- <COMMAND>...")]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) lock: Lock,

    /// Locks this name as well: all or none
    ///
    /// It is one step, so two runs never wait for each other. Each name is an ordinary lock to everybody else. May be given several times, for up to
    /// 64 names in all.
    #[arg(long, value_name = "NAME", conflicts_with = "max")]
    pub(crate) also: Vec<Name>,

    /// Shares the lock with others that have --shared
    ///
    /// Those are readers. A run without --shared (a writer) has the lock alone. While a writer waits, no further reader gets the lock. So with
    /// --no-wait, a reader may be refused while only readers have the lock. Nobody is shown the --label of a reader.
    #[arg(long, conflicts_with_all = ["also", "max", "at_least", "forever"])]
    pub(crate) shared: bool,

    /// Keeps the lock from everybody for so long: it rests
    ///
    /// From its acquisition, also if the command ends sooner. For a job that another machine would start again because its clock is
    /// late. The lock rests for up to 1 % longer, so choose some percent less than the time between two starts. At most max_ttl.
    #[arg(long, value_name = "DURATION", value_parser = durations::parse_some)]
    pub(crate) at_least: Option<Duration>,

    /// Lets the lock rest also if the command fails
    ///
    /// Else it is free at once, so that another machine can try.
    #[arg(long, requires = "at_least")]
    pub(crate) at_least_on_failure: bool,

    /// Campaigns again whenever the command has ended
    ///
    /// For a service of which one may work at a time: runs the command whenever this process gets the lock, and campaigns again when
    /// the lock is lost or the command has ended, until INT, TERM or QUIT. It waits for the lock without end, unless --wait is given.
    /// With NOTIFY_SOCKET it tells the service manager who leads.
    #[arg(long, conflicts_with = "no_wait")]
    pub(crate) forever: bool,

    /// What to do when the lock is lost
    #[arg(long, value_name = "ACTION", default_value = "term")]
    pub(crate) on_loss: OnLoss,

    /// A signal for the command when somebody waits for the lock
    ///
    /// So that it can end at a good moment, and another machine goes on: a renewal tells that somebody waits. It is sent once, to the
    /// process group of the command. The command may ignore it, and nothing else happens. Not with --forever: those who stand by
    /// wait all the time.
    #[arg(long, value_name = "SIGNAL", conflicts_with = "forever", ignore_case = true,
          value_parser = PossibleValuesParser::new(SIGNALS.map(|(name, _)| name)))]
    pub(crate) on_wanted: Option<String>,

    /// The time that the command has to end, from TERM to KILL [default: a third of the ttl, up to 10s]
    ///
    /// If the lock can't be renewed, TERM comes this long before others can get the lock, and KILL just before. If another holder
    /// has the lock, or its key is gone, TERM comes when a renewal finds that, and KILL this long after TERM.
    #[arg(long, value_name = "DURATION", value_parser = durations::parse)]
    pub(crate) grace: Option<Duration>,

    /// Writes metrics to this file, for the node exporter
    ///
    /// For its textfile collector: at the start, every 15 s, and at the end. The name has to end in .prom there, and no other job may
    /// use the file.
    #[arg(long, value_name = "FILE")]
    pub(crate) metrics: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) servers: Servers,

    /// The command and its arguments
    #[arg(last = true, required = true, value_hint = clap::ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}

/// What a command can be told by.
const SIGNALS: [(&str, Signal); 6] = [
    ("TERM", Signal::TERM),
    ("INT", Signal::INT),
    ("HUP", Signal::HUP),
    ("QUIT", Signal::QUIT),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
];

/// The signal of this name, in letters of any size.
pub(crate) fn signal_called(name: &str) -> Option<Signal> {
    let is_it = |(other, _): &&(&str, Signal)| other.eq_ignore_ascii_case(name);
    SIGNALS.iter().find(is_it).map(|(_, signal)| *signal)
}

/// TERM and KILL go to the process group of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLoss {
    /// TERM, and KILL after --grace
    Term,
    /// KILL at once
    Kill,
    /// A message, and the command goes on without the lock
    Ignore,
}
