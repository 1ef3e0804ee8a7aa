//! A name of `run` that begins with a dash: `redlatch run -- -job -- true`.
//!
//! For the parser, all that follows the first two dashes is the command. The other subcommands have no command, so there
//! the parser takes such a name itself.

use std::ffi::{OsStr, OsString};

/// Stands for the name while the rest is parsed.
const NAME: &str = "name";

/// Takes the name out of `run … -- NAME -- COMMAND`.
pub(super) fn split(words: &[OsString]) -> Option<(Vec<OsString>, &OsStr)> {
    let are_dashes = |word: &OsString| word == "--";
    let place = words.iter().position(are_dashes)?;
    let (options, rest) = words.split_at_checked(place)?;
    let [_, name, dashes, ..] = rest else {
        return None;
    };
    let is_run = options.get(1).is_some_and(|word| word == "run");
    if !is_run || !are_dashes(dashes) {
        return None;
    }
    let command = rest.iter().skip(2);
    let stand_in = OsString::from(NAME);
    let words = options.iter().chain([&stand_in]).chain(command);
    Some((words.cloned().collect(), name))
}

#[cfg(test)]
mod tests {
    use super::super::{Subcommand, parse_words};
    use super::*;

    #[track_caller]
    fn parsed(words: &str) -> Result<(String, Vec<OsString>), String> {
        let words: Vec<OsString> = words.split(' ').map(OsString::from).collect();
        let arguments = parse_words(&words).map_err(|error| error.to_string())?;
        let Subcommand::Run(run) = arguments.subcommand else {
            panic!("{words:?}");
        };
        Ok((run.lock.name.as_str().to_owned(), run.command))
    }

    #[test]
    fn a_name_stands_before_the_dashes_or_between_them() {
        for (words, name, command) in [
            ("redlatch run job -- true", "job", "true"),
            ("redlatch run job -- env -- -x", "job", "env -- -x"),
            ("redlatch run -- -job -- true", "-job", "true"),
            ("redlatch run -n -- -- -- true", "--", "true"),
            ("redlatch run -- job -- env -- -x", "job", "env -- -x"),
            (
                "redlatch run --wait 5s -- --wait -- -- --",
                "--wait",
                "-- --",
            ),
        ] {
            let command = command.split(' ').map(OsString::from).collect();
            assert_eq!(parsed(words), Ok((name.to_owned(), command)), "{words}");
        }
        for (words, reason) in [
            ("redlatch run -- -job", "<NAME>"),
            ("redlatch run -- -job true", "<NAME>"),
            ("redlatch run -- -job --", "<COMMAND>"),
            ("redlatch run --  -- true", "at least one character"),
        ] {
            let error = parsed(words).unwrap_err();
            assert!(error.contains(reason), "{words}: {error}");
        }
    }
}
