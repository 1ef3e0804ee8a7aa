//! One step of a scan of one node for keys that may be locks.

use std::sync::Arc;
use std::time::Duration;

use super::request::{Kind, Request, Rule};
use super::round::exchange;
use super::{Node, command, refusal};
use crate::error::NodeError;
use crate::wire::resp::Reply;

/// More keys than any server finds in one step. Each is asked about on all nodes, so a server that lies must not have us
/// ask for long.
const MOST_KEYS: usize = 4096;

/// What one step has found.
#[derive(Debug)]
pub(crate) struct Page {
    /// Where the next step begins; 0 after the last one.
    pub(crate) cursor: u64,
    /// Keys that may be locks. Some may be there twice.
    pub(crate) keys: Vec<Vec<u8>>,
}

/// A page, with the time that it took and the run id of the server, where it is known.
pub(crate) type Scanned = (Result<Page, NodeError>, Duration, Option<Arc<str>>);

impl Node {
    /// Makes the step from `cursor` of a scan for the keys that match a pattern.
    pub(crate) fn scan(&self, cursor: u64, pattern: &str) -> Scanned {
        let command = command::scan(cursor, pattern);
        let rule = Rule::new(|reply, _| page(reply).is_some(), 0);
        let answer = exchange(self, &Request::new(&command, Kind::Inspect, rule)).read(page);
        let page = answer.result.and_then(|page| page);
        (page, answer.elapsed, answer.server)
    }
}

/// Reads the reply of scan.lua.
fn page(reply: &Reply) -> Option<Result<Page, NodeError>> {
    let items = match reply {
        Reply::Error(error) => return Some(Err(refusal(error))),
        Reply::Array(items) => items.as_slice(),
        Reply::Nil | Reply::Okay | Reply::Text(_) | Reply::Int(_) | Reply::Bulk(_) => &[],
    };
    let (Reply::Bulk(cursor), keys) = items.split_first()? else {
        return None;
    };
    if keys.len() > MOST_KEYS {
        return None;
    }
    let key = |item: &Reply| match item {
        Reply::Bulk(key) => Some(key.clone()),
        Reply::Nil
        | Reply::Okay
        | Reply::Text(_)
        | Reply::Int(_)
        | Reply::Array(_)
        | Reply::Error(_) => None,
    };
    Some(Ok(Page {
        cursor: number(cursor)?,
        keys: keys.iter().map(key).collect::<Option<_>>()?,
    }))
}

/// A cursor in the one way in which Redis writes it.
fn number(digits: &[u8]) -> Option<u64> {
    let text = str::from_utf8(digits).ok()?;
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(reply: &[u8]) -> Option<String> {
        let page = page(&crate::wire::resp::whole(reply))?;
        Some(match page {
            Ok(page) => {
                let keys = page.keys.iter().map(|key| key.escape_ascii().to_string());
                format!("{}: {}", page.cursor, keys.collect::<Vec<_>>().join(" "))
            }
            Err(error) => error.to_string(),
        })
    }

    #[test]
    fn a_page_has_a_cursor_and_keys_of_any_bytes() {
        for (reply, meaning) in [
            (&b"*1\r\n$1\r\n0\r\n"[..], "0: "),
            (
                b"*3\r\n$2\r\n17\r\n$3\r\njob\r\n$2\r\n\xff\n\r\n",
                "17: job \\xff\\n",
            ),
            (
                b"*1\r\n$20\r\n18446744073709551615\r\n",
                "18446744073709551615: ",
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
        let of_keys = |count: usize| {
            let keys = "$1\r\nx\r\n".repeat(count);
            format!("*{}\r\n$1\r\n0\r\n{keys}", count + 1).into_bytes()
        };
        assert!(read(&of_keys(MOST_KEYS)).is_some());
        let many = of_keys(MOST_KEYS + 1);
        for reply in [
            &b"+OK\r\n"[..],
            b":0\r\n",
            b"$-1\r\n",
            b"*0\r\n",
            b"*1\r\n:0\r\n",
            b"*1\r\n$0\r\n\r\n",
            b"*1\r\n$2\r\n-1\r\n",
            b"*1\r\n$2\r\n00\r\n",
            b"*1\r\n$2\r\n+1\r\n",
            b"*1\r\n$20\r\n18446744073709551616\r\n",
            b"*2\r\n$1\r\n0\r\n:1\r\n",
            b"*2\r\n$1\r\n0\r\n$-1\r\n",
            b"*2\r\n$1\r\n0\r\n*1\r\n$1\r\nx\r\n",
            &many,
        ] {
            assert_eq!(read(reply), None, "{}", reply.escape_ascii());
        }
    }
}
