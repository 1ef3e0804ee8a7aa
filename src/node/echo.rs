//! A server may repeat what it was sent, and a token may be in that. None comes into a message of ours.

use redis::Value;

use super::command::Packed;
use crate::wire::transport::HIDDEN;

/// Arguments that are shorter are words and small numbers, which errors are made of, and no token of anyone is.
const SHORTEST_SECRET: usize = 8;

/// What kind of reply came, for people. Its content may be that of the command.
pub(super) fn kind(reply: &Value) -> String {
    match reply {
        Value::Nil => "nil".into(),
        Value::Okay => "OK".into(),
        Value::Int(_) => "a number".into(),
        Value::SimpleString(text) => format!("a line of {} bytes", text.len()),
        Value::BulkString(bytes) => format!("a string of {} bytes", bytes.len()),
        Value::Array(items) => format!("an array of {}", items.len()),
        Value::ServerError(_) => "an error".into(),
        Value::Map(_) | _ => "one of a type that was not asked for".into(),
    }
}

/// A reply whose errors don't repeat an argument of the command that was sent.
pub(super) fn without_echo(reply: &Value, sent: &Packed) -> Value {
    match reply {
        Value::ServerError(error) => {
            let details = error.details().unwrap_or_default();
            let text = format!("{} {details}", error.code());
            let hidden = arguments(sent).iter().fold(text.clone(), |text, argument| {
                text.replace(argument, HIDDEN)
            });
            if hidden == text {
                reply.clone()
            } else {
                server_error(hidden.trim_end())
            }
        }
        Value::Array(replies) => {
            let replies = replies.iter();
            Value::Array(replies.map(|reply| without_echo(reply, sent)).collect())
        }
        Value::Nil | _ => reply.clone(),
    }
}

/// The only way to make an error of that type is to parse one. What can't be parsed is no vote either.
fn server_error(text: &str) -> Value {
    let line = format!("-{}\r\n", text.replace(['\r', '\n'], " "));
    match redis::parse_redis_value(line.as_bytes()) {
        Ok(error @ Value::ServerError(_)) => error,
        Ok(_) | Err(_) => Value::Array(Vec::new()),
    }
}

/// The arguments of a command, and of those that went with it, that may be secrets; the longest first, because one may be
/// a part of another.
fn arguments(sent: &Packed) -> Vec<String> {
    let commands = std::iter::once(sent).chain(sent.others());
    let mut all = Vec::new();
    for command in commands {
        let Ok(Value::Array(items)) = redis::parse_redis_value(&command.short()) else {
            continue;
        };
        all.extend(items.into_iter().filter_map(|item| match item {
            // An error is text, so what is not can't be in it.
            Value::BulkString(bytes) => String::from_utf8(bytes).ok(),
            Value::Nil | _ => None,
        }));
    }
    all.retain(|argument| argument.len() >= SHORTEST_SECRET);
    all.sort_unstable_by_key(|argument| std::cmp::Reverse(argument.len()));
    all
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::command::Command;
    use super::*;

    #[test]
    fn what_was_sent_is_not_in_an_error_and_the_rest_is() {
        let sent = |token: &'static [u8]| {
            let command = Command {
                key: "job",
                token,
                fence: None,
            };
            command.acquire(Duration::from_secs(10))
        };
        let error = |text: &str| server_error(text);
        let command = sent(b"worker-17 at noon").followed_by(vec![sent(b"another-token")]);
        for (text, hidden) in [
            ("ERR no", "ERR no"),
            ("ERR what is worker-17 at noon", "ERR what is \u{2026}"),
            ("worker-17 at noon", "\u{2026}"),
            ("ERR another-token, job 10000", "ERR \u{2026}, job 10000"),
        ] {
            let replies = Value::Array(vec![Value::Okay, error(text)]);
            let expected = Value::Array(vec![Value::Okay, error(hidden)]);
            assert_eq!(without_echo(&replies, &command), expected, "{text}");
        }
    }
}
