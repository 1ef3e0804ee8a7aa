//! Who sends: a thread that wants something of nodes sends it itself, or queues it for a thread that sends for several.
//!
//! A *lane* is the right to have one batch of requests under way. While a lane is free, a thread takes it and sends at once.
//! Otherwise it queues its request and parks. A thread that gives a lane back gives it to the head of the queue, which sends its
//! own request and those of others behind it that go to the same nodes, and brings all of them their answers.
//!
//! How many lanes there are follows the round trip. On a fast link two are enough: while batches are under way, the next one
//! collects. On a slow link nobody has to wait for a batch that is under way.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::clock::Clock;
use super::key_report::KeyReports;
use super::request::Request;
use super::sync::{Condvar, Mutex};
use crate::clock::Timestamp;

/// The lanes to some nodes, and the queue for them.
pub(crate) struct Lanes {
    state: Mutex<State>,
    most: usize,
}

struct State {
    under_way: usize,
    /// The shortest round trip so far. A longer one may be due to busy processors, which more lanes would keep even busier.
    round_trip: Duration,
    queue: VecDeque<Arc<Queued>>,
}

/// A request in the queue, or in the batch of another thread.
pub(crate) struct Queued {
    pub(crate) request: Request,
    /// The indexes of the nodes that are asked. The requests of a batch go to the same nodes, so all are answered at the same time, and
    /// none waits for a node of another request.
    indexes: SmallVec<[usize; 5]>,
    stage: Mutex<Stage>,
    changed: Condvar,
    /// The reports of the nodes that are asked. They are written before the stage is `Answered`.
    pub(crate) reports: Mutex<KeyReports>,
}

enum Stage {
    Waits,
    /// Its thread has a lane.
    HasLane,
    Answered,
}

/// The right to have a batch under way. It is given back when all nodes have answered, or as soon as replies are late, and before the
/// batch connects or waits for a connection. So a node that hangs holds up no other batch.
pub(crate) struct Lane<'l> {
    /// None if the batch goes without a lane.
    lanes: Option<&'l Lanes>,
    is_given_back: Cell<bool>,
    /// When the batch began.
    pub(crate) began: Timestamp,
}

/// A thread that wants something of nodes.
pub(crate) struct Applicant<'x> {
    /// The indexes of these nodes.
    pub(crate) indexes: &'x [usize],
    /// How much room there is for requests of other threads in the same batch.
    pub(crate) room: usize,
    pub(crate) since: Timestamp,
    /// Until when it waits for other threads.
    pub(crate) until: Timestamp,
}

/// The requests of other threads.
pub(crate) type Others = Vec<Arc<Queued>>;

/// How a thread goes on.
pub(crate) enum Entry<'l> {
    /// It sends its own request, and these. A thread that has waited for long enough sends its own request without a lane.
    Leads(Lane<'l>, Others),
    /// Another thread has sent its request.
    Answered(Arc<Queued>),
}

/// Up to this round trip, the time goes into the work of the processors, which further lanes don't shorten.
const LOCAL: Duration = Duration::from_micros(300);

/// How many lanes there are near by: with one, two threads would wait for each other while a processor is idle.
const NEAR: usize = 2;

/// On a longer way there is a lane for each such span of the round trip.
const PACE: Duration = Duration::from_micros(50);

/// How long one wait lasts of a thread that was taken out of the queue. It waits again and again: another thread is sure to wake it.
const LOOK: Duration = Duration::from_secs(1);

