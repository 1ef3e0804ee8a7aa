//! The command line: one definition for the parser, the help, the manual page and the completions.

#![expect(
    clippy::doc_markdown,
    reason = "these comments are shown on a terminal as they are"
)]

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::{ContextKind, ErrorKind};
use clap::{Args, Parser, ValueEnum};

use crate::durations;
use crate::failure::Failure;
use crate::name::Name;
use crate::output;

const EXIT_CODES: &str = "\
Exit codes of run: that of the command, or 128 and the number of the signal that ended it; 75 (or -E) another holder has \
the lock, 69 too few servers answer, 76 the lock was lost, 64 usage, 126 and 127 the command can't be run or is not \
there, 71 and 74 faults of the system. A signal while waiting ends with 128 and its number.

Exit codes of status: 0 it is known whether the lock is held, 69 it is not. Of health: 0 nothing to do, 1 a warning, 2 \
critical. Of unlock: 0 given back, 76 the lock is not held with this token, 69 too few servers answer.";

const SERVERS: &str = "\
Servers: from --node, else from the variable REDLATCH_NODES (URLs separated by commas or white space), else from the key \
nodes of the configuration file. That is --config, else the file that REDLATCH_CONFIG names, else ./redlatch.toml.

Passwords: for servers whose URL has none, from --password-file, else from the variable REDLATCH_PASSWORD, else from the \
file that the key password_file names. URLs in REDLATCH_NODES and in the file may have one as well; in --node, where all \
users of the machine can see it, it is refused. The command that runs under the lock does not inherit passwords.

Configuration file, with examples: nodes = [\"redis://10.0.0.1\", \"redis://10.0.0.2\", \"redis://10.0.0.3\"], username = \
\"locks\", password_file = \"/etc/redlatch.password\", key_prefix = \"billing:\", node_timeout = \"50ms\", ttl = \"30s\", wait \
= \"5m\", max_hold = \"2h\", protocol = \"classic\" or \"fenced\", max_ttl = \"1h\", drift_factor = 0.01.";

/// Runs a command under a lock that a majority of independent Redis servers agree on (Redlock), and looks at locks and
/// servers.
#[derive(Debug, Parser)]
#[command(name = "redlatch", version, after_long_help = [EXIT_CODES, "\n\n", SERVERS].concat())]
struct Arguments {
    #[command(subcommand)]
    subcommand: Subcommand,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    Run(Box<Run>),
    Status(Status),
    Health(Health),
    Unlock(Unlock),
    /// Prints completions for a shell.
    Completions {
        shell: clap_complete::Shell,
    },
    /// Prints the manual page, for `man -l -`.
    Man,
}

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

    /// How long others wait if this machine crashes; from three node timeouts to max_ttl. The lock is renewed in time
    /// [default: 30s, or --max-hold if that is shorter]
    #[arg(long, value_name = "DURATION", value_parser = durations::parse_some)]
    pub(crate) ttl: Option<Duration>,

    /// How long to wait for the lock [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = durations::parse_wait)]
    pub(crate) wait: Option<Duration>,

    /// Doesn't wait: if another holder has the lock, the exit code says so
    #[arg(short, long, conflicts_with = "wait")]
    pub(crate) no_wait: bool,

    /// The longest time to hold the lock; after that it counts as lost [default: none]
    #[arg(long, value_name = "DURATION", value_parser = durations::parse_some)]
    pub(crate) max_hold: Option<Duration>,

    /// Uses the fenced protocol, for a fencing token (all users of the lock have to)
    #[arg(long)]
    pub(crate) fenced: bool,

    /// What to do when the lock is lost while the command runs
    #[arg(long, value_name = "ACTION", default_value = "term")]
    pub(crate) on_loss: OnLoss,

    /// The time from TERM to KILL when the lock is lost
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = durations::parse)]
    pub(crate) grace: Duration,

    /// The exit code when another holder has the lock
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = crate::failure::HELD)]
    pub(crate) conflict_exit_code: u8,

    /// What the lock is called
    #[arg(value_parser = Name::parse)]
    pub(crate) name: Name,

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

/// Tells whether a lock is held, by which token, for how long, and what each server has.
#[derive(Debug, Args)]
#[command(after_long_help = [EXIT_CODES, "\n\n", SERVERS].concat())]
pub(crate) struct Status {
    #[command(flatten)]
    pub(crate) servers: Servers,

    #[command(flatten)]
    pub(crate) form: Form,

    /// What the lock is called
    #[arg(value_parser = Name::parse)]
    pub(crate) name: Name,
}

/// Tells what is wrong with the servers and what to do about it.
#[derive(Debug, Args)]
#[command(after_long_help = [EXIT_CODES, "\n\n", SERVERS].concat())]
pub(crate) struct Health {
    #[command(flatten)]
    pub(crate) servers: Servers,

    #[command(flatten)]
    pub(crate) form: Form,

    /// Judges the servers as for a client of the fenced protocol
    #[arg(long)]
    pub(crate) fenced: bool,
}

/// Releases a lock in place of its holder, if it is held with this token.
///
/// A holder that still runs goes on until it notices. 'redlatch status' shows the token.
#[derive(Debug, Args)]
#[command(after_long_help = [EXIT_CODES, "\n\n", SERVERS].concat())]
pub(crate) struct Unlock {
    #[command(flatten)]
    pub(crate) servers: Servers,

