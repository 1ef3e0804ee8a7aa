//! What is asked of nodes: a packed command and its verb, what follows from the verb, and how much room the command takes among others.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::command::{self, MOST_AT_ONCE, MOST_BYTES, Times};
use super::connection::SUSPICIOUS_IDLE;
use super::gate::Manner;
use crate::claim::Claim;
use crate::clock::Timestamp;
use crate::fencing::{FENCE_IDLE, Rules};
use crate::spans::Caller;
use crate::sync::AtomicBool;
use crate::wire::pack::Packed;
use crate::wire::resp::Reply;

/// What a command is for. The verb decides how the command is repeated, waited for and undone, and what a reply means.
#[derive(Debug, Clone)]
pub(super) enum Verb {
    /// Asks for a vote. A second `SET` would find the first, so a repetition has another form. A command without a reply is
    /// undone.
    Take(Repair),
    /// Extends. A node that has our key must get it, also when all connections of the pool are in use.
    Keep {
        /// How long connections may take, so that the lock does not end meanwhile; within its node timeout in any case.
        connect_by: Timestamp,
    },
    /// Releases, as insistently.
    Drop,
    /// Releases a lock, as above, and asks for it again. What it asked for is undone without a reply. It has one form, because
    /// a repetition knows its own key.
    Pass(Repair),
    /// Asks what is under keys.
    Show,
    /// Makes a step of a scan for keys.
    Scan,
    /// Reads or sets the marker of a node of the fenced protocol.
    Open(Arc<Rules>),
    /// Asks what is no matter of locks. The caller reads the reply: an error, or what this function accepts. The breaker hears of
    /// neither answers nor malformed replies: a server that answers may have its writes paused, and one with an unknown reply may
    /// still give locks.
    Raw(fn(&Reply) -> bool),
    /// Asks how long a client has to wait; of a semaphore, for any of so many permits.
    Look { permits: Option<u32> },
    /// Asks for the breaker whether the node is back.
    Probe,
    /// Blocks until a lock is released, or until a time. No reply is no fault of the node.
    Listen {
        bell: String,
        until: Timestamp,
        /// For how long a reply is waited for.
        patience: Duration,
        /// Set when nobody wants the answer any more.
        given_up: Option<Arc<AtomicBool>>,
    },
}

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
            Self::Take(_) | Self::Look { .. } | Self::Probe | Self::Listen { .. } => Manner::Asks,
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
        match self.manner() {
            Manner::Asks => 0,
            Manner::Insists => REPETITIONS,
        }
    }

    /// A node that was silent on a connection is asked once more, on a new one, if the connection was idle for this long before.
    /// None means never. A release compares its value, so it may always be sent twice.
    pub(super) fn asked_again_after(&self) -> Option<Duration> {
        match self {
            Self::Drop => Some(Duration::ZERO),
            Self::Keep { .. } | Self::Show | Self::Scan | Self::Open(_) | Self::Raw(_) => {
                Some(SUSPICIOUS_IDLE)
            }
            Self::Take(_)
            | Self::Pass(_)
            | Self::Look { .. }
            | Self::Probe
            | Self::Listen { .. } => None,
        }
    }

    /// Until when a connection has to be made, if the lock is in a hurry.
    pub(super) fn connect_by(&self) -> Option<Timestamp> {
        if let Self::Keep { connect_by } = self {
            return Some(*connect_by);
        }
        self.repair()?.connect_by
    }

    /// What goes out if the outcome is unknown, if the command is undone then.
    pub(super) fn repair(&self) -> Option<&Repair> {
        if let Self::Take(repair) | Self::Pass(repair) = self {
            Some(repair)
        } else {
            None
        }
    }

    /// How long a wait for another client may take after sending, if it is one. Its time-out says nothing about the node.
    pub(super) fn long_wait(&self) -> Option<Duration> {
        if let Self::Listen { patience, .. } = self {
            Some(*patience)
        } else {
            None
        }
    }

    /// What is set when nobody wants the answer any more, if that may come.
    pub(super) fn given_up(&self) -> Option<&AtomicBool> {
        if let Self::Listen { given_up, .. } = self {
            given_up.as_deref()
        } else {
            None
        }
    }

    /// Whether the answer says nothing about the node as a place for locks.
    pub(super) fn is_about_health(&self) -> bool {
        matches!(self, Self::Raw(_))
    }
}

/// The room that a command takes in one write, as [`Request::cost`] says.
pub(super) fn room_of(packed: &Packed, verb: &Verb) -> usize {
    let bytes = packed.bytes.len();
    let undo = verb.repair();
    let undo = undo.map_or(0, |_| bytes.saturating_add(LONGEST_UNDO));
    let work = packed.keys.saturating_mul(COST_OF_A_KEY);
    bytes.saturating_add(undo).max(work)
}