impl Lanes {
    /// Lanes for so many batches at most.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            state: Mutex::new(State {
                under_way: 0,
                // Nothing is known yet, so nobody waits.
                round_trip: Duration::MAX,
                queue: VecDeque::new(),
            }),
            most,
        }
    }

    /// Takes a lane, if one is free, and what waits in the queue for the same nodes. Otherwise waits in the queue, until another
    /// thread brings the reports or this thread gets a lane.
    pub(crate) fn enter(
        &self,
        applicant: &Applicant<'_>,
        clock: &Clock,
        request: impl FnOnce() -> Request,
    ) -> Entry<'_> {
        if let Some(led) = self.try_lead(&mut self.state.lock(), applicant) {
            return led;
        }
        // Not under the mutex, because a request notes the span of its thread, which is code of the program.
        let queued = Arc::new(Queued {
            request: request(),
            indexes: applicant.indexes.into(),
            stage: Mutex::new(Stage::Waits),
            changed: Condvar::new(),
            reports: Mutex::new(KeyReports::new()),
        });
        let mut lanes = self.state.lock();
        if let Some(led) = self.try_lead(&mut lanes, applicant) {
            return led;
        }
        lanes.queue.push_back(Arc::clone(&queued));
        drop(lanes);
        let mut until = applicant.until;
        loop {
            let now = clock.now();
            let mut stage = queued.stage.lock();
            match *stage {
                Stage::Answered => {
                    drop(stage);
                    return Entry::Answered(queued);
                }
                Stage::HasLane => {
                    drop(stage);
                    // Those who were just woken may have more to send.
                    clock.let_others_run();
                    let others = self.state.lock().take(applicant);
                    return Entry::Leads(Lane::new(Some(self), clock.now()), others);
                }
                Stage::Waits if now < until => clock.wait(&queued.changed, &mut stage, until),
                Stage::Waits => {
                    drop(stage);
                    if self.leave(&queued) {
                        return Entry::Leads(Lane::new(None, now), Vec::new());
                    }
                    // Another thread has taken it out, and brings it a lane or its answers.
                    until = now.saturating_add(LOOK);
                }
            }
        }
    }

    fn try_lead(&self, state: &mut State, applicant: &Applicant<'_>) -> Option<Entry<'_>> {
        if state.under_way >= state.lanes(self.most) {
            return None;
        }
        state.under_way = state.under_way.saturating_add(1);
        let others = state.take(applicant);
        Some(Entry::Leads(Lane::new(Some(self), applicant.since), others))
    }

    /// Whether no batch is under way, and no request waits.
    #[cfg(test)]
    pub(crate) fn are_idle(&self) -> bool {
        self.waiting() == 0 && self.state.lock().under_way == 0
    }

    /// How many requests wait.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.state.lock().queue.len()
    }

    /// Takes a request out of the queue. Returns whether it was there.
    fn leave(&self, queued: &Arc<Queued>) -> bool {
        let mut state = self.state.lock();
        let before = state.queue.len();
        state.queue.retain(|other| !Arc::ptr_eq(other, queued));
        state.queue.len() < before
    }
}

impl State {
    /// How many lanes there are: two to servers near by, and else as many as fill the round trip.
    fn lanes(&self, most: usize) -> usize {
        if self.round_trip <= LOCAL {
            return NEAR.min(most);
        }
        let fill = self.round_trip.as_nanos().checked_div(PACE.as_nanos());
        let fill = usize::try_from(fill.unwrap_or_default());
        fill.unwrap_or(most).min(most).max(1)
    }

    /// Takes the requests for the same nodes out of the queue, as many as there is room for.
    fn take(&mut self, applicant: &Applicant<'_>) -> Others {
        let (mut taken, mut room) = (Vec::new(), applicant.room);
        self.queue.retain(|queued| {
            let left = room.checked_sub(queued.request.room());
            let Some(left) = left.filter(|_| queued.indexes.as_slice() == applicant.indexes) else {
                return true;
            };
            room = left;
            taken.push(Arc::clone(queued));
            false
        });
        taken
    }
}

impl Queued {
    /// Brings the request its reports.
    pub(crate) fn answer(&self) {
        self.set(Stage::Answered);
    }

    /// Moves the request on, and wakes its thread.
    fn set(&self, stage: Stage) {
        *self.stage.lock() = stage;
        self.changed.notify_one();
    }
}

impl<'l> Lane<'l> {
    /// One of these lanes; or none, if the batch goes without a lane.
    pub(crate) fn new(lanes: Option<&'l Lanes>, began: Timestamp) -> Self {
        Self {
            lanes,
            is_given_back: Cell::new(lanes.is_none()),
            began,
        }
    }

    pub(crate) fn is_given_back(&self) -> bool {
        self.is_given_back.get()
    }

    /// Gives the lane to the first in the queue, if one waits. Takes the round trip, if it was measured.
    pub(crate) fn give_back(&self, round_trip: Option<Duration>) {
        let Some(lanes) = self.lanes.filter(|_| !self.is_given_back.replace(true)) else {
            return;
        };
        let mut state = lanes.state.lock();
        if let Some(round_trip) = round_trip {
            state.round_trip = state.round_trip.min(round_trip);
        }
        let is_one_too_many = state.under_way > state.lanes(lanes.most);
        let next = || state.queue.pop_front();
        let heir = (!is_one_too_many).then(next).flatten();
        if heir.is_none() {
            state.under_way = state.under_way.saturating_sub(1);
        }
        drop(state);
        if let Some(heir) = heir {
            heir.set(Stage::HasLane);
        }
    }
}

impl Drop for Lane<'_> {
    fn drop(&mut self) {
        self.give_back(None);
    }
}
