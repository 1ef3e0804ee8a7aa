//! Locks without contention: the time for one and the throughput, beside the bytes of their commands.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use redlatch::LockManager;
use redlatch_testing::{Server, now};

use crate::crowd::ratio;
use crate::floor::{Floor, Order};
use crate::mode::{Mode, configure};
use crate::raw::Packed;
use crate::table::{Row, Samples, Table};
use crate::{Effort, TTL, link, patient_builder};

pub(crate) fn uncontended(table: &mut Table, servers: &[Server], effort: Effort) {
    for nodes in [1, 3, 5] {
        let urls: Vec<String> = servers[..nodes].iter().map(Server::url).collect();
        for threads in [1, 8] {
            let over = "";
            Setting {
                urls: &urls,
                threads,
                over,
            }
            .compare(table, effort);
        }
    }
    let urls = link::urls(servers);
    let over = " over 1 ms";
    Setting {
        urls: &urls,
        threads: 1,
        over,
    }
    .compare(table, effort);
}

struct Setting<'a> {
    urls: &'a [String],
    threads: usize,
    /// What is between the program and the servers.
    over: &'static str,
}

/// One way to do the same work.
enum Side {
    Raw(Order),
    Redlatch(LockManager),
}

/// What came of it.
#[derive(Default)]
struct Pairs {
    times: Samples,
    threads: usize,
}

impl Setting<'_> {
    fn compare(&self, table: &mut Table, effort: Effort) {
        let manager = |mode| {
            let builder = configure(patient_builder(self.urls), mode);
            Side::Redlatch(builder.build().unwrap())
        };
        let sides = [
            Side::Raw(Order::Sequential),
            Side::Raw(Order::Overlapped),
            manager(Mode::Sequential),
            manager(Mode::Overlapped),
        ];
        let mut pairs = <[Pairs; 4]>::default();
        for slice in 0..effort.slices {
            for n in 0..sides.len() {
                // Neither side is always the one that follows another.
                let n = (n + usize::try_from(slice).unwrap()) % sides.len();
                self.run(&sides[n], &mut pairs[n], effort.slice);
            }
        }
        self.print(table, &pairs);
    }

    /// All threads do acquire and release for a while, each on keys of its own.
    fn run(&self, side: &Side, pairs: &mut Pairs, span: Duration) {
        let start = Barrier::new(self.threads);
        let (start, urls) = (&start, self.urls);
        thread::scope(|scope| {
            let worker = |n| scope.spawn(move || work(side, urls, n, start, span));
            let workers: Vec<_> = (0..self.threads).map(worker).collect();
            for worker in workers {
                pairs.times.append(worker.join().unwrap());
            }
        });
        pairs.threads = self.threads;
    }

    fn print(&self, table: &mut Table, pairs: &[Pairs; 4]) {
        let [sequential, overlapped, ours, ours_overlapped] = pairs;
        let (nodes, threads) = (self.urls.len(), self.threads);
        let title = format!("nodes {nodes}, threads {threads}{}: pair [µs]", self.over);
        table.section(&title, ["p50", "p99", "locks/s"]);
        table.row(sequential.row("raw: sequential"));
        table.row(overlapped.row("raw: overlapped"));

        let row = ours.row("redlatch: sequential");
        let is_judged = (nodes, threads, self.over) == (5, 1, "");
        table.row(if is_judged {
            row.ratio_of(&ours.times, &sequential.times, 0.75)
        } else if threads == 1 {
            row.ratio(ours.times.against(&sequential.times))
        } else {
            row.ratio(ours.per_second() / sequential.per_second())
        });

        let row = ours_overlapped.row("redlatch: overlapped");
        let throughput = ours_overlapped.per_second() / overlapped.per_second();
        let (times, baseline) = (&ours_overlapped.times, &overlapped.times);
        table.row(match (nodes, threads, self.over) {
            (5, 1, "") => row.ratio_of(times, baseline, 1.25),
            (5, 1, _) => row.ratio_of(times, baseline, 1.05),
            (5, _, _) => row.ratio(throughput).at_least(throughput, 0.9, "0.90x"),
            (_, 1, _) => row.ratio(times.against(baseline)),
            _ => row.ratio(throughput),
        });
    }
}

/// Times the acquire and release of a number.
type Pair<'a> = Box<dyn FnMut(&mut Samples, u32) + 'a>;

fn work(side: &Side, urls: &[String], thread: usize, start: &Barrier, span: Duration) -> Samples {
    let key = |n: u32| format!("bench:pair:{thread}:{n}");
    let mut times = Samples::default();
    let mut pair: Pair<'_> = match side {
        Side::Raw(order) => {
            let mut floor = Floor::connect(urls, *order);
            Box::new(move |times, n| {
                let packed = Packed::new(&key(n), n, TTL);
                times.time(|| {
                    floor.acquire(&packed);
                    floor.release(&packed);
                });
            })
        }
        Side::Redlatch(manager) => Box::new(move |times, n| {
            let resource = key(n);
            times.time(|| {
                let guard = manager.try_lock(&resource, TTL).unwrap();
                guard.unlock().unwrap();
            });
        }),
    };
    // The first pairs connect.
    (0..3).for_each(|n| pair(&mut Samples::default(), n));
    start.wait();

    let end = now() + span;
    for n in 0.. {
        pair(&mut times, n);
        if now() >= end {
            break;
        }
    }
    times
}

impl Pairs {
    fn per_second(&self) -> f64 {
        // Without the moments between the pairs.
        let busy: Duration = self.times.iter().sum();
        ratio(self.times.len() * self.threads, 1) / busy.as_secs_f64()
    }

    fn row(&self, label: &str) -> Row {
        let micros = |percent| format!("{:.1}", 1e6 * self.times.percentile(percent).as_secs_f64());
        let figures = [micros(50), micros(99), format!("{:.0}", self.per_second())];
        Row::new(label, figures)
    }
}
