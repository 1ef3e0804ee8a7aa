//! The end of a guard: it releases the lock, passes it on to the next thread, or becomes a lease.

use std::mem::take;
use std::thread;
use std::time::Duration;

use super::{LockGuard, Received, Turns};
use crate::callbacks::despite_panics;
use crate::claim::{Kind, Resource};
use crate::contend::queue::Turn;
use crate::error::{Error, LossCause};
use crate::lease::Lease;
use crate::lease::state::Ended;
use crate::lease::state::holding::Holding;
use crate::node::Leftover;
use crate::node::key_report::{KeyReports, votes, waiters};
use crate::protocol::pass::{Pass, pass};
use crate::protocol::release::release;
use crate::verdict;

impl LockGuard {
    /// Releases the lock, and reports errors. One that was taken [for a time at least](crate::LockRequest::at_least) rests
    /// until that time is over, so that nobody gets it before.
    ///
    /// # Errors
    ///
    /// - [`Error::Lost`] when the lock was not held up to now: the loss was known before, its validity ended before a
    ///   majority had released it, or a majority no longer has our key.
    /// - [`Error::Unconfirmed`] when no loss is known and too few nodes answered to confirm the release. What was done under
    ///   the lock is done, so don't report it as failed. The other nodes are told again in the background, and keys that
    ///   remain expire. Of a lock that is to rest: fewer nodes than a majority have said that it does, so others may get it
    ///   when its time to live ends.
    /// - [`Error::Forked`] in a forked child; the parent keeps its lock.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// let guard = manager.lock("invoices", Duration::from_secs(10))?;
    /// guard.unlock()?;
    /// assert_eq!(nodes[0].token_of("invoices"), None);
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn unlock(self) -> Result<(), Error> {
        self.end()
    }

    /// Releases the lock at once, and reports errors: as [`unlock`](Self::unlock), but it does not rest, whatever
    /// [`at_least`](crate::LockRequest::at_least) says. For work that failed, and that another should try now.
    ///
    /// # Errors
    ///
    /// As for [`unlock`](Self::unlock).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let guard = manager.request("report").at_least(Duration::from_secs(600)).lock()?;
    /// # let write_report = || Err::<(), _>("no space left");
    /// match write_report() {
    ///     Ok(()) => guard.unlock()?,
    ///     Err(_) => guard.unlock_now()?,
    /// }
    /// assert!(manager.try_lock("report", Duration::from_secs(10)).is_ok());
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn unlock_now(mut self) -> Result<(), Error> {
        self.rests_until = None;
        self.end()
    }

    /// Turns the guard into a lease, which another thread, process or machine can [adopt](crate::LockManager::adopt). The lock
    /// is not released, and no longer renewed.
    ///
    /// If nobody adopts the lease, the lock is free when its time to live ends.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::Lease;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let lease = manager.lock("invoices", Duration::from_secs(10))?.into_lease();
    /// let text = lease.to_string();
    ///
    /// // In another process, with a manager over the same nodes:
    /// let lease: Lease = text.parse()?;
    /// let guard = manager.adopt(&lease)?;
    /// guard.extend(Duration::from_secs(10))?;
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn into_lease(mut self) -> Lease {
        // The wall clock is read before the remaining time. So a delay between the two makes the end of the lease
        // earlier, never later.
        let clock = &self.shared.cluster().clock;
        let now = Duration::from_micros(clock.wall_micros());
        self.must_release = false;
        if self.shared.cluster().is_forked() {
            // The lock is the parent's, and stays with it.
            let nothing = Holding::from(&Leftover::None);
            let nodes = vec![nothing; self.shared.cluster().nodes().len()];
            return Lease::of(&self.lease.claim, &nodes, now, None);
        }
        // The same order as in a release: first no renewal may begin any more.
        let ended = self.lease.end();
        let remaining = ended.end.saturating_since(clock.now());
        self.lease.passed_on();
        self.shared.forget(&self.lease);
        drop(ended.hooks);
        // Of these two clocks, the wall clock is read last: a delay between the two makes the rest longer.
        let rest = self.rest_left();
        let rest = rest.map(|left| Duration::from_micros(clock.wall_micros()).saturating_add(left));
        let expires = now.saturating_add(remaining);
        Lease::of(&self.lease.claim, &ended.nodes, expires, rest)
    }

