//! A server's answer as bytes, and the result that it should give, judged by the bytes alone.

use std::fmt;
use std::iter;
use std::ops::Range;
use std::time::Duration;

use crate::wire::pack::LONGEST_REPLY;

/// What a reader of a socket takes at once.
pub(super) const LONGEST_PACKET: usize = 1024;

/// How many packets a socket holds before they are read; more bytes come in packets of the longest kind.
pub(super) const MOST_PACKETS: usize = 128;

/// Bytes that a server sends, and how.
#[derive(Clone)]
pub(crate) struct RawAnswer {
    pub(super) verb: Verb,
    pub(super) bytes: Vec<u8>,
    /// The lengths of the first packets.
    pub(super) cuts: Vec<usize>,
    pub(super) then: Then,
}

/// What the server was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Acquire,
    Release,
    Extend,
    Probe,
}

/// What comes behind the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// Nothing, at the deadline.
    Silence,
    /// The end of the stream, at the deadline.
    End,
    /// The end of the stream long before the deadline, so that the reads are blocking ones.
    EarlyEnd,
}

/// The result of an answer, as far as it matters to the algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Granted,
    Held,
    Missing,
    NotALock,
    Refused,
    TimedOut,
    /// The connection is gone.
    Broken,
    /// No reply to what was asked.
    NoReply,
}

impl fmt::Debug for RawAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let packets = self.packets().into_iter();
        let packets = packets.map(|packet| self.bytes.get(packet).unwrap_or_default());
        write!(f, "{:?}:", self.verb)?;
        for packet in packets {
            write!(f, " b\"{}\"", packet.escape_ascii())?;
        }
        write!(f, " {:?}", self.then)
    }
}

impl RawAnswer {
    /// An answer that any bytes stand for: a byte for the question and what comes behind, the number of cuts, the
    /// cuts, and the answer itself.
    #[cfg(fuzzing)]
    pub(crate) fn from_input(input: &[u8]) -> Option<Self> {
        let (&[kind, cuts], rest) = input.split_first_chunk()?;
        let (cuts, bytes) = rest.split_at_checked(usize::from(cuts % 16))?;
        Some(Self {
            verb: match kind % 4 {
                0 => Verb::Acquire,
                1 => Verb::Release,
                2 => Verb::Extend,
                _ => Verb::Probe,
            },
            then: match kind / 4 % 4 {
                0 => Then::Silence,
                1 => Then::End,
                _ => Then::EarlyEnd,
            },
            cuts: cuts.iter().copied().map(usize::from).collect(),
            // More than the longest reply says nothing new.
            bytes: bytes.get(..2 * LONGEST_REPLY).unwrap_or(bytes).to_vec(),
        })
    }

    /// Where the packets begin and end.
    pub(super) fn packets(&self) -> Vec<Range<usize>> {
        let mut start = 0_usize;
        let cuts = self.cuts.iter().copied().take(MOST_PACKETS);
        let mut packets = Vec::new();
        for cut in cuts.chain(iter::repeat(LONGEST_PACKET)) {
            let cut = cut.clamp(1, LONGEST_PACKET);
            let end = start.saturating_add(cut).min(self.bytes.len());
            if start == end {
                break;
            }
            packets.push(start..end);
            start = end;
        }
        packets
    }

    /// What has to come of the question, told from the bytes alone: the vote that they are, if they are one. How they
    /// are cut decides only whether those behind the reply are seen at once.
    pub(super) fn expected(&self) -> Result<Outcome, Why> {
        let Some(end) = end_of_reply(&self.bytes) else {
            let can_be_one_line = matches!(self.bytes.first(), None | Some(b'+' | b'-' | b':'));
            let has_line_break = self.bytes.contains(&b'\n')
                || matches!(self.bytes.split_last(), Some((_, rest)) if rest.contains(&b'\r'));
            let may_go_on = can_be_one_line && !has_line_break && self.bytes.len() < LONGEST_REPLY;
            return Err(match self.then {
                Then::Silence if may_go_on => Why::Fault(Outcome::TimedOut),
                Then::End | Then::EarlyEnd if may_go_on => Why::Fault(Outcome::Broken),
                Then::Silence | Then::End | Then::EarlyEnd => Why::NoVote,
            });
        };
        if end > LONGEST_REPLY || !self.packets().iter().any(|packet| packet.end == end) {
            return Err(Why::NoVote);
        }
        let reply = self.bytes.get(..end).unwrap_or_default();
        self.verb.vote(reply).ok_or(Why::NoVote)
    }
}

/// Why there is no vote.
#[derive(Debug, Clone, Copy)]
pub(super) enum Why {
    Fault(Outcome),
    /// For a reason that may depend on how the bytes are cut.
    NoVote,
}

impl RawAnswer {
    #[track_caller]
    pub(super) fn assert_came(&self, came: Result<Outcome, Outcome>) {
        let is_expected = match (self.expected(), came) {
            (Ok(expected), Ok(vote)) => expected == vote,
            // A probe tells no more, and a release connects once more when the connection ends before the reply.
            (Err(Why::Fault(fault)), Err(came)) => came == fault || self.verb == Verb::Probe,
            (Err(Why::NoVote), Err(_)) => true,
            _ => false,
        };
        assert!(
            is_expected,
            "{self:?} should give {:?}, not {came:?}",
            self.expected()
        );
    }
}

