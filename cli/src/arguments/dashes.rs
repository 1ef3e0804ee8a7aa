//! A name of `run` that begins with a dash: `redlatch run -- -job -- true`.
//!
//! For the parser, all that follows the first two dashes is the command. The other subcommands have no command, so there
//! the parser takes such a name itself.

use std::ffi::{OsStr, OsString};

/// Takes the name out of `run … -- NAME -- COMMAND`. Another one stands for it while the rest is parsed.
pub(super) fn split(words: &[OsString]) -> Option<(Vec<OsString>, &OsStr)> {
    let place = words.iter().position(|word| word == "--")?;
    let (options, rest) = words.split_at_checked(place)?;
    let [_, name, dashes, ..] = rest else {
        return None;
    };
    if !options.contains(&OsString::from("run")) || dashes != "--" {
        return None;
    }
    let stand_in = [OsString::from("name")];
    let command = rest.get(2..)?;
    Some(([options, &stand_in, command].concat(), name))
}

#[cfg(test)]
mod tests {
    use super::super::{Subcommand, parse_words};
    use super::*;

    #[test]
    fn a_name_stands_before_the_dashes_or_between_them() {
        let parsed = |words: &str| {
            let words: Vec<OsString> = words.split(' ').map(OsString::from).collect();
            let Subcommand::Run(run) = parse_words(&words).unwrap().subcommand else {
                panic!("{words:?}");
            };
            (run.lock.name, run.command.join(OsStr::new(" ")))
        };
        for (words, name, command) in [
            ("redlatch run job -- true", "job", "true"),
            ("redlatch run job -- env -- -x", "job", "env -- -x"),
            ("redlatch run -- -job -- true", "-job", "true"),
            ("redlatch run -n -- -- -- true", "--", "true"),
            ("redlatch --color never run -- -job -- true", "-job", "true"),
            ("redlatch run --wait 5s -- -w -- -- --", "-w", "-- --"),
        ] {
            let (found, rest) = parsed(words);
            assert_eq!((found.as_str(), rest), (name, command.into()), "{words}");
        }
    }
}
