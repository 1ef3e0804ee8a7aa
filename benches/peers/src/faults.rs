//! One of five nodes is dead, or hangs: what callers get meanwhile, and when the node votes again.

use std::thread;
use std::time::Duration;

use redlatch_testing::{Server, eventually, now};

use crate::locker::Locker;
use crate::report::{Report, short, times};
use crate::samples::Samples;
use crate::who::{Who, crates};

/// Who has not returned so long after the end is waiting for the node itself, which then goes on.
const PATIENCE: Duration = Duration::from_secs(3);

/// How often the node is faulty, and for how long.
const FAULTS: u32 = 5;
const FAULT: Duration = Duration::from_secs(2);

/// The node whose fault it is.
const VICTIM: usize = 2;

#[derive(Clone, Copy)]
enum Kind {
    Dead,
    Hung,
}

/// What was had while the node was not there, and how soon it had a key after that.
#[derive(Default)]
struct Outcome {
    times: Samples,
    had: u32,
    /// The last call ended only when the node was there again.
    is_stuck: bool,
    back: Samples,
}

/// On servers of its own, because it ends them.
pub(crate) fn one_of_five(report: &mut Report, _: &[String]) {
    let mut rows = Vec::new();
    for (kind, name) in [(Kind::Dead, "1 of 5 dead"), (Kind::Hung, "1 of 5 hung")] {
        let outcomes: Vec<_> = crates().map(|who| suffer(kind, who)).collect();
        let rslock = faster(&outcomes[3].times, &outcomes[4].times);
        for (who, outcome) in crates().zip(&outcomes) {
            rows.push(outcome.row(&format!("{name}: {}", who.name()), rslock));
        }
    }
    let head = [
        "acquire + release",
        "p50 [ms]",
        "p99 [ms]",
        "max [ms]",
        "had",
        "of rslock",
        "votes again, p50 [ms]",
    ];
    report.table("faults", &head, &rows);
}

impl Outcome {
    fn call(&mut self, locker: &dyn Locker, span: Duration) {
        let end = now() + span;
        for n in 0.. {
            // What a failed call leaves behind is not in the way of the next one.
            let resource = format!("bench:faults:{n}");
            let had = self.times.time(|| locker.hold(&resource, &mut || {}));
            self.had += u32::from(had);
            if now() >= end {
                break;
            }
        }
    }

    fn row(&self, name: &str, rslock: &Samples) -> Vec<String> {
        let mut row = vec![name.to_owned()];
        row.extend([50, 99, 100].map(|percent| short(self.times.percentile_ms(percent))));
        row.push(format!("{} of {}", self.had, self.times.len()));
        // The time of a failure is no time of a lock.
        row.push(match (self.had, self.is_stuck) {
            (_, true) => "waits for the node".to_owned(),
            (0, _) => "never has the lock".to_owned(),
            _ => times(self.times.against(rslock)),
        });
        row.push(short(self.back.percentile_ms(50)));
        row
    }
}

fn suffer(kind: Kind, who: Who) -> Outcome {
    let mut servers = Server::cluster(5);
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let locker = who.locker(&urls);
    let mut outcome = Outcome::default();
    for n in 0..FAULTS {
        let is_well = eventually(PATIENCE, || has_vote_of(&servers[VICTIM], &*locker));
        assert!(is_well, "all nodes vote before the fault");
        let victim = &mut servers[VICTIM];
        match kind {
            Kind::Dead => victim.kill(),
            Kind::Hung => victim.stop(),
        }
        // Longer each time, so that the node is back at various moments between two looks at it.
        let span = FAULT + Duration::from_millis(61) * n;
        outcome.is_stuck |= thread::scope(|scope| {
            let caller = scope.spawn(|| outcome.call(&*locker, span));
            let is_stuck = !eventually(span + PATIENCE, || caller.is_finished());
            if is_stuck {
                victim.resume();
            }
            caller.join().unwrap();
            is_stuck
        });
        match kind {
            Kind::Dead => victim.restart(),
            Kind::Hung => victim.resume(),
        }
        let is_back = || has_vote_of(victim, &*locker);
        let is_back = outcome.back.time(|| eventually(10 * PATIENCE, is_back));
        assert!(is_back, "the node votes after the fault");
    }
    outcome
}

fn has_vote_of(server: &Server, locker: &dyn Locker) -> bool {
    let mut votes = false;
    locker.hold("bench:well", &mut || {
        votes = server.pttl("bench:well") > 0;
    });
    votes
}

/// The one with the smaller median.
fn faster<'a>(one: &'a Samples, other: &'a Samples) -> &'a Samples {
    if one.against(other) <= 1.0 {
        one
    } else {
        other
    }
}
