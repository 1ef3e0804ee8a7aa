//! Who wants a read-write lock while others have it all the time: a writer among readers, and a reader among writers.

use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redlatch::{LockGuard, LockManager};
use redlatch_testing::{Server, now, pause};

use crate::contended::give_back;
use crate::crowd;
use crate::effort::{Effort, TTL};
use crate::table::{Row, Samples, Table};

/// How long those of the stream have the lock, in the middle. The single sections differ by up to a quarter, or else all would
/// begin and end at the same time, and leave gaps.
const SECTION: Duration = Duration::from_millis(20);

/// How long the one that is measured stays away, and how long it has the lock.
const AWAY: Duration = Duration::from_millis(100);
const SHORT: Duration = Duration::from_millis(1);

/// How many sections 99 % of the waits may take at most.
const MOST: f64 = 3.0;

const RESOURCE: &str = "bench:stream";

/// What a process of the stream is started with, and then its side, the number of its threads and the servers.
const OF_STREAM: &str = "--of-stream";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Readers,
    Writers,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Self::Readers => "readers",
            Self::Writers => "writers",
        }
    }

    fn named(name: &str) -> Option<Self> {
        [Self::Readers, Self::Writers]
            .into_iter()
            .find(|side| side.name() == name)
    }

    fn other(self) -> Self {
        match self {
            Self::Readers => Self::Writers,
            Self::Writers => Self::Readers,
        }
    }

    /// Takes the lock, however long that takes.
    fn take(self, manager: &LockManager) -> LockGuard {
        let lock = manager.rw_lock(RESOURCE).ttl(TTL);
        match self {
            Self::Readers => lock.try_read_for(Duration::MAX).unwrap(),
            Self::Writers => lock.try_write_for(Duration::MAX).unwrap(),
        }
    }
}

pub(crate) fn all(table: &mut Table, servers: &[Server], effort: Effort) {
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    for side in [Side::Readers, Side::Writers] {
        for (processes, threads) in [(1, 8), (8, 1)] {
            let stream = Stream {
                side,
                processes,
                threads,
            };
            stream.measure(table, &urls, effort.contended_processes);
        }
    }
}

/// Those who have the lock all the time.
struct Stream {
    side: Side,
    processes: usize,
    threads: usize,
}

impl Stream {
    fn measure(&self, table: &mut Table, urls: &[String], span: Duration) {
        let mut arguments = vec![
            OF_STREAM.to_owned(),
            self.side.name().to_owned(),
            self.threads.to_string(),
        ];
        arguments.extend(urls.iter().cloned());
        let children: Vec<Child> = (0..self.processes)
            .map(|_| crowd::spawn(&arguments))
            .collect();
        let mut outputs = Vec::new();
        let mut children: Vec<Child> = children
            .into_iter()
            .map(|mut child| {
                outputs.push(BufReader::new(child.stdout.take().unwrap()));
                child
            })
            .collect();
        let mut ready = String::new();
        for output in &mut outputs {
            output.read_line(&mut ready).unwrap();
        }
        let one = alone_among(self.side.other(), urls, span);
        for child in &mut children {
            // The end of its input tells it to stop.
            drop(child.stdin.take());
        }
        let mut stream = Samples::default();
        for line in outputs.into_iter().flat_map(BufRead::lines) {
            stream.push(Duration::from_nanos(line.unwrap().parse().unwrap()));
        }
        for child in &mut children {
            let status = child.wait().unwrap();
            assert!(status.success(), "one of a stream failed: {status}");
        }
        self.print(table, &one, &stream, span);
    }

    fn print(&self, table: &mut Table, one: &Samples, stream: &Samples, span: Duration) {
        let (side, other) = (self.side.name(), self.side.other().name());
        let (processes, threads) = (self.processes, self.threads);
        let title = format!("{processes} x {threads} {side} without pause: waits in sections");
        table.section(&title, ["p50", "p99", "max"]);
        let waits = |who: String, waits: &Samples| {
            let figure = |percent| format!("{:.2}", in_sections(waits.percentile(percent)));
            Row::new(who, [50, 99, 100].map(figure))
        };
        let p99 = in_sections(one.percentile(99));
        let row = waits(format!("one of the {other}, {} times", one.len()), one);
        table.row(row.at_most(p99, MOST, &format!("{MOST} p99")));
        table.row(waits(format!("the {side}"), stream));
        let rate = crowd::ratio(stream.len(), 1) / span.as_secs_f64();
        let figures = [String::new(), String::new(), format!("{rate:.0}")];
        table.row(Row::new(format!("the {side}: sections/s"), figures));
    }
}

fn in_sections(wait: Duration) -> f64 {
    wait.as_secs_f64() / SECTION.as_secs_f64()
}

/// The waits of one that comes again and again.
fn alone_among(side: Side, urls: &[String], span: Duration) -> Samples {
    let manager = LockManager::new(urls).unwrap();
    let mut waits = Samples::default();
    let end = now() + span;
    while now() < end {
        pause(AWAY);
        let guard = waits.time(|| side.take(&manager));
        pause(SHORT);
        give_back(guard);
    }
    waits
}

/// Plays a process of the stream, if the command line says so.
pub(crate) fn is_of_stream() -> bool {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() != Some(OF_STREAM) {
        return false;
    }
    let side = Side::named(&arguments.next().unwrap()).unwrap();
    let threads: usize = arguments.next().unwrap().parse().unwrap();
    let manager = LockManager::new(arguments).unwrap();
    let is_over = AtomicBool::new(false);
    let waits = std::thread::scope(|scope| {
        let work = || go_on(side, &manager, &is_over);
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        println!("ready");
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        is_over.store(true, Ordering::Relaxed);
        let waits = threads.into_iter().map(|thread| thread.join().unwrap());
        waits.collect::<Vec<Samples>>()
    });
    let mut output = BufWriter::new(std::io::stdout());
    for wait in waits.iter().flat_map(Samples::iter) {
        writeln!(output, "{}", wait.as_nanos()).unwrap();
    }
    output.flush().unwrap();
    true
}

fn go_on(side: Side, manager: &LockManager, is_over: &AtomicBool) -> Samples {
    let mut waits = Samples::default();
    while !is_over.load(Ordering::Relaxed) {
        let guard = waits.time(|| side.take(manager));
        pause(SECTION.mul_f64(0.75 + 0.5 * fastrand::f64()));
        give_back(guard);
    }
    waits
}
