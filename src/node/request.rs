//! A request to a node: a packed command, what it is for and what follows from that, and how much room it takes among others.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::command::{self, Times};
use super::connection::SUSPICIOUS_IDLE;
use crate::claim::Claim;
use crate::clock::Timestamp;
use crate::fencing::{FENCE_IDLE, Rules};
use crate::health::answers::Question;
use crate::quorum::is_reached;
use crate::spans::Caller;
use crate::sync::AtomicBool;
use crate::wire::pack::Packed;

/// A packed command, and what it is for.
#[derive(Clone)]
pub(super) struct Request<'a> {
    pub(super) packed: Cow<'a, Packed>,
    pub(super) verb: Verb,
    /// Whether no connection of an earlier request will do.
    pub(super) needs_new_connection: bool,
}

/// What a command is for. The verb decides how the command is repeated, waited for and undone, and what a reply means.
#[derive(Debug, Clone)]
pub(super) enum Verb {
    /// Asks for a vote. A second `SET` would find the first, so a repetition has another form. A request without a reply is
    /// undone.
    Take(Repair),
    /// Extends. A node that has our key must get it, also when all connections of the pool are in use.
    Keep,
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
    /// Asks the server about itself. The breaker hears of neither answers nor malformed replies: a server that answers may
    /// have its writes paused, and one with an unknown reply may still give locks.
    Ask(Question),
    /// Asks how long a client has to wait; of a semaphore, for any of so many permits.
    Look { permits: Option<u32> },
    /// Asks for the breaker whether the node is back.
    Probe,
    /// Blocks until a lock is released, or until a time. No reply is no fault of the node.
    Listen {
        bell: String,
        until: Timestamp,
        patience: Duration,
        /// Set when nobody wants the answer any more.
        given_up: Option<Arc<AtomicBool>>,
    },
}

/// What follows from a verb, beside what undoes it and what a reply to it means.
#[derive(Clone, Copy)]
pub(super) struct Conduct {
    /// Whether another thread may send it together with its own.
    pub(super) is_for_others: bool,
    /// Whether it gets a connection beside the pool when the pool has none in time.
    pub(super) insists: bool,
    /// Whether it may wake a client at the first node of the canonical order, which is to find a majority free.
    pub(super) rings_the_bell: bool,
    /// How often it is sent again if a connection breaks that was made for it. Its deadline is one node timeout after sending; where
    /// this is zero, after the begin of the wait for a slot. If that wait took more than a quarter, a time-out says little about
    /// the node. A batch has the latest deadline of its requests.
    pub(super) repetitions: u32,
    /// A node that was silent on a connection is asked once more, on a new one, if the connection was idle for this long before.
    /// None means never. A release compares its value, so it may always be sent twice.
    pub(super) asked_again_after: Option<Duration>,
}

/// A request whose connections break more often than this is given up.
const REPETITIONS: u32 = 3;

/// What requests may cost that go in one write. More would take longer than a node timeout, on the server and on a link of
/// 10 Mbit/s.
pub(super) const MOST_COST: usize = 40 * 1024;

/// A server takes as long for a key as such a link for so many bytes.
const COST_OF_A_KEY: usize = MOST_COST / 128;

/// The most bytes of an undo beside those of the request: the call by its digest, without keys and values.
const LONGEST_UNDO: usize = 64;

impl<'a> Request<'a> {
    pub(super) fn new(packed: &'a Packed, verb: Verb) -> Self {
        Self {
            packed: Cow::Borrowed(packed),
            verb,
            needs_new_connection: false,
        }
    }

    /// The same request, on a new connection.
    pub(super) fn on_a_new_connection(&self) -> Self {
        Self {
            needs_new_connection: true,
            ..self.clone()
        }
    }

