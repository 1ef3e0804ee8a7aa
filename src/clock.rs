//! Time: the only module that reads clocks, sleeps and schedules work for later.

use std::fmt::Debug;
use std::io;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use scheduled_thread_pool::{OnPoolDropBehavior, ScheduledThreadPool};

#[cfg(feature = "fake")]
mod fake;

#[cfg(feature = "fake")]
pub use fake::FakeClock;

use crate::sync::{AtomicBool, Condvar, MutexGuard, while_unlocked};

/// A point on one clock, in nanoseconds since the epoch of that clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Timestamp(u64);

impl Timestamp {
    pub(crate) fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// This time, later by the span from `begin` to `end`.
    pub(crate) fn later_by(self, begin: Self, end: Self) -> Self {
        Self(self.0.saturating_add(end.0.saturating_sub(begin.0)))
    }

    /// The time in the middle between this one and a later one.
    pub(crate) fn half_way_to(self, end: Self) -> Self {
        Self(self.0.midpoint(end.0.max(self.0)))
    }

    /// None where the sum is beyond 584 years.
    pub(crate) fn checked_add(self, span: Duration) -> Option<Self> {
        let nanos = u64::try_from(span.as_nanos()).ok()?;
        self.0.checked_add(nanos).map(Self)
    }

    pub(crate) fn saturating_add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(nanos(span)))
    }

    pub(crate) fn saturating_sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(span)))
    }

    pub(crate) fn as_nanos(self) -> u64 {
        self.0
    }

    pub(crate) fn as_micros(self) -> u64 {
        self.0 / 1000
    }

    pub(crate) const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }
}

/// So many milliseconds after the zero of a clock.
#[cfg(test)]
pub(crate) fn at(ms: u64) -> Timestamp {
    Timestamp(nanos(Duration::from_millis(ms)))
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// How late the end of a suspension or of the clock is noticed, and in a queue that a call was cancelled. The pages promise 50 ms: a
/// thread takes some time to wake up.
const LONGEST_NAP: Duration = Duration::from_millis(40);

/// What the wall clock shows, in microseconds since the Unix epoch, when virtual time begins.
pub(crate) const VIRTUAL_EPOCH_US: u64 = 1_700_000_000_000_000;

/// Work for later, on another thread.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// A clock that counts the time during which the machine is suspended, or a clock that a test moves.
#[derive(Clone, Debug)]
pub(crate) enum Clock {
    /// With a flag, shared by clones, that tells background threads to stop waiting.
    System(Arc<AtomicBool>),
    #[cfg_attr(
        not(feature = "fake"),
        expect(dead_code, reason = "only tests move a clock")
    )]
    Virtual(Arc<dyn VirtualTime>),
}

/// Time that a test moves: a [`FakeClock`], or a simulation with a scheduler of its own.
pub(crate) trait VirtualTime: Debug + Send + Sync {
    fn now(&self) -> Timestamp;

    /// As [`Self::now`], for records only: a simulation does not count it as a step, after which another client may
    /// run.
    fn now_for_records(&self) -> Timestamp {
        self.now()
    }

    /// The time of the wall clock, in microseconds since the Unix epoch.
    fn wall_micros(&self) -> u64 {
        VIRTUAL_EPOCH_US.saturating_add(self.now().as_micros())
    }

    /// Returns when it is `until`, for all users of this clock.
    fn sleep_until(&self, until: Timestamp);

    /// As [`Self::sleep_until`], but may return early, after scheduled work was done.
    fn nap_until(&self, until: Timestamp) {
        self.sleep_until(until);
    }

    /// Runs a job outside the caller's call, when its time has come or later.
    fn schedule(&self, delay: Duration, job: Job);

    /// Runs a job outside the caller's call, when its time has come.
    fn schedule_exactly(&self, delay: Duration, job: Job) {
        self.schedule(delay, job);
    }

    /// The same time, for the jobs of a background thread of this name; none if one thread does all jobs.
    fn on_own_thread(&self, _name: &str) -> Option<Arc<dyn VirtualTime>> {
        None
    }

