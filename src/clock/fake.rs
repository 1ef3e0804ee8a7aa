//! `FakeClock`: the clock of a test, which stands still until it is moved.

use std::fmt;
use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::Duration;

use super::{Clock, Job, Timestamp, VirtualTime, nanos};
use crate::sync::Mutex;

/// A clock for unit tests that stands still until it is moved.
///
/// Fake nodes made on it, and every manager and guard over those nodes, read only this clock. So a test can let a lease
/// expire without sleeping. Two things move it:
///
/// - [`advance`](Self::advance), called by the test;
/// - a wait: a retry delay, or a node that hangs until the node timeout, moves the clock to
///   the end of the wait and returns at once. A test with several threads that wait for each other in real time should
///   therefore use nodes without a fake clock.
///
/// Clones are the same clock.
///
/// ```
/// use std::time::Duration;
/// use redlatch::LockManager;
/// use redlatch::fake::{FakeClock, FakeNode};
///
/// let clock = FakeClock::new();
/// let nodes = FakeNode::cluster_on(5, &clock);
/// let manager = LockManager::builder().fakes(&nodes).build()?;
///
/// let guard = manager.try_lock("report", Duration::from_secs(10))?;
/// clock.advance(Duration::from_secs(10));
/// assert!(guard.check().is_err());
/// assert!(manager.try_lock("report", Duration::from_secs(10)).is_ok());
/// # Ok::<(), redlatch::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct FakeClock(Arc<Mutex<FakeTime>>);

/// Far below the largest time, so that sums with it don't overflow.
const END: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

#[derive(Default)]
struct FakeTime {
    now: Duration,
    /// Each with when it is due.
    jobs: Vec<(Duration, Job)>,
    /// The target of an advance that is under way.
    horizon: Option<Duration>,
    runner: Option<ThreadId>,
}

impl FakeClock {
    /// Creates a clock that stands at zero.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::fake::FakeClock;
    /// assert_eq!(FakeClock::new().elapsed(), Duration::ZERO);
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the clock forward by `span`, and with it the nodes, managers and guards that live on it.
    ///
    /// Their scheduled work for that time is done now, on the calling thread. A lock that is [kept
    /// alive](crate::KeepAlive) is renewed for each third of its ttl, so a step of many days takes long. The clock
    /// stops at 100 years.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let clock = redlatch::fake::FakeClock::new();
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster_on(3, &clock)).build()?;
    /// let guard = manager.lock("report", Duration::from_secs(10))?;
    /// let before = guard.remaining();
    /// clock.advance(Duration::from_secs(4));
    /// assert_eq!(guard.remaining(), before - Duration::from_secs(4));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn advance(&self, span: Duration) {
        let target = self.0.lock().now.saturating_add(span);
        self.advance_to(target.min(END));
    }

    /// Moves the clock forward by `span` as if the machine had been suspended meanwhile. Work that was scheduled for
    /// that time, such as the renewal of a lock that is [kept alive](crate::KeepAlive), is done at its end.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::{Error, KeepAlive, LockManager, LossCause};
    /// use redlatch::fake::{FakeClock, FakeNode};
    ///
    /// let clock = FakeClock::new();
    /// let nodes = FakeNode::cluster_on(3, &clock);
    /// let manager = LockManager::builder().fakes(&nodes).build()?;
    /// let request = manager.request("report").ttl(Duration::from_secs(10));
    /// let guard = request.keep_alive(KeepAlive::unbounded()).lock()?;
    ///
    /// clock.advance(Duration::from_secs(60));
    /// guard.check()?;
    /// clock.suspend(Duration::from_secs(60));
    /// assert!(matches!(guard.check(), Err(Error::Lost { cause: LossCause::Expired { .. }, .. })));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn suspend(&self, span: Duration) {
        let mut state = self.0.lock();
        state.now = state.now.saturating_add(span).min(END);
        let now = state.now;
        drop(state);
        self.advance_to(now);
    }

    /// Returns how far the clock has moved since it was made.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::fake::FakeClock;
    /// let clock = FakeClock::new();
    /// clock.advance(Duration::from_secs(2));
    /// // A clone is the same clock.
    /// clock.clone().advance(Duration::from_secs(3));
    /// assert_eq!(clock.elapsed(), Duration::from_secs(5));
    /// ```
    pub fn elapsed(&self) -> Duration {
        self.0.lock().now
    }

    fn advance_to(&self, target: Duration) {
        while self.run_due(target) {}
        let mut state = self.0.lock();
        state.now = state.now.max(target);
    }

    /// Runs the next job that is due by `target`; returns whether there was one.
    fn run_due(&self, target: Duration) -> bool {
        let mut state = self.0.lock();
        let Some((due, run)) = state.take_due(target) else {
            return false;
        };
        state.now = state.now.max(due);
        state.runner = Some(thread::current().id());
        // Once the target is reached, new jobs are for later.
        state.horizon = (due < target).then_some(target);
        drop(state);
        // Reset even if the job panics, as a program's logger may.
        let _running = Running(self);
        run();
        true
    }

    /// Whether the caller is a scheduled job. A job stands for another thread, so its waits must not move the clock.
    pub(crate) fn is_in_job(&self) -> bool {
        self.0.lock().runner == Some(thread::current().id())
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl From<FakeClock> for Clock {
    fn from(clock: FakeClock) -> Self {
        Self::Virtual(Arc::new(clock))
    }
}

impl VirtualTime for FakeClock {
    fn now(&self) -> Timestamp {
        Timestamp(nanos(self.elapsed()))
    }

    /// Not `advance`: a wait may go beyond the end of an advance.
    fn sleep_until(&self, until: Timestamp) {
        self.advance_to(Duration::from_nanos(until.0));
    }

    fn nap_until(&self, until: Timestamp) {
        if !self.run_due(Duration::from_nanos(until.0)) {
            self.advance_to(Duration::from_nanos(until.0));
        }
    }

    fn schedule(&self, delay: Duration, run: Job) {
        let mut state = self.0.lock();
        let due = state.now.saturating_add(delay);
        // A job that schedules itself again, such as a probe, runs once or twice in an advance, even in one of years.
        let due = state.horizon.map_or(due, |horizon| due.max(horizon));
        state.jobs.push((due, run));
    }

    fn schedule_exactly(&self, delay: Duration, run: Job) {
        let mut state = self.0.lock();
        let due = state.now.saturating_add(delay);
        state.jobs.push((due, run));
    }
}

struct Running<'a>(&'a FakeClock);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        state.runner = None;
        state.horizon = None;
    }
}

