//! The acquire: a call takes its turn among the threads of this manager, asks the nodes, judges what they say, and waits.
//! What is counted, logged and traced of it is in `record`.

use std::mem::take;
use std::sync::Arc;
use std::time::Duration;

use crate::claim::Resource;
use crate::clock::Timestamp;
use crate::cluster::Cluster;
use crate::contend::arbiter::{Reach, Round, Wait};
use crate::contend::demand::{Demand, lines};
use crate::contend::queue::{Refusal, Waiting};
use crate::error::{Error, NodeError, NodeReport, Vote};
use crate::fanout::Fanout;
use crate::guard::{LockGuard, Received, Shared, Turns};
use crate::holder::Holder;
use crate::node::Node;
use crate::node::command::WhenFree;
use crate::protocol::acquire::attempt;
use crate::renewal::KeepAlive;
use crate::spans::LockSpan;
use crate::verdict::Tally;

/// How often a larger fencing token is proposed at once. Each time, another client has been granted one meanwhile.
const MOST_RAISES: u32 = 8;

/// One call for a lock whose options were checked.
pub(super) struct Acquire<'m> {
    shared: &'m Arc<Shared>,
    pub(super) cluster: &'m Cluster,
    pub(super) demand: &'m Demand,
    keep_alive: Option<KeepAlive>,
    at_least: Option<Duration>,
    /// The first attempt, if the thread before has made it.
    passed: Option<Result<LockGuard, Error>>,
    turns: Turns,
    pub(super) started: Timestamp,
    pub(super) attempts: u32,
    pub(super) is_contended: bool,
    pub(super) is_queued: bool,
    pub(super) span: LockSpan,
}

impl<'m> Acquire<'m> {
    pub(super) fn new(
        shared: &'m Arc<Shared>,
        demand: &'m Demand,
        keep_alive: Option<KeepAlive>,
        at_least: Option<Duration>,
        started: Timestamp,
    ) -> Self {
        let cluster = shared.cluster();
        let span = LockSpan::enter(&demand.resource.name, demand.term.ttl);
        if demand.resource.is_read() {
            span.reads();
        }
        Self {
            shared,
            cluster,
            demand,
            keep_alive,
            at_least,
            passed: None,
            turns: Turns::new(),
            started,
            attempts: 0,
            is_contended: false,
            is_queued: false,
            span,
        }
    }

    /// Takes the lock, or says why it can't be had.
    pub(super) fn run(mut self) -> Result<LockGuard, Error> {
        let result = self.acquire();
        // The next thread goes on while this one may look for the holder.
        self.turns.clear();
        self.end(result)
    }

