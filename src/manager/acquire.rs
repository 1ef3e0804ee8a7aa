//! The acquire: a call takes its turn among the threads of this manager, asks the nodes, and waits. [`Wait`] says what the call
//! does next. `record` counts, logs and traces it.

use std::mem::take;
use std::sync::Arc;
use std::time::Duration;

use super::record::Record;
use crate::cluster::Cluster;
use crate::contend::arbiter::Arbiter;
use crate::contend::queue::{Refusal, Waiting};
use crate::contend::spec::{Spec, lines};
use crate::contend::waiting::{Do, Reach, Start, Wait};
use crate::error::{Error, NodeReport, Vote};
use crate::fanout::Fanout;
use crate::guard::{LockGuard, Received, Shared, Turns};
use crate::holder::Holder;
use crate::node::Node;
use crate::protocol::acquire::attempt;
use crate::protocol::look;
use crate::renewal::KeepAlive;

/// One call for a lock.
struct Acquire<'m> {
    shared: &'m Arc<Shared>,
    cluster: &'m Cluster,
    spec: &'m Spec,
    keep_alive: Option<KeepAlive>,
    at_least: Option<Duration>,
    wait: Wait<'m>,
    turns: Turns,
    /// The first attempt, if the thread before has made it.
    passed: Option<Result<LockGuard, Error>>,
    arbiter: Arbiter<'m>,
    record: Record<'m>,
}

/// Takes the lock, or returns why it did not.
pub(super) fn run(
    shared: &Arc<Shared>,
    spec: &Spec,
    keep_alive: Option<KeepAlive>,
    at_least: Option<Duration>,
) -> Result<LockGuard, Error> {
    let cluster = shared.cluster();
    let mut call = Acquire {
        shared,
        cluster,
        spec,
        keep_alive,
        at_least,
        wait: Wait::new(&spec.resource, spec.waits),
        turns: Turns::new(),
        passed: None,
        arbiter: Arbiter::new(cluster, &shared.held, spec),
        record: Record::begin(cluster, spec),
    };
    let result = call.acquire().or_else(|error| {
        call.refuse_if_cancelled()?;
        Err(error)
    });
    // The next thread goes on while this one may look for the holder.
    call.turns.clear();
    let waited = call.record.end(&result);
    result.map_err(|error| call.with_holder(error.after(waited)))
}

