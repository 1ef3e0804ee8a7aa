//! Any bytes as a server's answer, from the socket up to the vote: a vote is granted exactly where the bytes say so.
//!
//! A pair of `SOCK_SEQPACKET` sockets stands for the connection, so that the code under test is all of the real one: each
//! read gives out one packet, as TCP may. Nothing waits: the packets are there before the node is asked, and behind them
//! is the end of the stream, or nothing at a deadline that has passed.

#![expect(clippy::unwrap_used, reason = "the system has sockets and threads")]

use std::io;
use std::iter;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, recv, send, shutdown,
    socketpair,
};

use super::attempt::{Attempt, Purpose};
use super::request::Verb;
use super::round::ask_one;
use super::{Node, Setup, command, lanes};
use crate::claim::Claim;
use crate::clock::{Clock, FakeClock, Timers, Timestamp, one_thread};
use crate::error::{NodeError, Vote};
use crate::wire::connection::Connection;
use crate::wire::pack::LONGEST_REPLY;
use crate::wire::stream::Plain;
use crate::wire::transport::{Connect, Transport, unconnected};

#[cfg(test)]
mod properties;

const TTL: Duration = Duration::from_secs(60);

/// What a reader of a socket takes at once.
const LONGEST_PACKET: usize = 1024;

/// How many packets a socket holds before they are read; more bytes come in packets of the longest kind.
const MOST_PACKETS: usize = 128;

/// The answer to the question that is asked first on each connection.
const INTRODUCTION: &[u8] = b"$3\r\nabc\r\n";

/// Bytes that a server sends, and how.
#[derive(Debug, Clone)]
pub(crate) struct RawAnswer {
    /// What it was asked.
    question: Question,
    bytes: Vec<u8>,
    /// The lengths of the first packets.
    cuts: Vec<usize>,
    /// Whether the stream ends behind the bytes. Else nothing comes at the deadline.
    ends: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    Acquire,
    Release,
    Extend,
    Probe,
}

const QUESTIONS: [Question; 4] = [
    Question::Acquire,
    Question::Release,
    Question::Extend,
    Question::Probe,
];

impl RawAnswer {
    /// An answer that any bytes stand for: a byte for the question and what comes behind, the number of cuts, the
    /// cuts, and the answer itself.
    #[cfg(fuzzing)]
    pub(crate) fn from_input(input: &[u8]) -> Option<Self> {
        let (&[kind, cuts], rest) = input.split_first_chunk()?;
        let (cuts, bytes) = rest.split_at_checked(usize::from(cuts % 16))?;
        Some(Self {
            question: *QUESTIONS.get(usize::from(kind % 4))?,
            ends: kind / 4 % 2 == 1,
            cuts: cuts.iter().copied().map(usize::from).collect(),
            // More than the longest reply says nothing new.
            bytes: bytes.get(..2 * LONGEST_REPLY).unwrap_or(bytes).to_vec(),
        })
    }

    fn packets(&self) -> Vec<&[u8]> {
        let mut rest = self.bytes.as_slice();
        let cuts = self.cuts.iter().copied().take(MOST_PACKETS);
        let packets = cuts.chain(iter::repeat(LONGEST_PACKET)).map_while(|cut| {
            let length = cut.clamp(1, LONGEST_PACKET).min(rest.len());
            rest.split_off(..length).filter(|packet| !packet.is_empty())
        });
        packets.collect()
    }

    /// Whether the bytes grant what was asked for: they begin with the line that does, written as Redis writes it, to the byte,
    /// and nothing is behind it in the same packet.
    fn grants(&self) -> bool {
        let end_of_line = self.bytes.windows(2).position(|pair| pair == b"\r\n");
        let Some(line) = end_of_line.and_then(|end| self.bytes.get(..end)) else {
            return false;
        };
        let is_one_line = !line.iter().any(|byte| matches!(byte, b'\r' | b'\n'));
        let is_error = line.starts_with(b"-") && is_one_line && str::from_utf8(line).is_ok();
        let is_yes = line == self.question.yes()
            || match self.question {
                Question::Acquire => false,
                // A client waits as well, and a release has woken it.
                Question::Release | Question::Extend => line == b":2",
                // A server that refuses a probe is alive, too.
                Question::Probe => is_error,
            };
        let mut end = line.len().saturating_add(2);
        let is_short = end <= LONGEST_REPLY;
        let mut packets = self.packets().into_iter();
        let is_last = packets.any(|packet| {
            let is_last = packet.len() == end;
            end = end.saturating_sub(packet.len());
            is_last
        });
        is_yes && is_short && is_last
    }

    /// The socket of the node, with all the packets in it, and its other end.
    fn sent(&self, clock: &Clock) -> io::Result<(Connection<Plain>, OwnedFd)> {
        let kind = SocketType::SEQPACKET;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
        for packet in iter::once(INTRODUCTION).chain(self.packets()) {
            send(&theirs, packet, SendFlags::DONTWAIT)?;
        }
        if self.ends {
            shutdown(&theirs, Shutdown::Write)?;
        }
        Ok((Connection::over(Plain::over(ours.into(), clock)?), theirs))
    }
}

