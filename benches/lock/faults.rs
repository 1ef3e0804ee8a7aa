//! One or two of five nodes are faulty: the cost for a caller, and how soon a recovered node votes again.

use std::time::Duration;

use redlatch::{LockManager, NodeReport, Vote};
use redlatch_testing::{BlackHole, Server, eventually, now};

use crate::effort::{Effort, TTL};
use crate::table::{Row, Samples, Table};

/// The builder's default, which the managers here are on.
const NODE_TIMEOUT: Duration = Duration::from_millis(50);
/// How soon a node should vote again.
const RECOVERY_TARGET: Duration = Duration::from_millis(300);

pub(crate) fn latency(table: &mut Table, servers: &[Server], effort: Effort) {
    let mut victims = Server::cluster(2);
    let mut outcomes = Vec::new();
    for kind in [Kind::Dead, Kind::Hung, Kind::BlackHoled] {
        for faulty in [1, 2] {
            outcomes.push(suffer(kind, servers, &mut victims[..faulty], effort));
        }
    }

    table.section("faults: acquire + release [µs]", ["p50", "p90", "p99"]);
    for Outcome { label, pairs, .. } in &outcomes {
        let [with, without] = pairs;
        let healthy = format!("all 5 well, beside {label}{}", without.remark());
        table.row(Row::new(healthy, without.times.micros()));
        let noticed = format!("{label}, once noticed{}", with.remark());
        let row = Row::new(noticed, with.times.micros());
        table.row(row.ratio_of(&with.times, &without.times, 1.20));
    }

    let title = "faults: first call, by node_timeout [ms]";
    table.section(title, ["min", "p50", "max"]);
    for outcome in &outcomes {
        let row = Row::new(&outcome.label, outcome.noticing.millis());
        let due = NODE_TIMEOUT.as_secs_f64() * f64::from(outcome.faulty);
        table.row(row.ratio(outcome.noticing.percentile(50).as_secs_f64() / due));
    }

    table.section("faults: recovery to vote [ms]", ["min", "p50", "max"]);
    for outcome in &outcomes {
        let row = Row::new(&outcome.label, outcome.recovery.millis());
        let slowest = outcome.recovery.percentile(100).as_secs_f64();
        table.row(row.at_most(slowest, RECOVERY_TARGET.as_secs_f64(), "300 ms"));
    }
}

/// No recovery takes that long, unless it fails.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone, Copy)]
enum Kind {
    /// The process is gone: its port refuses.
    Dead,
    /// The process is stopped: the kernel still connects for it, and nothing answers.
    Hung,
    /// Packets to it are lost: not even connecting ends.
    BlackHoled,
}

struct Outcome {
    label: String,
    faulty: u32,
    /// With the fault, and without it.
    pairs: [Pairs; 2],
    noticing: Samples,
    recovery: Samples,
}

/// Many times acquire and release.
#[derive(Default)]
struct Pairs {
    times: Samples,
    /// Without the lock the time of a pair means nothing, so it is told how often that was so.
    failed: u32,
}

impl Pairs {
    fn time(&mut self, manager: &LockManager) {
        let votes = self.times.time(|| pair(manager));
        self.failed += u32::from(votes == 0);
    }

    fn remark(&self) -> String {
        match self.failed {
            0 => String::new(),
            failed => format!(" ({failed} failed)"),
        }
    }
}

/// Makes and repairs the fault some times; the `victims` take the place of as many of the `servers`.
fn suffer(kind: Kind, servers: &[Server], victims: &mut [Server], effort: Effort) -> Outcome {
    let faulty = victims.len();
    let mut outcome = Outcome {
        label: format!("{faulty} of 5 {}", kind.name()),
        faulty: u32::try_from(faulty).unwrap(),
        pairs: Default::default(),
        noticing: Samples::default(),
        recovery: Samples::default(),
    };
    let healthy = LockManager::new(servers.iter().map(Server::url)).unwrap();
    let nodes = servers.iter().skip(faulty).chain(victims.iter());
    let afflicted = LockManager::new(nodes.map(Server::url)).unwrap();

    for n in 0..effort.faults {
        for manager in [&healthy, &afflicted] {
            for _ in 0..50 {
                pair(manager);
            }
            let well = eventually(PATIENCE, || pair(manager) == 5);
            assert!(well, "all nodes vote before the fault");
        }
        let holes = kind.make(victims);
        let votes = outcome.noticing.time(|| pair(&afflicted));
        assert!(votes <= 5 - faulty, "faulty nodes do not vote");

        // Some more time each round, so that the recoveries fall on various moments between two probes.
        let span = effort.fault_span + Duration::from_millis(61) * n;
        alternate(&mut outcome.pairs, &afflicted, &healthy, span);

        kind.repair(victims, holes);
        let back = outcome
            .recovery
            .time(|| eventually(PATIENCE, || pair(&afflicted) == 5));
        assert!(back, "all nodes vote after the fault");
    }
    outcome
}

fn alternate(
    [with, without]: &mut [Pairs; 2],
    afflicted: &LockManager,
    healthy: &LockManager,
    span: Duration,
) {
    let end = now() + span;
    while now() < end {
        with.time(afflicted);
        without.time(healthy);
        // Neither side is always the one that follows the other.
        without.time(healthy);
        with.time(afflicted);
    }
}

/// Acquires and releases; returns the number of nodes that granted the lock, or 0 when too few did.
fn pair(manager: &LockManager) -> usize {
    let Ok(guard) = manager.try_lock("bench:faults", TTL) else {
        return 0;
    };
    let granted = |report: &&NodeReport| matches!(report.vote, Vote::Granted);
    let votes = guard.votes().iter().filter(granted).count();
    // A node that is just failing does not keep the others from being counted.
    guard.unlock().ok();
    votes
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Dead => "dead",
            Self::Hung => "hung",
            Self::BlackHoled => "black-holed",
        }
    }

    /// What is returned keeps the fault up.
    fn make(self, victims: &mut [Server]) -> Vec<BlackHole> {
        match self {
            Self::Dead => victims.iter_mut().for_each(Server::kill),
            Self::Hung => victims.iter().for_each(Server::stop),
            Self::BlackHoled => {
                victims.iter_mut().for_each(Server::kill);
                return victims
                    .iter()
                    .map(|v| BlackHole::open_on(v.port()))
                    .collect();
            }
        }
        Vec::new()
    }

    /// Returns when the servers answer, or are about to.
    fn repair(self, victims: &mut [Server], holes: Vec<BlackHole>) {
        drop(holes);
        match self {
            Self::Dead | Self::BlackHoled => victims.iter_mut().for_each(Server::restart),
            Self::Hung => victims.iter().for_each(Server::resume),
        }
    }
}
