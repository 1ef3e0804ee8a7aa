//! Removes from a server's errors what they repeat of a command, because that may be a token.

use crate::wire::pack::Packed;
use crate::wire::resp::{self, Reply, ServerError};
use crate::wire::transport::HIDDEN;

/// Shorter arguments are no tokens. They are words and small numbers, which errors need.
const SHORTEST_SECRET: usize = 8;

/// The kind of a reply, for people. Its content is left out because it may repeat the command.
pub(in super::super) fn kind(reply: &Reply) -> String {
    match reply {
        Reply::Nil => "nil".into(),
        Reply::Okay => "OK".into(),
        Reply::Int(_) => "a number".into(),
        Reply::Text(text) => format!("a line of {} bytes", text.len()),
        Reply::Bulk(bytes) => format!("a string of {} bytes", bytes.len()),
        Reply::Array(items) => format!("an array of {}", items.len()),
        Reply::Error(_) => "an error".into(),
    }
}

/// Hides in a reply, if it is an error or has some, the arguments of the command that was sent. Returns whether there was an error.
pub(in super::super) fn hide_echo(reply: &mut Reply, sent: &Packed) -> bool {
    match reply {
        Reply::Error(error) => {
            let text = format!("{} {}", error.code, error.message);
            let hide = |text: String, argument: &str| text.replace(argument, HIDDEN);
            let hidden = arguments(sent).into_iter().fold(text, hide);
            *error = ServerError::new(hidden.trim_end());
            true
        }
        Reply::Array(replies) => {
            let hide = |any, reply| hide_echo(reply, sent) || any;
            replies.iter_mut().fold(false, hide)
        }
        Reply::Nil | Reply::Okay | Reply::Text(_) | Reply::Int(_) | Reply::Bulk(_) => false,
    }
}

/// The arguments of the command that may be secrets. The longest come first, because one may be a part of another.
fn arguments(sent: &Packed) -> Vec<&str> {
    let words = resp::words(&sent.bytes).unwrap_or_default().into_iter();
    // An error is text, so it can't repeat an argument that is none.
    let texts = words.filter_map(|word| str::from_utf8(word).ok());
    let mut all: Vec<&str> = texts.filter(|text| text.len() >= SHORTEST_SECRET).collect();
    all.sort_unstable_by_key(|argument| std::cmp::Reverse(argument.len()));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_is_not_in_an_error_and_the_rest_is() {
        let error = |text: &str| Reply::Error(ServerError::new(text));
        let token = "worker-17 at noon".into();
        let words = ["SET".into(), "job".into(), token, 10_000.into()];
        let command = Packed::new("acquire", &words);
        for (text, hidden) in [
            ("ERR no", "ERR no"),
            ("ERR what is worker-17 at noon", "ERR what is \u{2026}"),
            ("worker-17 at noon", "\u{2026}"),
            (
                "ERR worker-17 at noon, job 10000",
                "ERR \u{2026}, job 10000",
            ),
        ] {
            let mut replies = Reply::Array(vec![Reply::Okay, error(text), Reply::Nil]);
            let expected = Reply::Array(vec![Reply::Okay, error(hidden), Reply::Nil]);
            assert!(hide_echo(&mut replies, &command));
            assert_eq!(replies, expected, "{text}");
        }
    }
}
