//! Asks the nodes what is under a key, and changes nothing.

use std::sync::Arc;
use std::time::Duration;

use super::exchange::Answer;
use super::request::{Kind, Request, Rule};
use super::round::exchange_all;
use super::{Node, refusal};
use crate::error::NodeError;
use crate::shown;
use crate::status::{NodeStatus, View};
use crate::value::Content;
use crate::wire::pack::Packed;
use crate::wire::resp::Reply;

/// Sends a packed `inspect.lua`, or several for as many locks, to every node that is asked, before it reads any reply: one
/// round trip for all.
///
/// Takes no connection beside a pool that is used up, but waits for one as an acquire does. Returns the views of all locks
/// for each node that is asked, in order.
pub(crate) fn inspect_each<'n>(
    nodes: impl Iterator<Item = (&'n Node, bool)> + Clone,
    command: &Packed,
) -> Vec<Option<Vec<NodeStatus>>> {
    let locks = command.count();
    let rule = Rule::new(|reply, locks| views(reply, locks).is_some(), locks);
    let answers = exchange_all(nodes.clone(), &Request::new(command, Kind::Inspect, rule));
    let statuses = nodes.zip(answers).map(|((node, _), answer)| {
        let answer = answer?.read(|reply| views(reply, locks));
        let views = match answer.result {
            Ok(views) => views,
            Err(error) => vec![View::Failed(error); locks],
        };
        let status = |view| node.status(view, answer.elapsed, answer.server.clone());
        Some(views.into_iter().map(status).collect())
    });
    statuses.collect()
}

/// What one node has under a key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Key(Content),
    /// The reader that was looked for.
    Reader(Content),
    NoKey,
    /// The node does not tell.
    Silence,
}

/// Sends a packed `find.lua` to every node that is asked, as [`inspect_each`] does. Returns what they have.
pub(crate) fn find_all<'n>(
    nodes: impl Iterator<Item = (&'n Node, bool)>,
    command: &Packed,
) -> Vec<Found> {
    let rule = Rule::new(|reply, _| found(reply).is_some(), 0);
    let answers = exchange_all(nodes, &Request::new(command, Kind::Inspect, rule));
    let found = |answer: Answer| answer.read(found).result.unwrap_or(Found::Silence);
    answers.into_iter().flatten().map(found).collect()
}

/// Reads the reply of find.lua: for a lock that is no reader's, that of inspect.lua.
fn found(reply: &Reply) -> Option<Found> {
    let items = match reply {
        Reply::Array(items) => items.as_slice(),
        Reply::Nil
        | Reply::Okay
        | Reply::Text(_)
        | Reply::Int(_)
        | Reply::Bulk(_)
        | Reply::Error(_) => &[],
    };
    if let [Reply::Bulk(kind), Reply::Bulk(value)] = items {
        return (kind == b"READER").then(|| Found::Reader(Content::read(value)));
    }
    match (view(reply)?, items) {
        (View::Failed(error), _) if !error.is_about_the_key() => Some(Found::Silence),
        (View::Held { .. } | View::Failed(_), [_, _, Reply::Bulk(value)]) => {
            Some(Found::Key(Content::read(value)))
        }
        (View::Held { .. } | View::Failed(_) | View::Read { .. }, _) => {
            Some(Found::Key(Content::Foreign))
        }
        (View::Free, _) => Some(Found::NoKey),
    }
}

/// Reads the replies of inspect.lua for as many locks.
fn views(reply: &Reply, locks: usize) -> Option<Vec<View>> {
    let views: Option<Vec<View>> = reply.of_each(locks).iter().map(view).collect();
    views.filter(|views| views.len() == locks)
}

/// The view of a lock, and the counter of its fencing tokens, if its key holds a number.
pub(crate) type WithCounter = (NodeStatus, Option<u64>);

/// As [`inspect_each`], where a command that asks for a counter of fencing tokens follows the one for each lock.
pub(crate) fn inspect_with_counters<'n>(
    nodes: impl Iterator<Item = (&'n Node, bool)> + Clone,
    command: &Packed,
) -> Vec<Option<Vec<WithCounter>>> {
    let commands = command.count();
    let rule = Rule::new(
        |reply, commands| views_and_counters(reply, commands).is_some(),
        commands,
    );
    let answers = exchange_all(nodes.clone(), &Request::new(command, Kind::Inspect, rule));
    let statuses = nodes.zip(answers).map(|((node, _), answer)| {
        let answer = answer?.read(|reply| views_and_counters(reply, commands));
        let pairs = match answer.result {
            Ok(pairs) => pairs,
            Err(error) => vec![(View::Failed(error), None); commands / 2],
        };
        let status = |(view, counter)| {
            let status = node.status(view, answer.elapsed, answer.server.clone());
            (status, counter)
        };
        Some(pairs.into_iter().map(status).collect())
    });
    statuses.collect()
}

