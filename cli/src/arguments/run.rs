//! `redlatch run`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::lock::Lock;
use super::page::{Entry, closing_words};
use super::servers::Servers;
use crate::durations;
use crate::name::Name;

pub(crate) const EXIT_CODES: [Entry; 8] = [
    (
        "that of the command",
        "It ran under the lock from its start to its end. It is 128 + n if signal n ended the command.",
    ),
    (
        "75",
        "Another holder has the lock, or it rests, or, with --shared, one waits to have it alone. Nothing ran. -E sets another code.",
    ),
    ("69", "Too few servers answer, and nothing ran."),
    (
        "76",
        "The lock was lost, whatever the command returned. With --on-loss ignore, the code is that of the command.",
    ),
    (
        "126, 127",
        "The command can't be executed, or is not there. No lock was taken for it.",
    ),
    (
        "128 + n",
        "Signal n came while redlatch waited for the lock, and nothing ran. With --forever: signal n has ended it.",
    ),
    (
        "75, 69",
        "With --forever: a campaign took longer than --wait.",
    ),
    ("74", "The file of --metrics can't be written. Nothing ran."),
];

pub(crate) const EXAMPLES: [Entry; 8] = [
    (
        "redlatch run --no-wait nightly-report -- /usr/local/bin/report --all",
        "Runs the report, unless another machine does.",
    ),
    (
        "redlatch run --no-wait --at-least 10m nightly-report -- /usr/local/bin/report",
        "Runs the report once, also if it takes a second and another machine's clock is late by five minutes.",
    ),
    (
        "redlatch run --max-hold 2h 'my job' -- sh -c 'fetch && load'",
        "Waits for its turn, and runs two commands for two hours at most.",
    ),
    (
        "redlatch run -- -job -- true",
        "Takes a lock whose name begins with a dash: it stands behind two dashes, and so does the command.",
    ),
    (
        "redlatch run --max 3 exports -- sh -c 'export --to /scratch/$REDLATCH_SLOT'",
        "Lets three exports run at a time, whichever machines they are on, each with a folder of its own.",
    ),
    (
        "redlatch run --also account:2 account:1 -- transfer --from account:1 --to account:2",
        "Locks two accounts at once, so that two transfers never wait for each other.",
    ),
    (
        "redlatch run --shared ledger -- report --from-ledger",
        "Makes a report beside other reports, and never while 'redlatch run ledger' writes.",
    ),
    (
        "redlatch run --forever scheduler -- /usr/local/bin/scheduler",
        "Runs the scheduler on one machine at a time: when that one fails, another one takes over.",
    ),
];

/// Runs a command under a lock, which is renewed until the command has ended.
///
/// The command gets REDLATCH_RESOURCE, REDLATCH_TOKEN, with --max REDLATCH_SLOT, with --also REDLATCH_RESOURCES, and with
/// --fenced REDLATCH_FENCING_TOKEN in its environment. It runs in a process group of its own, to which INT, TERM, HUP and QUIT are forwarded. The lock is released when the
/// command has ended, even if processes that it has started still run. If redlatch is killed, the group is killed too.
/// If redlatch is stopped, the group is ended before the lock is.
#[derive(Debug, Args)]
#[command(after_long_help = closing_words(&EXIT_CODES))]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) servers: Servers,

    #[command(flatten)]
    pub(crate) lock: Lock,

    /// Locks this name as well: all or none, in one step, and never two runs that wait for each other. Each name is an
    /// ordinary lock to everybody else. May be given several times, for up to 64 names in all
    #[arg(long, value_name = "NAME", value_parser = Name::parse, conflicts_with = "max")]
    pub(crate) also: Vec<Name>,

    /// Shares the lock with other runs that have --shared (readers). A run without --shared (a writer) has the lock alone.
    /// While a writer waits, no further reader gets the lock. So with --no-wait, a reader may be refused while only
    /// readers have the lock. Nobody is shown the --label of a reader
    #[arg(long, conflicts_with_all = ["also", "max", "at_least", "forever"])]
    pub(crate) shared: bool,

    /// Keeps the lock from everybody for this long from its acquisition, also if the command ends sooner: the lock rests.
    /// For a job that another machine would start again because its clock is late. The lock rests for up to 1 % longer, so
    /// choose some percent less than the time between two starts. At most max_ttl
    #[arg(long, value_name = "DURATION", value_parser = durations::parse_some)]
    pub(crate) at_least: Option<Duration>,

    /// Lets the lock rest also if the command fails. Else it is free at once, so that another machine can try
    #[arg(long, requires = "at_least")]
    pub(crate) at_least_on_failure: bool,

    /// What to do when the lock is lost while the command runs
    #[arg(long, value_name = "ACTION", default_value = "term")]
    pub(crate) on_loss: OnLoss,

    /// The time from TERM to KILL when the lock is lost
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = durations::parse)]
    pub(crate) grace: Duration,

    /// For a service of which one may work at a time: runs the command whenever this process gets the lock, and campaigns
    /// again when the lock is lost or the command has ended, until INT, TERM or QUIT. It waits for the lock without end,
    /// unless --wait is given. With NOTIFY_SOCKET it tells the service manager who leads
    #[arg(long, conflicts_with = "no_wait")]
    pub(crate) forever: bool,

    /// Writes metrics to this file, for the textfile collector of the node exporter: at the start, every 15 s, and at the
    /// end. The name has to end in .prom there, and no other job may use the file
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) metrics: Option<PathBuf>,

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
