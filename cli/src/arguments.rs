//! The command line: one definition for the parser, the help, the manual page and the completions.

#![expect(
    clippy::doc_markdown,
    reason = "these comments are shown on a terminal as they are"
)]

mod asking;
mod dashes;
mod fault;
mod hold;
mod lock;
pub(crate) mod page;
mod run;
mod servers;

use std::ffi::OsString;

use anstream::ColorChoice;
use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, ValueEnum};

pub(crate) use self::asking::{Health, List, OpenNodes, Status, Unlock, Watch};
pub(crate) use self::hold::Hold;
pub(crate) use self::lock::Lock;
pub(crate) use self::run::{OnLoss, OnWanted, Run};
pub(crate) use self::servers::{Servers, TlsFiles};
use crate::failure::Failure;
use crate::name::Name;
use crate::output;
use crate::text;

const SHORT_WORDS: &str = "\
'redlatch SUBCOMMAND -h' has the usual options; --help has all, with examples.";

const CLOSING_WORDS: &str = "\
'redlatch SUBCOMMAND -h' has the usual options on one screen; --help has all of them, with examples, the exit status, the \
environment and the files. 'redlatch man | man -l -' shows all of it on one page.

The first steps:
  export REDLATCH_NODES=redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3
  redlatch health
  redlatch run nightly-report -- /usr/local/bin/report
  redlatch status nightly-report";

/// Runs a command under a lock that a majority of independent Redis servers agree on (Redlock), and looks at locks and
/// servers.
#[derive(Debug, Parser)]
#[command(name = "redlatch", version, after_help = SHORT_WORDS, after_long_help = CLOSING_WORDS)]
struct Arguments {
    #[command(subcommand)]
    subcommand: Subcommand,

    /// Whether to colour
    ///
    /// auto: on a terminal, unless NO_COLOR is set.
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "auto",
        global = true,
        hide_short_help = true
    )]
    color: Color,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Color {
    Auto,
    Always,
    Never,
}

impl Color {
    /// Else, a terminal has colours, unless the environment forbids them.
    fn choose(self) {
        match self {
            Self::Auto => ColorChoice::Auto,
            Self::Always => ColorChoice::Always,
            Self::Never => ColorChoice::Never,
        }
        .write_global();
    }
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    Run(Box<Run>),
    Hold(Box<Hold>),
    Status(Status),
    List(List),
    Watch(Watch),
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
        Ok(arguments) => {
            arguments.color.choose();
            Ok(Some(arguments.subcommand))
        }
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
            ) =>
        {
            output::print(&error.render().ansi().to_string())?;
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
    let parse = |words: &[OsString]| {
        let definition = page::complete(definition(), text::width());
        Arguments::from_arg_matches(&definition.try_get_matches_from(words)?)
    };
    match (parse(words), dashes::split(words)) {
        (Err(error), Some((rest, name))) if error.kind() == ErrorKind::MissingRequiredArgument => {
            let mut arguments = parse(&rest)?;
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
    Arguments::command()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        page::complete(definition(), 80).debug_assert();
    }

    #[test]
    fn the_short_help_of_each_subcommand_is_one_screen() {
        let subcommands = page::PAGES.map(|page| page.subcommand);
        for words in subcommands
            .iter()
            .map(|subcommand| vec!["redlatch", subcommand, "-h"])
        {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let help = parse_words(&words).unwrap_err().to_string();
            let lines: Vec<&str> = help.lines().collect();
            assert!(lines.len() <= 24, "{} lines: {help}", lines.len());
            for line in lines {
                assert!(line.chars().count() <= 80, "{line}: {help}");
            }
        }
    }
}