/// Reads the replies to pairs of commands, as many in all.
fn views_and_counters(reply: &Reply, commands: usize) -> Option<Vec<(View, Option<u64>)>> {
    let replies = reply.of_each(commands);
    if replies.len() != commands {
        return None;
    }
    let (pairs, rest) = replies.as_chunks::<2>();
    let pair = |[lock, number]: &[Reply; 2]| Some((view(lock)?, counter(number)));
    let pairs = pairs.iter().map(pair);
    pairs.collect::<Option<_>>().filter(|_| rest.is_empty())
}

fn counter(reply: &Reply) -> Option<u64> {
    match reply {
        Reply::Bulk(text) => str::from_utf8(text).ok().and_then(|text| text.parse().ok()),
        Reply::Nil
        | Reply::Okay
        | Reply::Text(_)
        | Reply::Int(_)
        | Reply::Array(_)
        | Reply::Error(_) => None,
    }
}

impl Node {
    /// The status of a node that is left out.
    pub(crate) fn left_out(&self, failure: Arc<str>) -> NodeStatus {
        let view = View::Failed(NodeError::BreakerOpen { failure });
        self.status(view, Duration::ZERO, None)
    }

    fn status(&self, view: View, elapsed: Duration, server: Option<Arc<str>>) -> NodeStatus {
        NodeStatus {
            node: Arc::clone(&self.name),
            view,
            elapsed,
            server,
        }
    }
}

/// Reads the reply of inspect.lua.
pub(super) fn view(reply: &Reply) -> Option<View> {
    let items = match reply {
        Reply::Error(error) => return Some(View::Failed(refusal(error))),
        Reply::Array(items) => items.as_slice(),
        Reply::Nil | Reply::Okay | Reply::Text(_) | Reply::Int(_) | Reply::Bulk(_) => &[],
    };
    match items {
        [Reply::Int(-2)] => Some(View::Free),
        [Reply::Int(-3)] => Some(View::Failed(NodeError::other_type())),
        // Of a set of readers, the last one.
        [Reply::Int(-1), Reply::Bulk(value)] => {
            Some(View::Failed(NodeError::never_expires(Some(value), None)))
        }
        [Reply::Int(-1), Reply::Int(length), Reply::Bulk(value)] => {
            let length = whole(value, *length)?;
            let error = NodeError::never_expires(Some(value), Some(length));
            Some(View::Failed(error))
        }
        [
            Reply::Int(last @ 0..),
            Reply::Int(readers @ 1..),
            Reply::Int(first @ 0..),
        ] => Some(View::Read {
            readers: readers.unsigned_abs(),
            remaining: Duration::from_millis(first.unsigned_abs()),
            last: Duration::from_millis(last.unsigned_abs()),
        }),
        [
            Reply::Int(pttl @ 0..),
            Reply::Int(length),
            Reply::Bulk(value),
        ] => {
            let length = whole(value, *length)?;
            let content = Content::read(value);
            Some(View::Held {
                token: content.token(|| shown::value(value, length)),
                remaining: Duration::from_millis(pttl.unsigned_abs()),
                holder: content.holder(),
                resting: Content::rests(value),
            })
        }
        _ => None,
    }
}

