//! Threads or tasks that have locks of their own at the same time: what they get together, and what that costs the client.

use std::time::Duration;

use redlatch_testing::Server;

use crate::effort::Effort;
use crate::link;
use crate::locker::Locker;
use crate::pairs::{Crew, Pairs, Side, own_key, take_turns};
use crate::raw::Raw;
use crate::report::{Aim, Report, printed, short, times};
use crate::tasks;
use crate::who::{Rslock, SIDES, Who};

struct Setting {
    name: &'static str,
    threads: usize,
    /// What redlatch, overlapped, is to reach at least: of raw TCP, and of `rslock`.
    least: [Option<f64>; 2],
}

const SETTINGS: [Setting; 6] = [
    Setting::new("1 thread", 1, [None, None]),
    Setting::new("2 threads", 2, [Some(0.9), None]),
    Setting::new("4 threads", 4, [Some(1.05), None]),
    Setting::new("8 threads", 8, [Some(1.45), Some(1.0)]),
    Setting::new("16 threads", 16, [None, None]),
    Setting::new("64 threads", 64, [Some(3.6), Some(1.1)]),
];

const AWAY: Setting = Setting::new("8 threads, 1 ms away", 8, [Some(0.95), None]);

pub(crate) fn all(report: &mut Report, servers: &[Server], effort: Effort) {
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let (mut rates, mut costs) = (Vec::new(), Vec::new());
    for setting in &SETTINGS {
        let pairs = measure(SIDES, &urls, setting.threads, effort.own_keys);
        rates.push(setting.judge(report, &pairs));
        costs.push(setting.row(pairs.each_ref().map(Pairs::processor_each)));
    }
    // Without the processor time, because the link is in this process.
    let pairs = measure(SIDES, &link::urls(servers), AWAY.threads, effort.own_keys);
    rates.push(AWAY.judge(report, &pairs));

    let mut head = vec![""];
    head.extend(SIDES.map(Who::name));
    printed("processor-time", &head, &costs);
    head.extend(["of raw", "of rslock"]);
    report.table("own-keys", &head, &rates);
}

/// Each thread has a lock of its own.
pub(crate) fn measure<const SIDES: usize>(
    sides: [Who; SIDES],
    urls: &[String],
    threads: usize,
    (turns, span): (usize, Duration),
) -> [Pairs; SIDES] {
    let crew = Crew { threads, span };
    take_turns(&sides.map(|who| side(who, urls, crew)), turns)
}

fn side(who: Who, urls: &[String], crew: Crew) -> Side {
    match who {
        // Each thread has its own connections.
        Who::Raw(fanout) => {
            let raw = |n| -> Box<dyn Locker> { Box::new(Raw::connect(urls, fanout, &own_key(n))) };
            crew.side((0..crew.threads).map(raw).collect())
        }
        Who::Redlatch(_) | Who::Redlock => crew.side(vec![who.locker(urls)]),
        Who::Rslock(workers) => tasks::side(Rslock::new(urls, workers), crew),
    }
}

impl Setting {
    const fn new(name: &'static str, threads: usize, least: [Option<f64>; 2]) -> Self {
        Self {
            name,
            threads,
            least,
        }
    }

    /// Returns the row of the rates.
    fn judge(&self, report: &mut Report, pairs: &[Pairs; SIDES.len()]) -> Vec<String> {
        let rates = pairs.each_ref().map(Pairs::per_second);
        let mut row = self.row(rates);
        let [raw, _, ours, _, one, two] = rates;
        let others = [("raw", raw), ("rslock", one.max(two))];
        for ((who, other), least) in others.into_iter().zip(self.least) {
            row.push(times(ours / other));
            if let Some(least) = least {
                let what = format!("{}, own locks, overlapped, of {who}", self.name);
                report.target(&what, "x", ours / other, Aim::AtLeast(least));
            }
        }
        row
    }

    fn row(&self, figures: [f64; SIDES.len()]) -> Vec<String> {
        let mut row = vec![self.name.to_owned()];
        row.extend(figures.map(short));
        row
    }
}
