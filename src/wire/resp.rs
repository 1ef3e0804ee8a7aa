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
    /// Boxed, because a reply is rarely an error.
    Error(Box<ServerError>),
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
    #[expect(clippy::unnecessary_box_returns, reason = "as a reply has it")]
    pub(crate) fn new(line: &str) -> Box<Self> {
        let (code, message) = line.split_once(' ').unwrap_or((line, ""));
        let (code, message) = (code.to_owned(), message.to_owned());
        Box::new(Self { code, message })
    }
}

/// Why bytes are no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoReply {
    /// The rest of it has to come.
    Unfinished,
    /// They can't become one.
    Malformed,
}

/// The deepest nesting of arrays. The replies to this crate's commands have arrays in an array at most.
const DEEPEST: usize = 4;

/// The reply at the beginning of these bytes, and its length.
pub(crate) fn parse(bytes: &[u8]) -> Result<(Reply, usize), NoReply> {
    let mut parser = Parser { bytes, at: 0 };
    let reply = parser.reply(DEEPEST)?;
    Ok((reply, parser.at))
}

/// The words of a command, if these bytes are one and nothing else.
pub(crate) fn words(bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let mut parser = Parser { bytes, at: 0 };
    let words = parser.words().ok()?;
    (parser.at == bytes.len()).then_some(words)
}

/// Each of these packed commands.
#[cfg(any(test, feature = "fake"))]
pub(crate) fn commands(bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let mut parser = Parser { bytes, at: 0 };
    let mut commands = Vec::new();
    while parser.at < bytes.len() {
        let begin = parser.at;
        parser.words().ok()?;
        commands.push(bytes.get(begin..parser.at)?);
    }
    Some(commands)
}

struct Parser<'b> {
    bytes: &'b [u8],
    /// The end of the parsed bytes.
    at: usize,
}

impl<'b> Parser<'b> {
    /// The next reply. It has no more than so many arrays in each other.
    fn reply(&mut self, depth: usize) -> Result<Reply, NoReply> {
        let (kind, line) = self.head(b"+-:$*")?;
        Ok(match kind {
            b'+' if line == b"OK" => Reply::Okay,
            b'+' => Reply::Text(text(line)?.to_owned()),
            b'-' => Reply::Error(ServerError::new(text(line)?)),
            b':' => Reply::Int(number(line)?),
            kind => match length_of(line)? {
                None => Reply::Nil,
                Some(length) if kind == b'$' => Reply::Bulk(self.string(length)?.to_vec()),
                Some(_) if depth == 0 => return Err(NoReply::Malformed),
                Some(count) => {
                    // Grows with the items, because a count alone must not take memory.
                    let mut items = Vec::new();
                    for _ in 0..count {
                        items.push(self.reply(depth.saturating_sub(1))?);
                    }
                    Reply::Array(items)
                }
            },
        })
    }

    fn words(&mut self) -> Result<Vec<&'b [u8]>, NoReply> {
        // The count is only a claim, so no memory is reserved for it.
        let mut words = Vec::new();
        for _ in 0..self.count(b"*")? {
            let length = self.count(b"$")?;
            words.push(self.string(length)?);
        }
        Ok(words)
    }

    fn count(&mut self, mark: &[u8]) -> Result<usize, NoReply> {
        let (_, line) = self.head(mark)?;
        length_of(line)?.ok_or(NoReply::Malformed)
    }

    /// The next byte, which is one of these marks, and the rest of the line.
    fn head(&mut self, marks: &[u8]) -> Result<(u8, &'b [u8]), NoReply> {
        let kind = *self.bytes.get(self.at).ok_or(NoReply::Unfinished)?;
        if !marks.contains(&kind) {
            return Err(NoReply::Malformed);
        }
        self.at = self.at.saturating_add(1);
        let mut rest = self.bytes.get(self.at..).unwrap_or_default().iter();
        let end = rest.position(|byte| matches!(byte, b'\r' | b'\n'));
        let line = self.string(end.ok_or(NoReply::Unfinished)?)?;
        Ok((kind, line))
    }

    /// This number of bytes. Consumes the line break behind them too.
    fn string(&mut self, length: usize) -> Result<&'b [u8], NoReply> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        match rest.split_at_checked(length) {
            Some((bytes, [b'\r', b'\n', ..])) => {
                self.at = self.at.saturating_add(length).saturating_add(2);
                Ok(bytes)
            }
            None | Some((_, [] | [b'\r'])) => Err(NoReply::Unfinished),
            Some(_) => Err(NoReply::Malformed),
        }
    }
}

fn text(line: &[u8]) -> Result<&str, NoReply> {
    str::from_utf8(line).map_err(|_| NoReply::Malformed)
}

/// A length or a count; none for -1, which stands for nil.
fn length_of(line: &[u8]) -> Result<Option<usize>, NoReply> {
    match number(line)? {
        -1 => Ok(None),
        length => Ok(Some(
            usize::try_from(length).map_err(|_| NoReply::Malformed)?,
        )),
    }
}

/// A number in the one way in which Redis writes it.
fn number(line: &[u8]) -> Result<i64, NoReply> {
    let (digits, sign) = match line {
        [b'0'] => return Ok(0),
        [b'-', digits @ ..] => (digits, -1),
        digits => (digits, 1),
    };
    if digits.first().is_none_or(|first| *first == b'0') {
        return Err(NoReply::Malformed);
    }
    let add = |number: i64, byte: &u8| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        number
            .checked_mul(10)?
            .checked_add(i64::from(digit).checked_mul(sign)?)
    };
    digits.iter().try_fold(0, add).ok_or(NoReply::Malformed)
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
        Value::ServerError(error) => Reply::Error(Box::new(ServerError {
            code: error.code().to_owned(),
            message: error.details().unwrap_or_default().to_owned(),
        })),
        Value::Map(_) | _ => return None,
    })
}

#[cfg(test)]
mod tests;
