//! A server's answer as bytes, and whether it grants what was asked for, judged by the bytes alone.

use std::fmt;
use std::iter;
use std::ops::Range;

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
            then: match kind / 4 % 2 {
                0 => Then::Silence,
                _ => Then::End,
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

    /// Whether the bytes grant what was asked for: they begin with the line that does, written as Redis writes it, to the byte,
    /// and nothing is behind it in the same packet.
    pub(super) fn grants(&self) -> bool {
        let end_of_line = self.bytes.windows(2).position(|pair| pair == b"\r\n");
        let Some(line) = end_of_line.and_then(|end| self.bytes.get(..end)) else {
            return false;
        };
        let end = line.len().saturating_add(2);
        end <= LONGEST_REPLY
            && self.packets().iter().any(|packet| packet.end == end)
            && self.verb.is_granted_by(line)
    }
}

impl Verb {
    /// The reply that means yes.
    pub(super) fn yes(self) -> &'static [u8] {
        match self {
            Self::Acquire => b"+OK",
            Self::Probe | Self::Release | Self::Extend => b":1",
        }
    }

    fn is_granted_by(self, line: &[u8]) -> bool {
        let is_one_line = !line.iter().any(|byte| matches!(byte, b'\r' | b'\n'));
        let is_error = line.starts_with(b"-") && is_one_line && str::from_utf8(line).is_ok();
        line == self.yes()
            // A client waits as well, and a release has woken it.
            || (line == b":2" && matches!(self, Self::Release | Self::Extend))
            // A server that refuses a probe is alive, too.
            || (is_error && self == Self::Probe)
    }
}
