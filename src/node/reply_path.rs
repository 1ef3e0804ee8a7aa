//! Any bytes as a server's answer, from the socket up to the vote: a vote is granted exactly where the bytes say so.
//!
//! A pair of `SOCK_SEQPACKET` sockets stands for the connection, so that the code under test is all of the real one: each
//! read gives out one packet, as TCP may. Nothing waits: the packets are there before the node is asked, and behind them
//! is the end of the stream, or nothing at a deadline that has passed.

#![expect(clippy::unwrap_used, reason = "the system has sockets and threads")]

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, recv, send, shutdown,
    socketpair,
};

use super::command;
use super::request::{self, Attempt};
use super::round::ask;
use super::{Node, Setup, lanes};
use crate::claim::Claim;
use crate::clock::{Clock, FakeClock, Timers, Timestamp, one_thread};
use crate::error::{NodeError, Vote};
use crate::wire::connection::Connection;
use crate::wire::stream::Plain;
use crate::wire::transport::{Connect, Transport, unconnected};

pub(crate) mod answer;
#[cfg(test)]
mod properties;

use self::answer::{RawAnswer, Then, Verb};

const TTL: Duration = Duration::from_secs(60);

/// Checks the result of an answer at the node.
pub(crate) fn check(answer: &RawAnswer) {
    STAGE.with(|stage| stage.check(answer));
}

/// The answer to the question that is asked first on each connection.
const INTRODUCTION: &[u8] = b"$3\r\nabc\r\n";

/// A connected socket, with all the packets in it, and its other end.
fn stage(answer: &RawAnswer, clock: &Clock) -> io::Result<(Connection<Plain>, OwnedFd)> {
    let (ours, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    send(&theirs, INTRODUCTION, SendFlags::DONTWAIT)?;
    for packet in answer.packets() {
        let bytes = answer.bytes.get(packet).unwrap_or_default();
        send(&theirs, bytes, SendFlags::DONTWAIT)?;
    }
    if answer.then != Then::Silence {
        shutdown(&theirs, Shutdown::Write)?;
    }
    let plain = Plain::over(ours.into(), clock)?;
    Ok((Connection::over(plain), theirs))
}

std::thread_local! {
    /// Threads are made once.
    static STAGE: Stage = Stage::new();
}

/// A node whose next connection is what the inbox holds.
struct Stage {
    node: Arc<Node>,
    clock: Clock,
    inbox: Arc<Inbox>,
}

type Inbox = Mutex<Option<Connection<Plain>>>;

struct FromInbox(Arc<Inbox>);

impl Connect for FromInbox {
    fn connect(&self, _deadline: Timestamp) -> Result<Box<dyn Transport>, NodeError> {
        match self.0.lock().take() {
            Some(socket) => Ok(Box::new(socket)),
            None => Err(unconnected(io::ErrorKind::ConnectionRefused.into())),
        }
    }
}

impl Stage {
    fn new() -> Self {
        let (clock, inbox) = (Clock::system(), Arc::new(Inbox::default()));
        let node = Node::new(Setup {
            name: "staged".into(),
            connector: Box::new(FromInbox(Arc::clone(&inbox))),
            pool_size: 1,
            common_lanes: Arc::new(lanes(1)),
            timeout: Duration::ZERO,
            clock: &clock,
            // Its probes never come.
            timers: &Timers::Virtual(Arc::new(FakeClock::new())),
            thread: &one_thread("stage"),
        });
        drop(node.pool.get_timeout(TTL).unwrap());
        Self { node, clock, inbox }
    }

    fn check(&self, answer: &RawAnswer) {
        // The next connection is for this answer alone.
        self.node.owes_nothing_more();
        let (socket, peer) = stage(answer, &self.clock).unwrap();
        *self.inbox.lock() = Some(socket);
        let vote = self.ask(answer.verb);
        assert_eq!(vote.is_granted(), answer.grants(), "{answer:?} {vote}");
        assert!(self.inbox.lock().is_none());

        // A reply that comes now answers nothing, so no later command may get it.
        if answer.then == Then::Silence {
            // The node may have closed the connection, as it should if anything was wrong.
            send(&peer, b"+OK\r\n", SendFlags::DONTWAIT).ok();
        }
        let next = self.ask(Verb::Acquire);
        assert!(
            next.failure().is_some_and(NodeError::is_broken),
            "{answer:?} {next}"
        );
        if answer.verb == Verb::Acquire {
            check_undo(&peer, &vote);
        }
    }

    fn ask(&self, verb: Verb) -> Vote {
        // Nobody is turned away because of the answer before.
        self.node.gate.open();
        let (claim, attempt) = (Claim::of_key("job"), attempt());
        let (command, asked) = match verb {
            Verb::Acquire => (attempt.packed, request::Verb::Take(attempt.repair)),
            Verb::Release => (command::release(&claim), request::Verb::Drop),
            Verb::Extend => (command::keep(&claim, TTL), request::Verb::Keep),
            Verb::Probe => (command::probe(), request::Verb::Probe),
        };
        match ask(&self.node, &command, &asked).result {
            Ok(_) if verb == Verb::Probe => Vote::Granted,
            Ok(said) => said.vote().0,
            Err(error) => Vote::Failed(error),
        }
    }
}

fn attempt() -> Attempt {
    Attempt::new(&Claim::of_key("job"), TTL)
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
        Vote::Failed(NodeError::TimedOut | NodeError::Protocol { .. })
    );
    assert_eq!(is_undone, is_unknown, "{vote}");
}
