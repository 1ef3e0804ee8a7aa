//! The pairs of acquire and release that are counted.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use redlatch::{Fanout, LockManager};
use redlatch_testing::now;

/// Everything takes long under callgrind and on a busy machine.
const TTL: Duration = Duration::from_secs(600);
const PATIENCE: Duration = Duration::from_secs(30);

/// Threads with locks of their own that share a manager.
pub(crate) struct Mode {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    threads: usize,
    fanout: Fanout,
    /// The pairs of a thread in one lap. All threads begin a lap together.
    each: usize,
    /// How many laps are counted.
    pub(crate) laps: usize,
    /// How many laps may be cheaper than the one whose figure is taken.
    pub(crate) cheaper: usize,
}

/// On a busy machine some replies come late, and a late reply is looked for twice. So the laps of one thread are short, and in the
/// cheapest one no reply is late. A lap of many threads is long, because the threads have to meet. It also depends on which threads
/// send for which, and a lap in which that goes unusually well says as little as one with late replies.
pub(crate) const MODES: [Mode; 3] = [
    Mode {
        name: "overlapped",
        title: "1 thread, overlapped",
        threads: 1,
        fanout: Fanout::Overlapped,
        each: 5,
        laps: 60,
        cheaper: 0,
    },
    Mode {
        name: "sequential",
        title: "1 thread, sequential",
        threads: 1,
        fanout: Fanout::Sequential,
        each: 5,
        laps: 60,
        cheaper: 0,
    },
    Mode {
        name: "crowd",
        title: "64 threads, overlapped",
        threads: 64,
        fanout: Fanout::Overlapped,
        each: 4,
        laps: 25,
        cheaper: 6,
    },
];

impl Mode {
    pub(crate) fn pairs_a_lap(&self) -> usize {
        self.threads * self.each
    }

    /// Does so many pairs, or a few more, in whole laps. Returns how many, and how long they took.
    pub(crate) fn run(&self, urls: &[String], pairs: usize) -> (usize, Duration) {
        let builder = LockManager::builder().nodes(urls).fanout(self.fanout);
        let manager = &builder.node_timeout(PATIENCE).build().unwrap();
        let laps = pairs.div_ceil(self.pairs_a_lap());
        let line = &Barrier::new(self.threads);
        let began = now();
        thread::scope(|scope| {
            for thread in 0..self.threads {
                scope.spawn(move || {
                    let resource = format!("bench:own:{thread:02}");
                    for lap in 0..laps {
                        if line.wait().is_leader() {
                            begin_lap(lap);
                        }
                        line.wait();
                        for _ in 0..self.each {
                            one_pair(manager, &resource);
                        }
                    }
                });
            }
        });
        (laps * self.pairs_a_lap(), began.elapsed())
    }
}

/// Callgrind knows this function by its name: here it writes down what it has counted in the lap before.
#[inline(never)]
fn begin_lap(lap: usize) {
    black_box(lap);
}

/// Callgrind knows this function by its name, and counts only what happens within.
#[inline(never)]
fn one_pair(manager: &LockManager, resource: &str) {
    let guard = manager.lock(resource, TTL).unwrap();
    guard.unlock().unwrap();
}
