//! The sides with locks of their own at the same time, each in turn: as threads, or as tasks.

use std::time::{Duration, Instant};

use redlatch_testing::now;

use crate::crowd::Locker;
use crate::effort::TTL;
use crate::floor::Order;
use crate::pairs::{Clocks, Crew, Pairs, Share, own_key};
use crate::who::{Rslock, Who};

/// Takes all sides in turn, `rounds` times, each of them with as many threads or tasks for as long as `span`.
pub(crate) fn measure<const SIDES: usize>(
    sides: [Who; SIDES],
    urls: &[String],
    threads: usize,
    (rounds, span): (usize, Duration),
) -> [Pairs; SIDES] {
    let crew = Crew { threads, span };
    let sides = sides.map(|who| Side::new(who, urls));
    let mut pairs = [(); SIDES].map(|()| Pairs::default());
    for round in 0..rounds {
        for n in 0..SIDES {
            // No side is always the one that follows another.
            let n = (n + round) % SIDES;
            match &sides[n] {
                Side::Connections(order) => pairs[n].add_raw(crew, urls, *order),
                Side::Threads(locker) => pairs[n].add_shared(crew, &**locker),
                Side::Tasks(rslock) => add_tasks(&mut pairs[n], crew, rslock),
            }
        }
    }
    pairs
}

/// A way to have locks at the same time.
enum Side {
    /// Threads with connections of their own.
    Connections(Order),
    /// Threads that share a manager.
    Threads(Box<dyn Locker>),
    /// Tasks that share a manager.
    Tasks(Rslock),
}

impl Side {
    fn new(who: Who, urls: &[String]) -> Self {
        match who {
            Who::Raw(order) => Self::Connections(order),
            Who::Redlatch(_) | Who::Redlock => Self::Threads(who.locker(urls)),
            Who::Rslock(workers) => Self::Tasks(Rslock::new(urls, workers)),
        }
    }
}

fn add_tasks(pairs: &mut Pairs, crew: Crew, rslock: &Rslock) {
    let Rslock { manager, runtime } = rslock;
    let begin = |end: Instant| {
        let task = |n| runtime.spawn(work(manager.clone(), own_key(n), end));
        (0..crew.threads).map(task).collect::<Vec<_>>()
    };
    runtime.block_on(async {
        // The first pairs connect.
        for task in begin(now()) {
            task.await.unwrap();
        }
        let clocks = Clocks::start();
        let mut shares = Vec::new();
        for task in begin(now() + crew.span) {
            shares.push(task.await.unwrap());
        }
        clocks.stop(pairs, shares);
    });
}

/// At least one pair.
async fn work(manager: rslock::LockManager, key: String, end: Instant) -> Share {
    let (mut times, mut gave_up) = Share::default();
    let mut since = now();
    loop {
        let lock = manager.lock(key.as_str(), TTL).await;
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
