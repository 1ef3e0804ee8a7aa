//! Time: the only module that reads clocks, sleeps and schedules work for later.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, MutexGuard};
use scheduled_thread_pool::{OnPoolDropBehavior, ScheduledThreadPool};

mod fake;

pub use fake::FakeClock;

/// A point on one clock, as the time since that clock's own epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Timestamp(Duration);

impl Timestamp {
    pub(crate) fn saturating_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    pub(crate) fn checked_add(self, span: Duration) -> Option<Self> {
        self.0.checked_add(span).map(Self)
    }

    pub(crate) fn saturating_add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span))
    }

    /// Nanoseconds since the epoch: 584 years fit, so nothing is lost.
    pub(crate) fn as_nanos(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }

    pub(crate) fn from_nanos(nanos: u64) -> Self {
        Self(Duration::from_nanos(nanos))
    }
}

const SLICE: Duration = Duration::from_millis(20);

/// A clock that goes on while the machine is suspended, or a test's clock that moves on command.
#[derive(Clone, Debug)]
pub(crate) enum Clock {
    /// With the word that nobody is going to wait on it any more, which clones share.
    System(Arc<AtomicBool>),
    Fake(FakeClock),
}

impl Clock {
    pub(crate) fn system() -> Self {
        Self::System(Arc::default())
    }

    /// Ends the waits of background threads, because those that they are for are gone.
    pub(crate) fn end(&self) {
        if let Self::System(has_ended) = self {
            has_ended.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        match self {
            Self::System(has_ended) => has_ended.load(Ordering::Relaxed),
            Self::Fake(_) => false,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        match self {
            Self::System(_) => Timestamp(system_time()),
            Self::Fake(clock) => Timestamp(clock.elapsed()),
        }
    }

    pub(crate) fn sleep(&self, span: Duration) {
        match self {
            #[expect(clippy::disallowed_methods, reason = "this is the seam")]
            Self::System(_) => std::thread::sleep(span),
            // Not `advance`, whose end a wait may pass.
            Self::Fake(clock) => clock.advance_to(clock.elapsed().saturating_add(span)),
        }
    }

    /// Waits on `condvar` until it is notified or `until` has come; may wake early.
    ///
    /// On a fake clock nobody else is going to move time, so the wait itself does.
    pub(crate) fn wait<T>(
        &self,
        condvar: &Condvar,
        guard: &mut MutexGuard<'_, T>,
        until: Timestamp,
    ) {
        match self {
            Self::System(_) => {
                // In slices, for those who look whether the clock has ended.
                condvar.wait_for(guard, until.saturating_since(self.now()).min(SLICE));
            }
            Self::Fake(clock) => MutexGuard::unlocked(guard, || clock.advance_to(until.0)),
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn system_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    // CLOCK_BOOTTIME counts up from zero, so neither part is ever negative.
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn system_time() -> Duration {
    use std::sync::OnceLock;
    use std::time::Instant;

    static EPOCH: OnceLock<Instant> = OnceLock::new();
    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    let now = Instant::now();
    now.saturating_duration_since(*EPOCH.get_or_init(|| now))
}

/// The time that is left until `deadline`, read off the clock that `Instant` is on.
pub(crate) fn until_instant(deadline: std::time::Instant) -> Duration {
    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    deadline.saturating_duration_since(std::time::Instant::now())
}

/// Runs jobs off the caller's path after a delay: on one thread, or when a fake clock gets there.
#[derive(Clone)]
pub(crate) enum Timers {
    Thread(Arc<ScheduledThreadPool>),
    Fake(FakeClock),
}

impl Timers {
    /// On real time, the jobs run on `thread`.
    pub(crate) fn new(clock: &Clock, thread: &Arc<ScheduledThreadPool>) -> Self {
        match clock {
            Clock::System(_) => Self::Thread(Arc::clone(thread)),
            Clock::Fake(clock) => Self::Fake(clock.clone()),
        }
    }

    pub(crate) fn after(&self, delay: Duration, job: impl FnOnce() + Send + 'static) {
        match self {
            // The handle could only cancel the job; the jobs look for themselves whether they are still wanted.
            Self::Thread(pool) => drop(pool.execute_after(delay, job)),
            Self::Fake(clock) => clock.schedule(delay, Box::new(job)),
        }
    }
}

impl std::fmt::Debug for Timers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Thread(_) => "Timers::Thread",
            Self::Fake(_) => "Timers::Fake",
        })
    }
}

/// A pool of one thread that forgets what is pending, and ends, when it is dropped.
pub(crate) fn one_thread(name: &str) -> Arc<ScheduledThreadPool> {
    Arc::new(
        ScheduledThreadPool::builder()
            .num_threads(1)
            .thread_name_pattern(name)
            .on_drop_behavior(OnPoolDropBehavior::DiscardPendingScheduled)
            .build(),
    )
}
