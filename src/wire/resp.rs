//! Pure: parses the replies of a server, in version 2 of the protocol of Redis. Source: the Redis page "Redis serialization
//! protocol specification".
//!
//! A reply is accepted only as Redis writes it, to the byte. A laxer parser could read a vote where there is none.

use std::fmt;
use std::slice;

/// A reply of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    Nil,
    Okay,
    /// A line of text that is not `OK`.
    Text(String),
    Int(i64),
    Bulk(Vec<u8>),
    Array(Vec<Self>),
    Error(ServerError),
}

impl Reply {
    /// The replies to so many commands that went out together: one stands for itself.
    pub(crate) fn of_each(&self, commands: usize) -> &[Self] {
        if let Self::Array(replies) = self
            && commands != 1
        {
            return replies;
        }
        slice::from_ref(self)
    }
}

/// An error that a server answers with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerError {
    /// The first word, such as `LOADING`.
    pub(crate) code: String,
    /// The rest.
    pub(crate) message: String,
}

impl ServerError {
    /// Takes a line without its mark.
    pub(crate) fn new(line: &str) -> Self {
        let (code, message) = line.split_once(' ').unwrap_or((line, ""));
        Self {
            code: code.to_owned(),
            message: message.to_owned(),
        }
    }
}

/// Why bytes are no reply, and can't become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed(&'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// The deepest nesting of arrays. The replies to this crate's commands are not nested at all.
const DEEPEST: u32 = 4;

/// The reply at the beginning of these bytes, and its length. `None` means that the rest of it has to come.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(Reply, usize)>, Malformed> {
    let mut parser = Parser { bytes, at: 0 };
    let reply = parser.reply(DEEPEST)?;
    Ok(reply.map(|reply| (reply, parser.at)))
}

/// The words of a command, if these bytes are one and nothing else.
pub(crate) fn words(bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let mut parser = Parser { bytes, at: 0 };
    let count = parser.header(b'*')?;
    // The count is only a claim, so no memory is reserved for it.
    let mut words = Vec::new();
    for _ in 0..count {
        let length = parser.header(b'$')?;
        words.push(parser.string(length).ok()??);
    }
    (parser.at == bytes.len()).then_some(words)
}

struct Parser<'b> {
    bytes: &'b [u8],
    /// The end of the parsed bytes.
    at: usize,
}

impl<'b> Parser<'b> {
    fn reply(&mut self, depth: u32) -> Result<Option<Reply>, Malformed> {
        let Some(kind) = self.bytes.get(self.at).copied() else {
            return Ok(None);
        };
        if !b"+-:$*".contains(&kind) {
            return Err(Malformed("a byte that begins no reply"));
        }
        self.at = self.at.saturating_add(1);
        let Some(line) = self.line()? else {
            return Ok(None);
        };
        match kind {
            b'+' => Ok(Some(if line == b"OK" {
                Reply::Okay
            } else {
                Reply::Text(text(line)?.to_owned())
            })),
            b'-' => Ok(Some(Reply::Error(ServerError::new(text(line)?)))),
            b':' => Ok(Some(Reply::Int(number(line)?))),
            b'$' => self.bulk(line),
            _ => self.array(line, depth),
        }
    }

    /// The bytes up to the next line break. Consumes the line break too.
    fn line(&mut self) -> Result<Option<&'b [u8]>, Malformed> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some(end) = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n')) else {
            return Ok(None);
        };
        let (line, rest) = rest.split_at_checked(end).unwrap_or_default();
        match rest {
            [b'\r', b'\n', ..] => {
                self.at = self.at.saturating_add(end).saturating_add(2);
                Ok(Some(line))
            }
            [b'\r'] => Ok(None),
            _ => Err(Malformed("a line break within a line")),
        }
    }

    /// The length in a line that begins with this mark.
    fn header(&mut self, mark: u8) -> Option<usize> {
        if self.bytes.get(self.at) != Some(&mark) {
            return None;
        }
        self.at = self.at.saturating_add(1);
        length_of(self.line().ok()??).ok()?
    }

    fn bulk(&mut self, length: &[u8]) -> Result<Option<Reply>, Malformed> {
        let Some(length) = length_of(length)? else {
            return Ok(Some(Reply::Nil));
        };
        let string = self.string(length)?;
        Ok(string.map(|bytes| Reply::Bulk(bytes.to_vec())))
    }

    /// This number of bytes. Consumes the line break behind them too.
    fn string(&mut self, length: usize) -> Result<Option<&'b [u8]>, Malformed> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some((bytes, rest)) = rest.split_at_checked(length) else {
            return Ok(None);
        };
        match rest {
            [b'\r', b'\n', ..] => {
                self.at = self.at.saturating_add(length).saturating_add(2);
                Ok(Some(bytes))
            }
            [] | [b'\r'] => Ok(None),
            _ => Err(Malformed("bytes behind the end of a value")),
        }
    }

    fn array(&mut self, count: &[u8], depth: u32) -> Result<Option<Reply>, Malformed> {
        let Some(count) = length_of(count)? else {
            return Ok(Some(Reply::Nil));
        };
        let Some(depth) = depth.checked_sub(1) else {
            return Err(Malformed("arrays that are too deep in each other"));
        };
        // Grows with the items, because a count alone must not take memory.
        let mut items = Vec::new();
        for _ in 0..count {
            match self.reply(depth)? {
                Some(item) => items.push(item),
                None => return Ok(None),
            }
        }
        Ok(Some(Reply::Array(items)))
    }
}

