//! Thousands of locks of one thread, and what they take of the memory while they are held.
//!
//! Each time in a process of its own, so that nothing is left of those before.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use redlatch::{LockGuard, LockManager};
use redlatch_testing::{Server, now};

use crate::effort::{Effort, TTL};
use crate::figures::{short, times};
use crate::floor::{Floor, Order};
use crate::mode::{Mode, configure};
use crate::report::{Aim, Better, Report};
use crate::table::Samples;
use crate::who::{Rslock, Who, Workers};

/// What a process that holds locks is started with, and then its side, the number of locks and the servers.
const HOLDER: &str = "--holder";

/// The floor of the memory: a name and a token for each lock, and nothing taken.
const STRINGS: &str = "their names and tokens alone";

const SIDES: [Who; 4] = [
    Who::Raw(Order::Overlapped),
    Who::Redlatch(Mode::Overlapped),
    Who::Rslock(Workers::One),
    Who::Rslock(Workers::Two),
];

pub(crate) fn thousands(report: &mut Report, servers: &[Server], effort: Effort) {
    let (rounds, number) = effort.held;
    let mut seen = Seen::default();
    for round in 0..rounds {
        for n in 0..SIDES.len() {
            let n = (n + round) % SIDES.len();
            let holding = start(SIDES[n].name(), number, servers);
            seen.taken[n].push(holding.taken);
            seen.resident[n].extend(holding.each);
        }
        seen.strings.extend(start(STRINGS, number, servers).each);
    }
    let what = format!("{} locks of one thread", grouped(number));
    seen.print(report, &what);
    seen.judge(report, &what);
}

/// What all processes have seen.
#[derive(Default)]
struct Seen {
    taken: [Samples; SIDES.len()],
    resident: [Vec<f64>; SIDES.len()],
    strings: Vec<f64>,
}

impl Seen {
    fn seconds(&self, n: usize) -> f64 {
        self.taken[n].percentile(50).as_secs_f64()
    }

    fn print(&self, report: &mut Report, what: &str) {
        let bytes = |each: &[f64]| median(each).map(short).unwrap_or_default();
        let best = self.seconds(2).min(self.seconds(3));
        let row = |(n, who): (usize, Who)| {
            let seconds = self.seconds(n);
            let mut row = vec![who.name().to_owned(), short(seconds)];
            row.extend([self.seconds(0), best].map(|other| times(seconds / other)));
            // The floor keeps nothing.
            let is_floor = matches!(who, Who::Raw(_));
            row.push(if is_floor {
                String::new()
            } else {
                bytes(&self.resident[n])
            });
            row
        };
        let mut rows: Vec<_> = SIDES.into_iter().enumerate().map(row).collect();
        let mut floor = vec![STRINGS.to_owned()];
        floor.extend([(); 3].map(|()| String::new()));
        floor.push(bytes(&self.strings));
        rows.push(floor);
        let head = [
            what,
            "taken [s]",
            "of raw",
            "of rslock",
            "memory of each [B]",
        ];
        report.table("held", &head, &rows);
    }

    fn judge(&self, report: &mut Report, what: &str) {
        let [taking, memory] = ["taken", "memory of each"].map(|of| format!("{what}: {of}"));
        let times: Vec<_> = (0..SIDES.len())
            .map(|n| (SIDES[n], self.seconds(n)))
            .collect();
        report.compare(&taking, "s", Better::Less, &times);
        report.target(&taking, "s", self.seconds(1), Aim::AtMost(1.15));
        let each = SIDES.into_iter().zip(&self.resident);
        let each: Vec<_> = each
            .filter_map(|(who, each)| Some((who, median(each)?)))
            .collect();
        report.compare(&memory, "B", Better::Less, &each);
        if let Some(each) = median(&self.resident[1]) {
            report.target(&memory, "B", each, Aim::AtMost(400.0));
            let (seconds, each) = (short(self.seconds(1)), short(each));
            report.say(format!(
                "{what}: taken in {seconds} s, and {each} bytes of memory for each."
            ));
        }
    }
}

/// What a process has seen.
struct Holding {
    taken: Duration,
    /// The bytes of memory that each lock takes, where the system tells them.
    each: Option<f64>,
}