impl FakeTime {
    /// The earliest job that is due by `target`, or by now if a job has moved the clock beyond it.
    fn take_due(&mut self, target: Duration) -> Option<(Duration, Job)> {
        if self.runner.is_some() {
            return None;
        }
        let horizon = target.max(self.now);
        let due = self.jobs.iter().map(|(due, _)| *due).enumerate();
        let (first, due) = due.min_by_key(|(_, due)| *due)?;
        (due <= horizon).then(|| self.jobs.remove(first))
    }
}

impl fmt::Debug for FakeClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FakeClock").field(&self.elapsed()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After the delay, notes the time in ms, and does the same so many times more.
    fn note(clock: &FakeClock, delay_ms: u64, times_more: u64, seen: &Arc<Mutex<Vec<u128>>>) {
        let (own, noted) = (clock.clone(), Arc::clone(seen));
        let run = move || {
            noted.lock().push(own.elapsed().as_millis());
            if let Some(times_more) = times_more.checked_sub(1) {
                note(&own, 5, times_more, &noted);
            }
        };
        clock.schedule(Duration::from_millis(delay_ms), Box::new(run));
    }

    #[test]
    fn jobs_run_in_order_of_time_and_may_schedule_more() {
        let (clock, seen) = (FakeClock::new(), Arc::default());
        for at in [30, 10] {
            note(&clock, at, 1, &seen);
        }
        // What a job schedules runs at the end of the advance at the earliest.
        clock.advance(Duration::from_millis(32));
        assert_eq!(*seen.lock(), [10, 30, 32]);
        clock.advance(Duration::from_millis(100));
        assert_eq!(*seen.lock(), [10, 30, 32, 35]);
        assert_eq!(clock.elapsed(), Duration::from_millis(132));
    }

    #[test]
    fn a_job_that_schedules_itself_runs_a_few_times_in_an_advance_of_years() {
        let (clock, seen) = (FakeClock::new(), Arc::default());
        note(&clock, 200, u64::MAX, &seen);
        clock.advance(Duration::MAX);
        assert!(seen.lock().len() <= 4, "{seen:?}");
        assert_eq!(clock.elapsed(), END);
    }
}