    fn end(mut self) -> Result<(), Error> {
        self.shared.cluster().refuse_fork()?;
        let started = self.shared.cluster().clock.now_for_records();
        self.must_release = false;
        let turns = take(&mut self.turns);
        let (known, nodes) = self.give_back(turns);
        if let Some(cause) = known {
            // No answer of the nodes can undo a loss that is known.
            return Err(self.lease.lost_error(cause));
        }
        let ended = self.shared.cluster().clock.now_for_records();
        let waited = ended.saturating_since(started);
        let in_full = || self.shared.cluster().in_full(nodes.iter().cloned());
        verdict::released(self.lease.name(), waited, votes(&nodes), in_full)
    }

    /// Ends the lock, in one of these ways:
    ///
    /// 1. It was lost: what is left of it is released. It does not rest and is not passed on, because another holder may have it.
    /// 2. Its minimum is not over: it rests on the nodes until then.
    /// 3. A thread of this manager waits for it, and no other client may be waiting: it is passed on, in one round trip.
    /// 4. Else it is released.
    ///
    /// Returns the votes of the release, and how the lock was lost, if it was.
    fn give_back(&self, turns: Turns) -> (Option<LossCause>, KeyReports) {
        for turn in &turns {
            turn.release_begins();
        }
        // The lease ends before the release, so that no renewal begins and no watch reports a lock that is already
        // released.
        let ended = self.lease.end();
        self.shared.forget(&self.lease);
        let rest = self.rest_left().filter(|_| !thread::panicking());
        let released = if ended.loss.is_some() {
            self.release(&ended)
        } else if rest.is_some() {
            release(self.shared.cluster(), &self.lease.claim, &ended.nodes, rest)
        } else if let Some(released) = self.pass(&turns, &ended) {
            released
        } else {
            self.release(&ended)
        };
        // The next thread gets its turn before the steps that may take time.
        turns.into_iter().for_each(Turn::pass_on);
        let loss = self.lease.released(&ended, &released);
        drop(ended.hooks);
        (loss, released)
    }

    /// How long nobody may get the lock, if its minimum is not over.
    fn rest_left(&self) -> Option<Duration> {
        let until = self.rests_until?;
        let left = until.saturating_since(self.shared.cluster().clock.now());
        (!left.is_zero()).then_some(left)
    }

    /// Releases the lock and asks for it for the next waiting thread of this manager, unless another client may be waiting
    /// for it. Returns the result of the release.
    fn pass(&self, turns: &[Turn<Received>], ended: &Ended) -> Option<KeyReports> {
        let (cluster, claim) = (self.shared.cluster(), &self.lease.claim);
        let passes = self.passes.checked_sub(1)?;
        let [turn] = turns else { return None };
        let first = turn.first()?;
        // A thread that wants several resources can be given the turn, but not this lock.
        let is_plain = |resource: &Resource| resource.kind == Kind::Lock;
        let key = claim.resource.key();
        if !is_plain(&claim.resource)
            || !is_plain(&first.spec.resource)
            || self.shared.courtesy.is_contended(key)
            || first.spec.left(&cluster.clock).is_zero()
        {
            return None;
        }
        let Pass { released, next } = pass(cluster, claim, &ended.nodes, &first.spec).ok()?;
        self.note_release(key, waiters(&released).any());
        let passed_on = |won| {
            let mut guard = Self::new(&self.shared, won);
            guard.passes = passes;
            guard
        };
        let received = next.map_or(Received::CalledOff, |next| {
            Received::Passed(next.map(passed_on))
        });
        // If the thread has left, the drop of its guard releases the lock.
        drop(turn.give_to(&first, received));
        Some(released)
    }

    /// Releases the lock on every node that may have its keys, and remembers what that says of other clients that wait.
    fn release(&self, ended: &Ended) -> KeyReports {
        let resource = &self.lease.claim.resource;
        let released = release(self.shared.cluster(), &self.lease.claim, &ended.nodes, None);
        // After a reader that wakes nobody, other readers may still have the lock, and a writer waits for them.
        if waiters(&released).any() || !self.is_read() {
            for place in 0..resource.names().len() {
                self.note_release(resource.waited_for(place), waiters(&released).has(place));
            }
        }
        released
    }

    /// Remembers whether the release has woken another client that waits. `key` is that of the lock, or of the semaphore.
    fn note_release(&self, key: &str, has_woken: bool) {
        let now = || self.shared.cluster().clock.now();
        self.shared.courtesy.note_release(key, has_woken, now);
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if self.must_release && !self.shared.cluster().is_forked() {
            // A second panic while unwinding would abort the program, so a panic must not leave this drop.
            self.must_release = false;
            let turns = take(&mut self.turns);
            despite_panics(|| drop(self.give_back(turns)));
        }
    }
}
