//! A request: a packed command and its verb, what follows from the verb, and how much room the command takes among others.

use std::cell::OnceCell;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::attempt::{Attempt, Purpose};
use super::command::{self, MOST_AT_ONCE, MOST_BYTES};
use super::gate::Manner;
use crate::clock::Timestamp;
use crate::fencing::Rules;
use crate::spans::Caller;
use crate::sync::AtomicBool;
use crate::wire::pack::Packed;
use crate::wire::resp::Reply;
use crate::wire::scripts::Script;

/// What a command is for. The verb decides how the command is repeated, waited for and undone, and what a reply means.
#[derive(Debug, Clone)]
pub(super) enum Verb {
    /// Asks for a vote. A second `SET` would find the first, so a repetition has another form. A command without a reply is
    /// undone.
    Take(Arc<Attempt>),
    /// Extends. A node that has our key must get it, also when all connections of the pool are in use.
    Keep {
        /// How long connections may take, so that the lock does not end meanwhile; within its node timeout in any case.
        connect_by: Timestamp,
    },
    /// Releases, as insistently.
    Drop,
    /// Releases a lock, as above, and asks for it again. What it asked for is undone without a reply. It has one form, because
    /// a repetition knows its own key.
    Pass(Arc<Attempt>),
    /// Asks what is under keys.
    Show,
    /// Makes a step of a scan for keys.
    Scan,
    /// Reads or sets the marker of a node of the fenced protocol.
    Open(Arc<Rules>),
    /// Asks about anything but locks. The caller reads the reply: an error, or a reply that this function accepts. The breaker
    /// hears of neither answers nor malformed replies: a server that answers may have its writes paused, and one with an unknown
    /// reply may still give locks.
    Raw(fn(&Reply) -> bool),
    /// Asks how long a client has to wait; of a semaphore, for any of so many permits.
    Look { permits: Option<u32> },
    /// Asks for the breaker whether the node is back.
    Probe,
    /// Blocks until a lock is released, or until a time. No reply is no fault of the node.
    Listen(Arc<Listen>),
}

/// A wait for a bell.
#[derive(Debug)]
pub(super) struct Listen {
    pub(super) bell: String,
    pub(super) until: Timestamp,
    /// For how long a reply is waited for.
    pub(super) patience: Duration,
    /// Set when nobody wants the answer any more.
    pub(super) given_up: Option<Arc<AtomicBool>>,
}

/// A connection that has carried nothing for this long and is silent then may have been forgotten on the way.
pub(super) const SUSPICIOUS_IDLE: Duration = Duration::from_secs(1);

/// A command whose connections break more often than this is given up.
const REPETITIONS: u32 = 3;

/// A server takes as long for a key as a slow link for so many bytes.
const COST_OF_A_KEY: usize = MOST_BYTES / MOST_AT_ONCE;

/// The most bytes of an undo beside those of the request: the call by its digest, without keys and values.
const LONGEST_UNDO: usize = 64;

impl Verb {
    /// Whether another thread may send the command together with its own.
    pub(super) fn is_for_others(&self) -> bool {
        matches!(self, Self::Take(_)) || self.insists()
    }

    /// Whether the command gets a connection beside the pool when the pool has none in time.
    pub(super) fn insists(&self) -> bool {
        matches!(self, Self::Keep { .. } | Self::Drop | Self::Pass(_))
    }

    /// Whether it may wake a client at the first node of the canonical order, which is to find a majority free.
    pub(super) fn rings_the_bell(&self) -> bool {
        matches!(self, Self::Drop | Self::Pass(_))
    }

    /// What it does at the gate of a node that takes no connections.
    pub(super) fn manner(&self) -> Manner {
        match self {
            Self::Take(_) | Self::Look { .. } | Self::Probe | Self::Listen(_) => Manner::Asks,
            Self::Keep { .. }
            | Self::Drop
            | Self::Pass(_)
            | Self::Show
            | Self::Scan
            | Self::Open(_)
            | Self::Raw(_) => Manner::Insists,
        }
    }

    /// How often it is sent again if a connection breaks that was made for it. Its deadline is one node timeout after sending; where
    /// this is zero, the wait for a slot is a part of the node timeout. If that wait took more than a quarter, a time-out says little
    /// about the node.
    pub(super) fn repetitions(&self) -> u32 {
        let insists = self.manner() == Manner::Insists;
        if insists { REPETITIONS } else { 0 }
    }

    /// A node that was silent on a connection is asked once more, on a new one, if the connection was idle for this long before.
    /// None means never. A release compares its value, so it may always be sent twice.
    pub(super) fn asked_again_after(&self) -> Option<Duration> {
        if matches!(self, Self::Drop) {
            return Some(Duration::ZERO);
        }
        let is_asked = self.manner() == Manner::Insists && self.attempt().is_none();
        is_asked.then_some(SUSPICIOUS_IDLE)
    }

    /// Until when a connection has to be made, if the lock is in a hurry.
    pub(super) fn connect_by(&self) -> Option<Timestamp> {
        if let Self::Keep { connect_by } = self {
            return Some(*connect_by);
        }
        match self.attempt()?.purpose {
            Purpose::Heal { connect_by } => Some(connect_by),
            Purpose::Lock | Purpose::Trial => None,
        }
    }

    /// What goes out if the outcome is unknown, if the command is undone then.
    pub(super) fn attempt(&self) -> Option<&Arc<Attempt>> {
        let (Self::Take(attempt) | Self::Pass(attempt)) = self else {
            return None;
        };
        Some(attempt)
    }