    /// The random number that spreads retries. A simulation has its own generator, so that a run can be repeated.
    fn random(&self) -> Result<u32, getrandom::Error> {
        getrandom::u32()
    }

    /// Fills in the random bytes of a token. A simulation notes which of its threads asks for a lock with it.
    fn fill_token(&self, bytes: &mut [u8]) -> Result<(), getrandom::Error> {
        getrandom::fill(bytes)
    }
}

impl Clock {
    pub(crate) fn system() -> Self {
        Self::System(Arc::default())
    }

    /// Ends the waits of background threads, because nobody needs their work any more.
    pub(crate) fn end(&self) {
        if let Self::System(has_ended) = self {
            has_ended.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        matches!(self, Self::System(has_ended) if has_ended.load(Ordering::Relaxed))
    }

    pub(crate) fn now(&self) -> Timestamp {
        match self {
            Self::System(_) => Timestamp(nanos(system_time())),
            Self::Virtual(time) => time.now(),
        }
    }

    /// Returns `read`, the time of a moment ago. A clock that moves at each step is read again.
    pub(crate) fn now_or(&self, read: Timestamp) -> Timestamp {
        match self {
            Self::System(_) => read,
            Self::Virtual(time) => time.now(),
        }
    }

    /// As [`Self::now`], for counters, logs and error messages only: a simulation does not count it as a step. No
    /// decision may depend on it.
    pub(crate) fn now_for_records(&self) -> Timestamp {
        match self {
            Self::System(_) => self.now(),
            Self::Virtual(time) => time.now_for_records(),
        }
    }

    /// Microseconds since the Unix epoch by the wall clock, which may jump. Only to compare with clocks of other
    /// machines, never to measure a span.
    pub(crate) fn wall_micros(&self) -> u64 {
        match self {
            Self::System(_) => system_wall_micros(),
            Self::Virtual(time) => time.wall_micros(),
        }
    }

    pub(crate) fn sleep(&self, span: Duration) {
        match self {
            #[expect(clippy::disallowed_methods, reason = "this is the seam")]
            Self::System(_) => thread::sleep(span),
            Self::Virtual(time) => time.sleep_until(time.now().saturating_add(span)),
        }
    }

    /// Lets threads run that are ready to, if there are any.
    pub(crate) fn let_others_run(&self) {
        if let Self::System(_) = self {
            thread::yield_now();
        }
    }

    pub(crate) fn random(&self) -> Result<u32, getrandom::Error> {
        match self {
            Self::System(_) => getrandom::u32(),
            Self::Virtual(time) => time.random(),
        }
    }

    pub(crate) fn fill_token(&self, bytes: &mut [u8]) -> Result<(), getrandom::Error> {
        match self {
            Self::System(_) => getrandom::fill(bytes),
            Self::Virtual(time) => time.fill_token(bytes),
        }
    }

    /// Waits on `condvar` until it is notified or `until` has come; may wake early. The callers check in between whether the clock
    /// has ended.
    ///
    /// On virtual time, nobody else moves the clock, so the wait does.
    pub(crate) fn wait<T>(
        &self,
        condvar: &Condvar,
        guard: &mut MutexGuard<'_, T>,
        until: Timestamp,
    ) {
        match self {
            Self::System(_) => {
                let span = until.saturating_since(self.now());
                condvar.wait_for(guard, span.min(LONGEST_NAP));
            }
            Self::Virtual(time) => while_unlocked(condvar, guard, || time.nap_until(until)),
        }
    }
}

/// As [`Clock::wait`]. The models of the queue and of the lease have waits of their own in its place.
pub(crate) fn nap<T>(
    clock: &Clock,
    condvar: &Condvar,
    guard: &mut MutexGuard<'_, T>,
    until: Timestamp,
) {
    clock.wait(condvar, guard, until);
}

/// It goes on while the machine is suspended, as the time to live on the nodes does.
#[cfg(any(target_os = "linux", target_os = "android"))]
const SYSTEM_CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;

#[cfg(any(target_os = "linux", target_os = "android"))]
fn system_time() -> Duration {
    let time = rustix::time::clock_gettime(SYSTEM_CLOCK);
    // CLOCK_BOOTTIME counts up from zero, so neither part is ever negative.
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[cfg_attr(not(test), expect(clippy::disallowed_types, reason = "set once"))]
fn system_time() -> Duration {
    use std::sync::OnceLock;
    use std::time::Instant;

    static EPOCH: OnceLock<Instant> = OnceLock::new();
    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    let now = Instant::now();
    now.saturating_duration_since(*EPOCH.get_or_init(|| now))
}

fn system_wall_micros() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    let now = std::time::SystemTime::now();
    let since_epoch = now.duration_since(std::time::UNIX_EPOCH);
    // A time before 1970 is wrong anyway, and can't be compared.
    u64::try_from(since_epoch.unwrap_or_default().as_micros()).unwrap_or(u64::MAX)
}

/// The time until `deadline`, by the clock of `Instant`.
pub(crate) fn until_instant(deadline: std::time::Instant) -> Duration {
    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    deadline.saturating_duration_since(std::time::Instant::now())
}

/// Runs jobs after a delay: on one background thread, or when virtual time has come that far.
#[derive(Clone)]
pub(crate) enum Timers {
    Thread(Arc<ScheduledThreadPool>),
    Virtual(Arc<dyn VirtualTime>),
}

impl Timers {
    /// On real time, the jobs run on `thread`.
    pub(crate) fn new(clock: &Clock, thread: &Arc<ScheduledThreadPool>) -> Self {
        match clock {
            Clock::System(_) => Self::Thread(Arc::clone(thread)),
            Clock::Virtual(time) => Self::Virtual(Arc::clone(time)),
        }
    }