fn text(line: &[u8]) -> Result<&str, Malformed> {
    str::from_utf8(line).map_err(|_| Malformed("a line that is not UTF-8"))
}

/// A length or a count; none for -1, which stands for nil.
fn length_of(line: &[u8]) -> Result<Option<usize>, Malformed> {
    match number(line)? {
        -1 => Ok(None),
        length => match usize::try_from(length) {
            Ok(length) => Ok(Some(length)),
            Err(_) => Err(Malformed("a length below zero")),
        },
    }
}

/// A number in the one way in which Redis writes it.
fn number(line: &[u8]) -> Result<i64, Malformed> {
    let digits = line.strip_prefix(b"-").unwrap_or(line);
    let is_canonical = match digits {
        [b'0'] => digits.len() == line.len(),
        [] | [b'0', ..] => false,
        digits => digits.iter().all(u8::is_ascii_digit),
    };
    let number = str::from_utf8(line).ok().filter(|_| is_canonical);
    let number = number.and_then(|number| number.parse().ok());
    number.ok_or(Malformed("a number that is none"))
}

/// The reply that these bytes are, and nothing else.
#[cfg(test)]
pub(crate) fn whole(bytes: &[u8]) -> Reply {
    let (reply, length) = parse(bytes).unwrap().unwrap();
    assert_eq!(length, bytes.len());
    reply
}

