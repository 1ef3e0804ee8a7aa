//! The lane of a round, and when it is given back.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use super::lanes::Lane;
use crate::clock::{Clock, Timestamp};

/// A round, which has other things to do than to wait.
pub(super) trait MayBeLate {
    /// No reply has come for some time, or comes before some time has passed.
    fn is_late(&self);
}

/// The lane of a round. It is given back when all have answered, or as soon as replies are late, and before the round connects
/// or waits for a connection. So a node that hangs holds up no other round.
pub(super) struct Pacer<'l> {
    lane: RefCell<Option<Lane<'l>>>,
    clock: &'l Clock,
    pub(super) started: Timestamp,
    round_trip: Cell<Option<Duration>>,
}

impl<'l> Pacer<'l> {
    pub(super) fn new(lane: Option<Lane<'l>>, clock: &'l Clock) -> Self {
        Self {
            lane: RefCell::new(lane),
            clock,
            started: clock.now(),
            round_trip: Cell::new(None),
        }
    }

    pub(super) fn has_no_lane(&self) -> bool {
        self.lane.borrow().is_none()
    }

    /// Replies have come. The last of them count: a batch lasts as long as the way to the farthest node.
    pub(super) fn answered(&self) {
        if !self.has_no_lane() {
            let round_trip = self.clock.now().saturating_since(self.started);
            self.round_trip.set(Some(round_trip));
        }
    }
}

impl MayBeLate for Pacer<'_> {
    fn is_late(&self) {
        drop(self.lane.take());
    }
}

impl Drop for Pacer<'_> {
    fn drop(&mut self) {
        if let Some(lane) = self.lane.get_mut() {
            lane.give_back(self.round_trip.get());
        }
    }
}
