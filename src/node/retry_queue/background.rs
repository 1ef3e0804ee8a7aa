//! The work in the background for one node: probes a node that failed, reads the replies to undos, and sends releases again. One job
//! does all three, after a pause that grows until the node answers.

use std::mem::take;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::{Next, RetryQueue};
use crate::clock::{Timers, Timestamp};
use crate::node::connection::OpenConnection;

use crate::node::asked::Asked;
use crate::node::request::Verb;
use crate::node::round::{ask_each, ask_one};
use crate::node::undo::{Behind, End, Undo};
use crate::node::{Node, command};
use crate::retry::BackOff;
use crate::wire::pack::Packed;

/// The pauses. With the longest one, a node that takes connections at once is back within 300 ms.
pub(super) const PAUSES: BackOff = BackOff {
    first: Duration::from_millis(20),
    longest: Duration::from_millis(200),
};

/// How long one try may take. Connections with undos on them are read in between.
const LONGEST_TRY: Duration = Duration::from_millis(50);

/// A release is repeated for this long at most.
const HOUR: Duration = Duration::from_secs(60 * 60);

/// A connection that is silent for this long, at a node that answers otherwise, may be forgotten on the way. One to a node that does
/// not answer at all is kept for as long as a release is repeated.
const SILENT_FOR: Duration = Duration::from_secs(1);

impl Node {
    /// Repeats a release in the background until the node has answered it, but not before `from`, and not beyond the life of the
    /// key.
    pub(crate) fn release_later(&self, command: Packed, from: Timestamp, life: Duration) {
        let span = life.saturating_add(self.timeout).min(HOUR);
        let until = self.now().max(from).saturating_add(span);
        self.plan_retry(|queue| queue.add(command, from, until));
    }

    /// Takes over undos that were written on this connection. There is none if it has ended.
    pub(in crate::node) fn keep_undos(
        &self,
        connection: Option<Box<OpenConnection>>,
        undos: Vec<Undo>,
    ) {
        let behind = Behind {
            connection,
            undos,
            since: self.now(),
            has_refused: false,
        };
        self.plan_retry(|queue| queue.undone.push_back(behind));
    }

    /// Changes what is to be done in the background, and plans the next try if one is needed and none is planned that comes sooner.
    pub(in crate::node) fn plan_retry(&self, change: impl FnOnce(&mut RetryQueue)) {
        let now = self.now();
        let mut queue = self.retry_queue.lock();
        change(&mut queue);
        queue.keep_bounds(now);
        if self.is_well() && queue.is_empty() {
            queue.pause = Duration::ZERO;
            return;
        }
        let pause = PAUSES.after(queue.pause);
        let at = now.saturating_add(pause);
        let is_sooner = match queue.next {
            Next::Unplanned => true,
            Next::At(planned) => at < planned,
            Next::UnderWay => return,
        };
        if is_sooner || queue.pause.is_zero() {
            queue.pause = pause;
        }
        if is_sooner {
            queue.next = Next::At(at);
            drop(queue);
            self.retry_after(pause, at);
        }
    }

    /// The breaker has opened: asks the node after the first pause, even if other work waits for longer.
    pub(in crate::node) fn plan_probe(&self) {
        self.plan_retry(|queue| queue.pause = Duration::ZERO);
    }

    /// Runs the try that is planned for that time later, if the node still exists.
    fn retry_after(&self, pause: Duration, at: Timestamp) {
        let me = Weak::clone(&self.me);
        let timers = self.background.get().unwrap_or(&self.timers);
        timers.after(pause, move || {
            if let Some(node) = me.upgrade() {
                node.retry(at);
            }
        });
    }

    /// The try that is planned for that time, on the thread of this node: a node that hangs delays no other node. Nothing is read or
    /// sent under the mutex.
    fn retry(self: &Arc<Self>, at: Timestamp) {
        if self.background.get().is_none() {
            // A thread of the manager starts that of the node, because the caller of `plan_retry` may be dropping a guard. If the system
            // gives no thread, the thread of the manager does the work.
            let own = Timers::on_own_thread(&self.clock, "redlatch-node");
            let own = own.unwrap_or_else(|_| self.timers.clone());
            self.background.get_or_init(|| own);
            return self.retry_after(Duration::ZERO, at);
        }
        let mut queue = self.retry_queue.lock();
        if queue.next != Next::At(at) {
            return;
        }
        queue.next = Next::UnderWay;
        drop(queue);
        // A real command, because a stopped server still accepts connections.
        let probe = || ask_one(self, &command::probe(), Verb::Probe);
        let mut is_answered = !self.is_well() && probe().has_replied;
        let now = self.now();
        let mut queue = self.retry_queue.lock();
        let mut undone = take(&mut queue.undone);
        queue.is_reading = !undone.is_empty();
        drop(queue);
        let patience = if self.is_well() { SILENT_FOR } else { HOUR };
        let mut again = Vec::new();
        undone.retain_mut(|behind| {
            let end = behind.read(now, patience, &self.pace);
            is_answered |= end == End::Answered;
            if end == End::Again {
                again.append(&mut behind.undos);
            }
            end == End::Open
        });
        let mut queue = self.retry_queue.lock();
        // Put these undos before those that were added meanwhile.
        undone.append(&mut queue.undone);
        queue.undone = undone;
        queue.is_reading = false;
        queue.repeat(again, now);
        // Also while the breaker is open.
        queue.give_up(now);
        drop(queue);
        is_answered |= self.send_releases(now.saturating_add(LONGEST_TRY));
        self.plan_retry(|queue| {
            queue.next = Next::Unplanned;
            if is_answered {
                queue.pause = Duration::ZERO;
            }
        });
    }

    /// Sends releases, as many as go in one write, until the node does not answer one, or the try is over. Returns whether the node has
    /// answered any.
    fn send_releases(self: &Arc<Self>, end: Timestamp) -> bool {
        let mut is_answered = false;
        // While the breaker is open, the probe asks whether the node is back.
        while self.is_well() {
            let now = self.now();
            if now > end {
                break;
            }
            let releases = self.retry_queue.lock().begin_write(now);
            if releases.is_empty() {
                break;
            }
            let reports = ask_each(Asked::one(self), &releases, Verb::Drop);
            let answered = self.retry_queue.lock().end_write(&reports);
            is_answered |= answered > 0;
            if answered < releases.len() {
                break;
            }
        }
        is_answered
    }

    /// Whether a release that may go before `until` has no answer.
    pub(crate) fn has_releases_before(&self, until: Timestamp) -> bool {
        let queue = self.retry_queue.lock();
        queue.is_reading
            || !queue.undone.is_empty()
            || !queue.under_way.is_empty()
            || queue.releases.iter().any(|release| release.from < until)
    }

    /// The keys whose releases the node has not answered, if there are any.
    pub(crate) fn unanswered_keys(&self) -> Option<Vec<Vec<u8>>> {
        let queue = self.retry_queue.lock();
        let keys = || queue.commands().flat_map(Packed::keys_of_call).collect();
        (!queue.is_empty()).then(keys)
    }

    /// Forgets what the node has not answered.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn forget_releases(&self) {
        let mut queue = self.retry_queue.lock();
        *queue = RetryQueue {
            next: queue.next,
            ..RetryQueue::new()
        };
    }
}