    /// The same request, for another thread to send together with its own.
    pub(super) fn for_others(&self) -> Request<'static> {
        Request {
            packed: Cow::Owned(Packed::clone(&self.packed)),
            verb: self.verb.clone(),
            needs_new_connection: self.needs_new_connection,
        }
    }

    /// What it costs among others in one write: its bytes with those of the undo that may go behind it, and the work for the
    /// server.
    pub(super) fn cost(&self) -> usize {
        let bytes = self.packed.bytes.len();
        let undo = self
            .repair()
            .map_or(0, |_| bytes.saturating_add(LONGEST_UNDO));
        let work = self.packed.keys.saturating_mul(COST_OF_A_KEY);
        bytes.saturating_add(undo).max(work)
    }

    /// The command for another connection, when the first one broke before it answered.
    pub(super) fn again(&self, now: Timestamp) -> Cow<'_, Packed> {
        if let Verb::Take(repair) = &self.verb {
            Cow::Owned(repair.again())
        } else if let Verb::Listen { bell, until, .. } = &self.verb {
            Cow::Owned(command::listen(bell, until.saturating_since(now)))
        } else {
            Cow::Borrowed(&self.packed)
        }
    }

    /// What goes out if the outcome of the request is unknown, if it is undone then.
    pub(super) fn repair(&self) -> Option<&Repair> {
        if let Verb::Take(repair) | Verb::Pass(repair) = &self.verb {
            Some(repair)
        } else {
            None
        }
    }

    pub(super) fn conduct(&self) -> Conduct {
        let vote = Conduct {
            is_for_others: true,
            insists: false,
            rings_the_bell: false,
            repetitions: 0,
            asked_again_after: None,
        };
        let look = Conduct {
            is_for_others: false,
            ..vote
        };
        let status = Conduct {
            repetitions: REPETITIONS,
            asked_again_after: Some(SUSPICIOUS_IDLE),
            ..look
        };
        let extension = Conduct {
            is_for_others: true,
            insists: true,
            ..status
        };
        let release = Conduct {
            rings_the_bell: true,
            asked_again_after: Some(Duration::ZERO),
            ..extension
        };
        match self.verb {
            Verb::Take(_) => vote,
            Verb::Keep => extension,
            Verb::Drop => release,
            Verb::Pass(_) => Conduct {
                asked_again_after: None,
                ..release
            },
            Verb::Show | Verb::Scan | Verb::Open(_) | Verb::Ask(_) => status,
            Verb::Look { .. } | Verb::Probe | Verb::Listen { .. } => look,
        }
    }

    /// Whether these answers are enough, so that no other node has to be asked again: votes that a majority has cast.
    pub(super) fn is_content_with(&self, nodes: usize, answered: usize) -> bool {
        matches!(self.verb, Verb::Keep | Verb::Drop) && is_reached(nodes, answered)
    }

    /// How long a wait for another client may take after sending, if it is one. Its time-out says nothing about the node.
    pub(super) fn long_wait(&self) -> Option<Duration> {
        if let Verb::Listen { patience, .. } = self.verb {
            Some(patience)
        } else {
            None
        }
    }

    /// What is set when nobody wants the answer any more, if that may come.
    pub(super) fn given_up(&self) -> Option<&AtomicBool> {
        if let Verb::Listen { given_up, .. } = &self.verb {
            given_up.as_deref()
        } else {
            None
        }
    }

    /// Whether the answer says nothing about the node as a place for locks.
    pub(super) fn is_about_health(&self) -> bool {
        matches!(self.verb, Verb::Ask(_))
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
}

impl Attempt {
    pub(crate) fn new(claim: &Claim, ttl: Duration) -> Self {
        Self::of(claim, ttl, Times::First, FENCE_IDLE)
    }

    /// As [`Self::new`], for a node that has no key of a lock that is held; of several resources, that lacks one at least. There
    /// the others count as set, with this time to live. A reader that has the lock does not heed a writer that waits for its end.
    pub(crate) fn healing(claim: &Claim, ttl: Duration) -> Self {
        let is_one = !claim.resource.is_read() && claim.resource.keys.len() == 1;
        let times = if is_one { Times::First } else { Times::Heal };
        Self::of(claim, ttl, times, FENCE_IDLE)
    }

    /// As [`Self::new`], of a lock that nobody asks for again. Its undo leaves nothing for longer than the lock lasts.
    pub(crate) fn once(claim: &Claim, ttl: Duration) -> Self {
        Self::of(claim, ttl, Times::First, ttl)
    }

    fn of(claim: &Claim, ttl: Duration, times: Times, idle: Duration) -> Self {
        let again = match times {
            Times::First | Times::Again => Times::Again,
            Times::Heal => Times::Heal,
        };
        Self {
            packed: command::take(claim, ttl, times),
            repair: Repair {
                claim: claim.clone(),
                ttl,
                times: again,
                idle,
            },
        }
    }

    /// The command that releases the keys of the attempt.
    pub(crate) fn undo(&self) -> Packed {
        self.repair.undo()
    }
}

impl Repair {
    #[cfg(any(test, fuzzing))]
    pub(super) fn new(claim: &Claim, ttl: Duration) -> Self {
        Attempt::new(claim, ttl).repair
    }

    pub(super) fn again(&self) -> Packed {
        command::take(&self.claim, self.ttl, self.times)
    }

    pub(super) fn undo(&self) -> Packed {
        command::undo(&self.claim, self.idle)
    }
}

/// A request of one thread.
#[derive(Clone, Copy)]
pub(super) struct Asked<'x> {
    pub(super) request: &'x Request<'x>,
    /// When the thread began to ask, before any wait for other threads.
    pub(super) since: Timestamp,
    pub(super) caller: &'x Caller,
}

/// What a thread wants of nodes, for another thread to send.
pub(crate) struct Batched {
    pub(super) request: Request<'static>,
    /// The places of the nodes that are asked.
    pub(super) places: SmallVec<[usize; 5]>,
    pub(super) since: Timestamp,
    pub(super) caller: Caller,
}

impl Batched {
    /// Whether both go to the same nodes. Then all of a batch have their answers at the same time, and none waits for a node of
    /// another.
    pub(super) fn goes_with(&self, other: &Self) -> bool {
        self.places == other.places
    }

    pub(super) fn cost(&self) -> usize {
        self.request.cost()
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
                let take = command::take(&claim, MINUTE, Times::First);
                let repair = Repair::new(&claim, MINUTE);
                let bytes = take.bytes.len() + repair.undo().bytes.len();
                let room = Request::new(&take, Verb::Take(repair)).cost();
                assert!(room >= bytes, "{bytes} {room} {claim:?}");
            }
        }
    }
}
