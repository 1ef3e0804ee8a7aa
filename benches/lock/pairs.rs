//! Pairs of acquire and release: threads that have locks of their own at the same time, and the sides of a comparison that
//! take turns.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use redlatch::Fanout;
use redlatch_testing::now;
use rustix::time::{ClockId, clock_gettime};

use crate::locker::Locker;
use crate::raw::Raw;
use crate::samples::Samples;

/// What a side has done in its turns.
#[derive(Default)]
pub(crate) struct Pairs {
    /// Of one acquire and release.
    pub(crate) times: Samples,
    /// The pairs per second of each turn.
    pub(crate) rates: Vec<f64>,
    span: Duration,
    processor: Duration,
}

impl Pairs {
    pub(crate) fn per_second(&self) -> f64 {
        float(self.times.len()) / self.span.as_secs_f64()
    }

    /// The processor time of this process for one pair, in microseconds.
    pub(crate) fn processor_each(&self) -> f64 {
        1e6 * self.processor.as_secs_f64() / float(self.times.len())
    }
}

/// Numbers here are far below those that a float can't hold.
pub(crate) fn float(n: usize) -> f64 {
    f64::from(u32::try_from(n).unwrap())
}

/// A side of a comparison, which adds the pairs of one turn.
pub(crate) type Side = Box<dyn Fn(&mut Pairs)>;

/// Each side has as many turns.
pub(crate) fn take_turns<const SIDES: usize>(
    sides: &[Side; SIDES],
    turns: usize,
) -> [Pairs; SIDES] {
    let mut pairs = [(); SIDES].map(|()| Pairs::default());
    for turn in 0..turns {
        for n in 0..SIDES {
            // No side is always the one that follows another.
            let n = (n + turn) % SIDES;
            sides[n](&mut pairs[n]);
        }
    }
    pairs
}

/// Threads, and how long each of them goes on in a turn.
#[derive(Clone, Copy)]
pub(crate) struct Crew {
    pub(crate) threads: usize,
    pub(crate) span: Duration,
}

impl Crew {
    /// Raw TCP, where each thread has its own connections.
    pub(crate) fn raw_side(self, urls: &[String], fanout: Fanout) -> Side {
        let raw = |n| -> Box<dyn Locker> { Box::new(Raw::connect(urls, fanout, &own_key(n))) };
        self.side((0..self.threads).map(raw).collect())
    }

    /// The threads share one locker, or have one each.
    pub(crate) fn side(self, lockers: Vec<Box<dyn Locker>>) -> Side {
        Box::new(move |pairs| {
            let start = &Barrier::new(self.threads + 1);
            thread::scope(|scope| {
                let worker = |n: usize| {
                    let locker = &*lockers[n % lockers.len()];
                    scope.spawn(move || work(locker, &own_key(n), start, self.span))
                };
                let workers: Vec<_> = (0..self.threads).map(worker).collect();
                start.wait();
                // All are connected, and wait.
                let clocks = Clocks::start();
                start.wait();
                let shares = workers.into_iter().map(|worker| worker.join().unwrap());
                let shares = shares.collect();
                clocks.stop(pairs, shares);
            });
        })
    }
}

/// The lock that one of many has for itself.
pub(crate) fn own_key(n: usize) -> String {
    format!("bench:own:{n}")
}

fn work(locker: &dyn Locker, key: &str, start: &Barrier, span: Duration) -> Samples {
    // The first pairs connect, and are not timed.
    for _ in 0..3 {
        locker.hold(key, &mut || {});
    }
    // Ready, and go.
    start.wait();
    start.wait();
    let mut times = Samples::default();
    let (mut since, end) = (now(), now() + span);
    while since < end {
        let had = locker.hold(key, &mut || {});
        let done = now();
        // Whoever gives up has fewer pairs.
        if had {
            times.push(done - since);
        }
        since = done;
    }
    times
}

/// Time and processor time from now on.
pub(crate) struct Clocks(Instant, Duration);

impl Clocks {
    pub(crate) fn start() -> Self {
        Self(now(), processor_time())
    }

    pub(crate) fn stop(self, pairs: &mut Pairs, times: Vec<Samples>) {
        let (span, done) = (self.0.elapsed(), pairs.times.len());
        pairs.processor += processor_time().saturating_sub(self.1);
        pairs.span += span;
        for times in times {
            pairs.times.append(times);
        }
        let done = float(pairs.times.len() - done);
        pairs.rates.push(done / span.as_secs_f64());
    }
}

/// What the threads of this process have used, without the servers.
fn processor_time() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    let [seconds, nanos] = [used.tv_sec, used.tv_nsec].map(|n| u64::try_from(n).unwrap());
    Duration::from_secs(seconds) + Duration::from_nanos(nanos)
}
