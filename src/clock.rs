//! Time: the only module that reads clocks, sleeps and schedules work for later.

use std::fmt::{self, Debug};
use std::io;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
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

    pub(crate) fn saturating_sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(span))
    }

    /// Nanoseconds since the epoch: 584 years fit, so nothing is lost.
    pub(crate) fn as_nanos(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }

    pub(crate) fn as_micros(self) -> u64 {
        u64::try_from(self.0.as_micros()).unwrap_or(u64::MAX)
    }

    pub(crate) fn from_nanos(nanos: u64) -> Self {
        Self(Duration::from_nanos(nanos))
    }
}

const SLICE: Duration = Duration::from_millis(20);

/// How late the end of a suspension is noticed.
const LONGEST_NAP: Duration = Duration::from_millis(50);

/// What the wall clock shows, in microseconds since the Unix epoch, when virtual time begins.
pub(crate) const VIRTUAL_EPOCH_US: u64 = 1_700_000_000_000_000;

/// Something to do later, on another thread.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// A clock that goes on while the machine is suspended, or one that a test moves.
#[derive(Clone, Debug)]
pub(crate) enum Clock {
    /// With the word that nobody is going to wait on it any more, which clones share.
    System(Arc<AtomicBool>),
    Virtual(Arc<dyn VirtualTime>),
}

/// Time that a test moves: a [`FakeClock`], or a simulation with a scheduler of its own.
pub(crate) trait VirtualTime: Debug + Send + Sync {
    fn now(&self) -> Timestamp;

    /// As [`Self::now`], for those who only tell of it: in a simulation it is no step.
    fn glance(&self) -> Timestamp {
        self.now()
    }

    /// What the wall clock shows: microseconds since the Unix epoch.
    fn wall_micros(&self) -> u64 {
        VIRTUAL_EPOCH_US.saturating_add(self.now().as_micros())
    }

    /// Returns when it is `until`; the time of the others who are on this clock has passed as well.
    fn sleep_until(&self, until: Timestamp);

    /// As [`Self::sleep_until`], but may return early, when something has happened.
    fn nap_until(&self, until: Timestamp) {
        self.sleep_until(until);
    }

    /// Runs a job off the caller's path when the time has come, or when time is next looked at after that.
    fn schedule(&self, delay: Duration, job: Job);

    /// Runs a job off the caller's path when the time has come.
    fn schedule_exactly(&self, delay: Duration, job: Job) {
        self.schedule(delay, job);
    }

    /// The same time for the jobs of a background thread of that name; none where one thread does all jobs.
    fn on_own_thread(&self, _name: &str) -> Option<Arc<dyn VirtualTime>> {
        None
    }

    /// The chance that retries are spread by; of one's own, so that a run can be repeated.
    fn random(&self) -> Result<u32, getrandom::Error> {
        getrandom::u32()
    }
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
            Self::Virtual(_) => false,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        match self {
            Self::System(_) => Timestamp(system_time()),
            Self::Virtual(time) => time.now(),
        }
    }

    /// As [`Self::now`], for what is only counted and logged, and decides nothing.
    pub(crate) fn glance(&self) -> Timestamp {
        match self {
            Self::System(_) => self.now(),
            Self::Virtual(time) => time.glance(),
        }
    }

    /// Microseconds since the Unix epoch by the wall clock, which may jump: to compare with the clocks of other machines,
    /// and never to measure a span.
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

    /// A random number that spreads retries.
    pub(crate) fn random(&self) -> Result<u32, getrandom::Error> {
        match self {
            Self::System(_) => getrandom::u32(),
            Self::Virtual(time) => time.random(),
        }
    }

    /// Waits on `condvar` until it is notified or `until` has come; may wake early.
    ///
    /// On virtual time nobody else is going to move time, so the wait itself does.
    pub(crate) fn wait<T>(
        &self,
        condvar: &Condvar,
        guard: &mut MutexGuard<'_, T>,
        until: Timestamp,
    ) {
        // In slices, for those who look whether the clock has ended.
        self.wait_in_slices(condvar, guard, until, SLICE);
    }

    /// As [`Self::wait`], for those who wait long, and may be many. The end of a suspension is noticed nevertheless.
    pub(crate) fn nap<T>(
        &self,
        condvar: &Condvar,
        guard: &mut MutexGuard<'_, T>,
        until: Timestamp,
    ) {
        self.wait_in_slices(condvar, guard, until, LONGEST_NAP);
    }

    fn wait_in_slices<T>(
        &self,
        condvar: &Condvar,
        guard: &mut MutexGuard<'_, T>,
        until: Timestamp,
        slice: Duration,
    ) {
        match self {
            Self::System(_) => {
                condvar.wait_for(guard, until.saturating_since(self.now()).min(slice));
            }
            Self::Virtual(time) => MutexGuard::unlocked(guard, || time.nap_until(until)),
        }
    }
}

impl From<FakeClock> for Clock {
    fn from(clock: FakeClock) -> Self {
        Self::Virtual(Arc::new(clock))
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

fn system_wall_micros() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    let now = std::time::SystemTime::now();
    let since_epoch = now.duration_since(std::time::UNIX_EPOCH);
    // A clock that shows a time before 1970 shows nothing that could be compared.
    u64::try_from(since_epoch.unwrap_or_default().as_micros()).unwrap_or(u64::MAX)
}

/// The time that is left until `deadline`, read off the clock that `Instant` is on.
pub(crate) fn until_instant(deadline: std::time::Instant) -> Duration {
    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    deadline.saturating_duration_since(std::time::Instant::now())
}

/// Runs jobs off the caller's path after a delay: on one thread, or when virtual time gets there.
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

    /// On real time, the jobs run on a thread that is made now, if the system gives one.
    pub(crate) fn on_own_thread(clock: &Clock, name: &str) -> io::Result<Self> {
        match clock {
            Clock::System(_) => {
                // The pool panics where there is none, so it is tried before.
                let tried = thread::Builder::new().name(name.to_owned()).spawn(|| ())?;
                tried.join().unwrap_or_default();
                let pool = catch_unwind(|| one_thread(name));
                let pool = pool.map_err(|_| io::Error::from(io::ErrorKind::WouldBlock))?;
                Ok(Self::Thread(pool))
            }
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

    /// As [`Self::after`], for what has to be done in time. On real time it comes no later than after [`LONGEST_NAP`],
    /// and then has to be asked for again if it was too early: threads sleep on a clock that stands still while the
    /// machine is suspended.
    pub(crate) fn punctually_after(&self, delay: Duration, job: impl FnOnce() + Send + 'static) {
        match self {
            Self::Thread(_) => self.after(delay.min(LONGEST_NAP), job),
            Self::Virtual(time) => time.schedule_exactly(delay, Box::new(job)),
        }
    }
}

impl Debug for Timers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Thread(_) => "Timers::Thread",
            Self::Virtual(_) => "Timers::Virtual",
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

/// Waits until a pool of one thread has done what it was told to, or for a second.
pub(crate) fn wait_for(thread: &ScheduledThreadPool) {
    let (done, all_done) = mpsc::channel();
    thread.execute(move || done.send(()).unwrap_or_default());
    all_done
        .recv_timeout(Duration::from_secs(1))
        .unwrap_or_default();
}
