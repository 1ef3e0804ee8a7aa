//! One exchange: a request to one node and its reply, by one deadline.
//!
//! The states of an exchange, and what leads from one to the next:
//!
//! | state | event | next state |
//! |---|---|---|
//! | `NoSlot` | a slot of the pool is free | `Idle` |
//! | `NoSlot` | none comes free within half of the node timeout | `Idle` on a slot beside the pool, if the request insists; else `Ended` |
//! | `Idle` | the request is sent on the open connection in the slot | `Sent`, warm |
//! | `Idle` | the slot has no open connection: the request is sent on a new one | `Sent`, fresh |
//! | `Idle` | connecting or sending fails | `Ended`, and the node has executed nothing |
//! | `Sent` | a reply | `Ended` |
//! | `Sent`, warm or with repetitions left | the connection is closed before any of the reply came: the request is sent again on a new one | `Sent`, fresh |
//! | `Sent` | the server lacks the script: the request is sent again on the same connection, with the text | `Sent` |
//! | `Sent` | anything else goes wrong | `Ended`, with the undo behind the request where the connection is still open |
//!
//! Each function of [`Exchange`] stands for one or two lines of the table. It moves an exchange in that state to the next
//! state, and returns any other exchange unchanged.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::checkout::{Checkout, ConnectionAge, POLL_INTERVAL};
use super::request::Request;
use super::slot::{Slot, SlotInUse};
use super::{Node, Trace, echo};
use crate::clock::Timestamp;
use crate::error::NodeError;
use crate::wire::resp::Reply;
use crate::wire::scripts;

