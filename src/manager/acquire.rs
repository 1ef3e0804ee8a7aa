//! The acquire: a call takes its turn among the threads of this manager, asks the nodes, judges what they say, and waits.

use std::sync::Arc;
use std::time::Duration;

use super::call::Call;
use crate::claim::Resource;
use crate::contend::arbiter::{Reach, Round, Wait};
use crate::contend::demand::lines;
use crate::contend::queue::{Refusal, Turn, Waiting};
use crate::error::{Error, NodeError, Vote};
use crate::fanout::Fanout;
use crate::guard::{LockGuard, Received, Turns};
use crate::holder::Holder;
use crate::node::Node;
use crate::node::command::WhenFree;
use crate::protocol::acquire::attempt;

/// How often a larger fencing token is proposed at once. Each time, another client has been granted one meanwhile.
const MOST_RAISES: u32 = 8;

impl Call<'_> {
    /// Makes attempts until one succeeds or the time is over.
    ///
    /// A reader makes its first attempt without a turn, in parallel with all others. Those that were refused take turns: the first
    /// of them waits at the nodes, and when it has the lock, the others ask again, all at once.
    pub(super) fn acquire(&self) -> Result<LockGuard, Error> {
        let (cluster, courtesy) = (self.cluster, &self.shared.courtesy);
        let (resource, patience) = (&self.demand.resource, &self.demand.patience);
        if patience.is_cancelled() {
            return Err(self.cancelled());
        }
        let mut wait = Wait::new(cluster, &self.shared.held, resource, patience);
        let mut turns = Turns::new();
        let mut passed = None;
        let mut round = if resource.is_read() {
            self.first_round_of_a_reader()
        } else {
            match self.take_turns(&mut turns, None)? {
                Some(Received::Passed(attempt)) => {
                    passed = Some(attempt);
                    wait.at_all_nodes()?
                }
                Some(Received::CalledOff) => {
                    wait.stay_away();
                    wait.wait(WhenFree::Take)?
                }
                _ if self.yields() => wait.wait(WhenFree::Yield)?,
                _ => wait.begin()?,
            }
        };
        loop {
            let error = match self.ask(&round, passed.take()) {
                Ok(guard) => return Ok(give_turns(guard, turns)),
                Err(error) if error.is_transient() => error,
                Err(error) => return Err(error),
            };
            for turn in &turns {
                turn.met(&error);
            }
            if patience.is_cancelled() {
                return Err(self.cancelled());
            }
            if patience.left(&cluster.clock).is_zero() {
                // The last attempt goes on past a refusal until no majority is possible, so its error reports on more than the first
                // node. A reader that a writer keeps out asks no further node: its keys there would be in the way of the writer.
                if round.reach == Reach::AllNodes || error.writer_waits() {
                    return Err(error);
                }
                round = wait.at_all_nodes()?;
                continue;
            }
            if turns.is_empty()
                && let Some(Received::GoAhead) = self.take_turns(&mut turns, Some(&error))?
            {
                turns.clear();
                let reach = Reach::ArbiterFirst;
                round = Round { reach, slots: None };
                continue;
            }
            round = if let Error::Held { .. } = error {
                courtesy.note_holder(resource.key_of(error.resource()));
                wait.refused(&error);
                wait.wait(WhenFree::Take)?
            } else {
                patience.sleep(&cluster.clock, cluster.delay()?);
                wait.at_all_nodes()?
            };
        }
    }

    /// Waits in the queue of this process until no other thread has the lock or asks for it. Returns what the thread before has
    /// left for this one. `refused` is the error of a reader that has asked already.
    fn take_turns(
        &self,
        turns: &mut Turns,
        refused: Option<&Error>,
    ) -> Result<Option<Received>, Error> {
        let mut received = None;
        for line in lines(&self.demand.resource) {
            let turn;
            (turn, received) = self.enter(&line, refused)?;
            turns.push(turn);
        }
        Ok(received)
    }

    /// Waits for the turn in this line.
    fn enter(
        &self,
        line: &Arc<str>,
        refused: Option<&Error>,
    ) -> Result<(Turn<Received>, Option<Received>), Error> {
        let (cluster, queue) = (self.cluster, &self.shared.queue);
        if let Some(turn) = queue.try_enter(line) {
            return Ok((turn, None));
        }
        self.note_queued();
        // One that asks for a permit once lets those before it ask first: each takes a slot at most, and there are more.
        let asks_once = self.demand.resource.kind.permits().is_some() && self.timeout.is_zero();
        let answer_by = || {
            cluster
                .clock
                .now()
                .saturating_add(cluster.options.node_timeout)
        };
        let waiting = Waiting {
            clock: &cluster.clock,
            answer_by: asks_once.then(answer_by),
            tell: &|lock| self.shared.keeper.tell_wanted(lock),
        };
        let entered = queue.enter(line, self.demand.clone(), &waiting);
        entered.map_err(|refusal| {
            if self.demand.patience.is_cancelled() {
                return self.cancelled();
            }
            self.kept_out(line, refusal, refused)
        })
    }

    /// The error of a thread that waited for other threads until its time was over.
    fn kept_out(&self, line: &Arc<str>, refusal: Refusal, refused: Option<&Error>) -> Error {
        let asked = &self.demand.resource;
        let is_one_of_several = asked.kind.names().is_some();
        let name = if is_one_of_several { line } else { &asked.name };
        let met = refusal.met.filter(|_| refusal.lock.is_none());
        let met = met.and_then(|error| error.met_by_another(name, &asked.name));
        met.or_else(|| refused.cloned()).unwrap_or_else(|| {
            let holder = refusal.lock.and_then(|lock| lock.claim.value.holder());
            self.held_here(name, holder)
        })
    }

    /// The error of a call that asks no node, because other threads of this manager have what it asks for.
    fn held_here(&self, resource: &Arc<str>, holder: Option<Holder>) -> Error {
        let unasked = |node: &Node| node.unasked(Vote::NotAsked).report;
        Error::Held {
            resource: Arc::clone(resource),
            permits: self.demand.resource.kind.permits(),
            waited: Duration::ZERO,
            holder,
            nodes: self.cluster.each().map(unasked).collect(),
        }
    }

    fn cancelled(&self) -> Error {
        Error::Cancelled {
            resource: Arc::clone(&self.demand.resource.name),
            waited: Duration::ZERO,
        }
    }

    /// Whether a client that this manager has just woken comes first.
    fn yields(&self) -> bool {
        if self.timeout.is_zero() {
            return false;
        }
        let now = self.cluster.clock.now();
        let keys = self.demand.resource.keys.iter();
        // Each key is asked about, because an answer uses up what is owed for that key.
        keys.filter(|key| self.shared.courtesy.is_owed(key, now))
            .count()
            > 0
    }

    /// With `Fanout::Overlapped`, a reader asks all nodes at once, unless this manager has met a writer lately. Then it asks the first
    /// node alone before: a reader that this node refuses would have keys on the others for a moment, in the way of the writer.
    fn first_round_of_a_reader(&self) -> Round {
        let cluster = self.cluster;
        let (key, now) = (self.demand.resource.key(), cluster.clock.now());
        let is_wary = cluster.options.fanout == Fanout::Overlapped
            && self.shared.courtesy.has_met_a_writer(key, now);
        let reach = if is_wary {
            Reach::ArbiterFirst
        } else {
            Reach::AllNodes
        };
        Round { reach, slots: None }
    }

    /// Asks for the lock; or for one slot after the other, until one is granted or the nodes fail. The thread before may have made
    /// the first attempt.
    fn ask(
        &self,
        round: &Round,
        passed: Option<Result<LockGuard, Error>>,
    ) -> Result<LockGuard, Error> {
        let resource = &self.demand.resource;
        let Some(slots) = &round.slots else {
            return self.ask_for(resource, round.reach, passed);
        };
        let mut last = None;
        for slot in slots {
            let resource = Arc::new(resource.in_slot(*slot));
            let result = self.ask_for(&resource, round.reach, None);
            if !matches!(result, Err(Error::Held { .. })) {
                return result;
            }
            last = Some(result);
        }
        // Guards of this manager have them all.
        last.unwrap_or_else(|| Err(self.held_here(&resource.name, None)))
    }

    /// Makes an attempt, and further ones at once while the nodes can grant another fencing token. This is no
    /// contention, so there is nothing to wait for. Once the call is cancelled, it makes none.
    fn ask_for(
        &self,
        resource: &Arc<Resource>,
        reach: Reach,
        mut passed: Option<Result<LockGuard, Error>>,
    ) -> Result<LockGuard, Error> {
        let permits = self.demand.resource.kind.permits();
        let mut raises = 0_u32;
        loop {
            let won = match passed.take() {
                Some(attempt) => attempt,
                None if self.demand.patience.is_cancelled() => return Err(self.cancelled()),
                None => attempt(self.cluster, &self.demand, resource, reach)
                    .map(|won| LockGuard::new(self.shared, won))
                    .map_err(|error| error.of_semaphore(permits)),
            };
            let result = won.and_then(|guard| self.hold(guard));
            self.note_attempt(&result);
            self.note_writer(&result);
            match result {
                Err(error) if needs_another_token(&error) && raises < MOST_RAISES => {
                    raises = raises.saturating_add(1);
                }
                result => return result,
            }
        }
    }

    /// Begins to keep a lock that was just acquired, if its validity has not ended.
    fn hold(&self, guard: LockGuard) -> Result<LockGuard, Error> {
        if let Some(keep_alive) = self.keep_alive {
            guard.begin_keep_alive(self.demand.term, keep_alive);
        }
        // The clock is read last, so that no slow step above hides an expired lock. A dropped guard releases it.
        let now = self.cluster.clock.now();
        if now < guard.lease.deadline() {
            return Ok(guard.held_at_least(self.at_least, now));
        }
        let elapsed = now.saturating_since(guard.lease.since);
        Err(Error::TooSlow {
            resource: Arc::clone(&self.demand.resource.name),
            waited: elapsed,
            elapsed,
            nodes: guard.votes(),
        })
    }

    /// Remembers that a reader has met a client that has the lock alone, or that waits for that.
    fn note_writer(&self, result: &Result<LockGuard, Error>) {
        if !self.demand.resource.is_read() {
            return;
        }
        let met_at = match result {
            // The clock is not read again: a guard has had its last look at it.
            Ok(guard) if guard.each_vote().any(Vote::is_refusal) => guard.lease.since,
            Err(Error::Held { .. }) => self.cluster.clock.now(),
            Ok(_) | Err(_) => return,
        };
        let key = self.demand.resource.key();
        self.shared.courtesy.note_writer(key, met_at);
    }
}

/// A guard keeps its turns until it has released the lock. With a semaphore, the next thread asks for another slot now. When a reader
/// has the lock, all readers that wait behind it ask again.
fn give_turns(guard: LockGuard, turns: Turns) -> LockGuard {
    if guard.is_read() {
        for turn in turns {
            turn.dismiss(|| Received::GoAhead);
        }
        return guard;
    }
    if guard.slot().is_some() {
        return guard;
    }
    guard.with_turns(turns)
}

/// Whether nodes would have granted another fencing token: a larger one, or a smaller one if the last one was too far
/// ahead of the clocks.
fn needs_another_token(error: &Error) -> bool {
    let (Error::Held { nodes, .. } | Error::Unavailable { nodes, .. }) = error else {
        return false;
    };
    nodes.iter().any(|report| {
        if let Vote::Failed(NodeError::ClockSkew {
            difference,
            allowed,
            ..
        }) = &report.vote
        {
            return difference <= allowed;
        }
        matches!(report.vote, Vote::Stale { .. })
    })
}