/// The length of a value, if it is not less than the part that has come.
fn whole(beginning: &[u8], length: i64) -> Option<usize> {
    let length = usize::try_from(length).ok()?;
    (beginning.len() <= length).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read from a reply as it is on the wire.
    fn read(reply: &[u8]) -> Option<String> {
        view(&crate::wire::resp::whole(reply)).map(|view| view.to_string())
    }

    #[test]
    fn every_reply_of_the_script_has_its_meaning() {
        for (reply, meaning) in [
            (&b"*1\r\n:-2\r\n"[..], "no key"),
            (
                b"*1\r\n:-3\r\n",
                "the key is not a lock: it holds a value of another type; choose another resource or key_prefix, or delete the key",
            ),
            (
                b"*3\r\n:-1\r\n:2\r\n$2\r\nme\r\n",
                "the key is not a lock: it never expires; its value has 2 bytes; choose another resource or key_prefix, or delete the key",
            ),
            (
                b"*3\r\n:1500\r\n:2\r\n$2\r\nme\r\n",
                "held by me, for another 1.5s",
            ),
            (
                b"*3\r\n:0\r\n:0\r\n$0\r\n\r\n",
                "held by an empty value, for another 0.0ns",
            ),
            (
                b"*3\r\n:1500\r\n:9000\r\n$2\r\n\xff\n\r\n",
                "held by \\xff\\n\u{2026} (9000 bytes), for another 1.5s",
            ),
            (
                b"*3\r\n:9000\r\n:3\r\n:4000\r\n",
                "read by 3, oldest for another 4.0s, last for another 9.0s",
            ),
            (
                b"*3\r\n:0\r\n:1\r\n:0\r\n",
                "read by 1, oldest for another 0.0ns",
            ),
            (
                b"-LOADING wait\r\n",
                "the server answered LOADING wait (the server is loading its data: it votes once that is done)",
            ),
        ] {
            assert_eq!(read(reply).as_deref(), Some(meaning));
        }
    }

    #[test]
    fn any_other_reply_says_nothing() {
        for reply in [
            &b"+OK\r\n"[..],
            b":1\r\n",
            b":-2\r\n",
            b"$-1\r\n",
            b"$2\r\nme\r\n",
            b"*0\r\n",
            b"*1\r\n:-1\r\n",
            b"*2\r\n:-2\r\n$2\r\nme\r\n",
            b"*1\r\n:-4\r\n",
            b"*1\r\n:1500\r\n",
            b"*1\r\n$2\r\n-2\r\n",
            b"*2\r\n:1500\r\n$2\r\nme\r\n",
            b"*3\r\n:-2\r\n:2\r\n$2\r\nme\r\n",
            b"*3\r\n:1500\r\n:0\r\n:2\r\n",
            b"*3\r\n:1500\r\n:-1\r\n:2\r\n",
            b"*3\r\n:1500\r\n:2\r\n:-1\r\n",
            b"*3\r\n:-1\r\n:2\r\n:2\r\n",
            b"*3\r\n:-2\r\n:2\r\n:2\r\n",
            b"*4\r\n:1500\r\n:2\r\n:2\r\n:2\r\n",
            b"*3\r\n:1500\r\n:2\r\n$-1\r\n",
            // More of the value than there is.
            b"*3\r\n:1500\r\n:1\r\n$2\r\nme\r\n",
            b"*3\r\n:1500\r\n:-1\r\n$2\r\nme\r\n",
            b"*4\r\n:1500\r\n:2\r\n$2\r\nme\r\n:1\r\n",
        ] {
            assert_eq!(read(reply), None, "{}", reply.escape_ascii());
        }
    }

    #[test]
    fn what_is_found_is_a_key_a_reader_no_key_or_silence() {
        let read = |reply: &[u8]| found(&crate::wire::resp::whole(reply));
        for (reply, expected) in [
            (&b"*1\r\n:-2\r\n"[..], Some(Found::NoKey)),
            (b"*1\r\n:-3\r\n", Some(Found::Key(Content::Foreign))),
            (
                b"*3\r\n:-1\r\n:2\r\n$2\r\nme\r\n",
                Some(Found::Key(Content::read(b"me"))),
            ),
            (
                b"*3\r\n:1500\r\n:2\r\n$2\r\nme\r\n",
                Some(Found::Key(Content::read(b"me"))),
            ),
            (
                b"*3\r\n:9000\r\n:3\r\n:4000\r\n",
                Some(Found::Key(Content::Foreign)),
            ),
            (
                b"*2\r\n$6\r\nREADER\r\n$2\r\nme\r\n",
                Some(Found::Reader(Content::read(b"me"))),
            ),
            (b"-LOADING wait\r\n", Some(Found::Silence)),
            (b"*2\r\n$6\r\nreader\r\n$2\r\nme\r\n", None),
            (b"*1\r\n:-1\r\n", None),
            (b"+OK\r\n", None),
        ] {
            assert_eq!(read(reply), expected, "{}", reply.escape_ascii());
        }
    }

    #[test]
    fn a_counter_stands_behind_each_lock_and_counts_if_it_is_a_number() {
        let read = |reply: &[u8], commands| {
            let read = views_and_counters(&crate::wire::resp::whole(reply), commands)?;
            Some(read.into_iter().map(|(_, counter)| counter).collect())
        };
        let free = "*1\r\n:-2\r\n";
        let two = format!("*4\r\n{free}$1\r\n7\r\n{free}$1\r\nx\r\n");
        assert_eq!(read(two.as_bytes(), 4), Some(vec![Some(7), None]));
        for (text, commands) in [
            (two.as_str(), 2),
            (&format!("*3\r\n{free}$1\r\n7\r\n{free}"), 3),
            (&format!("*2\r\n$1\r\n7\r\n{free}"), 2),
        ] {
            assert_eq!(read(text.as_bytes(), commands), None, "{text}");
        }
    }
}
