//! Read locks: what the readers of one lock get together, beside clients that have locks of their own, and what one reader pays
//! where there are many.

use std::io::{BufRead, BufReader, Write};
use std::process::Child;
use std::time::Duration;

use redlatch::{LockGuard, LockManager};
use redlatch_testing::Server;

use crate::contended::{give_back, told};
use crate::crowd::{self, Locker, ratio};
use crate::effort::{Effort, TTL, patient_builder};
use crate::link;
use crate::mode::{Mode, configure};
use crate::pairs::{Crew, Pairs, WARM_UP};
use crate::streams;
use crate::table::{Row, Samples, Table};

const THREADS: usize = 64;
const PROCESSES: usize = 8;

/// What the readers of one lock have to reach of the pairs of as many clients with locks of their own.
const LEAST: f64 = 0.9;

/// What a process of readers is started with, and then its mode, the length of a turn and the servers.
const READER: &str = "--reader";

/// How many readers hold the lock that one more takes, and what it may then cost of what it costs beside few.
const FEW: usize = 10;
const MANY: usize = 10_000;
const MANY_OF_FEW: f64 = 1.25;

pub(crate) fn all(table: &mut Table, servers: &[Server], effort: Effort) {
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let far = link::urls(servers);
    for (urls, threads, mode, over) in [
        (&urls, THREADS, Mode::Sequential, ""),
        (&urls, THREADS, Mode::Overlapped, ""),
        (&far, THREADS / PROCESSES, Mode::Overlapped, " over 1 ms"),
    ] {
        let setting = Setting {
            servers,
            urls,
            threads,
            mode,
            over,
        };
        setting.compare(table, effort);
    }
    for mode in [Mode::Sequential, Mode::Overlapped] {
        processes(table, &urls, mode, effort);
    }
    one_of_many(table, &urls, effort);
    streams::all(table, servers, effort);
}

/// What each of many clients has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The lock that all of them read.
    Shared,
    /// A lock of its own, to read. What it gets tells the cost of a read lock from that of company.
    OwnRead,
    /// A lock of its own.
    Own,
}

const WAYS: [Way; 3] = [Way::Shared, Way::OwnRead, Way::Own];

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Shared => "one lock, read",
            Self::OwnRead => "locks of their own, read",
            Self::Own => "locks of their own",
        }
    }
}

/// A manager whose threads have locks in one way.
struct Client<'a> {
    manager: &'a LockManager,
    way: Way,
}

impl Locker for Client<'_> {
    fn hold(&self, resource: &str, section: &mut dyn FnMut()) -> bool {
        // All names have the same length.
        let own = |kind: char| format!("{resource}:{kind}:{:010}", std::process::id());
        let name = match self.way {
            Way::Shared => "bench:read:one:0000000000".to_owned(),
            Way::OwnRead => own('r'),
            Way::Own => own('o'),
        };
        let guard = match self.way {
            Way::Shared | Way::OwnRead => self.manager.rw_lock(&name).ttl(TTL).read(),
            Way::Own => self.manager.lock(&name, TTL),
        };
        let Ok(guard) = guard else {
            return false;
        };
        section();
        give_back(guard);
        true
    }
}

/// Threads of one process.
struct Setting<'a> {
    servers: &'a [Server],
    urls: &'a [String],
    threads: usize,
    mode: Mode,
    /// What is between the program and the servers.
    over: &'static str,
}

impl Setting<'_> {
    fn compare(&self, table: &mut Table, effort: Effort) {
        let builder = configure(patient_builder(self.urls), self.mode);
        let manager = builder.build().unwrap();
        let crew = Crew {
            threads: self.threads,
            span: effort.slice,
        };
        let mut pairs = <[Pairs; 3]>::default();
        let mut used = [0.0; 3];
        take_turns(effort, |n| {
            let (manager, way) = (&manager, WAYS[n]);
            let before = self.processor_time_of_servers();
            pairs[n].add_shared(crew, &Client { manager, way });
            used[n] += self.processor_time_of_servers() - before;
        });
        let (threads, mode, over) = (self.threads, self.mode.name(), self.over);
        let title = format!("{threads} threads{over}, {mode}: a pair");
        table.section(&title, ["client", "servers", "pairs/s"]);
        let [.., own] = &pairs;
        for ((way, pairs), used) in WAYS.into_iter().zip(&pairs).zip(used) {
            assert_eq!(pairs.gave_up, 0, "nobody has one of them alone");
            // The first pairs of a turn are not among those that are timed.
            let turns = usize::try_from(effort.slices).unwrap();
            let all = pairs.times.len() + turns * threads * WARM_UP;
            let figures = [
                format!("{:.1} µs", pairs.processor_each()),
                format!("{:.1} µs", 1e6 * used / ratio(all, 1)),
                format!("{:.0}", pairs.per_second()),
            ];
            let row = Row::new(way.name(), figures);
            table.row(beside(row, way, pairs.per_second(), own.per_second()));
        }
    }

    fn processor_time_of_servers(&self) -> f64 {
        let used = ["used_cpu_user", "used_cpu_sys"];
        used.iter()
            .map(|used| told(self.servers, "cpu", used))
            .sum()
    }
}