    /// On real time, the jobs run on a thread that is started now.
    pub(crate) fn on_own_thread(clock: &Clock, name: &str) -> io::Result<Self> {
        match clock {
            Clock::System(_) => one_thread(name).map(Self::Thread),
            Clock::Virtual(time) => {
                let own = time.on_own_thread(name);
                Ok(Self::Virtual(own.unwrap_or_else(|| Arc::clone(time))))
            }
        }
    }

    pub(crate) fn after(&self, delay: Duration, job: impl FnOnce() + Send + 'static) {
        match self {
            // The handle could only cancel the job; the jobs look for themselves whether they are still wanted.
            Self::Thread(pool) => drop(pool.execute_after(delay, job)),
            Self::Virtual(time) => time.schedule(delay, Box::new(job)),
        }
    }

    /// As [`Self::after`], for work that must be done in time. On real time the job runs after [`LONGEST_NAP`] at the
    /// latest, and has to be scheduled again if that was too early. The reason: threads sleep on a clock that stands
    /// still while the machine is suspended.
    pub(crate) fn punctually_after(&self, delay: Duration, job: impl FnOnce() + Send + 'static) {
        match self {
            Self::Thread(_) => self.after(delay.min(LONGEST_NAP), job),
            Self::Virtual(time) => time.schedule_exactly(delay, Box::new(job)),
        }
    }
}

/// A pool of one thread, which drops pending jobs and ends when the pool is dropped.
pub(crate) fn one_thread(name: &str) -> io::Result<Arc<ScheduledThreadPool>> {
    // Start a thread before the pool does, because the pool panics if it gets none, and a panic is printed. Another program may
    // still take the last thread in between.
    let tried = thread::Builder::new().name(name.to_owned()).spawn(|| ())?;
    tried.join().unwrap_or_default();
    let pool = catch_unwind(|| {
        ScheduledThreadPool::builder()
            .num_threads(1)
            .thread_name_pattern(name)
            .on_drop_behavior(OnPoolDropBehavior::DiscardPendingScheduled)
            .build()
    });
    let pool = pool.map_err(|_| io::Error::from(io::ErrorKind::WouldBlock))?;
    Ok(Arc::new(pool))
}

#[cfg(test)]
#[path = "../tests/rooms/clock/suspended.rs"]
mod suspended;
