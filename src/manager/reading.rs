//! A call for a read lock: the first attempt in parallel with all others, then the line of those who have to wait.

use super::LockManager;
use super::call_record::CallRecord;
use super::params::LockParams;
use super::turn::{Start, line_of_readers};
use crate::contend::order::Order;
use crate::contend::queue::Turn;
use crate::contend::turns::Turns;
use crate::error::{Error, NodeReport, Vote};
use crate::fanout::Fanout;
use crate::guard::{LockGuard, Received};

/// What a reader may do when its wait in the line is over.
pub(super) enum FromLine {
    /// It waits at the nodes, for all that are in the line behind it. With it comes how it was refused.
    Leads(Turn<LockGuard>, Error),
    /// One before it has got the lock, so it asks as well.
    GoesAhead,
}

impl LockManager {
    /// Makes attempts until one succeeds or the time is over. Nothing that threads share is locked while the nodes are asked.
    pub(super) fn read(
        &self,
        params: &LockParams,
        record: &mut CallRecord<'_>,
    ) -> Result<LockGuard, Error> {
        let (clock, patience) = (&self.cluster().clock, &params.patience);
        let order = self.first_order(params);
        let mut result = self.ask_to_read(params, order, record);
        loop {
            let error = match result {
                Err(error) if error.is_transient() => error,
                result => return result,
            };
            if patience.is_cancelled() {
                return Err(record.refused(params.cancelled()));
            }
            if patience.left(clock).is_zero() {
                return Err(error);
            }
            match self.wait_to_read(params, error, record)? {
                FromLine::Leads(turn, refused) => {
                    let turns = Turns::one(Some(turn));
                    let result = self.take(params, Start::Refused(refused), &turns, record);
                    if result.is_ok() {
                        turns.dismiss(|| Received::GoAhead);
                    }
                    return result;
                }
                FromLine::GoesAhead => {
                    result = self.ask_to_read(params, self.by_arbiter(), record);
                }
            }
        }
    }

    /// Waits in the line of the readers that were refused. A thread whose time ends there gets the last error of the reader that
    /// waits at the nodes, or else its own.
    fn wait_to_read(
        &self,
        params: &LockParams,
        refused: Error,
        record: &mut CallRecord<'_>,
    ) -> Result<FromLine, Error> {
        match self.enter(params, &line_of_readers(&params.resource.name), record) {
            Ok((_, Some(Received::GoAhead))) => Ok(FromLine::GoesAhead),
            Ok((turn, _)) => Ok(FromLine::Leads(turn, refused)),
            Err(Error::Held { nodes, .. }) if nodes.iter().all(is_unasked) => {
                Err(record.refused(refused))
            }
            Err(error) => Err(error),
        }
    }

    /// Makes one attempt. Without time for a wait, the last word is that of all nodes: what the first one has may be a remainder
    /// without a majority.
    fn ask_to_read(
        &self,
        params: &LockParams,
        order: Order,
        record: &mut CallRecord<'_>,
    ) -> Result<LockGuard, Error> {
        let clock = &self.cluster().clock;
        let result = self.ask_for(params, None, order, record);
        // Not by the clock of now: nothing takes time after the last look at the clock that a guard has had.
        let met_a_writer = match &result {
            Ok(guard) if guard.each_vote().any(Vote::is_refusal) => Some(guard.since()),
            Err(Error::Held { .. }) => Some(clock.now()),
            Ok(_) | Err(_) => None,
        };
        if let Some(at) = met_a_writer {
            self.shared.courtesy.note_writer(params.resource.key(), at);
        }
        match &result {
            Err(error @ Error::Held { .. })
                if order.is_by_arbiter()
                    && params.patience.left(clock).is_zero()
                    && !error.writer_waits() =>
            {
                let all = Order::of(self.cluster().options.fanout);
                self.ask_for(params, None, all, record)
            }
            _ => result,
        }
    }

    /// In which order the first attempt asks the nodes. Where a writer may be, the arbiter comes first, also if all nodes can be asked
    /// at once: else a reader that is refused there would be in the way of the writer on the others.
    fn first_order(&self, params: &LockParams) -> Order {
        let cluster = self.cluster();
        let (fanout, now) = (cluster.options.fanout, cluster.clock.now());
        let key = params.resource.key();
        match fanout {
            Fanout::Overlapped if self.shared.courtesy.has_met_a_writer(key, now) => {
                self.by_arbiter()
            }
            Fanout::Overlapped | Fanout::Sequential => Order::of(fanout),
        }
    }

    fn by_arbiter(&self) -> Order {
        Order::by_arbiter(self.cluster().options.fanout)
    }
}

fn is_unasked(report: &NodeReport) -> bool {
    matches!(report.vote, Vote::NotAsked)
}
