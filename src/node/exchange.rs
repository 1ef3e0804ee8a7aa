//! One exchange: requests to one node and their replies, on one connection, each by its own deadline.
//!
//! Most exchanges have one request. Those that threads make at the same time go in one write ([`super::round`]), and each
//! rule below holds for each request.
//!
//! The states of an exchange, and what leads from one to the next:
//!
//! | state | event | next state |
//! |---|---|---|
//! | `NoSlot` | a slot of the pool is free | `Idle` |
//! | `NoSlot` | none comes free within half of the node timeout | `Idle` on a slot beside the pool, for the requests that insist; the others are answered |
//! | `Idle` | the requests are sent on the open connection in the slot | `Sent`, warm |
//! | `Idle` | the slot has no open connection: the requests are sent on a new one | `Sent`, fresh |
//! | `Idle` | connecting or sending fails, or the gate of the node is shut ([`super::gate`]) | `Ended`. The node has executed nothing, unless a write of several requests was cut: some of them may have gone as a whole |
//! | `Sent` | a reply | `Sent`, and the oldest request without a reply is answered |
//! | `Sent` | the connection is closed before any of a reply came: the requests without one are sent again on a new one, if they were sent on a warm one or have repetitions left | `Sent`, fresh |
//! | `Sent` | the server lacks a script: the request is sent again on the same connection, with the text | `Sent` |
//! | `Sent` | the deadline of a request | `Sent`, and the request is answered, with its undo behind it. Its reply counts for nothing when it comes |
//! | `Sent` | anything else goes wrong | `Ended`: all requests without a reply are answered, with their undos behind them where the connection is still open |
//! | `Sent` | all requests are answered | `Ended` |
//! | `Sent` | a panic | nothing: the undos are sent |
//!
//! Each function of [`Exchange`] stands for one or two lines of the table. It moves an exchange in that state to the next
//! state, and returns any other exchange unchanged. What happens in `Sent` is in [`super::sent`].

use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use super::checkout::Checkout;
use super::reply::Said;
use super::request::Request;
use super::sent::Sent;
use super::slot::{Slot, SlotInUse};
use super::{Node, Trace};
use crate::clock::Timestamp;
use crate::error::NodeError;
use crate::log_lines;
use crate::spans::Caller;

/// A request of one thread.
#[derive(Clone, Copy)]
pub(super) struct Asked<'x> {
    pub(super) request: &'x Request<'x>,
    /// When the thread began to ask, before any wait for other threads.
    pub(super) since: Timestamp,
    pub(super) caller: &'x Caller,
}

/// The requests to one node, and room for the answers.
pub(super) struct Call<'x> {
    pub(super) node: &'x Node,
    pub(super) all: &'x [Asked<'x>],
    /// As many as requests; `None` until the request is answered.
    pub(super) answers: &'x mut [Option<Answer>],
    /// When the first of its steps began. The time for the node counts from then.
    pub(super) began: Timestamp,
    /// Has the lane, which is given back before a connection is made.
    pub(super) pacer: &'x (dyn MayBeLate + 'x),
    pub(super) news: Vec<News>,
}

/// A round, which has other things to do than to wait.
pub(super) trait MayBeLate {
    /// No reply has come for some time, or comes before some time has passed.
    fn is_late(&self);
}

/// What the log will say of a node. It is told last, because the program's logger may panic, or take long.
pub(super) enum News {
    Opened(Arc<str>, NodeError),
    Closed(Arc<str>),
}

