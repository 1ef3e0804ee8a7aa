//! All output: results to standard output, messages to standard error as single lines.

use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write};

use crate::clock;
use crate::failure::{Failure, IO};

/// Prints a text to standard output. It is no failure if the reader has gone, as `head` does.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_more(text).map(|_| ())
}

/// Whether somebody reads what comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    There,
    Gone,
}

/// As [`print`], and tells whether to go on.
pub(crate) fn print_more(text: &str) -> Result<Reader, Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(Reader::There),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(Failure::new(
            IO,
            format!("standard output can't be written: {error}; look where it goes"),
        )),
    }
}

/// Writes one line to standard error, whatever the text contains. If standard error is closed, the line is lost.
///
/// With `--verbose` it has the time, so that all lines of a log have it.
pub(crate) fn complain(message: &str) {
    let message = presentable(message);
    let line = if log::max_level() == log::LevelFilter::Off {
        format!("redlatch: {message}\n")
    } else {
        let time = humantime::format_rfc3339_millis(clock::wall());
        format!("redlatch: {time} {message}\n")
    };
    io::stderr().lock().write_all(line.as_bytes()).ok();
}

/// One line without characters that change how others are shown, and without the login of any URL.
pub(crate) fn presentable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in without_logins(text).chars() {
        if is_escaped(character) {
            // Writing to a String can't fail.
            write!(shown, "{}", character.escape_default()).ok();
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Whether a character can't be shown as itself behind a letter: it breaks a line, is invisible, or turns the direction.
fn is_escaped(character: char) -> bool {
    let shown: String = ['a', character].iter().collect();
    !matches!(character, '\\' | '"' | '\'') && shown.escape_debug().nth(1) == Some('\\')
}

/// The login in the library's description of a URL's form, which is no secret. Its bracket is closed after the `@`.
const SYNTAX: &str = "[user:password";

/// No message should repeat a URL. If one does, because the URL was typed in the wrong place, this removes the
/// password.
fn without_logins(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        shown.push_str(before);
        shown.push_str("://");
        let end = after.find(char::is_whitespace).unwrap_or(after.len());
        let (word, beyond) = after.split_at(end);
        match word.rsplit_once('@') {
            Some((SYNTAX, _)) | None => shown.push_str(word),
            Some((_, host)) => {
                shown.push_str("***@");
                shown.push_str(host);
            }
        }
        rest = beyond;
    }
    shown.push_str(rest);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_left_out_wherever_a_url_stands() {
        assert_eq!(
            presentable("unexpected 'redis://u:s@e:c@host:1/2' and rediss://h and x://:p@h"),
            "unexpected 'redis://***@host:1/2' and rediss://h and x://***@h"
        );
    }

    #[test]
    fn what_a_url_looks_like_is_shown() {
        let text =
            "expected redis://[user:password@]host[:port][/db], not redis://[user:password@x@host";
        assert_eq!(
            presentable(text),
            "expected redis://[user:password@]host[:port][/db], not redis://***@host"
        );
    }

    #[test]
    fn a_line_stays_one_line() {
        assert_eq!(presentable("a\nb\u{1b}[1m\tü"), "a\\nb\\u{1b}[1m\\tü");
        assert_eq!(
            presentable("a\u{202e}b\u{2028}e\u{301} \"c\\'"),
            "a\\u{202e}b\\u{2028}e\u{301} \"c\\'"
        );
    }
}
