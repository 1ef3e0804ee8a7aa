//! All output: results to standard output, messages to standard error as single lines, and a line that is written over.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};
use log::{LevelFilter, Log, Metadata, Record};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::clock;
use crate::failure::{Failure, IO};
use crate::terminal::stops_writers;
use crate::text;

/// Whether all log lines are shown.
static IS_VERBOSE: AtomicBool = AtomicBool::new(false);

/// Whether the log lines about nodes are shown.
static TELLS_OF_NODES: AtomicBool = AtomicBool::new(false);

/// Whether each message has the time.
static HAS_TIME: AtomicBool = AtomicBool::new(false);

/// Whether there is a line on the terminal that is to be written over.
static HAS_LINE: AtomicBool = AtomicBool::new(false);

/// How long a message waits for room on standard error, and is lost then. A pipe may be full, and Ctrl-S stops a terminal.
const PATIENCE: Duration = Duration::from_millis(500);

/// Before the further lines of a message on a terminal.
const INDENT: &str = "          ";

/// Back to the beginning of the line, and what stands there away.
const CLEAR: &str = "\r\u{1b}[2K";

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
    if text.is_empty() {
        return Ok(reader());
    }
    clear_line();
    let mut out = anstream::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(Reader::There),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(Failure::new(
            IO,
            format!("standard output can't be written: {error}; look where it goes"),
        )),
    }
}

/// Whether somebody still reads standard output. A pipe whose reader has gone says so without a write.
fn reader() -> Reader {
    let out = io::stdout();
    let mut outputs = [PollFd::new(&out, PollFlags::empty())];
    let answered = poll(&mut outputs, Some(&Timespec::default()));
    let gone = PollFlags::ERR | PollFlags::HUP;
    match outputs {
        [output] if answered.is_ok() && output.revents().intersects(gone) => Reader::Gone,
        _ => Reader::There,
    }
}

/// Sends a text with control sequences to the terminal that standard output is.
pub(crate) fn control(text: &str) -> Reader {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_or(Reader::Gone, |()| Reader::There)
}

/// The text without its colours where standard output has none.
pub(crate) fn colored(text: &str) -> String {
    if AutoStream::choice(&io::stdout()) == ColorChoice::Never {
        anstream::adapter::strip_str(text).to_string()
    } else {
        text.to_owned()
    }
}

/// From now on, each message has the time: what happens later is told when nobody looks.
pub(crate) fn tell_times() {
    HAS_TIME.store(true, Ordering::Relaxed);
}

/// Writes to standard error if that neither takes long nor stops this process: the thread that writes renews the lock, or
/// listens to signals.
fn write_error(text: &str) {
    let err = io::stderr();
    if stops_writers(&err) {
        return;
    }
    let mut outputs = [PollFd::new(&err, PollFlags::OUT)];
    let patience = Timespec::try_from(PATIENCE).ok();
    while poll(&mut outputs, patience.as_ref()) == Err(Errno::INTR) {}
    if !outputs.iter().all(|output| output.revents().is_empty()) {
        err.lock().write_all(text.as_bytes()).ok();
    }
}

/// Writes one line to standard error, whatever the text contains. On a terminal it breaks between words. If standard error is
/// closed, the line is lost.
pub(crate) fn complain(message: &str) {
    clear_line();
    let message = presentable(message);
    let line = if HAS_TIME.load(Ordering::Relaxed) {
        let time = humantime::format_rfc3339_millis(clock::wall());
        format!("redlatch: {time} {message}")
    } else {
        format!("redlatch: {message}")
    };
    let mut lines = vec![line];
    if io::stderr().is_terminal() {
        let width = text::size(io::stderr()).0.saturating_sub(INDENT.len());
        lines = text::wrap(&lines.concat(), width);
    }
    let shown = lines.join(&format!("\n{INDENT}")) + "\n";
    write_error(&shown);
}

/// The log lines of the library and of this program, on standard error.
struct Lines;

/// Shows log lines from now on: those about renewals that fail, which a holder is told while there is time to do something,
/// those about nodes after [`tell_of_nodes`], and all after [`be_verbose`].
pub(crate) fn show_log() {
    if log::set_logger(&Lines).is_ok() {
        log::set_max_level(LevelFilter::Info);
    }
}

/// From now on, shows the log lines about nodes that fail or answer again.
pub(crate) fn tell_of_nodes() {
    TELLS_OF_NODES.store(true, Ordering::Relaxed);
}

pub(crate) fn be_verbose() {
    IS_VERBOSE.store(true, Ordering::Relaxed);
    tell_times();
}

impl Log for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let target = metadata.target();
        match target {
            "redlatch::renewal" => true,
            "redlatch::node" if TELLS_OF_NODES.load(Ordering::Relaxed) => true,
            _ => IS_VERBOSE.load(Ordering::Relaxed) && target.starts_with("redlatch"),
        }
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            complain(&record.args().to_string());
        }
    }

    fn flush(&self) {}
}

/// Whether a person looks at standard error, on a terminal on which a line can be written over.
pub(crate) fn is_watched() -> bool {
    io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Writes a line to standard error that the next one, or the next message, is written over. It is cut behind a word.
pub(crate) fn show_line(text: &str) {
    let width = text::size(io::stderr()).0.saturating_sub(1);
    let line = text::cut(&presentable(text), width);
    HAS_LINE.store(true, Ordering::Relaxed);
    write_error(&format!("{CLEAR}{line}"));
}

/// Removes that line from the terminal.
pub(crate) fn clear_line() {
    if HAS_LINE.swap(false, Ordering::Relaxed) {
        write_error(CLEAR);
    }
}

/// One line without characters that change how others are shown, and without the login of any URL.
pub(crate) fn presentable(text: &str) -> String {
    let text: String = text
        .split_inclusive(char::is_whitespace)
        .map(without_login)
        .collect();
    let escaped = |c: char| {
        let is_shown = text::is_printable(c).then(|| c.to_string());
        is_shown.unwrap_or_else(|| c.escape_default().to_string())
    };
    text.chars().map(escaped).collect()
}

/// The login in the library's description of a URL's form, which is no secret. Its bracket is closed after the `@`.
const SYNTAX: &str = "[user:password";

/// No message should repeat a URL. If one does, because the URL was typed in the wrong place, this removes the
/// password.
pub(crate) fn without_login(word: &str) -> String {
    let (scheme, rest) = word.split_once("://").unwrap_or((word, ""));
    match rest.rsplit_once('@') {
        Some((login, host)) if login != SYNTAX => format!("{scheme}://***@{host}"),
        _ => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_without_any_login() {
        for (text, shown) in [
            (
                "unexpected 'redis://u:s@e:c@host:1/2' and rediss://h and x://:p@h",
                "unexpected 'redis://***@host:1/2' and rediss://h and x://***@h",
            ),
            // What a URL looks like is shown.
            (
                "expected redis://[user:password@]host[:port], not redis://[user:password@x@host",
                "expected redis://[user:password@]host[:port], not redis://***@host",
            ),
            ("a\nb\u{1b}[1m\tü", "a\\nb\\u{1b}[1m\\tü"),
            (
                "a\u{202e}\u{2028}e\u{301} \"\\'",
                "a\\u{202e}\\u{2028}e\u{301} \"\\'",
            ),
        ] {
            assert_eq!(presentable(text), shown);
        }
    }
}