/// One exchange with one node. See the table above.
pub(super) enum Exchange<'x> {
    NoSlot(Call<'x>),
    Idle(Checkout<'x>),
    Sent(Sent<'x>),
    Ended(Vec<News>),
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

impl<'x> Exchange<'x> {
    pub(super) fn begin(
        node: &'x Node,
        all: &'x [Asked<'x>],
        answers: &'x mut [Option<Answer>],
        (pacer, began): (&'x (dyn MayBeLate + 'x), Timestamp),
    ) -> Self {
        let news = Vec::new();
        let call = Call {
            node,
            all,
            answers,
            began,
            pacer,
            news,
        };
        Self::NoSlot(call).take_slot()
    }

    /// Takes a slot that is free now, if there is one.
    pub(super) fn try_slot(self) -> Self {
        let Self::NoSlot(mut call) = self else {
            return self;
        };
        call.began = call.node.now();
        Self::NoSlot(call).take_slot().check()
    }

    /// Closes a connection that must not be used again.
    pub(super) fn check(mut self) -> Self {
        if let Self::Idle(checkout) = &mut self {
            checkout.check();
        }
        self
    }

    /// The socket of a connection that may be used again if the socket has nothing to read.
    pub(super) fn socket(&self) -> Option<&TcpStream> {
        match self {
            Self::Idle(checkout) => checkout.socket(),
            Self::NoSlot(_) | Self::Sent(_) | Self::Ended(_) => None,
        }
    }

    /// Takes a slot that is free now, if there is one. Its connection has to be checked.
    fn take_slot(self) -> Self {
        let Self::NoSlot(call) = self else {
            return self;
        };
        match call.node.pool.try_get() {
            Some(slot) => {
                let since = call.began;
                Self::Idle(Checkout::new(call, SlotInUse::Pooled(slot), since))
            }
            None => Self::NoSlot(call),
        }
    }

    /// Waits for a slot for half of the node timeout; the other half is for the node.
    pub(super) fn wait_for_slot(self) -> Self {
        let Self::NoSlot(mut call) = self else {
            return self;
        };
        call.began = call.node.now();
        let half = call.node.timeout.checked_div(2).unwrap_or_default();
        let slot = call.node.pool.get_timeout(half);
        let now = call.node.now();
        if let Ok(slot) = slot {
            return Self::Idle(Checkout::new(call, SlotInUse::Pooled(slot), now)).check();
        }
        for (asked, answer) in call.all.iter().zip(call.answers.iter_mut()) {
            if !asked.request.insists() {
                let elapsed = now.saturating_since(asked.since);
                *answer = Some(Answer::failed(NodeError::PoolExhausted, elapsed, now));
            }
        }
        if call.is_answered() {
            return Self::Ended(call.news);
        }
        Self::Idle(Checkout::new(call, SlotInUse::Extra(Slot::default()), now))
    }

    /// Sends the requests, and connects if need be.
    pub(super) fn send(self) -> Self {
        let Self::Idle(mut checkout) = self else {
            return self;
        };
        match checkout.send() {
            Ok(age) => Self::Sent(Sent::new(checkout, age)),
            Err(error) => Self::Ended(checkout.fail_all(&error)),
        }
    }

    /// Receives the replies that come within `patience`, and answers the requests for which no time is left.
    pub(super) fn poll(self, patience: Duration) -> Self {
        let Self::Sent(mut sent) = self else {
            return self;
        };
        if sent.poll(patience) {
            Self::Ended(sent.end())
        } else {
            Self::Sent(sent)
        }
    }

    /// Receives all replies.
    pub(super) fn receive(self) -> Self {
        let Self::Sent(mut sent) = self else {
            return self;
        };
        sent.receive();
        Self::Ended(sent.end())
    }

    /// Whether the requests can be sent.
    pub(super) fn is_idle(&self) -> bool {
        matches!(self, Self::Idle(_))
    }

    pub(super) fn has_no_slot(&self) -> bool {
        matches!(self, Self::NoSlot(..))
    }

    /// Whether the exchange has not ended.
    pub(super) fn is_open(&self) -> bool {
        !matches!(self, Self::Ended(_))
    }

    /// Whether the exchange has a slot, and has not ended.
    pub(super) fn is_under_way(&self) -> bool {
        matches!(self, Self::Idle(_) | Self::Sent(_))
    }

    /// Whether the requests can be sent without connecting.
    pub(super) fn is_warm(&self) -> bool {
        matches!(self, Self::Idle(checkout) if checkout.slot.is_open())
    }

    /// What the log has to be told, when the exchange has ended.
    pub(super) fn news(self) -> Vec<News> {
        match self {
            Self::Ended(news) => news,
            Self::NoSlot(_) | Self::Idle(_) | Self::Sent(_) => Vec::new(),
        }
    }
}

impl News {
    pub(super) fn tell(self) {
        match self {
            Self::Opened(node, error) => log_lines::node_opened(&node, &error),
            Self::Closed(node) => log_lines::node_closed(&node),
        }
    }
}

impl<'x> Call<'x> {
    pub(super) fn is_answered(&self) -> bool {
        self.answers.iter().all(Option::is_some)
    }

    /// The requests that are not answered, with their places.
    pub(super) fn unanswered(&self) -> impl Iterator<Item = (usize, Asked<'x>)> {
        let all = self.all.iter().zip(&*self.answers).enumerate();
        all.filter_map(|(place, (asked, answer))| answer.is_none().then_some((place, *asked)))
    }

    pub(super) fn asked(&self, place: usize) -> Option<Asked<'x>> {
        self.all.get(place).copied()
    }

    /// Whether the request in this place has its answer.
    pub(super) fn has_answer(&self, place: usize) -> bool {
        self.answers.get(place).is_some_and(Option::is_some)
    }

    pub(super) fn answer(&mut self, place: usize, answer: Answer) {
        if let Some(room) = self.answers.get_mut(place) {
            *room = Some(answer);
        }
    }
}

impl Answer {
    /// The answer of a node that has executed nothing.
    pub(super) fn failed(error: NodeError, elapsed: Duration, at: Timestamp) -> Self {
        Self {
            result: Err(error),
            elapsed,
            at,
            server: None,
            trace: Trace::None,
            first_failure: None,
            idle: None,
        }
    }

    /// Whether no reply came on a connection that was idle for so long before, and may be forgotten on the way.
    pub(super) fn is_silence_after(&self, idle: Duration) -> bool {
        let was_idle = self.idle.is_some_and(|span| span >= idle);
        was_idle && matches!(&self.result, Err(error) if error.is_silence())
    }
}
