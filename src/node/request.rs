//! A request to a node: a packed command, the rules for repeating it, waiting for it and undoing it, and the answer.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::command;
use super::repair::Repair;
use super::reply::{Said, Verb};
use super::slot::SUSPICIOUS_IDLE;
use crate::clock::Timestamp;
use crate::error::NodeError;
use crate::quorum::is_reached;
use crate::spans::Caller;
use crate::sync::AtomicBool;
use crate::wire::pack::Packed;
use crate::wire::resp::Reply;

/// A packed command, or several of one kind, and its rules.
#[derive(Clone)]
pub(super) struct Request<'a> {
    pub(super) packed: Cow<'a, Packed>,
    kind: Kind<'a>,
    verb: Verb,
    /// Whether no connection of an earlier request will do.
    pub(super) needs_new_connection: bool,
}

/// The rules of a request by what it is for.
#[derive(Clone)]
pub(super) enum Kind<'a> {
    /// Asks for a vote. A second `SET` would find the first, so a repetition has another form. A request without a reply is
    /// undone.
    Acquire(Repair<'a>),
    /// Extends. A node that has our key must get it, also when all connections of the pool are in use.
    Extend,
    /// Releases, as insistently. The first node of the canonical order, where clients wait, is the last of a majority.
    Release,
    /// Releases a lock, as above, and asks for it again. What it asked for is undone without a reply. It has one form, because
    /// a repetition knows its own key.
    Pass(Repair<'a>),
    /// Looks at keys, or at the marker of a node.
    Inspect,
    /// Asks the server about itself. The breaker hears of neither answers nor malformed replies: a server that answers may
    /// have its writes paused, and one with an unknown reply may still give locks.
    Health,
    /// A short command of a client that waits for a lock, or of the breaker. It is sent once.
    Brief,
    /// Blocks until a lock is released, or until a time. No reply is no fault of the node.
    Listen {
        bell: &'a str,
        until: Timestamp,
        patience: Duration,
        /// Set when nobody wants the answer any more.
        given_up: Option<&'a AtomicBool>,
    },
}

/// How long an exchange may take, and how often the request is sent.
pub(super) enum Patience {
    /// One node timeout, the wait for a slot included. If that wait took more than a quarter of it, a time-out says little
    /// about the node. Among requests that are more patient, it has their time.
    Once,
    /// One node timeout after sending, and this number of further connections if one that was made for the request breaks.
    Repeated(u32),
    /// This long after sending. A time-out says nothing about the node.
    Long(Duration),
}

/// A request whose connections break more often than this is given up.
const REPETITIONS: u32 = 3;

impl<'a> Request<'a> {
    pub(super) fn new(packed: &'a Packed, kind: Kind<'a>, verb: Verb) -> Self {
        let packed = Cow::Borrowed(packed);
        Self {
            packed,
            kind,
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

    /// The same request, for another thread to send. None if the thread that asks has to send it itself.
    pub(super) fn for_others(&self) -> Option<Request<'static>> {
        let kind = match &self.kind {
            Kind::Acquire(repair) => Kind::Acquire(repair.for_others()),
            Kind::Extend => Kind::Extend,
            Kind::Release => Kind::Release,
            Kind::Pass(repair) => Kind::Pass(repair.for_others()),
            Kind::Inspect | Kind::Health | Kind::Brief | Kind::Listen { .. } => return None,
        };
        Some(Request {
            packed: Cow::Owned(Packed::clone(&self.packed)),
            kind,
            verb: self.verb,
            needs_new_connection: self.needs_new_connection,
        })
    }

    /// How much room it takes among others in one write, with the undo that may go behind it.
    pub(super) fn size(&self) -> Size {
        let undo = self.repair().map_or(0, Repair::undo_bytes);
        Size {
            commands: self.packed.weight(),
            bytes: self.packed.bytes().saturating_add(undo),
        }
    }

    /// Whether another thread may send the request together with its own.
    pub(super) fn is_for_others(&self) -> bool {
        matches!(
            self.kind,
            Kind::Acquire(_) | Kind::Extend | Kind::Release | Kind::Pass(_)
        )
    }
}

impl Request<'_> {
    /// What a reply to the request says; none if it is no such reply, which is a fault of the node.
    pub(super) fn read(&self, reply: &Reply) -> Option<Said> {
        Said::read(self.verb, reply, &self.packed)
    }

    /// The command for the first connection.
    pub(super) fn first(&self) -> Cow<'_, Packed> {
        Cow::Borrowed(&self.packed)
    }

    /// The command for another connection, when the first one broke before it answered.
    pub(super) fn again(&self, now: Timestamp) -> Cow<'_, Packed> {
        match &self.kind {
            Kind::Acquire(repair) => Cow::Owned(repair.again()),
            Kind::Listen { bell, until, .. } => {
                Cow::Owned(command::listen(bell, until.saturating_since(now)))
            }
            Kind::Extend
            | Kind::Release
            | Kind::Pass(_)
            | Kind::Inspect
            | Kind::Health
            | Kind::Brief => Cow::Borrowed(&self.packed),
        }
    }

    fn repair(&self) -> Option<&Repair<'_>> {
        if let Kind::Acquire(repair) | Kind::Pass(repair) = &self.kind {
            Some(repair)
        } else {
            None
        }
    }

    /// The command that undoes the request if its outcome is unknown.
    pub(super) fn undo(&self) -> Option<Packed> {
        self.repair().map(Repair::undo)
    }

    pub(super) fn is_undone(&self) -> bool {
        self.repair().is_some()
    }

    /// Whether the request gets a connection beside the pool when the pool has none in time.
    pub(super) fn insists(&self) -> bool {
        matches!(self.kind, Kind::Extend | Kind::Release | Kind::Pass(_))
    }

    /// A node that was silent on a connection is asked once more, on a new one, if the connection was idle for this long before.
    /// None means never. A release compares its value, so it may always be sent twice.
    pub(super) fn is_asked_again_after(&self) -> Option<Duration> {
        match self.kind {
            Kind::Release => Some(Duration::ZERO),
            Kind::Extend | Kind::Inspect | Kind::Health => Some(SUSPICIOUS_IDLE),
            Kind::Acquire(_) | Kind::Pass(_) | Kind::Brief | Kind::Listen { .. } => None,
        }
    }

    /// Whether these answers are enough, so that no other node has to be asked again: votes that a majority has cast.
    pub(super) fn is_content_with(&self, nodes: usize, answered: usize) -> bool {
        matches!(self.kind, Kind::Extend | Kind::Release) && is_reached(nodes, answered)
    }

    /// Whether it may wake a client at the first node of the canonical order, which is to find a majority free.
    pub(super) fn rings_the_bell(&self) -> bool {
        matches!(self.kind, Kind::Release | Kind::Pass(_))
    }

    pub(super) fn patience(&self) -> Patience {
        match self.kind {
            Kind::Acquire(_) | Kind::Brief => Patience::Once,
            Kind::Extend | Kind::Release | Kind::Pass(_) | Kind::Inspect | Kind::Health => {
                Patience::Repeated(REPETITIONS)
            }
            Kind::Listen { patience, .. } => Patience::Long(patience),
        }
    }

    /// How often it is sent again if a connection breaks that was made for it.
    pub(super) fn repetitions(&self) -> u32 {
        match self.patience() {
            Patience::Repeated(times) => times,
            Patience::Once | Patience::Long(_) => 0,
        }
    }

    /// What is set when nobody wants the answer any more, if that may come.
    pub(super) fn given_up(&self) -> Option<&AtomicBool> {
        if let Kind::Listen { given_up, .. } = &self.kind {
            *given_up
        } else {
            None
        }
    }

    /// Whether the answer says nothing about the node as a place for locks.
    pub(super) fn is_about_health(&self) -> bool {
        matches!(self.kind, Kind::Health)
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

/// The result of a request at one node.
pub(crate) struct Answer {
    pub(super) result: Result<Said, NodeError>,
    pub(super) elapsed: Duration,
    /// When it came.
    pub(super) at: Timestamp,
    /// The run id of the server that answered, where it is known.
    pub(super) server: Option<Arc<str>>,
    /// What the request may have left on the node.
    pub(super) trace: Trace,
    /// Why the request was sent more than once, if it was.
    pub(super) first_failure: Option<Box<NodeError>>,
    /// For how long its connection was idle before. None if the connection was made for the request.
    pub(super) idle: Option<Duration>,
}

/// What a request may have left on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Trace {
    /// Nothing, now or later: the node was not asked, or no whole request has reached it.
    None,
    /// The node may have executed the request, so an acquire has to be released.
    Possible,
    /// An undo was sent behind the request. The node may execute both, at any later time.
    Undone,
}

