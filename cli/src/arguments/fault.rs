//! What is wrong with a command line, in one line.

use std::ffi::OsString;

use clap::error::{ContextKind, ErrorKind};

/// The error in one line, with advice. `words` are the command line.
pub(super) fn told(error: &clap::Error, words: &[OsString], definition: &clap::Command) -> String {
    let mut line = in_one_line(&with_value_shown(error));
    if is_dashed(error) {
        // In other words than clap's, because there is a name after the two dashes and, with `run`, a command after it.
        line.push_str(
            "; a name that begins with a dash stands behind two dashes, and such a value behind '=', as in --also=-x",
        );
    }
    if wants_value(error) {
        line.push_str("; a value that begins with a dash stands behind '=', as in --also=-x");
    }
    if wants_command(error) {
        line.push_str("; the command stands after two dashes: redlatch run NAME -- COMMAND");
    }
    if runs_no_command(error) {
        line.push_str("; only run has a command: redlatch run NAME -- COMMAND");
    }
    if error.kind() == ErrorKind::InvalidUtf8 {
        line.push_str(
            "; names are text in UTF-8, as in the library, and only the command may have any bytes",
        );
    }
    let subcommand = words.get(1).and_then(|word| word.to_str());
    let known = subcommand.filter(|name| definition.find_subcommand(name).is_some());
    let known = known.map_or(String::new(), |name| format!(" {name}"));
    format!("{line}; try 'redlatch{known} --help'")
}

/// Whether a word with one dash is no option. A name or a value can begin so.
fn is_dashed(error: &clap::Error) -> bool {
    let argument = invalid(error);
    error.kind() == ErrorKind::UnknownArgument
        && argument.starts_with('-')
        && !argument.starts_with("--")
}

/// Whether an option has no value.
fn wants_value(error: &clap::Error) -> bool {
    let value = error.get(ContextKind::InvalidValue);
    error.kind() == ErrorKind::InvalidValue
        && value.is_none_or(|value| value.to_string().is_empty())
}

/// Whether a command was given to `hold`.
fn runs_no_command(error: &clap::Error) -> bool {
    let usage = error.get(ContextKind::Usage).map(ToString::to_string);
    error.kind() == ErrorKind::UnknownArgument
        && usage.is_some_and(|usage| usage.contains("redlatch hold"))
        && !invalid(error).starts_with('-')
}

/// The argument that is wrong.
fn invalid(error: &clap::Error) -> String {
    let argument = error.get(ContextKind::InvalidArg);
    argument.map(ToString::to_string).unwrap_or_default()
}

/// Whether the command of `run` is missing, or does not stand after two dashes.
fn wants_command(error: &clap::Error) -> bool {
    let is_of_run = |text: &str| text.contains("redlatch run");
    let usage = error.get(ContextKind::Usage).map(ToString::to_string);
    let argument = invalid(error);
    let is_stray = error.kind() == ErrorKind::UnknownArgument && !argument.starts_with('-');
    let is_missing =
        error.kind() == ErrorKind::MissingRequiredArgument && argument.contains("COMMAND");
    usage.as_deref().is_some_and(is_of_run) && (is_stray || is_missing)
}

/// The most characters that are shown of a value.
const LONGEST_VALUE: usize = 60;

/// clap's message, in which a long value is cut and a line break is escaped, so that a reader sees what is wrong.
fn with_value_shown(error: &clap::Error) -> String {
    let rendered = error.render().to_string();
    let value = error.get(ContextKind::InvalidValue);
    let value = value.map(ToString::to_string).unwrap_or_default();
    let mut shown = value.replace('\n', "\\n").replace('\r', "\\r");
    if shown.chars().count() > LONGEST_VALUE {
        shown = shown.chars().take(LONGEST_VALUE).chain(['…']).collect();
    }
    if shown == value {
        return rendered;
    }
    rendered.replace(&value, &shown)
}

/// The first paragraph of clap's message, with its tips, in one line.
fn in_one_line(rendered: &str) -> String {
    let joined = |paragraph: &str| paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut paragraphs = rendered.split("\n\n");
    let fault = joined(paragraphs.next().unwrap_or_default());
    let mut line = fault.strip_prefix("error: ").unwrap_or(&fault).to_owned();
    let tips = paragraphs.flat_map(str::lines).map(str::trim);
    let tips = tips.filter_map(|text| text.strip_prefix("tip: "));
    let tips = tips.filter(|tip| !tip.starts_with("to pass "));
    for tip in tips {
        line.push_str("; ");
        line.push_str(tip);
    }
    line
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::{Arguments, definition, parse_words};
    use super::*;

    fn words(words: &[&str]) -> Vec<OsString> {
        let words = ["redlatch"].iter().chain(words);
        words.map(OsString::from).collect()
    }

    #[track_caller]
    fn told_of(arguments: &[&str]) -> String {
        let words = words(arguments);
        told(
            &Arguments::try_parse_from(&words).unwrap_err(),
            &words,
            &definition(),
        )
    }

    #[test]
    fn who_begins_a_name_or_a_value_with_a_dash_is_told_where_it_stands() {
        let name = "a name that begins with a dash stands behind two dashes";
        let value = "behind '=', as in --also=-x";
        for (arguments, hints) in [
            (&["run", "-job", "--", "x"][..], [true, true]),
            (&["run", "--also", "-x", "job", "--", "x"], [true, true]),
            (&["status", "-job"], [true, true]),
            // A known option.
            (&["run", "--also", "-n", "job", "--", "x"], [false, true]),
            (&["run", "--also=", "job", "--", "x"], [false, false]),
            // Options of others.
            (&["hold", "--also", "y", "x"], [false, false]),
            (&["hold", "--shared", "x"], [false, false]),
            (&["status", "--shared", "x"], [false, false]),
            (&["run", "--nodde", "y", "x", "--", "x"], [false, false]),
        ] {
            let line = told_of(arguments);
            let told = [name, value].map(|hint| line.contains(hint));
            assert_eq!(told, hints, "{line}");
        }
        for dashed in [
            &["run", "--also=-x", "job", "--", "x"],
            &["run", "--", "-job", "--", "x"],
        ] {
            parse_words(&words(dashed)).unwrap();
        }
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
            (vec!["hold", "x", "true"], "redlatch run NAME -- COMMAND"),
            (
                vec!["hold", "x", "--", "true"],
                "redlatch run NAME -- COMMAND",
            ),
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
        let long = "x".repeat(10_000);
        for (label, shown) in [("a\nb", "'a\\nb'"), (&long, "xxx…'")] {
            let line = told_of(&["run", "x", "--label", label, "--", "true"]);
            assert!(line.contains(shown) && line.len() < 300, "{line}");
        }
        for (words, hint) in faults {
            let words = self::words(&words);
            let error = Arguments::try_parse_from(&words).unwrap_err();
            let line = told(&error, &words, &definition());
            assert!(line.contains(hint), "{line}");
            let subcommand = words[1].to_str().unwrap();
            let help = match subcommand {
                "dance" => "try 'redlatch --help'".to_owned(),
                _ => format!("try 'redlatch {subcommand} --help'"),
            };
            assert!(!line.contains('\n') && line.ends_with(&help), "{line}");
        }
    }
}
