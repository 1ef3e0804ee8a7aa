//! What is wrong with a command line, in one line.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::output;

const DASHED: &str = "; a name that begins with a dash stands behind two dashes, and such a value behind '=', as in \
                      --also=-x";
const VALUE: &str = "; a value that begins with a dash stands behind '=', as in --also=-x";
const COMMAND: &str =
    "; a command stands behind two dashes, and only run has one: redlatch run NAME -- COMMAND";
const BYTES: &str =
    "; names are text in UTF-8, as in the library, and only the command may have any bytes";

/// The error in one line, with advice. `words` are the command line.
pub(super) fn told(error: &clap::Error, words: &[OsString], definition: &clap::Command) -> String {
    let subcommand = words.get(1).and_then(|word| word.to_str());
    let known = subcommand.filter(|name| definition.find_subcommand(name).is_some());
    let (line, hint) = (in_one_line(error), hint(error, known));
    let known = known.map_or(String::new(), |name| format!(" {name}"));
    format!("{line}{hint}; try 'redlatch{known} --help'")
}

/// What clap does not know: where names, values and commands stand.
fn hint(error: &clap::Error, subcommand: Option<&str>) -> &'static str {
    let context = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
    let argument = context(ContextKind::InvalidArg);
    let takes_command = matches!(subcommand, Some("run" | "hold"));
    match (error.kind(), takes_command) {
        (ErrorKind::UnknownArgument, _) if argument.starts_with("--") => "",
        // A word with one dash can be a name or a value.
        (ErrorKind::UnknownArgument, _) if argument.starts_with('-') => DASHED,
        (ErrorKind::UnknownArgument, true) => COMMAND,
        (ErrorKind::MissingRequiredArgument, _) if argument.contains("COMMAND") => COMMAND,
        (ErrorKind::InvalidValue, _) if context(ContextKind::InvalidValue).is_empty() => VALUE,
        (ErrorKind::InvalidUtf8, _) => BYTES,
        _ => "",
    }
}

/// The most characters that are shown of a value.
const LONGEST_VALUE: usize = 60;

/// The first paragraph of clap's message, with its tips. What was typed has no login, and is cut where it is long, so that a reader
/// sees what is wrong.
fn in_one_line(error: &clap::Error) -> String {
    let mut rendered = error.render().to_string();
    for (_, typed) in error.context() {
        let ContextValue::String(typed) = typed else {
            continue;
        };
        // A password may have spaces, and be longer than what is shown.
        let mut shown = output::presentable(&output::without_login(typed));
        if let Some((end, _)) = shown.char_indices().nth(LONGEST_VALUE) {
            shown.replace_range(end.., "…");
        }
        if shown != *typed {
            rendered = rendered.replace(typed, &shown);
        }
    }
    let (fault, rest) = rendered.split_once("\n\n").unwrap_or((&rendered, ""));
    let fault: Vec<&str> = fault.split_whitespace().collect();
    let mut told = fault.join(" ").trim_start_matches("error: ").to_owned();
    let tips = rest
        .lines()
        .filter_map(|line| line.trim().strip_prefix("tip: "));
    for tip in tips.filter(|tip| !tip.starts_with("to pass ")) {
        told = format!("{told}; {tip}");
    }
    told
}

#[cfg(test)]
mod tests {
    use super::super::{definition, parse_words};
    use super::*;

    #[test]
    fn a_fault_is_told_in_one_line_with_where_a_name_a_value_or_a_command_stands() {
        let long = format!("run x --label {} -- true", "x".repeat(10_000));
        for (words, hint) in [
            ("run -job -- x", DASHED),
            ("run --also -x job -- x", DASHED),
            ("status -job", DASHED),
            // A known option.
            ("run --also -n job -- x", VALUE),
            ("run --also= job -- x", "at least one character; try"),
            // Options of others.
            ("hold --also y x", "'--also' found; "),
            ("hold --shared x", "'--shared' found; try"),
            ("run x --nodde y -- x", "'--node'; try"),
            ("run", "the following required arguments were not provided"),
            ("run x", COMMAND),
            ("hold x true", COMMAND),
            ("hold x -- true", COMMAND),
            ("run x echo hi", COMMAND),
            ("run x -n echo hi", COMMAND),
            (
                "dance",
                "unrecognized subcommand 'dance'; try 'redlatch --help'",
            ),
            ("run x --wait 0s -- true", "--no-wait"),
            ("run x -E 300 -- true", "0..=255"),
            ("run x --label a\nb -- true", "'a\\nb'"),
            (&long, "xxx…'"),
        ] {
            let words = ["redlatch"].into_iter().chain(words.split(' '));
            let words: Vec<OsString> = words.map(OsString::from).collect();
            let line = told(&parse_words(&words).unwrap_err(), &words, &definition());
            assert!(line.contains(hint) && line.len() < 400, "{hint}: {line}");
            let help = match words[1].to_str() {
                Some("dance") => "try 'redlatch --help'".to_owned(),
                name => format!("try 'redlatch {} --help'", name.unwrap()),
            };
            assert!(!line.contains('\n') && line.ends_with(&help), "{line}");
        }
    }
}