impl Question {
    /// The reply that means yes.
    fn yes(self) -> &'static [u8] {
        match self {
            Self::Acquire => b"+OK",
            Self::Probe | Self::Release | Self::Extend => b":1",
        }
    }
}

/// The next connection of the node.
#[derive(Clone, Default)]
struct Inbox(Arc<Mutex<Option<Connection<Plain>>>>);

impl Connect for Inbox {
    fn connect(&self, _deadline: Timestamp) -> Result<Box<dyn Transport>, NodeError> {
        match self.0.lock().take() {
            Some(socket) => Ok(Box::new(socket)),
            None => Err(unconnected(io::ErrorKind::ConnectionRefused.into())),
        }
    }
}

std::thread_local! {
    /// Threads are made once.
    static STAGE: (Arc<Node>, Inbox) = {
        let inbox = Inbox::default();
        let node = Node::new(Setup {
            name: "staged".into(),
            connector: Box::new(inbox.clone()),
            pool_size: 1,
            common_lanes: Arc::new(lanes(1)),
            timeout: Duration::ZERO,
            connect_timeout: Duration::ZERO,
            clock: &Clock::system(),
            // Its probes never come.
            timers: &Timers::Virtual(Arc::new(FakeClock::new())),
            thread: &one_thread("stage").unwrap(),
        });
        (node, inbox)
    };
}

/// Checks the result of an answer at the node.
pub(crate) fn check(answer: &RawAnswer) {
    STAGE.with(|(node, inbox)| check_at(node, inbox, answer));
}

fn check_at(node: &Arc<Node>, inbox: &Inbox, answer: &RawAnswer) {
    // A script that the server doesn't have is sent again, so the answer would be two.
    let asks_again = [&b"-NOSCRIPT"[..], b"-NOPERM"];
    if asks_again.iter().any(|word| answer.bytes.starts_with(word)) {
        return;
    }
    // The next connection is for this answer alone.
    node.forget_releases();
    let (socket, peer) = answer.sent(&node.clock).unwrap();
    *inbox.0.lock() = Some(socket);
    let vote = voted(node, answer.question);
    let bytes = answer.bytes.escape_ascii();
    let (question, cuts, ends) = (answer.question, &answer.cuts, answer.ends);
    let case = format_args!("{question:?} {bytes} {cuts:?} {ends}: {vote}");
    assert_eq!(vote.is_granted(), answer.grants(), "{case}");
    assert!(inbox.0.lock().is_none());
    // What breaks off within a reply is not asked for again.
    let is_closed = matches!(
        vote,
        Vote::Failed(NodeError::Closed { .. } | NodeError::Connect { .. })
    );
    let ends_before = ends && answer.bytes.is_empty();
    assert_eq!(is_closed, ends_before, "{case}");

    // A reply that comes now answers nothing, so no later command may get it.
    if !ends {
        // The node may have closed the connection, as it should if anything was wrong.
        send(&peer, b"+OK\r\n", SendFlags::DONTWAIT).ok();
    }
    let next = voted(node, Question::Acquire);
    let is_broken = next.failure().is_some_and(NodeError::is_broken);
    assert!(is_broken, "{case} {next}");
    if answer.question == Question::Acquire {
        check_undo(&peer, &vote);
    }
}

fn voted(node: &Arc<Node>, question: Question) -> Vote {
    // Nobody is turned away because of the answer before.
    node.gate.open();
    let (claim, attempt) = (Claim::of_key("job"), attempt());
    let connect_by = node.now();
    let (command, verb) = match question {
        Question::Acquire => (attempt.packed.clone(), Verb::Take(attempt)),
        Question::Release => (command::release(&claim), Verb::Drop),
        Question::Extend => (command::keep(&claim, TTL), Verb::Keep { connect_by }),
        Question::Probe => (command::probe(), Verb::Probe),
    };
    let report = ask_one(node, &command, verb);
    if question == Question::Probe && report.has_replied {
        return Vote::Granted;
    }
    report.vote.into()
}

fn attempt() -> Arc<Attempt> {
    Attempt::new(Claim::of_key("job"), TTL, Purpose::Lock)
}

/// A SET whose outcome is unknown has its undo behind it, on the same connection, wherever that is still open.
fn check_undo(peer: &OwnedFd, vote: &Vote) {
    let mut heard = [0; 8192];
    let mut next = || {
        let mut packet = recv(peer, heard.as_mut_slice(), RecvFlags::DONTWAIT);
        if matches!(packet, Err(Errno::CONNRESET)) {
            // Says once that not all of the answer was read; what was sent before is still there.
            packet = recv(peer, heard.as_mut_slice(), RecvFlags::DONTWAIT);
        }
        let length = packet.map_or(0, |(n, _)| n);
        heard.get(..length).unwrap_or_default().to_vec()
    };
    // The introduction and the SET are one write.
    let first = next();
    assert!(first.starts_with(b"*3\r\n$4\r\nEVAL\r\n"));
    assert!(first.windows(13).any(|part| part == b"*6\r\n$3\r\nSET\r\n"));
    let is_undone = next() == *attempt().undo().in_full();
    let is_unknown = matches!(
        vote,
        Vote::Failed(NodeError::TimedOut { .. } | NodeError::Protocol { .. })
    );
    assert_eq!(is_undone, is_unknown, "{vote}");
}