    /// How long a wait for another client may take after sending, if it is one. Its time-out says nothing about the node.
    pub(super) fn long_wait(&self) -> Option<Duration> {
        Some(self.listen()?.patience)
    }

    /// What is set when nobody wants the answer any more, if that may come.
    fn given_up(&self) -> Option<&AtomicBool> {
        self.listen()?.given_up.as_deref()
    }

    fn listen(&self) -> Option<&Listen> {
        let Self::Listen(listen) = self else {
            return None;
        };
        Some(listen)
    }

    /// Whether the answer says nothing about the node as a place for locks.
    pub(super) fn is_about_health(&self) -> bool {
        matches!(self, Self::Raw(_))
    }
}

/// The room that a command takes in one write: its bytes with those of the undo that may go behind it, and the work for the server.
pub(super) fn room_of(packed: &Packed, verb: &Verb) -> usize {
    let bytes = packed.bytes.len();
    let undo = verb.attempt();
    let undo = undo.map_or(0, |_| bytes.saturating_add(LONGEST_UNDO));
    let work = packed.keys.saturating_mul(COST_OF_A_KEY);
    bytes.saturating_add(undo).max(work)
}

/// A command of one thread.
pub(crate) struct Request {
    pub(super) packed: Packed,
    pub(super) verb: Verb,
    /// When the thread began to ask, before any wait for other threads.
    pub(super) since: Timestamp,
    /// None for a further request of the same thread, which comes behind its first one.
    pub(super) caller: Option<Caller>,
}

impl Request {
    pub(super) fn room(&self) -> usize {
        room_of(&self.packed, &self.verb)
    }

    /// The command for another connection, when the first one broke before it answered.
    pub(super) fn again(&self, now: Timestamp) -> Packed {
        if let Verb::Take(attempt) = &self.verb {
            attempt.again()
        } else if let Verb::Listen(listen) = &self.verb {
            command::listen(&listen.bell, listen.until.saturating_since(now))
        } else {
            self.packed.clone()
        }
    }
}

/// What goes to each node of a round in one write, and what all nodes have to know of it.
pub(super) struct Batch<'x> {
    pub(super) requests: &'x [&'x Request],
    /// Whether one of them wakes clients at the first node.
    pub(super) rings: bool,
    /// What is set when nobody wants an answer any more, if that may come.
    pub(super) given_up: Option<&'x AtomicBool>,
    /// Whether one of them has the whole node timeout after sending.
    pub(super) has_repetitions: bool,
    /// Whether one of them asks the server about itself.
    pub(super) is_about_health: bool,
    /// The longest wait for another client, if one of them is a wait.
    pub(super) long_wait: Option<Duration>,
    /// The most bytes of a reply.
    pub(super) longest_reply: usize,
    /// The scripts that are called.
    pub(super) scripts: SmallVec<[&'static Script; 2]>,
    joined: OnceCell<Vec<u8>>,
}

impl<'x> Batch<'x> {
    pub(super) fn new(requests: &'x [&'x Request]) -> Self {
        let mut batch = Self {
            requests,
            rings: false,
            given_up: None,
            has_repetitions: false,
            is_about_health: false,
            long_wait: None,
            longest_reply: 0,
            scripts: SmallVec::new(),
            joined: OnceCell::new(),
        };
        for request in requests {
            let verb = &request.verb;
            batch.rings |= verb.rings_the_bell();
            batch.given_up = batch.given_up.or(verb.given_up());
            batch.has_repetitions |= verb.long_wait().is_none() && verb.repetitions() > 0;
            batch.is_about_health |= verb.is_about_health();
            batch.long_wait = batch.long_wait.max(verb.long_wait());
            let packed = &request.packed;
            batch.longest_reply = batch.longest_reply.max(packed.longest_reply);
            if let Some(script) = packed.script
                && !batch.scripts.iter().any(|known| ptr::eq(*known, script))
            {
                batch.scripts.push(script);
            }
        }
        batch
    }

    /// All commands, for servers that have the scripts.
    pub(super) fn joined(&self) -> &[u8] {
        if let [one] = self.requests {
            return &one.packed.bytes;
        }
        self.joined.get_or_init(|| {
            let sizes = self.requests.iter().map(|one| one.packed.bytes.len());
            let mut joined = Vec::with_capacity(sizes.sum());
            for one in self.requests {
                joined.extend_from_slice(&one.packed.bytes);
            }
            joined
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::{Claim, Fence, Kind};
    use crate::fencing::FencingToken;

    #[test]
    fn there_is_room_for_a_request_and_its_undo() {
        const MINUTE: Duration = Duration::from_mins(1);
        let names = ["a", "b", "c"].map(Into::into).into();
        let rules = Rules::new("app:", 5, MINUTE, MINUTE).into();
        let token = FencingToken::new(u64::MAX >> 1);
        let fence = Fence { rules, token };
        for kind in [Kind::Lock, Kind::Read, Kind::Slot(3), Kind::Several(names)] {
            let mut claim = Claim::of_kind(&"job".repeat(50), kind);
            for fence in [None, Some(fence.clone())] {
                claim.fence = fence;
                let attempt = Attempt::new(claim.clone(), MINUTE, Purpose::Lock);
                let bytes = attempt.packed.bytes.len() + attempt.undo().bytes.len();
                let room = room_of(&attempt.packed, &Verb::Take(attempt.clone()));
                assert!(room >= bytes, "{bytes} {room} {claim:?}");
            }
        }
    }
}
