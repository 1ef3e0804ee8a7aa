//! Many clients that want one lock: how often it changes hands, which clients get it, and the load on the servers.

use std::path::{Path, PathBuf};
use std::time::Duration;

use redlatch::{Error, LockGuard, LockManager};
use redlatch_testing::Server;

use crate::crowd::{self, Crowd, Locker};
use crate::effort::{Effort, TTL};
use crate::floor::{Floor, Order, Queue};
use crate::mode::{Mode, configure};
use crate::table::{Row, Table};

const THREADS: usize = 8;
const PROCESSES: usize = 4;

/// What a process of the crowd is started with, and then its mode, its span, the witness and the servers.
const CONTENDER: &str = "--contender";

pub(crate) fn all(table: &mut Table, servers: &[Server], effort: Effort) {
    threads(table, servers, effort);
    processes(table, servers, effort);
}

fn threads(table: &mut Table, servers: &[Server], effort: Effort) {
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let witness = witness(servers);
    let crowd_of =
        |locker: &dyn Locker| crowd::threads(locker, THREADS, effort.contended_threads, &witness);

    section(table, "8 threads of one process");
    let floor = Floor::connect(&urls, Order::Overlapped);
    let floor = crowd_of(&Queue::new(floor, "bench:floor"));
    table.row(waits("floor", &floor));
    table.row(rate("floor", &floor));
    for (mode, least) in [(Mode::Sequential, 600.0), (Mode::Overlapped, 720.0)] {
        let name = mode.name();
        let crowd = crowd_of(&Redlatch::new(&urls, mode));
        let p99 = crowd.waits().percentile(99).as_secs_f64();
        table.row(waits(name, &crowd).at_most(p99, 25e-3, "25 ms p99"));
        let row = rate(name, &crowd).ratio(crowd.per_second() / floor.per_second());
        table.row(row.at_least(crowd.per_second(), least, &format!("{least}/s")));
        table.row(evenness(name, &crowd, 0.9));
        table.row(gave_up(name, &crowd));
    }
}

fn processes(table: &mut Table, servers: &[Server], effort: Effort) {
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let span = effort.contended_processes;
    section(table, "4 processes");
    for mode in [Mode::Sequential, Mode::Overlapped] {
        let name = mode.name();
        let alone = commands_alone(servers, &urls, mode, effort);
        let before = commands(servers);
        let crowd = crowd::processes(&arguments(servers, mode, span), span);
        let sections = f64::from(u32::try_from(crowd.sections()).unwrap());
        let each = (commands(servers) - before) / sections;

        let p99 = crowd.waits().percentile(99).as_secs_f64();
        table.row(waits(name, &crowd).at_most(p99, 50e-3, "50 ms p99"));
        table.row(rate(name, &crowd).at_least(crowd.per_second(), 300.0, "300/s"));
        table.row(evenness(name, &crowd, 0.83));
        table.row(gave_up(name, &crowd));
        let label = format!("{name}: commands, alone and contended");
        let figures = [String::new(), format!("{alone:.1}"), format!("{each:.1}")];
        let ratio = each / alone;
        table.row(
            Row::new(label, figures)
                .ratio(ratio)
                .at_most(ratio, 3.0, "3.00x"),
        );
    }
}

/// Plays one of the crowd, if the command line says so.
pub(crate) fn is_contender() -> bool {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() != Some(CONTENDER) {
        return false;
    }
    let mode = Mode::named(&arguments.next().unwrap()).unwrap();
    let span = Duration::from_millis(arguments.next().unwrap().parse().unwrap());
    let witness = PathBuf::from(arguments.next().unwrap());
    let urls: Vec<String> = arguments.collect();
    crowd::child(&Redlatch::new(&urls, mode), span, &witness);
    true
}

fn arguments(servers: &[Server], mode: Mode, span: Duration) -> Vec<Vec<String>> {
    let mut arguments = vec![
        CONTENDER.to_owned(),
        mode.name().to_owned(),
        span.as_millis().to_string(),
        witness(servers).display().to_string(),
    ];
    arguments.extend(servers.iter().map(Server::url));
    vec![arguments; PROCESSES]
}

/// The folder of a server goes when the server does.
fn witness(servers: &[Server]) -> PathBuf {
    Path::join(servers[0].dir(), "witness")
}

/// A manager with which threads take locks.
pub(crate) struct Redlatch(pub(crate) LockManager);

impl Redlatch {
    /// With the defaults of the builder, as a program has it.
    fn new(urls: &[String], mode: Mode) -> Self {
        let builder = configure(LockManager::builder().nodes(urls), mode);
        Self(builder.build().unwrap())
    }
}

impl Locker for Redlatch {
    fn hold(&self, resource: &str, section: &mut dyn FnMut()) -> bool {
        let Ok(guard) = self.0.lock(resource, TTL) else {
            return false;
        };
        section();
        give_back(guard);
        true
    }
}

/// Where a stall of this machine keeps nodes from answering in time, the next one waits longer, and that is measured.
pub(crate) fn give_back(guard: LockGuard) {
    let unlocked = guard.unlock();
    let was_there = matches!(unlocked, Ok(()) | Err(Error::Unavailable { .. }));
    assert!(was_there, "lost within a section: {unlocked:?}");
}

/// The commands that all servers together have executed, those of scripts among them.
fn commands(servers: &[Server]) -> f64 {
    told(servers, "stats", "total_commands_processed")
}

/// A figure of a section of `INFO`, of all servers together.
pub(crate) fn told(servers: &[Server], section: &str, figure: &str) -> f64 {
    let of = |server: &Server| {
        let info = server.info(section);
        let mut lines = info.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = lines.find(|(name, _)| *name == figure).unwrap();
        value.parse::<f64>().unwrap()
    };
    servers.iter().map(of).sum()
}

/// The commands of a section that nobody else wants.
fn commands_alone(servers: &[Server], urls: &[String], mode: Mode, effort: Effort) -> f64 {
    let locker = Redlatch::new(urls, mode);
    let before = commands(servers);
    for _ in 0..effort.counted {
        assert!(locker.hold("bench:alone", &mut || {}), "nobody has it");
    }
    (commands(servers) - before) / f64::from(effort.counted)
}

fn section(table: &mut Table, who: &str) {
    let millis = crowd::SECTION.as_millis();
    let title = format!("{who}, one lock, {millis} ms sections");
    table.section(&title, ["p50", "p99", "max"]);
}

fn waits(name: &str, crowd: &Crowd) -> Row {
    let waits = crowd.waits();
    let millis = |percent| format!("{:.2}", 1e3 * waits.percentile(percent).as_secs_f64());
    Row::new(format!("{name}: wait [ms]"), [50, 99, 100].map(millis))
}

fn one(label: String, figure: String) -> Row {
    Row::new(label, [String::new(), String::new(), figure])
}

fn rate(name: &str, crowd: &Crowd) -> Row {
    let figure = format!("{:.0}", crowd.per_second());
    one(format!("{name}: sections/s"), figure)
}

fn evenness(name: &str, crowd: &Crowd, least: f64) -> Row {
    let evenness = crowd.evenness();
    let label = format!("{name}: smallest share of the largest");
    one(label, format!("{evenness:.2}")).at_least(evenness, least, &format!("{least}"))
}

fn gave_up(name: &str, crowd: &Crowd) -> Row {
    let gave_up = crowd.gave_up();
    let row = one(format!("{name}: gave up"), gave_up.to_string());
    row.at_most(crowd::ratio(gave_up, 1), 0.0, "0")
}