impl Answer {
    pub(super) fn new(result: Result<Said, NodeError>, trace: Trace, at: Timestamp) -> Self {
        Self {
            result,
            elapsed: Duration::ZERO,
            at,
            server: None,
            trace,
            first_failure: None,
            idle: None,
        }
    }

    /// The answer of a node that has executed nothing.
    pub(super) fn failed(error: NodeError, elapsed: Duration, at: Timestamp) -> Self {
        Self {
            elapsed,
            ..Self::new(Err(error), Trace::None, at)
        }
    }

    /// Whether no reply came on a connection that was idle for so long before, and may be forgotten on the way.
    pub(super) fn is_silence_after(&self, idle: Duration) -> bool {
        let was_idle = self.idle.is_some_and(|span| span >= idle);
        was_idle && matches!(&self.result, Err(error) if error.is_silence())
    }
}

/// What each node has answered, in their order; none of those that were not asked.
pub(crate) type Answers = SmallVec<[Option<Answer>; 1]>;

/// What a thread wants of nodes, for another thread to send.
pub(crate) struct Batched {
    pub(super) request: Request<'static>,
    /// Which of the nodes are asked.
    pub(super) asked: Box<[bool]>,
    pub(super) since: Timestamp,
    pub(super) caller: Caller,
    pub(super) size: Size,
}