/// One exchange with one node. See the table above.
pub(super) enum Exchange<'x, T> {
    NoSlot(&'x Node, &'x Request<'x>),
    Idle(Checkout<'x>),
    Sent(Sent<'x>),
    Ended(Answer<T>),
}

/// A request that was sent, and whose reply was not read yet.
pub(super) struct Sent<'x> {
    checkout: Checkout<'x>,
    age: ConnectionAge,
    /// The end of the last wait for the reply.
    looked_until: Timestamp,
    first_failure: Option<Box<NodeError>>,
}

/// The result of an exchange.
pub(super) struct Answer<T> {
    pub(super) result: Result<T, NodeError>,
    pub(super) elapsed: Duration,
    /// The run id of the server that answered, where it is known.
    pub(super) server: Option<Arc<str>>,
    /// What the request may have left on the node.
    pub(super) trace: Trace,
    /// Why the request was sent more than once, if it was.
    pub(super) first_failure: Option<Box<NodeError>>,
}

impl<'x, T> Exchange<'x, T> {
    /// The whole exchange with one node.
    pub(super) fn run(
        node: &'x Node,
        request: &'x Request<'x>,
        read: impl Fn(&Node, &Reply) -> Option<T>,
    ) -> Answer<T> {
        let begun = Self::NoSlot(node, request);
        begun.wait_for_slot().send().receive(read).answer()
    }

    pub(super) fn begin(node: &'x Node, request: &'x Request<'x>) -> Self {
        Self::NoSlot(node, request).try_slot()
    }

    /// Takes a slot that is free now, if there is one.
    pub(super) fn try_slot(self) -> Self {
        let Self::NoSlot(node, request) = self else {
            return self;
        };
        let started = node.now();
        match node.pool.try_get() {
            Some(slot) => Self::Idle(Checkout::new(
                node,
                request,
                SlotInUse::Pooled(slot),
                started,
            )),
            None => self,
        }
    }

    /// Waits for a slot for half of the node timeout; the other half is for the node.
    pub(super) fn wait_for_slot(self) -> Self {
        let Self::NoSlot(node, request) = self else {
            return self;
        };
        let started = node.now();
        let half = node.timeout.checked_div(2).unwrap_or_default();
        let slot = match node.pool.get_timeout(half) {
            Ok(slot) => SlotInUse::Pooled(slot),
            Err(_) if request.insists() => SlotInUse::Extra(Slot::default()),
            Err(_) => {
                let elapsed = node.now().saturating_since(started);
                return Self::Ended(Answer::failed(NodeError::PoolExhausted, elapsed));
            }
        };
        Self::Idle(Checkout::new(node, request, slot, started))
    }

    /// Sends the request, and connects if need be.
    pub(super) fn send(self) -> Self {
        let Self::Idle(mut checkout) = self else {
            return self;
        };
        match checkout.send() {
            Ok(age) => Self::Sent(Sent {
                age,
                looked_until: checkout.started,
                first_failure: None,
                checkout,
            }),
            Err(error) => Self::Ended(Answer {
                server: checkout.server(),
                ..Answer::failed(error, checkout.elapsed())
            }),
        }
    }

    /// Receives the reply if it comes within `patience`, or if no time is left to wait.
    pub(super) fn poll(
        self,
        patience: Duration,
        read: impl Fn(&Node, &Reply) -> Option<T>,
    ) -> Self {
        let Self::Sent(mut sent) = self else {
            return self;
        };
        if sent.has_come(patience) || sent.is_overdue() {
            Self::Ended(sent.receive(read))
        } else {
            Self::Sent(sent)
        }
    }

    /// Receives the reply.
    pub(super) fn receive(self, read: impl Fn(&Node, &Reply) -> Option<T>) -> Self {
        let Self::Sent(sent) = self else {
            return self;
        };
        Self::Ended(sent.receive(read))
    }

    pub(super) fn has_no_slot(&self) -> bool {
        matches!(self, Self::NoSlot(..))
    }

    /// Whether the exchange has a slot, and no answer yet.
    pub(super) fn is_under_way(&self) -> bool {
        matches!(self, Self::Idle(_) | Self::Sent(_))
    }

    /// Whether the request can be sent without connecting.
    pub(super) fn is_warm(&self) -> bool {
        matches!(self, Self::Idle(checkout) if checkout.slot.is_open())
    }

    /// The answer. An exchange that has not ended got no reply in time.
    pub(super) fn answer(self) -> Answer<T> {
        if let Self::Ended(answer) = self {
            answer
        } else {
            Answer::failed(NodeError::TimedOut, Duration::ZERO)
        }
    }
}

impl Sent<'_> {
    /// Waits for the reply for no longer than `patience`. Returns whether it can be read without waiting.
    fn has_come(&mut self, patience: Duration) -> bool {
        // Each wait ends later than the one before, also on a clock that stands still during the wait.
        let from = self.checkout.node.now().max(self.looked_until);
        self.looked_until = from.saturating_add(patience).min(self.checkout.deadline);
        let deadline = self.checkout.step_deadline();
        self.checkout.slot.is_ready(self.looked_until, deadline)
    }

    /// Whether the deadline has passed, or the clock has ended because the manager is gone.
    fn is_overdue(&self) -> bool {
        self.looked_until >= self.checkout.deadline || self.checkout.node.clock.has_ended()
    }

    fn receive<T>(mut self, read: impl Fn(&Node, &Reply) -> Option<T>) -> Answer<T> {
        let reply = self.reply();
        if self.age == ConnectionAge::Fresh && reply.as_ref().is_ok_and(echo::has_error) {
            // A server that has enough clients says so and closes. In the pool, the connection would look as if the
            // server had been restarted, and cost the others that still work.
            self.checkout.slot.distrust();
        }
        let result = reply.and_then(|reply| self.read(&reply, read));
        self.tell(result.as_ref().err());
        let is_undone = result
            .as_ref()
            .is_err_and(|error| self.checkout.undo(error));
        Answer {
            result,
            elapsed: self.checkout.elapsed(),
            server: self.checkout.server(),
            trace: if is_undone {
                Trace::Undone
            } else {
                Trace::Possible
            },
            first_failure: self.first_failure,
        }
    }

    fn recv(&mut self) -> Result<Reply, NodeError> {
        if let Some(given_up) = self.checkout.request.given_up() {
            while !self.has_come(POLL_INTERVAL) && !self.is_overdue() {
                if given_up.load(Ordering::Acquire) {
                    // The connection is closed, because the reply is still to come.
                    return Err(NodeError::TimedOut);
                }
            }
        }
        self.checkout.recv()
    }

    /// The reply. Sends the request again as often as it allows.
    fn reply(&mut self) -> Result<Reply, NodeError> {
        let mut reply = self.recv();
        while let Err(error) = &reply
            && error.is_closed()
            && (self.age == ConnectionAge::Warm || self.checkout.repetitions > 0)
        {
            self.checkout.repetitions = self.checkout.repetitions.saturating_sub(1);
            let failure = || Box::new(error.clone());
            self.first_failure.get_or_insert_with(failure);
            if self.age == ConnectionAge::Warm {
                self.checkout.node.retire(self.checkout.generation);
            }
            self.age = ConnectionAge::Fresh;
            reply = self.checkout.send_again().and_then(|()| self.recv());
        }
        if reply.as_ref().is_ok_and(scripts::is_missing) {
            self.checkout.send_script_again()?;
            reply = self.recv();
        }
        reply
    }

    /// Reads the reply. One that `read` does not accept is a fault of the node.
    fn read<T>(
        &mut self,
        reply: &Reply,
        read: impl Fn(&Node, &Reply) -> Option<T>,
    ) -> Result<T, NodeError> {
        let checkout = &mut self.checkout;
        let result = if echo::has_error(reply) {
            read(
                checkout.node,
                &echo::without_echo(reply, checkout.request.packed),
            )
        } else {
            read(checkout.node, reply)
        };
        result.ok_or_else(|| {
            // Nothing that comes on this connection can be trusted any more.
            checkout.slot.distrust();
            NodeError::protocol(echo::kind(reply))
        })
    }

    /// Reports the result to the span, the other connections and the breaker.
    fn tell(&self, error: Option<&NodeError>) {
        let Checkout { node, request, .. } = self.checkout;
        let Some(error) = error else {
            self.checkout.span.answered();
            if !request.is_about_health() {
                node.answered();
            }
            return;
        };
        self.checkout.span.failed(error);
        if error.is_broken() {
            node.retire(self.checkout.generation);
        }
        if !(request.is_about_health() && matches!(error, NodeError::Protocol { .. })) {
            self.checkout.note(error);
        }
    }
}

impl<T> Answer<T> {
    /// The answer of a node that has executed nothing.
    fn failed(error: NodeError, elapsed: Duration) -> Self {
        Self {
            result: Err(error),
            elapsed,
            server: None,
            trace: Trace::None,
            first_failure: None,
        }
    }
}
