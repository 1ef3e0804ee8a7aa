//! Pure but for the width of the terminal: lines that break between words, and words that a shell reads.

use std::fmt::Write as _;
use std::io::{IsTerminal, stdout};
use std::os::fd::AsFd;

use rustix::termios::tcgetwinsize;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The columns of a terminal that does not say how many it has, and of a help that is written into a pipe.
const WIDTH: usize = 80;

/// Returns the columns of standard output. If that is not a terminal, rows have any length, because programs such as `grep` read
/// whole rows.
pub(crate) fn width() -> usize {
    if stdout().is_terminal() {
        size(stdout()).0
    } else {
        usize::MAX
    }
}

pub(crate) fn size(terminal: impl AsFd) -> (usize, usize) {
    let size = tcgetwinsize(terminal).ok().filter(|size| size.ws_col > 0);
    size.map_or((WIDTH, 24), |size| (size.ws_col.into(), size.ws_row.into()))
}

pub(crate) fn columns(text: &str) -> usize {
    text.width()
}

/// Breaks a text into lines between words. A word that is wider than a line is a line of its own.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if columns(line).saturating_add(columns(word)) < width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// As much of a text as there is room for: whole words if one fits, and a sign that more is missing.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let room = width.saturating_sub(1);
    let mut used = 0_usize;
    let fits = |c: &char| {
        used = used.saturating_add(c.width().unwrap_or(0));
        used <= room
    };
    let part: String = text.chars().take_while(fits).collect();
    let between = [' ', ',', ':', ';'];
    let rest = text.get(part.len()..).unwrap_or_default();
    let words = match part.rsplit_once(' ') {
        Some((words, _)) if !rest.starts_with(between) => words,
        _ => &part,
    };
    let sign = if width == 0 { "" } else { "…" };
    format!("{}{sign}", words.trim_end_matches(between))
}

/// Whether a character is shown as itself behind a letter: it does not break a line, is visible, and does not turn the
/// direction.
pub(crate) fn is_printable(character: char) -> bool {
    let shown: String = ['a', character].iter().collect();
    matches!(character, '\\' | '"' | '\'') || shown.escape_debug().nth(1) != Some('\\')
}

/// A name as it is typed behind a subcommand.
pub(crate) fn typed_name(name: &str) -> String {
    let dashes = if name.starts_with('-') { "-- " } else { "" };
    format!("{dashes}{}", shell_word(name))
}

/// A word as it is typed in a shell. It has no character that changes what a terminal shows.
pub(crate) fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_./:@%+,=-".contains(c);
    if !text.is_empty() && text.chars().all(|c| is_plain(c) && is_printable(c)) {
        return text.to_owned();
    }
    if text.chars().all(is_printable) {
        return format!("'{}'", text.replace('\'', "'\\''"));
    }
    let mut quoted = String::from("$'");
    for c in text.chars() {
        if matches!(c, '\\' | '\'') {
            quoted.extend(['\\', c]);
        } else if is_printable(c) {
            quoted.push(c);
        } else {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                // Writing to a String can't fail.
                write!(quoted, "\\x{byte:02x}").ok();
            }
        }
    }
    quoted.push('\'');
    quoted
}

/// Says once what is said of several nodes alike, with the names of all of them.
pub(crate) fn once_each<'a, T: PartialEq>(
    said: impl Iterator<Item = (T, Vec<&'a str>)>,
) -> Vec<(T, Vec<&'a str>)> {
    let mut groups: Vec<(T, Vec<&str>)> = Vec::new();
    for (what, nodes) in said {
        match groups.iter_mut().find(|(other, _)| *other == what) {
            Some((_, group)) => group.extend(nodes),
            None => groups.push((what, nodes)),
        }
    }
    groups
}

/// A number with its noun, as `1 node` or `3 nodes`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrap("a bb ccc dddd", 6), ["a bb", "ccc", "dddd"]);
        assert_eq!(wrap("aaaaaaaa b", 3), ["aaaaaaaa", "b"]);
        assert_eq!(wrap("", 3), [""]);
        assert_eq!(wrap("日本 日本 日本", 10), ["日本 日本", "日本"]);
    }

    #[test]
    fn what_does_not_fit_is_cut_behind_a_word() {
        for (width, cut_there) in [
            (20, "held by web-3, since"),
            (19, "held by web-3…"),
            (14, "held by web-3…"),
            (13, "held by…"),
            (5, "held…"),
            (3, "he…"),
            (1, "…"),
            (0, ""),
        ] {
            let shown = cut("held by web-3, since", width);
            assert_eq!(shown, cut_there, "{width}");
            assert!(columns(&shown) <= width);
        }
        assert_eq!(cut("日本日本", 5), "日本…");
    }
}