impl Acquire<'_> {
    /// Makes attempts until one succeeds or the time is over.
    ///
    /// A reader makes its first attempt without a turn, in parallel with all others. Those that were refused take turns: the first
    /// of them waits at the nodes, and when it has the lock, the others ask again, all at once.
    fn acquire(&mut self) -> Result<LockGuard, Error> {
        self.refuse_if_cancelled()?;
        let clock = &self.cluster.clock;
        let start = if self.spec.resource.is_read() {
            Start::Unqueued(self.first_reach_of_a_reader())
        } else {
            self.take_turns()?
        };
        let mut next = self.wait.start(start);
        loop {
            let left = || self.spec.left(clock);
            next = match next {
                Do::Attempt(reach, slot) => match self.attempt(reach, slot) {
                    Err(error) if error.is_transient() => {
                        let next = self.wait.refused(error, left());
                        self.tell_waiters();
                        next
                    }
                    result => return result,
                },
                Do::Queue => {
                    let start = self.take_turns()?;
                    self.wait.start(start)
                }
                Do::FindSlots(permits) => {
                    let (slots, are_taken) = self.arbiter.find_slots(&self.wait, permits)?;
                    self.wait.found(slots, are_taken, left())
                }
                Do::Look(when_free, intended) => {
                    if let Some(error @ Error::Held { .. }) = &self.wait.met {
                        let key = self.spec.resource.key_of(error.resource());
                        self.shared.courtesy.note_holder(key);
                    }
                    let sighting = self.arbiter.look(&self.wait, when_free, intended)?;
                    self.wait.looked(when_free, sighting, left())
                }
                Do::Listen(span) => {
                    let outcome = self.arbiter.listen(span);
                    self.wait.listened(outcome, left())
                }
                Do::Pause => {
                    self.spec.sleep(clock, self.cluster.delay()?);
                    self.wait.paused(left())
                }
                Do::End(error) => return Err(error),
            };
        }
    }

    /// Waits in the queue of this process until no other thread has the lock or asks for it.
    fn take_turns(&mut self) -> Result<Start, Error> {
        let (cluster, spec, shared) = (self.cluster, self.spec, self.shared);
        // A call that asks once for a permit lets the threads before it ask first, because each of them takes one slot at most.
        let asks_once = spec.resource.kind.permits().is_some() && !spec.waits;
        let timeout = cluster.options.node_timeout;
        let soon = || cluster.clock.now().saturating_add(timeout);
        let waiting = Waiting {
            clock: &cluster.clock,
            answer_by: asks_once.then(soon),
            tell: &|lock| shared.keeper.tell_wanted(lock),
        };
        let mut received = None;
        for line in lines(&spec.resource) {
            let entered = if let Some(turn) = shared.queue.try_enter(&line) {
                Ok((turn, None))
            } else {
                self.record.queued();
                shared.queue.enter(&line, spec.clone(), &waiting)
            };
            let turn;
            (turn, received) = entered.map_err(|refusal| self.kept_out(&line, refusal))?;
            self.turns.push(turn);
        }
        Ok(match received {
            Some(Received::Passed(attempt)) => {
                self.passed = Some(attempt);
                Start::Turn
            }
            Some(Received::CalledOff) => Start::CalledOff,
            Some(Received::GoAhead) => {
                self.turns.clear();
                Start::Unqueued(Reach::ArbiterFirst)
            }
            None if self.yields() => Start::Yield,
            None => Start::Turn,
        })
    }

    /// The error of a thread that waited for other threads until its time was over.
    fn kept_out(&self, line: &Arc<str>, refusal: Refusal) -> Error {
        let asked = &self.spec.resource;
        let is_one_of_several = asked.kind.names().is_some();
        let name = if is_one_of_several { line } else { &asked.name };
        let met = refusal.met;
        let met = met.and_then(|error| error.met_by_another(name, &asked.name));
        met.or_else(|| self.wait.met.clone()).unwrap_or_else(|| {
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
            permits: self.spec.resource.kind.permits(),
            waited: Duration::ZERO,
            holder,
            nodes: self.cluster.nodes().iter().map(unasked).collect(),
        }
    }

    fn refuse_if_cancelled(&self) -> Result<(), Error> {
        if !self.spec.is_cancelled() {
            return Ok(());
        }
        Err(Error::Cancelled {
            resource: Arc::clone(&self.spec.resource.name),
            waited: Duration::ZERO,
        })
    }

    /// Whether a client that this manager has just woken comes first. A reader has asked already, and a call that asks once leaves the
    /// yield to one that waits.
    fn yields(&self) -> bool {
        let resource = &self.spec.resource;
        let may_yield = self.spec.waits && !resource.is_read();
        let keys = resource.keys().filter(|_| may_yield);
        let yields = keys.filter_map(|key| self.shared.courtesy.take_yield(key));
        let polite_until = yields.max();
        polite_until.is_some_and(|until| self.cluster.clock.now() < until)
    }

    /// With `Fanout::Overlapped`, a reader asks all nodes at once, unless this manager has met a writer lately. Then it asks the first
    /// node alone before: a reader that this node refuses would have keys on the others for a moment, in the way of the writer.
    fn first_reach_of_a_reader(&self) -> Reach {
        let (key, now) = (self.spec.resource.key(), self.cluster.clock.now());
        let asks_all_at_once = self.cluster.options.fanout == Fanout::Overlapped;
        if asks_all_at_once && self.shared.courtesy.has_met_a_writer(key, now) {
            Reach::ArbiterFirst
        } else {
            Reach::AllNodes
        }
    }

    /// Asks for the lock, or for this slot of a semaphore.
    fn attempt(&mut self, reach: Reach, slot: Option<u32>) -> Result<LockGuard, Error> {
        let resource = &self.spec.resource;
        let permits = resource.kind.permits();
        if permits.is_some() && slot.is_none() {
            return Err(self.held_here(&resource.name, None));
        }
        let result = if let Some(passed) = self.passed.take() {
            passed
        } else {
            self.refuse_if_cancelled()?;
            let slot = slot.map(|slot| Arc::new(resource.in_slot(slot)));
            let asked = slot.as_ref().unwrap_or(resource);
            attempt(self.cluster, self.spec, asked, reach)
                .map(|won| LockGuard::new(self.shared, won))
                .map_err(|error| error.of_semaphore(permits))
        };
        let result = result.and_then(|guard| self.hold(guard));
        self.record.attempted(&result);
        if resource.is_read() {
            self.note_writer(&result);
        }
        result.map(|guard| self.with_turns(guard))
    }

    /// Begins to keep a lock that was just acquired, if its validity has not ended.
    fn hold(&self, mut guard: LockGuard) -> Result<LockGuard, Error> {
        if let Some(keep_alive) = self.keep_alive {
            guard.begin_keep_alive(self.spec.term, keep_alive);
        }
        // The clock is read last, so that no slow step above hides an expired lock. A dropped guard releases it.
        let now = self.cluster.clock.now();
        if now < guard.lease.deadline() {
            guard.rests_until = self.at_least.map(|minimum| now.saturating_add(minimum));
            return Ok(guard);
        }
        let elapsed = now.saturating_since(guard.lease.since);
        Err(Error::TooSlow {
            resource: Arc::clone(&self.spec.resource.name),
            waited: elapsed,
            elapsed,
            nodes: guard.votes(),
        })
    }

    /// Notes that a reader has met a client that has the lock alone, or that waits for that.
    fn note_writer(&self, result: &Result<LockGuard, Error>) {
        let met = match result {
            // The clock is not read again: a guard has had its last look at it.
            Ok(guard) if guard.votes.each().any(Vote::is_refusal) => guard.lease.since,
            Err(error) if error.is_held() => self.cluster.clock.now(),
            _ => return,
        };
        let key = self.spec.resource.key();
        self.shared.courtesy.note_writer(key, met);
    }

    /// A guard keeps its turns until it has released the lock. With a semaphore, the next thread asks for another slot now. When a
    /// reader has the lock, all readers that wait behind it ask again.
    fn with_turns(&mut self, mut guard: LockGuard) -> LockGuard {
        let turns = take(&mut self.turns);
        if guard.is_read() {
            for turn in turns {
                turn.end_line(|| Received::GoAhead);
            }
        } else if guard.slot().is_none() {
            guard.keep_turns(turns);
        }
        guard
    }

    /// Tells the threads that wait behind this one why its last attempt has failed.
    fn tell_waiters(&self) {
        if let Some(met) = &self.wait.met {
            self.turns.iter().for_each(|turn| turn.met(met));
        }
    }

    /// Returns the same error. If the lock is held and no reply has named the holder, this looks at the nodes once for its name. A call
    /// that has asked no node asks none now.
    fn with_holder(&self, error: Error) -> Error {
        let is_named = error.holder().is_some() || error.round().1.iter().any(shows_key);
        let has_asked = self.spec.waits && self.record.attempts > 0;
        let resource = &self.spec.resource;
        if is_named || !has_asked || resource.kind.permits().is_some() {
            return error;
        }
        // The error may not say which one of several resources is in the way.
        let mut names = resource.names().iter();
        let name = names.find(|name| error.resource() == Some(name));
        match name.and_then(|name| look::holder(self.cluster, name)) {
            Some((holder, votes)) => error.naming(holder, votes),
            None => error,
        }
    }
}

/// Whether the node has shown its key. Then the holder is known, or has no label.
fn shows_key(report: &NodeReport) -> bool {
    if let Vote::Held { remaining, .. } = &report.vote {
        return remaining.is_some();
    }
    matches!(report.vote, Vote::Read { .. })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::LockManager;
    use crate::fake::{FakeClock, FakeNode};

    #[test]
    fn a_call_that_asks_once_leaves_the_yield_to_one_that_waits() {
        let nodes = FakeNode::cluster_on(3, &FakeClock::new());
        let manager = LockManager::builder().fakes(&nodes).build().unwrap();
        let (courtesy, clock) = (&manager.shared.courtesy, &manager.shared.cluster().clock);
        courtesy.note_release("job", true, || clock.now());
        let ttl = Duration::from_secs(9);
        manager.try_lock("job", ttl).unwrap().unlock().unwrap();
        assert!(courtesy.take_yield("job").is_some());
    }
}
