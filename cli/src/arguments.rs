//! The command line: one definition for the parser, the help, the manual page and the completions.

#![expect(
    clippy::doc_markdown,
    reason = "these comments are shown on a terminal as they are"
)]

mod asking;
mod dashes;
mod fault;
pub(crate) mod page;
mod servers;
mod taking;

use std::ffi::OsString;
use std::io::stdout;

use clap::error::ErrorKind;
use clap::{ColorChoice, CommandFactory, FromArgMatches, Parser};

pub(crate) use self::asking::{Health, List, OpenNodes, Status, Unlock, Watch};
pub(crate) use self::servers::{Servers, TlsFiles};
pub(crate) use self::taking::{Hold, Lock, OnLoss, Run, signal_called};
use crate::failure::Failure;
use crate::output;
use crate::text;

/// Runs a command under a lock that a majority of independent Redis servers agree on (Redlock), and looks at locks and
/// servers.
#[derive(Debug, Parser)]
#[command(name = "redlatch", version)]
struct Arguments {
    #[command(subcommand)]
    subcommand: Subcommand,

    /// Whether to colour
    ///
    /// auto: on a terminal, unless NO_COLOR is set.
    #[arg(long, value_name = "WHEN", default_value = "auto", global = true)]
    color: ColorChoice,
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
    let error = match parse_words(&words) {
        Ok(arguments) => {
            match arguments.color {
                ColorChoice::Auto => anstream::ColorChoice::Auto,
                ColorChoice::Always => anstream::ColorChoice::Always,
                ColorChoice::Never => anstream::ColorChoice::Never,
            }
            .write_global();
            return Ok(Some(arguments.subcommand));
        }
        Err(error) => error,
    };
    let kind = error.kind();
    if matches!(kind, ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        output::print(&error.render().ansi().to_string())?;
        return Ok(None);
    }
    // For this error, clap would show the whole help.
    if kind == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return Err(Failure::usage("no subcommand; try 'redlatch --help'"));
    }
    Err(Failure::usage(fault::told(&error, &words, &definition())))
}

/// Parses a command line. The name of `run` may stand behind two dashes.
fn parse_words(words: &[OsString]) -> Result<Arguments, clap::Error> {
    let parse = |words: &[OsString]| {
        let definition = page::complete(definition(), text::size(stdout()).0);
        Arguments::from_arg_matches(&definition.try_get_matches_from(words)?)
    };
    let (error, rest, name) = match (parse(words), dashes::split(words)) {
        (Err(error), Some((rest, name))) if error.kind() == ErrorKind::MissingRequiredArgument => {
            (error, rest, name)
        }
        (result, _) => return result,
    };
    let mut arguments = parse(&rest)?;
    let Subcommand::Run(run) = &mut arguments.subcommand else {
        return Err(error);
    };
    let name = name.to_str().ok_or("a name is text in UTF-8".to_owned());
    run.lock.name = name.and_then(str::parse).map_err(|reason| {
        let message = format!("invalid value for '<NAME>': {reason}\n");
        clap::Error::raw(ErrorKind::ValueValidation, message)
    })?;
    Ok(arguments)
}

pub(crate) fn definition() -> clap::Command {
    Arguments::command()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound_and_the_short_help_of_each_subcommand_is_one_screen() {
        page::complete(definition(), 80).debug_assert();
        for (subcommand, _) in page::PAGES {
            let words = ["redlatch", subcommand, "-h"].map(OsString::from);
            let help = parse_words(&words).unwrap_err().to_string();
            assert!(help.lines().count() <= 24, "{help}");
            // Scripts ask for it every day, and those that run a command do not.
            assert_eq!(help.contains("--quiet"), subcommand == "status", "{help}");
            for line in help.lines() {
                assert!(line.chars().count() <= 80, "{line}: {help}");
            }
        }
    }
}