impl Verb {
    /// The one reply that means yes.
    pub(super) fn yes(self) -> &'static [u8] {
        match self {
            Self::Acquire => b"+OK\r\n",
            Self::Probe | Self::Release | Self::Extend => b":1\r\n",
        }
    }

    /// The vote that these bytes, which end as a reply does, are. It is written as Redis writes it, to the byte.
    fn vote(self, reply: &[u8]) -> Option<Outcome> {
        let line = reply.strip_suffix(b"\r\n").unwrap_or(reply);
        let is_one_line = !line.iter().any(|byte| matches!(byte, b'\r' | b'\n'));
        let is_refusal = reply.starts_with(b"-") && is_one_line && str::from_utf8(reply).is_ok();
        match self {
            _ if reply == self.yes() => Some(Outcome::Granted),
            // A client waits as well, and a release has woken it.
            Self::Release | Self::Extend if reply == b":2\r\n" => Some(Outcome::Granted),
            Self::Probe if is_refusal => Some(Outcome::Granted),
            _ if is_refusal => Some(Outcome::Refused),
            Self::Acquire if reply == b"$-1\r\n" || reply == b"*-1\r\n" => Some(Outcome::Held),
            Self::Probe => None,
            // A second acquire is a script, which says who has the lock.
            Self::Acquire | Self::Release | Self::Extend
                if let Some((pttl, readers)) = two_numbers(reply) =>
            {
                let are_whole = [pttl, readers].into_iter().all(is_whole_number);
                are_whole.then_some(Outcome::Held)
            }
            Self::Acquire | Self::Release | Self::Extend => {
                let (line, has_value) = match second_line(reply) {
                    Some(line) => (line, true),
                    None => (
                        reply.strip_prefix(b"*1\r\n:")?.strip_suffix(b"\r\n")?,
                        false,
                    ),
                };
                let number: i64 = str::from_utf8(line).ok()?.parse().ok()?;
                let is_canonical = number.to_string().as_bytes() == line;
                match number {
                    _ if !is_canonical => None,
                    -3 | -2 if has_value => None,
                    -2 => (self != Self::Acquire).then_some(Outcome::Missing),
                    -1 | -3 => Some(Outcome::NotALock),
                    0.. => Some(Outcome::Held),
                    _ => None,
                }
            }
        }
    }
}

/// The lines of the numbers in an array of two, if these bytes begin as one does, and how long they are in all.
fn numbers(bytes: &[u8]) -> Option<(&[u8], &[u8], usize)> {
    let rest = bytes.strip_prefix(b"*2\r\n:")?;
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    let (first, rest) = rest.split_at_checked(end)?;
    let rest = rest.strip_prefix(b"\r\n:")?;
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    let (second, _) = rest.split_at_checked(end)?;
    let around = b"*2\r\n:\r\n:\r\n".len();
    let length = around.checked_add(first.len())?.checked_add(second.len())?;
    Some((first, second, length))
}

/// The lines of the numbers in an array of two.
fn two_numbers(reply: &[u8]) -> Option<(&[u8], &[u8])> {
    let (first, second, length) = numbers(reply)?;
    (length == reply.len()).then_some((first, second))
}

/// Whether this is a number of 64 bits from zero on, as Redis writes it.
fn is_whole_number(line: &[u8]) -> bool {
    let number = str::from_utf8(line).ok().and_then(|text| text.parse().ok());
    number.is_some_and(|number: i64| number >= 0 && number.to_string().as_bytes() == line)
}

/// The number in an array of a number and a bulk string, if these bytes begin with one.
fn second_line(bytes: &[u8]) -> Option<&[u8]> {
    let rest = bytes.strip_prefix(b"*2\r\n:")?;
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    let (number, string) = rest.split_at_checked(end)?;
    let string = string.strip_prefix(b"\r\n$")?;
    let end = string.windows(2).position(|pair| pair == b"\r\n")?;
    let (length, _) = string.split_at_checked(end)?;
    (!length.is_empty() && length.iter().all(u8::is_ascii_digit)).then_some(number)
}

/// The length of an array of a number and a bulk string, if these bytes begin with a whole one.
fn end_of_pair(bytes: &[u8]) -> Option<usize> {
    let number = second_line(bytes)?;
    let string_at = number.len().checked_add(b"*2\r\n:\r\n$".len())?;
    let string = bytes.get(string_at..)?;
    let end = string.windows(2).position(|pair| pair == b"\r\n")?;
    let length = str::from_utf8(string.get(..end)?).ok()?;
    let count: usize = length.parse().ok()?;
    let is_canonical = count.to_string() == length;
    let string_ends = string_at
        .checked_add(end)?
        .checked_add(2)?
        .checked_add(count)?;
    let after = string_ends.checked_add(2)?;
    let is_whole = is_canonical && bytes.get(string_ends..after)? == b"\r\n";
    is_whole.then_some(after)
}

/// Where the first line ends, or the second if the first is the beginning of an array of one, or that of a pair.
fn end_of_reply(bytes: &[u8]) -> Option<usize> {
    if let Some((_, _, length)) = numbers(bytes) {
        return Some(length);
    }
    if second_line(bytes).is_some() {
        return end_of_pair(bytes);
    }
    let from = if bytes.starts_with(b"*1\r\n") { 4 } else { 0 };
    let lines = bytes.get(from..)?;
    let end = lines.windows(2).position(|pair| pair == b"\r\n")?;
    end.checked_add(from)?.checked_add(2)
}

impl Then {
    pub(super) fn timeout(self) -> Duration {
        match self {
            Self::Silence | Self::End => Duration::ZERO,
            Self::EarlyEnd => Duration::from_secs(60),
        }
    }
}