    #[command(flatten)]
    pub(crate) form: Form,

    /// What the lock is called
    #[arg(value_parser = Name::parse)]
    pub(crate) name: Name,

    /// The token that the lock is held with, as status shows it, with its backslash escapes
    #[arg(long, allow_hyphen_values = true)]
    pub(crate) token: String,

    /// For a lock that was taken with --fenced: the servers remember the release, so that its holder can't renew the
    /// lock [default: as the key protocol of the configuration file says]
    #[arg(long)]
    pub(crate) fenced: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Form {
    /// Prints one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Servers {
    /// A server, as redis://[user@]host[:port][/db], rediss://… or unix:///path; once for each
    #[arg(long = "node", value_name = "URL")]
    pub(crate) nodes: Vec<String>,

    /// The configuration file
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,

    /// A file whose first line is the password of the servers
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) password_file: Option<PathBuf>,

    /// The prefix that makes a key of a lock's name
    #[arg(long, value_name = "PREFIX")]
    pub(crate) key_prefix: Option<String>,

    /// The time for one command to one server. An attempt that waits for a server ends first, before a signal or the
    /// end of --wait takes effect [default: 50ms]
    #[arg(long, value_name = "DURATION", value_parser = durations::parse_some)]
    pub(crate) node_timeout: Option<Duration>,

    /// Reports on standard error what is being done
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

/// Parses the command line. Returns none after printing the help or the version.
pub(crate) fn parse() -> Result<Option<Subcommand>, Failure> {
    match Arguments::try_parse() {
        Ok(arguments) => Ok(Some(arguments.subcommand)),
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
            ) =>
        {
            output::print(&error.render().to_string())?;
            Ok(None)
        }
        // For this error, clap would show the whole help.
        Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            Err(Failure::usage("no subcommand; try 'redlatch --help'"))
        }
        Err(error) => Err(Failure::usage(told(&error))),
    }
}

pub(crate) fn definition() -> clap::Command {
    <Arguments as clap::CommandFactory>::command()
}

/// The error in one line, with advice.
fn told(error: &clap::Error) -> String {
    let mut line = in_one_line(&error.render().to_string());
    if wants_command(error) {
        line.push_str("; the command stands after two dashes: redlatch run NAME -- COMMAND");
    }
    line.push_str("; try 'redlatch --help'");
    line
}

/// Whether the command of `run` is missing, or does not stand after two dashes.
fn wants_command(error: &clap::Error) -> bool {
    let is_of_run = |text: &str| text.contains("redlatch run");
    let usage = error.get(ContextKind::Usage).map(ToString::to_string);
    let argument = error.get(ContextKind::InvalidArg).map(ToString::to_string);
    let argument = argument.unwrap_or_default();
    let is_stray = error.kind() == ErrorKind::UnknownArgument && !argument.starts_with('-');
    let is_missing =
        error.kind() == ErrorKind::MissingRequiredArgument && argument.contains("COMMAND");
    usage.as_deref().is_some_and(is_of_run) && (is_stray || is_missing)
}

/// The first paragraph of clap's message, with its tips, in one line.
fn in_one_line(rendered: &str) -> String {
    let joined = |paragraph: &str| paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut paragraphs = rendered.split("\n\n");
    let fault = joined(paragraphs.next().unwrap_or_default());
    let mut line = fault.strip_prefix("error: ").unwrap_or(&fault).to_owned();
    let tips = paragraphs.flat_map(str::lines).map(str::trim);
    let tips = tips.filter_map(|text| text.strip_prefix("tip: "));
    // This tip does not fit: after the two dashes stands the command of `run`, not a name.
    for tip in tips.filter(|tip| !tip.starts_with("to pass ")) {
        line.push_str("; ");
        line.push_str(tip);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        definition().debug_assert();
    }

    #[test]
    fn a_fault_is_told_in_one_line() {
        let faults = [
            (
                vec!["run"],
                "the following required arguments were not provided",
            ),
            (vec!["run", "x", "--nodde", "y", "--", "true"], "--node"),
            (vec!["run", "x"], "redlatch run NAME -- COMMAND"),
            (vec!["dance"], "unrecognized subcommand 'dance'"),
            (vec!["run", "", "--", "true"], "at least one character"),
            (
                vec!["run", "x", "echo", "hi"],
                "redlatch run NAME -- COMMAND",
            ),
            (
                vec!["run", "x", "-n", "echo", "hi"],
                "redlatch run NAME -- COMMAND",
            ),
            (vec!["run", "x", "--wait", "0s", "--", "true"], "--no-wait"),
            (vec!["run", "x", "-E", "300", "--", "true"], "0..=255"),
        ];
        let tip =
            told(&Arguments::try_parse_from(["redlatch", "run", "-job", "--", "x"]).unwrap_err());
        assert!(!tip.contains("to pass"), "{tip}");
        for (words, hint) in faults {
            let words = ["redlatch"].into_iter().chain(words);
            let error = Arguments::try_parse_from(words).unwrap_err();
            let line = told(&error);
            assert!(line.contains(hint), "{line}");
            assert!(
                !line.contains('\n') && line.ends_with("try 'redlatch --help'"),
                "{line}"
            );
        }
    }
}