/// A command of one thread.
#[derive(Clone, Copy)]
pub(super) struct Request<'x> {
    pub(super) packed: &'x Packed,
    pub(super) verb: &'x Verb,
    /// When the thread began to ask, before any wait for other threads.
    pub(super) since: Timestamp,
    pub(super) caller: &'x Caller,
}

impl<'x> Request<'x> {
    /// What it costs among others in one write: its bytes with those of the undo that may go behind it, and the work for the
    /// server.
    pub(super) fn cost(&self) -> usize {
        room_of(self.packed, self.verb)
    }

    /// The command for another connection, when the first one broke before it answered.
    pub(super) fn again(&self, now: Timestamp) -> Cow<'x, Packed> {
        if let Verb::Take(repair) = self.verb {
            Cow::Owned(repair.again())
        } else if let Verb::Listen { bell, until, .. } = self.verb {
            Cow::Owned(command::listen(bell, until.saturating_since(now)))
        } else {
            Cow::Borrowed(self.packed)
        }
    }
}

/// The places of the nodes that are asked, in the canonical order.
pub(super) type Places = SmallVec<[usize; 5]>;

/// A request for another thread to send together with its own.
pub(crate) struct Batched {
    pub(super) packed: Packed,
    pub(super) verb: Verb,
    pub(super) since: Timestamp,
    pub(super) caller: Caller,
    /// Those of a batch go to the same nodes. So all have their answers at the same time, and none waits for a node of another.
    pub(super) places: Places,
}

impl Batched {
    pub(super) fn request(&self) -> Request<'_> {
        Request {
            packed: &self.packed,
            verb: &self.verb,
            since: self.since,
            caller: &self.caller,
        }
    }

    pub(super) fn cost(&self) -> usize {
        self.request().cost()
    }
}

/// One attempt, packed once for all nodes.
pub(crate) struct Attempt {
    pub(super) packed: Packed,
    pub(super) repair: Repair,
}

/// The same attempt again on another connection, or its undo. Packed when needed.
#[derive(Debug, Clone)]
pub(super) struct Repair {
    pub(super) claim: Claim,
    ttl: Duration,
    times: Times,
    /// For how long the undo lets a counter be kept.
    idle: Duration,
    /// As for an extension.
    connect_by: Option<Timestamp>,
}

impl Attempt {
    pub(crate) fn new(claim: &Claim, ttl: Duration) -> Self {
        Self::of(claim, ttl, Times::First, FENCE_IDLE)
    }

    /// As [`Self::new`], for a node that has no key of a lock that is held; of several resources, that lacks one at least. There
    /// the others count as set, with this time to live. A reader that has the lock does not heed a writer that waits for its end.
    ///
    /// New connections have to be made by `connect_by`, or within a node timeout.
    pub(crate) fn healing(claim: &Claim, ttl: Duration, connect_by: Timestamp) -> Self {
        let is_one = !claim.resource.is_read() && claim.resource.keys.len() == 1;
        let times = if is_one { Times::First } else { Times::Heal };
        let mut attempt = Self::of(claim, ttl, times, FENCE_IDLE);
        attempt.repair.connect_by = Some(connect_by);
        attempt
    }

    /// As [`Self::new`], of a lock that nobody asks for again. Its undo leaves nothing for longer than the lock lasts.
    pub(crate) fn once(claim: &Claim, ttl: Duration) -> Self {
        Self::of(claim, ttl, Times::First, ttl)
    }

    fn of(claim: &Claim, ttl: Duration, times: Times, idle: Duration) -> Self {
        let repair = Repair {
            claim: claim.clone(),
            ttl,
            times,
            idle,
            connect_by: None,
        };
        let packed = command::take(claim, ttl, times);
        Self { packed, repair }
    }

    /// The command that releases the keys of the attempt.
    pub(crate) fn undo(&self) -> Packed {
        self.repair.undo()
    }
}

impl Repair {
    pub(super) fn again(&self) -> Packed {
        let times = match self.times {
            Times::First | Times::Again => Times::Again,
            Times::Heal => Times::Heal,
        };
        command::take(&self.claim, self.ttl, times)
    }

    pub(super) fn undo(&self) -> Packed {
        command::undo(&self.claim, self.idle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::{Fence, Kind};
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
                let Attempt { packed, repair } = Attempt::new(&claim, MINUTE);
                let bytes = packed.bytes.len() + repair.undo().bytes.len();
                let request = Request {
                    packed: &packed,
                    verb: &Verb::Take(repair),
                    since: Timestamp::from_nanos(0),
                    caller: &Caller::here(),
                };
                let room = request.cost();
                assert!(room >= bytes, "{bytes} {room} {claim:?}");
            }
        }
    }
}
