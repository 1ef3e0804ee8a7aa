//! The seam between the algorithm and the bytes: send a command, receive a reply, both by a deadline.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;

use super::resp::{Reply, ServerError};

use crate::clock::Timestamp;
use crate::error::NodeError;
use crate::shown::one_line;

/// One open connection to one node.
pub(crate) trait Transport: Send {
    /// Writes packed commands, one behind the other.
    fn send(&mut self, commands: &[u8], deadline: Timestamp) -> Result<(), NodeError>;

    /// Sets the most bytes of the replies to come, where there is a bound.
    fn allow_replies_up_to(&mut self, _bytes: usize) {}

    /// Waits until `until`, or for a little longer where that costs less, but never beyond the deadline. Returns whether a whole reply
    /// is there, or none will come: it can be received without waiting.
    fn wait_for_reply(&mut self, until: Timestamp, deadline: Timestamp) -> bool;

    /// As [`Self::wait_for_reply`], without waiting.
    fn has_reply(&mut self, now: Timestamp, deadline: Timestamp) -> bool {
        self.wait_for_reply(now, deadline)
    }

    /// Reads one reply.
    fn recv(&mut self, deadline: Timestamp) -> Result<Reply, NodeError>;

    /// What is read from now on answers nobody. It only tells that the server has executed what was sent.
    fn stop_asking(&mut self) {}

    /// Whether bytes beyond the last reply were received. If no other reply is due, nobody asked for them.
    fn has_surplus(&self) -> bool;

    /// Whether the idle connection is open and nothing has come that was not asked for.
    fn is_quiet(&mut self) -> bool;

    /// The socket of a connection that is quiet if the socket has nothing to read.
    fn socket(&self) -> Option<&TcpStream> {
        None
    }
}

/// Opens connections to one node.
pub(crate) trait Connect: Send + Sync {
    fn connect(&self, deadline: Timestamp) -> Result<Box<dyn Transport>, NodeError>;

    /// Opens a connection without the login of the others. Returns None if the others don't log in, or if it fails.
    fn connect_without_login(&self, _deadline: Timestamp) -> Option<Box<dyn Transport>> {
        None
    }

    /// Whether a command to the node takes a round trip, so that commands go together if they can.
    fn is_remote(&self) -> bool {
        true
    }
}

/// What was received in place of a reply.
pub(crate) const NO_REPLY: &str = "bytes that are no Redis reply";

pub(crate) fn is_timeout(error: &io::Error) -> bool {
    let kind = error.kind();
    kind == io::ErrorKind::TimedOut || kind == io::ErrorKind::WouldBlock
}

/// The error for a connection that could not be made.
pub(crate) fn unconnected(error: io::Error) -> NodeError {
    unless_late(error, |source| NodeError::Connect { source })
}

/// The error for a connection that the server closed before any byte of the reply.
pub(crate) fn closed(error: impl Into<io::Error>) -> NodeError {
    unless_late(error.into(), |source| NodeError::Closed { source })
}

/// The error that `node_error` makes of this one, unless there was no time.
pub(super) fn unless_late(
    error: io::Error,
    node_error: fn(Arc<io::Error>) -> NodeError,
) -> NodeError {
    if is_timeout(&error) {
        return NodeError::silence();
    }
    node_error(Arc::new(error))
}

/// Makes a server's words fit for an error message: one line, of bounded length, without parts of tokens.
pub(crate) fn clean(text: &str) -> String {
    // With these words, Redis repeats the arguments of a command that it does not know.
    let text = text.split(", with args").next().unwrap_or_default();
    one_line(without_tokens(text)).chars().take(200).collect()
}

/// Stands in the place of text that must not be shown.
pub(crate) const HIDDEN: &str = "\u{2026}";

/// This many hexadecimal digits in a row may be a part of a token. No number has as many.
const PART_OF_A_TOKEN: usize = 16;

fn without_tokens(text: &str) -> String {
    let is_digit = |c: char| c.is_ascii_hexdigit();
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let (digits, behind) = rest.split_at(rest.find(|c| !is_digit(c)).unwrap_or(rest.len()));
        let (words, behind) = behind.split_at(behind.find(is_digit).unwrap_or(behind.len()));
        let is_part = digits.len() >= PART_OF_A_TOKEN;
        shown.push_str(if is_part { HIDDEN } else { digits });
        shown.push_str(words);
        rest = behind;
    }
    shown
}

/// An error in answer to a command, as what the node says.
pub(crate) fn refusal(error: &ServerError) -> NodeError {
    NodeError::Refused {
        code: clean(&error.code),
        message: clean(&error.message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_a_part_of_a_token_is_not_shown() {
        let digits = "0123456789abcdefABCDEF0123456789abcdef01";
        for (text, shown) in [
            (String::new(), ""),
            ("ERR no such key\r\n".into(), "ERR no such key  "),
            (
                "dead beef 0123456789abcde".into(),
                "dead beef 0123456789abcde",
            ),
            (format!("f_{digits}: {digits}"), "f_\u{2026}: \u{2026}"),
            (digits.into(), "\u{2026}"),
            (
                format!("unknown command 'SET', with args beginning with: 'a' '{digits}'"),
                "unknown command 'SET'",
            ),
        ] {
            assert_eq!(clean(&text), shown);
        }
        // Not even where a text is cut.
        let long = format!("{}{digits}", "x".repeat(199));
        assert_eq!(clean(&long), format!("{}\u{2026}", "x".repeat(199)));
    }
}