    /// Makes attempts until one succeeds or the time is over.
    ///
    /// A reader makes its first attempt without a turn, in parallel with all others. Those that were refused take turns: the first
    /// of them waits at the nodes, and when it has the lock, the others ask again, all at once.
    fn acquire(&mut self) -> Result<LockGuard, Error> {
        self.refuse_if_cancelled()?;
        let (cluster, patience) = (self.cluster, &self.demand.patience);
        let resource = &*self.demand.resource;
        let mut wait = Wait::new(cluster, &self.shared.held, resource, patience);
        let mut round = if resource.is_read() {
            wait.round(self.first_reach_of_a_reader(), Vec::new())?
        } else {
            match self.take_turns(None)? {
                Some(Received::Passed(attempt)) => {
                    self.passed = Some(attempt);
                    wait.at_all_nodes()?
                }
                Some(Received::CalledOff) => {
                    wait.stay_away();
                    wait.wait(WhenFree::Take)?
                }
                _ if self.yields() => wait.wait(WhenFree::Yield)?,
                _ => wait.first_round()?,
            }
        };
        loop {
            let error = match self.ask(&round) {
                Ok(mut guard) => {
                    self.give_turns_to(&mut guard);
                    return Ok(guard);
                }
                Err(error) if error.is_transient() => error,
                Err(error) => return Err(error),
            };
            for turn in &self.turns {
                turn.met(&error);
            }
            self.refuse_if_cancelled()?;
            let is_over = patience.left(&cluster.clock).is_zero();
            // The last attempt goes on past a refusal until no majority is possible, so its error reports on more than the first
            // node. A reader that a writer keeps out asks no further node: its keys there would be in the way of the writer.
            if is_over && (round.reach == Reach::AllNodes || error.writer_waits()) {
                return Err(error);
            }
            round = if is_over {
                wait.at_all_nodes()?
            } else if self.turns.is_empty()
                && let Some(Received::GoAhead) = self.take_turns(Some(&error))?
            {
                self.turns.clear();
                wait.round(Reach::ArbiterFirst, Vec::new())?
            } else if let Error::Held { .. } = error {
                let key = resource.key_of(error.resource());
                self.shared.courtesy.note_holder(key);
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
    fn take_turns(&mut self, refused: Option<&Error>) -> Result<Option<Received>, Error> {
        let (cluster, demand, shared) = (self.cluster, self.demand, self.shared);
        // One that asks for a permit once lets those before it ask first: each takes a slot at most, and there are more.
        let asks_once = demand.resource.kind.permits().is_some() && !demand.waits;
        let timeout = cluster.options.node_timeout;
        let soon = || cluster.clock.now().saturating_add(timeout);
        let waiting = Waiting {
            clock: &cluster.clock,
            answer_by: asks_once.then(soon),
            tell: &|lock| shared.keeper.tell_wanted(lock),
        };
        let mut received = None;
        for line in lines(&demand.resource) {
            let entered = if let Some(turn) = shared.queue.try_enter(&line) {
                Ok((turn, None))
            } else {
                self.note_queued();
                shared.queue.enter(&line, demand.clone(), &waiting)
            };
            let turn;
            (turn, received) = entered.map_err(|refusal| self.kept_out(&line, refusal, refused))?;
            self.turns.push(turn);
        }
        Ok(received)
    }

    /// The error of a thread that waited for other threads until its time was over.
    fn kept_out(&self, line: &Arc<str>, refusal: Refusal, refused: Option<&Error>) -> Error {
        if let Err(cancelled) = self.refuse_if_cancelled() {
            return cancelled;
        }
        let asked = &self.demand.resource;
        let is_one_of_several = asked.kind.names().is_some();
        let name = if is_one_of_several { line } else { &asked.name };
        let met = refusal.met;
        let met = met.and_then(|error| error.met_by_another(name, &asked.name));
        met.or_else(|| refused.cloned()).unwrap_or_else(|| {
            let holder = refusal.lock.and_then(|lock| lock.claim.value.holder());
            self.held_here(name, holder)
        })
    }

    /// The error of a call that asks no node, because other threads of this manager have what it asks for.
    fn held_here(&self, resource: &Arc<str>, holder: Option<Holder>) -> Error {
        let unasked =
            |node: &Arc<Node>| NodeReport::new(node.name(), Vote::NotAsked, Duration::ZERO);
        Error::Held {
            resource: Arc::clone(resource),
            permits: self.demand.resource.kind.permits(),
            waited: Duration::ZERO,
            holder,
            nodes: self.cluster.each().map(unasked).collect(),
        }
    }

    fn refuse_if_cancelled(&self) -> Result<(), Error> {
        if !self.demand.patience.is_cancelled() {
            return Ok(());
        }
        Err(Error::Cancelled {
            resource: Arc::clone(&self.demand.resource.name),
            waited: Duration::ZERO,
        })
    }

    /// Whether a client that this manager has just woken comes first.
    fn yields(&self) -> bool {
        let now = || self.cluster.clock.now();
        let take_debt = |key: &String| self.shared.courtesy.take_debt(key, now);
        // Each key is asked, because each debt has to be taken. `any` would stop at the first.
        let keys = self.demand.resource.keys.iter();
        self.demand.waits && keys.map(take_debt).fold(false, |one, other| one | other)
    }

    /// With `Fanout::Overlapped`, a reader asks all nodes at once, unless this manager has met a writer lately. Then it asks the first
    /// node alone before: a reader that this node refuses would have keys on the others for a moment, in the way of the writer.
    fn first_reach_of_a_reader(&self) -> Reach {
        let (key, now) = (self.demand.resource.key(), self.cluster.clock.now());
        let asks_all_at_once = self.cluster.options.fanout == Fanout::Overlapped;
        if asks_all_at_once && self.shared.courtesy.has_met_a_writer(key, now) {
            Reach::ArbiterFirst
        } else {
            Reach::AllNodes
        }
    }

    /// Asks for the lock; or for one slot after the other, until one is granted or the nodes fail. Where something else is under
    /// the keys of a slot, the others tell whether all permits are held.
    fn ask(&mut self, round: &Round) -> Result<LockGuard, Error> {
        let demand = self.demand;
        let resource = &demand.resource;
        if resource.kind.permits().is_none() {
            return self.ask_for(resource, round.reach);
        }
        let mut refused: Option<Error> = None;
        for slot in &round.slots {
            let error = match self.ask_for(&Arc::new(resource.in_slot(*slot)), round.reach) {
                Err(error) if error.is_of_one_key() => error,
                other => return other,
            };
            let is_held = error.is_held();
            if is_held || refused.is_none() {
                refused = Some(error);
            }
            // A call that may not wait asks for all that were called free.
            if is_held && (round.is_in_vain || self.is_late()) {
                break;
            }
        }
        // Guards of this manager have them all.
        Err(refused.unwrap_or_else(|| self.held_here(&resource.name, None)))
    }

    /// Makes an attempt, and further ones at once while the nodes can grant another fencing token. This is no
    /// contention, so there is nothing to wait for. If old connections were silent, makes one more attempt, on new ones.
    fn ask_for(&mut self, resource: &Arc<Resource>, reach: Reach) -> Result<LockGuard, Error> {
        let permits = self.demand.resource.kind.permits();
        let mut raises = 0..MOST_RAISES;
        let mut renewals = 0..1;
        loop {
            let won = if let Some(attempt) = self.passed.take() {
                attempt
            } else {
                self.refuse_if_cancelled()?;
                attempt(self.cluster, self.demand, resource, reach)
                    .map(|won| LockGuard::new(self.shared, won))
                    .map_err(|error| error.of_semaphore(permits))
            };
            let result = won.and_then(|guard| self.hold(guard));
            if let Some(met) = self.note_attempt(&result) {
                self.shared.courtesy.note_writer(resource.key(), met);
            }
            match result {
                Err(error) if needs_another_token(&error) && raises.next().is_some() => {}
                Err(error)
                    if needs_new_connections(&error)
                        && !self.is_late()
                        && renewals.next().is_some() => {}
                result => return result,
            }
        }
    }

    /// Whether the time of the call is over.
    fn is_late(&self) -> bool {
        let Demand {
            waits, patience, ..
        } = self.demand;
        patience.is_cancelled() || *waits && patience.left(&self.cluster.clock).is_zero()
    }

    /// Begins to keep a lock that was just acquired, if its validity has not ended.
    fn hold(&self, mut guard: LockGuard) -> Result<LockGuard, Error> {
        if let Some(keep_alive) = self.keep_alive {
            guard.begin_keep_alive(self.demand.term, keep_alive);
        }
        // The clock is read last, so that no slow step above hides an expired lock. A dropped guard releases it.
        let now = self.cluster.clock.now();
        if now < guard.lease.deadline() {
            guard.rests_until = self.at_least.map(|minimum| now.saturating_add(minimum));
            return Ok(guard);
        }
        let elapsed = now.saturating_since(guard.lease.since);
        Err(Error::TooSlow {
            resource: Arc::clone(&self.demand.resource.name),
            waited: elapsed,
            elapsed,
            nodes: guard.votes(),
        })
    }

    /// A guard keeps its turns until it has released the lock. With a semaphore, the next thread asks for another slot now. When a
    /// reader has the lock, all readers that wait behind it ask again.
    fn give_turns_to(&mut self, guard: &mut LockGuard) {
        let turns = take(&mut self.turns);
        if guard.is_read() {
            for turn in turns {
                turn.dismiss(|| Received::GoAhead);
            }
        } else if guard.slot().is_none() {
            guard.keep_turns(turns);
        }
    }
}

/// Whether an attempt without a majority may get one on new connections. This is so if nodes were silent on old connections, which
/// something on the way may have forgotten, and their votes would be enough. The next attempt has a token of its own, and the undos
/// of this one went behind its requests, so nothing of this attempt counts in the next one.
fn needs_new_connections(error: &Error) -> bool {
    let (Error::Held { nodes, .. } | Error::Unavailable { nodes, .. }) = error else {
        return false;
    };
    let is_old = |vote: &Vote| matches!(vote, Vote::Failed(error) if error.is_of_old_connection());
    let votes = nodes.iter().map(|report| &report.vote);
    let as_unasked = votes
        .clone()
        .map(|vote| if is_old(vote) { &Vote::NotAsked } else { vote });
    votes.clone().any(is_old) && !Tally::of(as_unasked).is_lost()
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

#[cfg(test)]
mod forgotten;