/// Each side has its turn as often, and none is always the one that follows another.
fn take_turns(effort: Effort, mut turn: impl FnMut(usize)) {
    for slice in 0..usize::try_from(effort.slices).unwrap() {
        for n in 0..WAYS.len() {
            // There and back.
            let n = n.abs_diff((slice % 2) * (WAYS.len() - 1));
            turn((n + slice) % WAYS.len());
        }
    }
}

fn beside(row: Row, way: Way, rate: f64, own: f64) -> Row {
    let ratio = rate / own;
    match way {
        Way::Shared => row
            .ratio(ratio)
            .at_least(ratio, LEAST, &format!("{LEAST:.2}x")),
        Way::OwnRead => row.ratio(ratio),
        Way::Own => row,
    }
}

fn processes(table: &mut Table, urls: &[String], mode: Mode, effort: Effort) {
    let millis = effort.slice.as_millis().to_string();
    let mut arguments = vec![READER.to_owned(), mode.name().to_owned(), millis];
    arguments.extend(urls.iter().cloned());
    let mut crew: Vec<Member> = (0..PROCESSES).map(|_| Member::start(&arguments)).collect();
    let mut rates = [0.0; 3];
    take_turns(effort, |n| {
        for member in &mut crew {
            member.begin(n);
        }
        let turn: f64 = crew.iter_mut().map(Member::rate).sum();
        rates[n] += turn / f64::from(effort.slices);
    });
    crew.into_iter().for_each(Member::end);

    let threads = THREADS / PROCESSES;
    let title = format!(
        "{PROCESSES} processes of {threads} threads, {}",
        mode.name()
    );
    table.section(&title, ["", "", "pairs/s"]);
    let [.., own] = rates;
    for (way, rate) in WAYS.into_iter().zip(rates) {
        let figures = [String::new(), String::new(), format!("{rate:.0}")];
        table.row(beside(Row::new(way.name(), figures), way, rate, own));
    }
}

/// A process of readers, as the one that started it sees it.
struct Member {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Member {
    fn start(arguments: &[String]) -> Self {
        let mut child = crowd::spawn(arguments);
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    /// Begins the turn of a side.
    fn begin(&mut self, side: usize) {
        let input = self.child.stdin.as_mut().unwrap();
        writeln!(input, "{side}").unwrap();
    }

    /// The pairs a second that it got in its turn.
    fn rate(&mut self) -> f64 {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        // It has printed nothing if it failed.
        line.trim().parse().unwrap()
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        let status = self.child.wait().unwrap();
        assert!(status.success(), "a process of readers failed: {status}");
    }
}

/// Plays a process of readers, if the command line says so.
pub(crate) fn is_reader() -> bool {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() != Some(READER) {
        return false;
    }
    let mode = Mode::named(&arguments.next().unwrap()).unwrap();
    let crew = Crew {
        threads: THREADS / PROCESSES,
        span: Duration::from_millis(arguments.next().unwrap().parse().unwrap()),
    };
    let manager = configure(patient_builder(arguments), mode).build().unwrap();
    for line in std::io::stdin().lines() {
        let side: usize = line.unwrap().parse().unwrap();
        let (manager, way) = (&manager, WAYS[side]);
        let mut pairs = Pairs::default();
        pairs.add_shared(crew, &Client { manager, way });
        assert_eq!(pairs.gave_up, 0, "nobody has one of them alone");
        println!("{}", pairs.per_second());
    }
    true
}

/// What a reader pays beside many, and beside few.
fn one_of_many(table: &mut Table, urls: &[String], effort: Effort) {
    let builder = configure(patient_builder(urls), Mode::Overlapped);
    let manager = builder.build().unwrap();
    let read = |name: &str| {
        let request = manager.rw_lock(name).ttl(10 * TTL);
        request.try_read().unwrap()
    };
    let sides = [("bench:few", FEW), ("bench:many", MANY)];
    let company = sides.map(|(name, readers)| -> Vec<LockGuard> {
        let others = (0..readers).map(|_| read(name));
        others.collect()
    });
    let [mut acquires, mut pairs] = <[[Samples; 2]; 2]>::default();
    for pair in 0..effort.pairs {
        let first = usize::from(pair % 2 == 0);
        for n in [first, 1 - first] {
            let (name, _) = sides[n];
            pairs[n].time(|| {
                let guard = acquires[n].time(|| read(name));
                give_back(guard);
            });
        }
    }
    drop(company);
    table.section("one reader more, overlapped [µs]", ["p50", "p90", "p99"]);
    for (what, times) in [("acquire", &acquires), ("acquire + release", &pairs)] {
        let [few, many] = times;
        table.row(Row::new(format!("beside {FEW}: {what}"), few.micros()));
        let row = Row::new(format!("beside {MANY}: {what}"), many.micros());
        table.row(row.ratio_of(many, few, MANY_OF_FEW));
    }
}
