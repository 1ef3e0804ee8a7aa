//! Threads, or tasks, that have locks of their own at the same time: what all of them get together.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use redlatch_testing::now;

use crate::TTL;
use crate::crowd::{Locker, ratio};
use crate::floor::{Floor, Order, Queue};
use crate::processor;
use crate::table::Samples;
use crate::who::{Rslock, Who};

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

impl Pairs {
    pub(crate) fn per_second(&self) -> f64 {
        ratio(self.times.len(), 1) / self.span.as_secs_f64()
    }

    /// The processor time of this process for one pair, in microseconds.
    pub(crate) fn processor_each(&self) -> f64 {
        1e6 * self.processor.as_secs_f64() / ratio(self.times.len(), 1)
    }
}

/// Takes all sides in turn, `rounds` times, each of them with as many threads or tasks for as long as `span`.
pub(crate) fn measure<const SIDES: usize>(
    sides: [Who; SIDES],
    urls: &[String],
    number: usize,
    (rounds, span): (usize, Duration),
) -> [Pairs; SIDES] {
    let crews = sides.map(|who| Crew::new(who, urls));
    let mut pairs = [(); SIDES].map(|()| Pairs::default());
    for round in 0..rounds {
        for n in 0..SIDES {
            // No side is always the one that follows another.
            let n = (n + round) % SIDES;
            crews[n].work(urls, number, span, &mut pairs[n]);
        }
    }
    pairs
}

/// A way to have locks at the same time.
enum Crew {
    /// Threads with connections of their own.
    Connections(Order),
    /// Threads that share a manager.
    Threads(Box<dyn Locker>),
    /// Tasks that share a manager.
    Tasks(Rslock),
}

impl Crew {
    fn new(who: Who, urls: &[String]) -> Self {
        match who {
            Who::Raw(order) => Self::Connections(order),
            Who::Redlatch(_) | Who::Redlock => Self::Threads(who.locker(urls)),
            Who::Rslock(workers) => Self::Tasks(Rslock::new(urls, workers)),
        }
    }

    fn work(&self, urls: &[String], number: usize, span: Duration, pairs: &mut Pairs) {
        let resource = |n: usize| format!("bench:own:{n}");
        match self {
            Self::Connections(order) => threads(number, pairs, &|n, start| {
                let own = Queue::new(Floor::connect(urls, *order), &resource(n));
                one(&own, &resource(n), start, span)
            }),
            Self::Threads(locker) => threads(number, pairs, &|n, start| {
                one(&**locker, &resource(n), start, span)
            }),
            Self::Tasks(rslock) => tasks(rslock, number, span, pairs, &resource),
        }
    }
}

/// The times of one thread or task, and how often it gave up.
type Share = (Samples, usize);

/// Time and processor time from now on.
struct Clocks(Instant, Duration);

impl Clocks {
    fn start() -> Self {
        Self(now(), processor::time())
    }

    fn stop(self, pairs: &mut Pairs, shares: Vec<Share>) {
        pairs.processor += processor::time().saturating_sub(self.1);
        pairs.span += now() - self.0;
        for (times, gave_up) in shares {
            pairs.times.append(times);
            pairs.gave_up += gave_up;
        }
    }
}

fn threads(number: usize, pairs: &mut Pairs, work: &(dyn Fn(usize, &Barrier) -> Share + Sync)) {
    let start = &Barrier::new(number + 1);
    thread::scope(|scope| {
        let worker = |n| scope.spawn(move || work(n, start));
        let workers: Vec<_> = (0..number).map(worker).collect();
        start.wait();
        // All are connected, and wait.
        let clocks = Clocks::start();
        start.wait();
        let shares = workers.into_iter().map(|worker| worker.join().unwrap());
        let shares = shares.collect();
        clocks.stop(pairs, shares);
    });
}

fn one(locker: &dyn Locker, resource: &str, start: &Barrier, span: Duration) -> Share {
    // The first pairs connect.
    for _ in 0..3 {
        locker.hold(resource, &mut || {});
    }
    // Ready, and go.
    start.wait();
    start.wait();
    let (mut times, mut gave_up) = Share::default();
    let (mut since, end) = (now(), now() + span);
    while since < end {
        let had = locker.hold(resource, &mut || {});
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

fn tasks(
    rslock: &Rslock,
    number: usize,
    span: Duration,
    pairs: &mut Pairs,
    resource: &dyn Fn(usize) -> String,
) {
    let Rslock { manager, runtime } = rslock;
    let begin = |end: Instant| {
        let task = |n| runtime.spawn(one_task(manager.clone(), resource(n), end));
        (0..number).map(task).collect::<Vec<_>>()
    };
    runtime.block_on(async {
        // The first pairs connect.
        for task in begin(now()) {
            task.await.unwrap();
        }
        let clocks = Clocks::start();
        let mut shares = Vec::new();
        for task in begin(now() + span) {
            shares.push(task.await.unwrap());
        }
        clocks.stop(pairs, shares);
    });
}

/// At least one pair.
async fn one_task(manager: rslock::LockManager, resource: String, end: Instant) -> Share {
    let (mut times, mut gave_up) = Share::default();
    let mut since = now();
    loop {
        let lock = manager.lock(resource.as_str(), TTL).await;
        let had = lock.is_ok();
        if let Ok(lock) = lock {
            lock.release().await;
        }
        let done = now();
        if had {
            times.push(done - since);
        } else {
            gave_up += 1;
        }
        since = done;
        if done >= end {
            return (times, gave_up);
        }
    }
}
