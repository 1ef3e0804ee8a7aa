//! Asks the servers about themselves.

use std::sync::Arc;

use super::request::{Kind, Request, Rule};
use super::round::exchange_all;
use super::{Node, command, refusal};
use crate::health::Facts;
use crate::health::answers::{Answers, Content, Question};
use crate::wire::pack::Packed;
use crate::wire::resp::Reply;

/// Asks every node every question. Each question goes to all nodes before any reply to it is read: one round trip a
/// question. A node that does not answer is asked nothing more.
///
/// Ignores breakers, because its purpose is to find out what is wrong with a node. Takes no connection beside a pool that is
/// used up.
pub(crate) fn question_all<'n>(
    nodes: &(impl Iterator<Item = &'n Node> + Clone),
    marker_key: &str,
) -> Vec<Facts> {
    let mut all: Vec<Answers> = nodes.clone().map(|_| Answers::default()).collect();
    for question in Question::ALL {
        let command = packed(question, marker_key);
        let asked: Vec<bool> = all.iter().map(Answers::is_to_be_asked).collect();
        let request = Request::new(&command, Kind::Health, rule(question));
        let replies = exchange_all(nodes.clone().zip(asked), &request);
        let Some(clock) = nodes.clone().next().map(|node| &node.clock) else {
            break;
        };
        let (now, wall) = (clock.now(), clock.wall_micros());
        for (answers, answer) in all.iter_mut().zip(replies) {
            if let Some(answer) = answer {
                // What the wall clock showed when the reply came.
                let ago = now.saturating_since(answer.at).as_micros();
                let then = wall.saturating_sub(u64::try_from(ago).unwrap_or(u64::MAX));
                let answer = answer.read(|reply| Some((read(question, reply)?, then)));
                answers.note(question, answer.elapsed, answer.result);
            }
        }
    }
    let named = nodes.clone().zip(all);
    named
        .map(|(node, answers)| answers.into_facts(Arc::clone(node.name())))
        .collect()
}

fn rule(question: Question) -> Rule {
    let accepts = match question {
        Question::Marker => |reply: &Reply, _| read(Question::Marker, reply).is_some(),
        Question::Info(_) => |reply: &Reply, _| read(Question::Info(""), reply).is_some(),
        Question::Time => |reply: &Reply, _| read(Question::Time, reply).is_some(),
    };
    Rule::new(accepts, 0)
}

fn packed(question: Question, marker_key: &str) -> Packed {
    match question {
        Question::Marker => command::get(marker_key),
        Question::Info(section) => command::info(section),
        Question::Time => command::time(),
    }
}

fn read(question: Question, reply: &Reply) -> Option<Content> {
    match (question, reply) {
        (_, Reply::Error(error)) => Some(Content::Refusal(refusal(error))),
        (Question::Marker, Reply::Nil) => Some(Content::Nothing),
        (Question::Marker | Question::Info(_), Reply::Bulk(text)) => {
            Some(Content::Text(String::from_utf8_lossy(text).into_owned()))
        }
        (Question::Time, Reply::Array(parts)) => time(parts),
        _ => None,
    }
}

/// Reads seconds and microseconds, each as text.
fn time(parts: &[Reply]) -> Option<Content> {
    let [Reply::Bulk(seconds), Reply::Bulk(micros)] = parts else {
        return None;
    };
    let number = |digits: &[u8]| -> Option<u64> { str::from_utf8(digits).ok()?.parse().ok() };
    let seconds_us = number(seconds)?.checked_mul(1_000_000)?;
    let micros = number(micros).filter(|micros| *micros < 1_000_000)?;
    seconds_us.checked_add(micros).map(Content::Time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(question: Question, reply: &[u8]) -> Option<String> {
        let reply = super::read(question, &crate::wire::resp::whole(reply))?;
        Some(match reply {
            Content::Nothing => "nothing".into(),
            Content::Text(text) => text,
            Content::Time(us) => us.to_string(),
            Content::Refusal(error) => error.to_string(),
        })
    }

    #[test]
    fn a_reply_of_its_type_is_read_and_any_other_is_not() {
        use Question::{Marker, Time};
        const SERVER: Question = Question::Info("server");
        for (question, reply, expected) in [
            (Marker, &b"$-1\r\n"[..], Some("nothing")),
            (Marker, b"$3\r\na|b\r\n", Some("a|b")),
            (Marker, b"$2\r\n\xff\xfe\r\n", Some("\u{fffd}\u{fffd}")),
            (SERVER, b"$0\r\n\r\n", Some("")),
            (SERVER, b"$2\r\nab\r\n", Some("ab")),
            (SERVER, b"-ERR no\r\n", Some("the server answered ERR no")),
            (Time, b"*2\r\n$1\r\n5\r\n$1\r\n7\r\n", Some("5000007")),
            (Time, b"-ERR no\r\n", Some("the server answered ERR no")),
            (Marker, b"+OK\r\n", None),
            (Marker, b":1\r\n", None),
            (Marker, b"*0\r\n", None),
            (SERVER, b"$-1\r\n", None),
            (SERVER, b"+redis_version:7\r\n", None),
            (Time, b"$-1\r\n", None),
            (Time, b"*-1\r\n", None),
            (Time, b"*1\r\n$1\r\n5\r\n", None),
            (Time, b"*2\r\n:5\r\n:7\r\n", None),
            (Time, b"*2\r\n$2\r\n-5\r\n$1\r\n7\r\n", None),
            (Time, b"*2\r\n$1\r\n5\r\n$7\r\n1000000\r\n", None),
            (Time, b"*2\r\n$14\r\n18446744073710\r\n$1\r\n0\r\n", None),
            (Time, b"*2\r\n$1\r\n5\r\n$1\r\nx\r\n", None),
        ] {
            let reply_text = reply.escape_ascii();
            assert_eq!(read(question, reply).as_deref(), expected, "{reply_text}");
        }
    }
}
