//! Pure: parses the replies of a server, in version 2 of the protocol of Redis. Source: the Redis page "Redis serialization
//! protocol specification".
//!
//! A reply is accepted only as Redis writes it, to the byte. A laxer parser could read a vote where there is none.

use std::fmt;

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
const DEEPEST: usize = 4;

/// A reply that comes in pieces. What was parsed of it is not parsed again, so a server that floods it costs no more than its
/// bytes.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    /// The arrays that have items to come, the outermost first.
    arrays: Vec<OpenArray>,
    /// The end of the parsed bytes.
    at: usize,
    /// No line that is not parsed ends before this.
    searched: usize,
}

/// An array that has items to come.
#[derive(Debug)]
struct OpenArray {
    items: Vec<Reply>,
    to_come: usize,
}

impl Incoming {
    /// The reply at the beginning of these bytes, and its length. `None` means that the rest of it has to come: the next call
    /// takes the same bytes with more behind them. After a reply, the next call takes the bytes behind the reply.
    pub(crate) fn parse(&mut self, bytes: &[u8]) -> Result<Option<(Reply, usize)>, Malformed> {
        let (at, searched) = (self.at, self.searched);
        let mut parser = Parser {
            bytes,
            at,
            searched,
        };
        while let Some(item) = parser.item()? {
            self.at = parser.at;
            let whole = match item {
                Item::Whole(reply) => self.put(reply),
                Item::Array(to_come) => self.open(to_come)?,
            };
            if let Some(reply) = whole {
                *self = Self::default();
                return Ok(Some((reply, parser.at)));
            }
        }
        self.searched = parser.searched;
        Ok(None)
    }

    /// Begins an array. Returns the reply if nothing of it is to come.
    fn open(&mut self, to_come: usize) -> Result<Option<Reply>, Malformed> {
        if self.arrays.len() >= DEEPEST {
            return Err(Malformed("arrays that are too deep in each other"));
        }
        // Grows with the items, because a count alone must not take memory.
        let items = Vec::new();
        if to_come == 0 {
            return Ok(self.put(Reply::Array(items)));
        }
        self.arrays.push(OpenArray { items, to_come });
        Ok(None)
    }

    /// Puts an item where it belongs. Returns the reply if nothing of it is to come.
    fn put(&mut self, mut item: Reply) -> Option<Reply> {
        while let Some(mut array) = self.arrays.pop() {
            array.items.push(item);
            array.to_come = array.to_come.saturating_sub(1);
            if array.to_come > 0 {
                self.arrays.push(array);
                return None;
            }
            item = Reply::Array(array.items);
        }
        Some(item)
    }
}

/// The words of a command, if these bytes are one and nothing else.
pub(crate) fn words(bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let mut parser = Parser {
        bytes,
        at: 0,
        searched: 0,
    };
    let count = parser.header(b'*')?;
    // The count is only a claim, so no memory is reserved for it.
    let mut words = Vec::new();
    for _ in 0..count {
        let length = parser.header(b'$')?;
        words.push(parser.string(length).ok()??);
    }
    (parser.at == bytes.len()).then_some(words)
}

/// A part of a reply.
enum Item {
    Whole(Reply),
    /// The head of an array of so many items.
    Array(usize),
}

struct Parser<'b> {
    bytes: &'b [u8],
    /// The end of the parsed bytes.
    at: usize,
    /// No line that is not parsed ends before this.
    searched: usize,
}

impl<'b> Parser<'b> {
    /// The next item, if the whole of it has come.
    fn item(&mut self) -> Result<Option<Item>, Malformed> {
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
        Ok(Some(Item::Whole(match kind {
            b'+' if line == b"OK" => Reply::Okay,
            b'+' => Reply::Text(text(line)?.to_owned()),
            b'-' => Reply::Error(ServerError::new(text(line)?)),
            b':' => Reply::Int(number(line)?),
            b'$' => match length_of(line)? {
                None => Reply::Nil,
                Some(length) => match self.string(length)? {
                    None => return Ok(None),
                    Some(bytes) => Reply::Bulk(bytes.to_vec()),
                },
            },
            _ => match length_of(line)? {
                None => Reply::Nil,
                Some(count) => return Ok(Some(Item::Array(count))),
            },
        })))
    }

    /// The bytes up to the next line break. Consumes the line break too.
    fn line(&mut self) -> Result<Option<&'b [u8]>, Malformed> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let from = self.searched.saturating_sub(self.at);
        let mut unseen = rest.iter().skip(from);
        let Some(end) = unseen.position(|byte| matches!(byte, b'\r' | b'\n')) else {
            self.searched = self.bytes.len();
            return Ok(None);
        };
        let end = from.saturating_add(end);
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

#[cfg(test)]
fn parse(bytes: &[u8]) -> Result<Option<(Reply, usize)>, Malformed> {
    Incoming::default().parse(bytes)
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
mod tests;
