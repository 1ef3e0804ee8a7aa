//! When a round gives its lane back.

use std::cell::Cell;
use std::time::Duration;

use super::lanes::Lane;
use crate::clock::{Clock, Timestamp};

/// The lane of a round. It is given back when all have answered, or as soon as replies are late, and before the round connects
/// or waits for a connection. So a node that hangs holds up no other round.
pub(super) struct Pacer<'l> {
    lane: Option<Lane<'l>>,
    clock: &'l Clock,
    pub(super) started: Timestamp,
    round_trip: Cell<Option<Duration>>,
}

impl<'l> Pacer<'l> {
    pub(super) fn new(lane: Option<Lane<'l>>, clock: &'l Clock, started: Timestamp) -> Self {
        Self {
            lane,
            clock,
            started,
            round_trip: Cell::new(None),
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(super) fn has_no_lane(&self) -> bool {
        self.lane.as_ref().is_none_or(Lane::is_given_back)
    }

    /// Replies have come. The last of them count: a batch lasts as long as the way to the farthest node.
    pub(super) fn answered(&self) {
        if !self.has_no_lane() {
            let round_trip = self.now().saturating_since(self.started);
            self.round_trip.set(Some(round_trip));
        }
    }

    /// No reply has come for some time, or comes before some time has passed.
    pub(super) fn is_late(&self) {
        if let Some(lane) = &self.lane {
            lane.give_back(None);
        }
    }
}

impl Drop for Pacer<'_> {
    fn drop(&mut self) {
        if let Some(lane) = &self.lane {
            lane.give_back(self.round_trip.get());
        }
    }
}
