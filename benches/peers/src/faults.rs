//! One of five nodes is dead, or hangs: what callers get meanwhile.

use std::thread;
use std::time::Duration;

use redlatch_testing::{Server, eventually, now};

use crate::crowd::Locker;
use crate::effort::Effort;
use crate::figures::{short, times};
use crate::mode::Mode;
use crate::plot::Dot;
use crate::report::{Better, Report};
use crate::table::Samples;
use crate::who::{Who, Workers};

const SIDES: [Who; 5] = [
    Who::Redlatch(Mode::Sequential),
    Who::Redlatch(Mode::Overlapped),
    Who::Redlock,
    Who::Rslock(Workers::One),
    Who::Rslock(Workers::Two),
];

/// Who has not returned so long after the end is waiting for the node itself, which then goes on.
const PATIENCE: Duration = Duration::from_secs(3);

#[derive(Clone, Copy)]
enum Kind {
    Dead,
    Hung,
}

/// What was had while the node was not there.
#[derive(Default)]
struct Outcome {
    times: Samples,
    had: u32,
    /// The last of them ended only when the node was there again.
    is_stuck: bool,
}

/// On servers of its own, because it ends them.
pub(crate) fn one_of_five(report: &mut Report, _: &[Server], effort: Effort) {
    let (mut rows, mut dots) = (Vec::new(), Vec::new());
    for kind in [Kind::Dead, Kind::Hung] {
        let name = match kind {
            Kind::Dead => "1 of 5 dead",
            Kind::Hung => "1 of 5 hung",
        };
        dots.push(Dot::head(name));
        let mut figures = Vec::new();
        let outcomes = SIDES.map(|who| suffer(kind, who, effort.fault));
        let [_, _, redlock, one, two] = &outcomes;
        let rslock = if one.times.against(&two.times) <= 1.0 {
            one
        } else {
            two
        };
        for (who, outcome) in SIDES.into_iter().zip(&outcomes) {
            let [p50, p99, max] =
                [50, 99, 100].map(|n| 1e3 * outcome.times.percentile(n).as_secs_f64());
            let mut row = vec![format!("{name}: {}", who.name())];
            row.extend([p50, p99, max].map(short));
            row.push(format!("{} of {}", outcome.had, outcome.times.len()));
            row.extend([redlock, rslock].map(|other| outcome.against(other)));
            let remark = match (outcome.had, outcome.is_stuck) {
                (_, true) => "waits until the node is back",
                (0, _) => "never has the lock",
                _ => "",
            };
            row.push(remark.to_owned());
            rows.push(row);
            // The time of a failure is no time of a lock.
            if outcome.is_served() {
                dots.push(Dot::new(who, p50).up_to(max));
                figures.push((who, p50));
            } else {
                dots.push(Dot::without(who, "none"));
            }
        }
        let what = format!("acquire + release, {name}");
        report.compare(&what, "ms", Better::Less, &figures);
    }
    let head = [
        "acquire + release",
        "p50 [ms]",
        "p99 [ms]",
        "max [ms]",
        "had",
        "of redlock",
        "of rslock",
        "",
    ];
    report.table("faults", &head, &rows);
    report.plot(
        "faults",
        "acquire + release with a faulty node, p50 to max",
        "ms",
        &dots,
    );
}

impl Outcome {
    fn is_served(&self) -> bool {
        self.had > 0 && !self.is_stuck
    }

    /// Nothing, if either has no time of a lock.
    fn against(&self, other: &Self) -> String {
        if self.is_served() && other.is_served() {
            times(self.times.against(&other.times))
        } else {
            String::new()
        }
    }
}

fn suffer(kind: Kind, who: Who, span: Duration) -> Outcome {
    let mut servers = Server::cluster(5);
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let locker = who.locker(&urls);
    for _ in 0..20 {
        assert!(locker.hold("bench:well", &mut || {}), "all nodes are well");
    }
    let victim = &mut servers[2];
    match kind {
        Kind::Dead => victim.kill(),
        Kind::Hung => victim.stop(),
    }
    thread::scope(|scope| {
        let caller = scope.spawn(|| call(&*locker, span));
        let is_stuck = !eventually(span + PATIENCE, || caller.is_finished());
        if is_stuck {
            victim.resume();
        }
        let outcome = caller.join().unwrap();
        Outcome {
            is_stuck,
            ..outcome
        }
    })
}

fn call(locker: &dyn Locker, span: Duration) -> Outcome {
    let mut outcome = Outcome::default();
    let end = now() + span;
    for n in 0.. {
        // What a failed call leaves behind is not in the way of the next one.
        let resource = format!("bench:faults:{n}");
        let had = outcome.times.time(|| locker.hold(&resource, &mut || {}));
        outcome.had += u32::from(had);
        if now() >= end {
            break;
        }
    }
    outcome
}