impl Batched {
    /// Whether both go to the same nodes. Then all of a batch have their answers at the same time, and none waits for a node of
    /// another.
    pub(super) fn goes_with(&self, other: &Self) -> bool {
        self.asked == other.asked
    }

    pub(super) fn size(&self) -> Size {
        self.size
    }
}

/// How much room requests take in one write, or may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(super) commands: usize,
    pub(super) bytes: usize,
}

impl Size {
    /// Whether there is so much room.
    pub(super) fn fits(self, room: Self) -> bool {
        self.commands <= room.commands && self.bytes <= room.bytes
    }

    /// The room beside the other.
    pub(super) fn less(self, other: Self) -> Self {
        Self {
            commands: self.commands.saturating_sub(other.commands),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Claim;

    #[test]
    fn each_kind_of_request_has_its_rules() {
        let packed = command::probe();
        let claim = Claim::of_key("job");
        let repair = || Repair::new(&claim, Duration::from_secs(1));
        let given_up = AtomicBool::new(false);
        let listen = Kind::Listen {
            bell: "bell",
            until: Timestamp::from_nanos(0),
            patience: Duration::ZERO,
            given_up: Some(&given_up),
        };
        // Whether others may send it, it insists, it rings, it is undone, it is about health, it can be given up; and how
        // often it is repeated.
        for (kind, expected, repetitions) in [
            (Kind::Acquire(repair()), [1, 0, 0, 1, 0, 0], 0),
            (Kind::Extend, [1, 1, 0, 0, 0, 0], REPETITIONS),
            (Kind::Release, [1, 1, 1, 0, 0, 0], REPETITIONS),
            (Kind::Pass(repair()), [1, 1, 1, 1, 0, 0], REPETITIONS),
            (Kind::Inspect, [0, 0, 0, 0, 0, 0], REPETITIONS),
            (Kind::Health, [0, 0, 0, 0, 1, 0], REPETITIONS),
            (Kind::Brief, [0, 0, 0, 0, 0, 0], 0),
            (listen, [0, 0, 0, 0, 0, 1], 0),
        ] {
            let request = Request::new(&packed, kind, Verb::Other);
            let rules = [
                request.is_for_others(),
                request.insists(),
                request.rings_the_bell(),
                request.is_undone(),
                request.is_about_health(),
                request.given_up().is_some(),
            ];
            assert_eq!(rules.map(u8::from), expected);
            assert_eq!(request.repetitions(), repetitions);
            assert_eq!(request.for_others().is_some(), request.is_for_others());
        }
    }
}