fn start(side: &str, number: usize, servers: &[Server]) -> Holding {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([HOLDER, side, &number.to_string()])
        .args(servers.iter().map(Server::url))
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success(), "{side} failed: {}", output.status);
    for server in servers {
        server.command(&["FLUSHALL"]);
    }
    let text = String::from_utf8(output.stdout).unwrap();
    let (nanos, each) = text.trim_end().split_once(' ').unwrap();
    Holding {
        taken: Duration::from_nanos(nanos.parse().unwrap()),
        each: each.parse().ok(),
    }
}

/// Plays the process that holds locks, if the command line says so.
pub(crate) fn is_holder() -> bool {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() != Some(HOLDER) {
        return false;
    }
    let side = arguments.next().unwrap();
    let names = names(arguments.next().unwrap().parse().unwrap());
    let urls: Vec<String> = arguments.collect();
    hold(&side, names, &urls)
}

/// Takes them all and ends the process.
fn hold(side: &str, names: Vec<String>, urls: &[String]) -> ! {
    match SIDES.into_iter().find(|who| who.name() == side) {
        None => hold_strings(&names),
        Some(Who::Raw(order)) => hold_raw(&names, urls, order),
        Some(Who::Redlatch(mode)) => {
            let builder = configure(LockManager::builder().nodes(urls), mode);
            hold_guards(&names, &builder.build().unwrap())
        }
        Some(Who::Rslock(workers)) => hold_rslock(names, &Rslock::new(urls, workers)),
        Some(Who::Redlock) => unreachable!("it is no side here"),
    }
}

fn names(number: usize) -> Vec<String> {
    (0..number).map(|n| format!("bench:held:{n:05}")).collect()
}

fn hold_strings(names: &[String]) -> ! {
    let mut held: Vec<(Box<str>, Box<str>)> = Vec::with_capacity(names.len());
    let start = Start::now();
    let strings = |(n, name): (usize, &String)| (name.as_str().into(), format!("{n:040x}").into());
    held.extend(names.iter().enumerate().map(strings));
    start.end(&held)
}

fn hold_raw(names: &[String], urls: &[String], order: Order) -> ! {
    let mut floor = Floor::connect(urls, order);
    let packed: Vec<_> = names.iter().map(|name| floor.pack(name, 0)).collect();
    let start = Start::now();
    for packed in &packed {
        floor.acquire(packed);
    }
    start.end(&packed)
}

fn hold_guards(names: &[String], manager: &LockManager) -> ! {
    // The first one connects.
    manager.lock("bench:warm", TTL).unwrap().unlock().unwrap();
    let mut held: Vec<LockGuard> = Vec::with_capacity(names.len());
    let start = Start::now();
    held.extend(names.iter().map(|name| manager.lock(name, TTL).unwrap()));
    start.end(&held)
}

fn hold_rslock(names: Vec<String>, rslock: &Rslock) -> ! {
    let manager = rslock.manager.clone();
    let task = rslock.runtime.spawn(async move {
        let lock = manager.lock("bench:warm", TTL).await.unwrap();
        lock.release().await;
        let mut held = Vec::with_capacity(names.len());
        let start = Start::now();
        for name in &names {
            held.push(manager.lock(name.as_str(), TTL).await.unwrap());
        }
        start.end(&held)
    });
    rslock.runtime.block_on(task).unwrap()
}

/// The time and the memory before the first lock.
struct Start(std::time::Instant, Option<u64>);

impl Start {
    fn now() -> Self {
        let resident = resident();
        Self(now(), resident)
    }

    /// Prints what was seen and ends the process. Nothing is given back, because what was held would be freed first.
    fn end<T>(self, held: &[T]) -> ! {
        let taken = self.0.elapsed();
        let bytes = self
            .1
            .zip(resident())
            .map(|(before, after)| after.saturating_sub(before));
        let each = bytes
            .map(|bytes| u32::try_from(bytes).map_or(f64::MAX, f64::from) / number(held.len()));
        let each = each.map_or("unknown".to_owned(), |each| each.to_string());
        println!("{} {each}", taken.as_nanos());
        std::io::stdout().flush().unwrap();
        std::process::exit(0)
    }
}

/// The bytes of this process that are in memory and of no file, where the system tells them.
fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Anonymous:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

fn number(n: usize) -> f64 {
    f64::from(u32::try_from(n).unwrap())
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

/// With a comma for the thousands.
fn grouped(n: usize) -> String {
    format!("{},{:03}", n / 1000, n % 1000)
}
