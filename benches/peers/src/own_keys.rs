//! Threads or tasks that have locks of their own at the same time: what they get together, and what that costs the client.

use std::time::Duration;

use crate::effort::Effort;
use crate::link;
use crate::pairs::{Crew, Pairs, Side, take_turns};
use crate::report::{Report, printed, short, times};
use crate::tasks;
use crate::who::{Rslock, SIDES, Who};

const THREADS: [usize; 6] = [1, 2, 4, 8, 16, 64];
const THREADS_AWAY: usize = 8;

pub(crate) fn all(report: &mut Report, urls: &[String], effort: Effort) {
    let (mut rates, mut costs) = (Vec::new(), Vec::new());
    for threads in THREADS {
        let pairs = measure(SIDES, urls, threads, effort.own_keys);
        let name = if threads == 1 { "thread" } else { "threads" };
        let name = format!("{threads} {name}");
        rates.push(row_of_rates(&name, &pairs));
        costs.push(row(&name, pairs.each_ref().map(Pairs::processor_each)));
    }
    // Without the processor time, because the link is in this process.
    let pairs = measure(SIDES, &link::urls(urls), THREADS_AWAY, effort.own_keys);
    let name = format!("{THREADS_AWAY} threads, 1 ms away");
    rates.push(row_of_rates(&name, &pairs));

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
        Who::Raw(fanout) => crew.raw_side(urls, fanout),
        Who::Redlatch(_) | Who::Redlock => crew.side(vec![who.locker(urls)]),
        Who::Rslock(workers) => tasks::side(Rslock::new(urls, workers), crew),
    }
}

fn row_of_rates(name: &str, pairs: &[Pairs; SIDES.len()]) -> Vec<String> {
    let rates = pairs.each_ref().map(Pairs::per_second);
    let [raw, _, ours, _, one, two] = rates;
    let mut row = row(name, rates);
    row.extend([raw, one.max(two)].map(|other| times(ours / other)));
    row
}

fn row(name: &str, figures: [f64; SIDES.len()]) -> Vec<String> {
    let mut row = vec![name.to_owned()];
    row.extend(figures.map(short));
    row
}
