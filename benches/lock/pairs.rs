//! Threads that have locks of their own at the same time: what all of them get together.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use redlatch_testing::now;

use crate::crowd::{Locker, ratio};
use crate::floor::{Floor, Order, Queue};
use crate::processor;
use crate::table::Samples;

/// What a side has done in its turns.
#[derive(Default)]
pub(crate) struct Pairs {
    /// Of one acquire and release.
    pub(crate) times: Samples,
    /// Calls that ended without the lock.
    pub(crate) gave_up: usize,
    span: Duration,
    processor: Duration,
}

/// The first pairs of a thread connect, and are not timed.
pub(crate) const WARM_UP: usize = 3;

/// The times of one thread, and how often it gave up.
pub(crate) type Share = (Samples, usize);

/// Threads, and how long each of them goes on.
#[derive(Clone, Copy)]
pub(crate) struct Crew {
    pub(crate) threads: usize,
    pub(crate) span: Duration,
}

/// The lock that one of many has for itself.
pub(crate) fn own_key(n: usize) -> String {
    format!("bench:own:{n}")
}

impl Pairs {
    pub(crate) fn per_second(&self) -> f64 {
        ratio(self.times.len(), 1) / self.span.as_secs_f64()
    }

    /// The processor time of this process for one pair, in microseconds.
    pub(crate) fn processor_each(&self) -> f64 {
        1e6 * self.processor.as_secs_f64() / ratio(self.times.len(), 1)
    }

    /// Threads with connections of their own.
    pub(crate) fn add_raw(&mut self, crew: Crew, urls: &[String], order: Order) {
        self.add(crew, &|n, start| {
            let key = own_key(n);
            let own = Queue::new(Floor::connect(urls, order), &key);
            work(&own, &key, start, crew.span)
        });
    }

    /// Threads that share a manager.
    pub(crate) fn add_shared(&mut self, crew: Crew, locker: &dyn Locker) {
        self.add(crew, &|n, start| {
            work(locker, &own_key(n), start, crew.span)
        });
    }

    fn add(&mut self, crew: Crew, work: &(dyn Fn(usize, &Barrier) -> Share + Sync)) {
        let start = &Barrier::new(crew.threads + 1);
        thread::scope(|scope| {
            let worker = |n| scope.spawn(move || work(n, start));
            let workers: Vec<_> = (0..crew.threads).map(worker).collect();
            start.wait();
            // All are connected, and wait.
            let clocks = Clocks::start();
            start.wait();
            let shares = workers.into_iter().map(|worker| worker.join().unwrap());
            let shares = shares.collect();
            clocks.stop(self, shares);
        });
    }
}

/// Time and processor time from now on.
pub(crate) struct Clocks(Instant, Duration);

impl Clocks {
    pub(crate) fn start() -> Self {
        Self(now(), processor::time())
    }

    pub(crate) fn stop(self, pairs: &mut Pairs, shares: Vec<Share>) {
        pairs.processor += processor::time().saturating_sub(self.1);
        pairs.span += self.0.elapsed();
        for (times, gave_up) in shares {
            pairs.times.append(times);
            pairs.gave_up += gave_up;
        }
    }
}

fn work(locker: &dyn Locker, key: &str, start: &Barrier, span: Duration) -> Share {
    for _ in 0..WARM_UP {
        locker.hold(key, &mut || {});
    }
    // Ready, and go.
    start.wait();
    start.wait();
    let (mut times, mut gave_up) = Share::default();
    let (mut since, end) = (now(), now() + span);
    while since < end {
        let had = locker.hold(key, &mut || {});
        let done = now();
        if had {
            times.push(done - since);
        } else {
            gave_up += 1;
        }
        since = done;
    }
    (times, gave_up)
}