/// What the redis crate has read.
#[cfg(test)]
pub(crate) fn of_redis(value: &redis::Value) -> Option<Reply> {
    use redis::Value;

    Some(match value {
        Value::Nil => Reply::Nil,
        Value::Okay => Reply::Okay,
        Value::SimpleString(text) => Reply::Text(text.clone()),
        Value::Int(number) => Reply::Int(*number),
        Value::BulkString(bytes) => Reply::Bulk(bytes.clone()),
        Value::Array(items) => Reply::Array(items.iter().map(of_redis).collect::<Option<_>>()?),
        Value::ServerError(error) => Reply::Error(ServerError {
            code: error.code().to_owned(),
            message: error.details().unwrap_or_default().to_owned(),
        }),
        Value::Map(_) | _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(bytes: &str) -> Option<Reply> {
        let (reply, length) = parse(bytes.as_bytes()).ok()??;
        (length == bytes.len()).then_some(reply)
    }

    #[test]
    fn each_kind_of_reply_is_read() {
        let error = ServerError {
            code: "ERR".into(),
            message: "no such key".into(),
        };
        for (bytes, reply) in [
            ("+OK\r\n", Reply::Okay),
            ("+PONG\r\n", Reply::Text("PONG".into())),
            ("-ERR no such key\r\n", Reply::Error(error)),
            (":0\r\n", Reply::Int(0)),
            (":-2\r\n", Reply::Int(-2)),
            (":-9223372036854775808\r\n", Reply::Int(i64::MIN)),
            ("$-1\r\n", Reply::Nil),
            ("*-1\r\n", Reply::Nil),
            ("$0\r\n\r\n", Reply::Bulk(Vec::new())),
            ("$4\r\na\r\nb\r\n", Reply::Bulk(b"a\r\nb".to_vec())),
            ("*0\r\n", Reply::Array(Vec::new())),
            (
                "*2\r\n:1\r\n$1\r\nx\r\n",
                Reply::Array(vec![Reply::Int(1), Reply::Bulk(b"x".to_vec())]),
            ),
        ] {
            assert_eq!(parsed(bytes), Some(reply), "{bytes:?}");
        }
    }

    #[test]
    fn other_spellings_are_none() {
        for bytes in [
            "OK\r\n",
            "\r\n+OK\r\n",
            "+O\nK\r\n",
            "+O\rK\r\n",
            "+OK\n",
            ":\r\n",
            ":-\r\n",
            ":+1\r\n",
            ": 1\r\n",
            ":01\r\n",
            ":-0\r\n",
            ":1 \r\n",
            ":9223372036854775808\r\n",
            "$-2\r\n",
            "*-2\r\n",
            "$01\r\nx\r\n",
            "$1\r\nxy\r\n",
            "$1\r\nx\n\n",
            "*1\r\nx\r\n",
            "_\r\n",
            "#t\r\n",
            "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
        ] {
            assert!(parse(bytes.as_bytes()).is_err(), "{bytes:?}");
        }
        assert!(parse(b"+\xff\r\n").is_err());
    }

    #[test]
    fn a_count_takes_no_memory_before_its_items_have_come() {
        assert_eq!(parse(b"*9223372036854775807\r\n:1\r\n"), Ok(None));
        assert_eq!(parse(b"$9223372036854775807\r\nx"), Ok(None));
    }

    /// Any reply.
    fn reply() -> impl Strategy<Value = Reply> {
        let text = "[A-Z]{1,8}( [ -~]{1,12})?";
        let leaf = prop_oneof![
            Just(Reply::Nil),
            Just(Reply::Okay),
            text.prop_filter("that is its own kind", |text| text != "OK")
                .prop_map(Reply::Text),
            text.prop_map(|line| Reply::Error(ServerError::new(&line))),
            any::<i64>().prop_map(Reply::Int),
            prop::collection::vec(any::<u8>(), 0..20).prop_map(Reply::Bulk),
        ];
        leaf.prop_recursive(3, 12, 4, |inner| {
            prop::collection::vec(inner, 0..4).prop_map(Reply::Array)
        })
    }

    /// As Redis writes it.
    fn written(reply: &Reply) -> Vec<u8> {
        match reply {
            Reply::Nil => b"$-1\r\n".to_vec(),
            Reply::Okay => b"+OK\r\n".to_vec(),
            Reply::Text(text) => format!("+{text}\r\n").into_bytes(),
            Reply::Int(number) => format!(":{number}\r\n").into_bytes(),
            Reply::Error(error) if error.message.is_empty() => {
                format!("-{}\r\n", error.code).into_bytes()
            }
            Reply::Error(error) => format!("-{} {}\r\n", error.code, error.message).into_bytes(),
            Reply::Bulk(bytes) => {
                [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
            }
            Reply::Array(items) => {
                let head = format!("*{}\r\n", items.len()).into_bytes();
                items
                    .iter()
                    .fold(head, |all, item| [all, written(item)].concat())
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_each_beginning_of_it_waits_for_more(reply in reply()) {
            let bytes = written(&reply);
            prop_assert_eq!(parse(&bytes), Ok(Some((reply.clone(), bytes.len()))));
            let behind = [bytes.as_slice(), b"+OK\r\n"].concat();
            prop_assert_eq!(parse(&behind), Ok(Some((reply, bytes.len()))));
            for end in 0..bytes.len() {
                prop_assert_eq!(parse(&bytes[..end]), Ok(None));
            }
        }

        #[test]
        fn the_parser_of_the_redis_crate_reads_the_same(reply in reply()) {
            let value = redis::parse_redis_value(&written(&reply)).unwrap();
            prop_assert_eq!(of_redis(&value), Some(reply));
        }

        #[test]
        fn of_any_bytes_no_more_is_read_than_the_redis_crate_reads(
            bytes in prop::collection::vec(prop_oneof![
                Just(b'\r'), Just(b'\n'), Just(b'+'), Just(b':'), Just(b'$'), Just(b'*'), Just(b'-'), b'0'..=b'3', any::<u8>()
            ], 0..24)
        ) {
            if let Ok(Some((reply, length))) = parse(&bytes) {
                prop_assert_eq!(written(&reply).len(), length);
                let value = redis::parse_redis_value(&bytes[..length]);
                prop_assert_eq!(value.ok().as_ref().and_then(of_redis), Some(reply));
            }
        }
    }
}
