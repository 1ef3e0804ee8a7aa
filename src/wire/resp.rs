//! Pure: parses the replies of a server, in version 2 of the protocol of Redis. Source: the Redis page "Redis serialization
//! protocol specification".
//!
//! A reply is accepted only as Redis writes it, to the byte. A laxer parser could read a vote where there is none.

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

/// Bytes that are no reply, and can't become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// The deepest nesting of arrays. The replies to this crate's commands are not nested at all.
const DEEPEST: usize = 4;

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
    /// The next reply, if the whole of it has come. It has no more than so many arrays in each other.
    fn reply(&mut self, depth: usize) -> Result<Option<Reply>, Malformed> {
        let Some(kind) = self.bytes.get(self.at).copied() else {
            return Ok(None);
        };
        if !b"+-:$*".contains(&kind) {
            return Err(Malformed);
        }
        self.at = self.at.saturating_add(1);
        let Some(line) = self.line()? else {
            return Ok(None);
        };
        Ok(Some(match kind {
            b'+' if line == b"OK" => Reply::Okay,
            b'+' => Reply::Text(text(line)?.to_owned()),
            b'-' => Reply::Error(ServerError::new(text(line)?)),
            b':' => Reply::Int(number(line)?),
            kind => match length_of(line)? {
                None => Reply::Nil,
                Some(length) if kind == b'$' => match self.string(length)? {
                    None => return Ok(None),
                    Some(bytes) => Reply::Bulk(bytes.to_vec()),
                },
                Some(_) if depth == 0 => return Err(Malformed),
                Some(count) => {
                    // Grows with the items, because a count alone must not take memory.
                    let mut items = Vec::new();
                    for _ in 0..count {
                        match self.reply(depth.saturating_sub(1))? {
                            None => return Ok(None),
                            Some(item) => items.push(item),
                        }
                    }
                    Reply::Array(items)
                }
            },
        }))
    }

    /// The bytes up to the next line break. Consumes the line break too.
    fn line(&mut self) -> Result<Option<&'b [u8]>, Malformed> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let mut all = rest.iter();
        let Some(end) = all.position(|byte| matches!(byte, b'\r' | b'\n')) else {
            return Ok(None);
        };
        self.string(end)
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
            _ => Err(Malformed),
        }
    }
}

fn text(line: &[u8]) -> Result<&str, Malformed> {
    str::from_utf8(line).map_err(|_| Malformed)
}

/// A length or a count; none for -1, which stands for nil.
fn length_of(line: &[u8]) -> Result<Option<usize>, Malformed> {
    match number(line)? {
        -1 => Ok(None),
        length => match usize::try_from(length) {
            Ok(length) => Ok(Some(length)),
            Err(_) => Err(Malformed),
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
    number.ok_or(Malformed)
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
