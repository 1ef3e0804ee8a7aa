//! The command line: one definition for the parser, the help, the manual page and the completions.
//!
//! Each subcommand has a file of its own, with its help and its exit codes.

#![expect(
    clippy::doc_markdown,
    reason = "these comments are shown on a terminal as they are"
)]

mod fault;
mod health;
mod lock;
mod run;
mod servers;
mod status;
mod unlock;

use clap::Parser;
use clap::error::ErrorKind;

pub(crate) use self::health::Health;
pub(crate) use self::lock::Lock;
pub(crate) use self::run::{OnLoss, Run};
pub(crate) use self::servers::Servers;
pub(crate) use self::status::Status;
pub(crate) use self::unlock::Unlock;
use crate::failure::Failure;
use crate::output;

/// The exit codes of all subcommands, and where servers and passwords are read from.
fn closing_words() -> String {
    let texts = [
        run::EXIT_CODES,
        status::EXIT_CODES,
        health::EXIT_CODES,
        unlock::EXIT_CODES,
        servers::SERVERS,
    ];
    texts.join("\n\n")
}

/// Runs a command under a lock that a majority of independent Redis servers agree on (Redlock), and looks at locks and
/// servers.
#[derive(Debug, Parser)]
#[command(name = "redlatch", version, after_long_help = closing_words())]
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
        Err(error) => Err(Failure::usage(fault::told(&error))),
    }
}

pub(crate) fn definition() -> clap::Command {
    <Arguments as clap::CommandFactory>::command()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        definition().debug_assert();
    }
}
