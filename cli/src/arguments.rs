//! The command line: one definition for the parser, the help, the manual page and the completions.
//!
//! Each subcommand has a file of its own, with its help and its exit codes.

#![expect(
    clippy::doc_markdown,
    reason = "these comments are shown on a terminal as they are"
)]

mod dashes;
mod fault;
mod health;
mod hold;
mod list;
mod lock;
mod open_nodes;
pub(crate) mod page;
mod run;
mod servers;
mod status;
mod unlock;

use std::ffi::OsString;

use clap::Parser;
use clap::error::ErrorKind;

pub(crate) use self::health::Health;
pub(crate) use self::hold::Hold;
pub(crate) use self::list::List;
pub(crate) use self::lock::Lock;
pub(crate) use self::open_nodes::OpenNodes;
use self::page::Entry;
pub(crate) use self::run::{OnLoss, Run};
pub(crate) use self::servers::Servers;
pub(crate) use self::status::Status;
pub(crate) use self::unlock::Unlock;
use crate::failure::Failure;
use crate::name::Name;
use crate::output;

/// What belongs to a subcommand and is not part of its definition for the parser.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Page {
    pub(crate) subcommand: &'static str,
    /// Beside those that all have.
    pub(crate) exit_codes: &'static [Entry],
    pub(crate) examples: &'static [Entry],
}

/// The pages of all subcommands.
pub(crate) const PAGES: [Page; 9] = [
    Page {
        subcommand: "run",
        exit_codes: &run::EXIT_CODES,
        examples: &run::EXAMPLES,
    },
    Page {
        subcommand: "hold",
        exit_codes: &hold::EXIT_CODES,
        examples: &hold::EXAMPLES,
    },
    Page {
        subcommand: "status",
        exit_codes: &status::EXIT_CODES,
        examples: &status::EXAMPLES,
    },
    Page {
        subcommand: "list",
        exit_codes: &list::EXIT_CODES,
        examples: &list::EXAMPLES,
    },
    Page {
        subcommand: "health",
        exit_codes: &health::EXIT_CODES,
        examples: &health::EXAMPLES,
    },
    Page {
        subcommand: "unlock",
        exit_codes: &unlock::EXIT_CODES,
        examples: &unlock::EXAMPLES,
    },
    Page {
        subcommand: "open-nodes",
        exit_codes: &open_nodes::EXIT_CODES,
        examples: &open_nodes::EXAMPLES,
    },
    Page {
        subcommand: "completions",
        exit_codes: &PRINTS,
        examples: &[(
            "redlatch completions bash > /etc/bash_completion.d/redlatch",
            "Lets the shell complete subcommands and options.",
        )],
    },
    Page {
        subcommand: "man",
        exit_codes: &PRINTS,
        examples: &[("redlatch man | man -l -", "Shows this page.")],
    },
];

const PRINTS: [Entry; 1] = [("0", "It is printed.")];

const CLOSING_WORDS: &str = "\
'redlatch SUBCOMMAND --help' has the options, the exit status, the environment and the files of a subcommand. 'redlatch \
man | man -l -' shows all of it on one page, with examples.";

/// Runs a command under a lock that a majority of independent Redis servers agree on (Redlock), and looks at locks and
/// servers.
#[derive(Debug, Parser)]
#[command(name = "redlatch", version, after_long_help = CLOSING_WORDS)]
struct Arguments {
    #[command(subcommand)]
    subcommand: Subcommand,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    Run(Box<Run>),
    Hold(Box<Hold>),
    Status(Status),
    List(List),
    Health(Health),
    Unlock(Unlock),
    OpenNodes(OpenNodes),
    /// Prints completions for a shell.
    Completions {
        shell: clap_complete::Shell,
    },
    /// Prints the manual page, for `man -l -`.
    Man,
}

/// Parses the command line. Returns none after printing the help or the version.
pub(crate) fn parse() -> Result<Option<Subcommand>, Failure> {
    let words: Vec<OsString> = std::env::args_os().collect();
    match parse_words(&words) {
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
        Err(error) => Err(Failure::usage(fault::told(&error, &words, &definition()))),
    }
}

/// Parses a command line. The name of `run` may stand behind two dashes.
fn parse_words(words: &[OsString]) -> Result<Arguments, clap::Error> {
    let result = Arguments::try_parse_from(words);
    match (result, dashes::split(words)) {
        (Err(error), Some((rest, name))) if error.kind() == ErrorKind::MissingRequiredArgument => {
            let mut arguments = Arguments::try_parse_from(rest)?;
            if let Subcommand::Run(run) = &mut arguments.subcommand {
                let name = name.to_str().ok_or("a name is text in UTF-8".to_owned());
                let refused = |reason| {
                    let message = format!("invalid value for '<NAME>': {reason}\n");
                    clap::Error::raw(ErrorKind::ValueValidation, message)
                };
                run.lock.name = name.and_then(Name::parse).map_err(refused)?;
            }
            Ok(arguments)
        }
        (result, _) => result,
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
