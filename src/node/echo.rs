//! Removes from a server's errors what they repeat of a command, because that may be a token.

use crate::wire::resp::{self, Reply, ServerError};

use crate::wire::pack::Packed;
use crate::wire::transport::HIDDEN;

/// Shorter arguments are no tokens. They are words and small numbers, which errors need.
const SHORTEST_SECRET: usize = 8;

/// The kind of a reply, for people. Its content is left out because it may repeat the command.
pub(super) fn kind(reply: &Reply) -> String {
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

/// Whether a reply is an error, or one of several.
pub(super) fn has_error(reply: &Reply) -> bool {
    match reply {
        Reply::Error(_) => true,
        Reply::Array(replies) => replies.iter().any(has_error),
        Reply::Nil | Reply::Okay | Reply::Text(_) | Reply::Int(_) | Reply::Bulk(_) => false,
    }
}

/// A reply whose errors don't repeat an argument of the command that was sent.
pub(super) fn without_echo(reply: &Reply, sent: &Packed) -> Reply {
    match reply {
        Reply::Error(error) => {
            let text = format!("{} {}", error.code, error.message);
            let hidden = arguments(sent)
                .iter()
                .fold(text, |text, argument| text.replace(argument, HIDDEN));
            Reply::Error(ServerError::new(hidden.trim_end()))
        }
        Reply::Array(replies) => {
            let replies = replies.iter();
            Reply::Array(replies.map(|reply| without_echo(reply, sent)).collect())
        }
        Reply::Nil | Reply::Okay | Reply::Text(_) | Reply::Int(_) | Reply::Bulk(_) => reply.clone(),
    }
}

/// The arguments of the command that may be secrets. The longest come first, because one may be a part of another.
fn arguments(sent: &Packed) -> Vec<String> {
    let words = resp::words(&sent.bytes).unwrap_or_default();
    // An error is text, so it can't repeat an argument that is none.
    let texts = words
        .into_iter()
        .filter_map(|word| str::from_utf8(word).ok());
    let mut all: Vec<String> = texts.map(str::to_owned).collect();
    all.retain(|argument| argument.len() >= SHORTEST_SECRET);
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
            let replies = Reply::Array(vec![Reply::Okay, error(text)]);
            let expected = Reply::Array(vec![Reply::Okay, error(hidden)]);
            assert_eq!(without_echo(&replies, &command), expected, "{text}");
        }
    }

    #[test]
    fn the_kind_of_a_reply_says_nothing_of_what_is_in_it() {
        let error = || Reply::Error(ServerError::new("ERR secret"));
        for (reply, expected, is_error) in [
            (Reply::Nil, "nil", false),
            (Reply::Okay, "OK", false),
            (Reply::Int(5), "a number", false),
            (Reply::Text("secret".into()), "a line of 6 bytes", false),
            (Reply::Bulk("secret".into()), "a string of 6 bytes", false),
            (Reply::Array(vec![Reply::Okay]), "an array of 1", false),
            (Reply::Array(vec![error()]), "an array of 1", true),
            (error(), "an error", true),
        ] {
            assert_eq!((&*kind(&reply), has_error(&reply)), (expected, is_error));
        }
    }
}
