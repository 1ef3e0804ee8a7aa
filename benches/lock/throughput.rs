//! Locks without contention: the time for one and the throughput, beside the bytes of their commands.

use redlatch_testing::Server;

use crate::contended::Redlatch;
use crate::effort::{Effort, patient_builder};
use crate::floor::Order;
use crate::link;
use crate::mode::{Mode, configure};
use crate::pairs::{Crew, Pairs};
use crate::table::{Row, Table};

pub(crate) fn uncontended(table: &mut Table, servers: &[Server], effort: Effort) {
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let alone_and_eight = [1, 3, 5].map(|nodes| [(nodes, 1), (nodes, 8)]);
    for (nodes, threads) in alone_and_eight.into_iter().flatten().chain([(5, 64)]) {
        let (urls, over) = (&urls[..nodes], "");
        Setting {
            urls,
            threads,
            over,
        }
        .compare(table, effort);
    }
    let urls = link::urls(servers);
    for threads in [1, 8] {
        let over = " over 1 ms";
        Setting {
            urls: &urls,
            threads,
            over,
        }
        .compare(table, effort);
    }
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
    Redlatch(Redlatch),
}

impl Setting<'_> {
    fn compare(&self, table: &mut Table, effort: Effort) {
        let manager = |mode| {
            let builder = configure(patient_builder(self.urls), mode);
            Side::Redlatch(Redlatch(builder.build().unwrap()))
        };
        let sides = [
            Side::Raw(Order::Sequential),
            Side::Raw(Order::Overlapped),
            Side::Raw(Order::ByDigest),
            manager(Mode::Sequential),
            manager(Mode::Overlapped),
        ];
        let crew = Crew {
            threads: self.threads,
            span: effort.slice,
        };
        let mut pairs = <[Pairs; 5]>::default();
        for slice in 0..effort.slices {
            for n in 0..sides.len() {
                // Neither side is always the one that follows another.
                let n = (n + usize::try_from(slice).unwrap()) % sides.len();
                match &sides[n] {
                    Side::Raw(order) => pairs[n].add_raw(crew, self.urls, *order),
                    Side::Redlatch(manager) => pairs[n].add_shared(crew, manager),
                }
            }
        }
        let gave_up: usize = pairs.iter().map(|pairs| pairs.gave_up).sum();
        assert_eq!(gave_up, 0, "all nodes are well, and nobody else wants it");
        self.print(table, &pairs);
    }

    fn print(&self, table: &mut Table, pairs: &[Pairs; 5]) {
        let [sequential, overlapped, by_digest, ours, ours_overlapped] = pairs;
        let (nodes, threads) = (self.urls.len(), self.threads);
        let title = format!("nodes {nodes}, threads {threads}{}: pair [µs]", self.over);
        table.section(&title, ["p50", "p99", "locks/s"]);
        table.row(row("raw: sequential", sequential));
        table.row(row("raw: overlapped", overlapped));
        table.row(row("raw: overlapped, EVALSHA", by_digest));

        let compared = row("redlatch: sequential", ours);
        table.row(match (nodes, threads, self.over) {
            (5, 1, "") => compared.ratio_of(&ours.times, &sequential.times, 0.75),
            (_, 1, _) => compared.ratio(ours.times.against(&sequential.times)),
            _ => compared.ratio(ours.per_second() / sequential.per_second()),
        });

        let compared = row("redlatch: overlapped", ours_overlapped);
        let throughput = ours_overlapped.per_second() / overlapped.per_second();
        let at_least = |row: Row, target: f64| {
            row.ratio(throughput)
                .at_least(throughput, target, &format!("{target:.2}x"))
        };
        let times = &ours_overlapped.times;
        table.row(match (nodes, threads, self.over) {
            (5, 1, "") => compared.ratio(times.against(&overlapped.times)),
            (5, 1, _) => compared.ratio_of(times, &overlapped.times, 1.05),
            (5, 8, "") => at_least(compared, 1.35),
            (5, 8, _) => at_least(compared, 0.95),
            (5, 64, _) => at_least(compared, 3.0),
            (_, 1, _) => compared.ratio(times.against(&overlapped.times)),
            _ => compared.ratio(throughput),
        });
        if (nodes, threads, self.over) == (5, 1, "") {
            let beside = Row::new("redlatch: overlapped, beside EVALSHA", Default::default());
            table.row(beside.ratio_of(times, &by_digest.times, 1.08));
        }
        if (nodes, threads, self.over) == (5, 8, "") {
            processor_time(table, overlapped, ours_overlapped);
        }
    }
}

fn row(label: &str, pairs: &Pairs) -> Row {
    let micros = |percent| {
        let time = pairs.times.percentile(percent);
        format!("{:.1}", 1e6 * time.as_secs_f64())
    };
    let figures = [micros(50), micros(99), format!("{:.0}", pairs.per_second())];
    Row::new(label, figures)
}

/// What this process spends on a pair; the servers are others.
fn processor_time(table: &mut Table, raw: &Pairs, ours: &Pairs) {
    table.section(
        "nodes 5, threads 8: processor time of the client",
        ["", "", "µs/pair"],
    );
    let [by_hand, own] = [raw, ours].map(Pairs::processor_each);
    let row = |label: &str, each: f64| {
        Row::new(label, [String::new(), String::new(), format!("{each:.1}")])
    };
    table.row(row("raw: overlapped", by_hand));
    let compared = row("redlatch: overlapped", own).ratio(own / by_hand);
    table.row(compared.at_most(own, 65.0, "65 µs"));
}
