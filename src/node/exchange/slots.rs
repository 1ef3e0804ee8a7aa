//! An exchange takes its slot from the pool, and gives it back.

use std::net::TcpStream;
use std::ptr;

use r2d2::PooledConnection;

use super::{Exchange, State};
use crate::clock::Timestamp;
use crate::error::NodeError;
use crate::node::answer::Trace;
use crate::node::connection::Slots;
use crate::spans::NodeSpan;

impl Exchange<'_> {
    pub(super) fn take_slot(&mut self) {
        if let Some(slot) = self.node.pool.try_get() {
            self.set_slot(Some(slot), self.began);
        }
    }

    pub(super) fn set_slot(&mut self, slot: Option<PooledConnection<Slots>>, now: Timestamp) {
        self.slot = slot;
        let connection = self.slot.as_mut().and_then(|slot| slot.take());
        let needs_new = self
            .requests
            .iter()
            .any(|one| one.asked.request.needs_new_connection);
        self.connection = connection.filter(|_| !needs_new);
        self.generation = self.node.generation();
        self.since = now;
        self.sent_at = now;
        let mut before = None;
        for one in &mut self.requests {
            let caller = one.asked.caller;
            let is_first = !before.is_some_and(|before| ptr::eq(before, caller));
            one.span = is_first.then(|| NodeSpan::new(&self.node.name, caller));
            before = Some(caller);
        }
        self.state = State::Idle;
    }

    /// Takes a slot that is free now, if there is none yet.
    pub(in super::super) fn try_slot(&mut self) {
        if self.has_no_slot() {
            self.began = self.node.now();
            self.take_slot();
            self.check();
        }
    }

    /// Waits for a slot for half of the node timeout; the other half is for the node.
    pub(in super::super) fn wait_for_slot(&mut self) {
        if !self.has_no_slot() {
            return;
        }
        self.began = self.node.now();
        let half = self.node.timeout.checked_div(2).unwrap_or_default();
        let slot = self.node.pool.get_timeout(half);
        let now = self.node.now();
        if let Ok(slot) = slot {
            self.set_slot(Some(slot), now);
            return self.check();
        }
        for place in self.unanswered() {
            let request = self.request(place);
            if !request.is_some_and(|request| request.conduct().insists) {
                self.answer(place, Err(NodeError::PoolExhausted), Trace::None);
            }
        }
        if self.is_answered() {
            self.state = State::Ended;
        } else {
            self.set_slot(None, now);
        }
    }

    /// Closes a connection that must not be used again.
    pub(in super::super) fn check(&mut self) {
        if !self.is_idle() || self.connection.is_none() {
            return;
        }
        if !self.is_current() {
            self.connection = None;
        } else if !self
            .connection
            .as_mut()
            .is_some_and(|it| it.transport.is_quiet())
        {
            self.connection = None;
            self.node.retire(self.generation);
        }
    }

    fn is_current(&self) -> bool {
        let connection = self.connection.as_ref();
        connection.is_some_and(|it| it.is_current(self.generation, self.since))
    }

    /// The socket of a connection that may be used again if the socket has nothing to read.
    pub(in super::super) fn socket(&self) -> Option<&TcpStream> {
        let connection = self.connection.as_ref()?;
        connection
            .transport
            .socket()
            .filter(|_| self.is_idle() && self.is_current())
    }

    /// The slot goes back to its pool, with the connection if that may be used again.
    pub(super) fn end(&mut self) {
        self.keep_undos();
        for one in &mut self.requests {
            // It ends with its own node, also if another one of the round hangs.
            one.span = None;
        }
        let connection = self.connection.take().filter(|it| it.is_idle());
        if let Some(mut slot) = self.slot.take() {
            *slot = connection;
        }
        self.state = State::Ended;
    }
}
