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
    use super::super::{definition, page, parse_words};
    use super::*;

    /// Command lines with a part of what is told of them.
    const WRONG: &str = "\
dance => unrecognized subcommand 'dance'; try
run => the following required arguments were not provided
run x => ; a command stands behind two dashes
run x -- => ; a command stands behind two dashes
run x echo hi => ; a command stands behind two dashes
hold x -- true => ; a command stands behind two dashes
run -job -- x => ; a name that begins with a dash
run -- -job => <NAME>
run -- -job -- => <COMMAND>
run -- -job x => <NAME>
run --  -- true => at least one character
status -job => ; a name that begins with a dash
run --also -n x -- y => ; a value that begins with a dash
run --also= x -- y => at least one character; try
hold --shared x => '--shared' found; try
run --nodde y x -- z => '--node'; try
run x --ttl 1s --ttl 2s -- y => '--ttl <DURATION>' cannot be used multiple times
run x --ttl 0s -- y => more than zero
run x --ttl 30 -- y => such as 500ms, 30s
run x --ttl 99999999999999999999s -- y => such as 500ms, 30s
run x --ttl 366days -- y => the longest is 365days
run x --wait 0s -- y => --no-wait
run x --wait 5s --no-wait -- y => --no-wait
run x -q -v -- y => --verbose
run x -E 300 -- y => 0..=255
run x --on-loss panic -- y => term, kill, ignore
run x --also a --max 3 -- y => --max
run x --also a --shared -- y => --shared
run x --shared --max 3 -- y => --max
run x --shared --at-least 1m -- y => --at-least
run x --shared --forever -- y => --forever
run x --forever --no-wait -- y => --no-wait
run x --forever --on-wanted TERM -- y => --on-wanted
run x --at-least 0s -- y => more than zero
run x --at-least-on-failure -- y => --at-least
run x --max 0 -- y => 1..=256
run x --max=257 -- y => 1..=256
run x --label a\nb -- y => 'a\\nb'
run x --label a\x1b[31m -- y => without control characters
run x --label LONG -- y => at most 100 bytes, this has 10000
run x --label= -- y => a label has at least one character
run x --label z --no-label -- y => --no-label
run x --ttl LONG -- y => xxx…'
run x --ttl redis://:s3cret@h -- y => 'redis://***@h'
run x --ttl redis://:s3cretLONG@h -- y => 'redis://***@h'
status x redis://:s3cret@h => 'redis://***@h'
redis://:s3cret@h => 'redis://***@h'
status => <NAME>
status x -q --json => --json
status x --max z => --max
open-nodes job => --help
health --color maybe => auto, always, never
unlock x => --token
unlock x --token => --token
";

    #[test]
    fn a_fault_is_told_in_one_line_with_where_a_name_a_value_or_a_command_stands() {
        let mut rest = WRONG;
        while let Some((typed, others)) = rest.split_once(" => ") {
            let (hint, others) = others.split_once('\n').unwrap();
            rest = others;
            let typed = typed.replace("LONG", &"x".repeat(10_000));
            let words = ["redlatch"].into_iter().chain(typed.split(' '));
            let words: Vec<OsString> = words.map(OsString::from).collect();
            let line = told(&parse_words(&words).unwrap_err(), &words, &definition());
            assert!(line.contains(hint) && line.len() < 400, "{typed}: {line}");
            assert!(!line.contains('\n') && !line.contains("s3cret"), "{line}");
            let name = typed.split(' ').next().unwrap();
            let known = page::PAGES.iter().any(|(known, _)| *known == name);
            let name = if known {
                format!("redlatch {name}")
            } else {
                "redlatch".to_owned()
            };
            assert!(line.ends_with(&format!("; try '{name} --help'")), "{line}");
        }
    }
}
