//! Locks that nobody else wants: what one thread waits for; what threads or tasks get together, and what that costs the client.

use std::time::Duration;

use redlatch::Fanout;

use crate::link;
use crate::pairs::{Crew, Pairs, Side, take_turns};
use crate::report::{Report, printed, short, times};
use crate::tasks;
use crate::who::{Rslock, SIDES, Who};

const THREADS: [usize; 6] = [1, 2, 4, 8, 16, 64];
const THREADS_AWAY: usize = 8;

/// How often the sides take turns, and for how long: one thread, and many.
type Effort = (usize, Duration);
const ALONE: Effort = (50, Duration::from_millis(40));
const TOGETHER: Effort = (10, Duration::from_millis(500));

/// Acquire and release by one thread.
pub(crate) fn alone(report: &mut Report, urls: &[String]) {
    let [raw, one, overlapped, redlock, task, tasks] = SIDES;
    let sequential = Who::Raw(Fanout::Sequential);
    let sides = [sequential, raw, one, overlapped, redlock, task, tasks];
    let mut rows = sides.map(|who| vec![who.name().to_owned()]);
    for urls in [&urls[..1], &urls[..3], urls, &link::urls(urls)[..]] {
        let pairs = measure(sides, urls, 1, ALONE);
        for (row, own) in rows.iter_mut().zip(&pairs) {
            let [p50, p99] = [50, 99].map(|percent| short(1e3 * own.times.percentile_ms(percent)));
            row.push(format!("{p50} / {p99}"));
        }
    }
    let head = [
        "p50 / p99 [µs]",
        "1 node",
        "3 nodes",
        "5 nodes",
        "5 nodes, 1 ms away",
    ];
    report.table("alone", &head, &rows);
}

pub(crate) fn all(report: &mut Report, urls: &[String]) {
    let (mut rates, mut costs) = (Vec::new(), Vec::new());
    for threads in THREADS {
        let pairs = measure(SIDES, urls, threads, TOGETHER);
        let name = if threads == 1 { "thread" } else { "threads" };
        let name = format!("{threads} {name}");
        rates.push(row_of_rates(&name, &pairs));
        costs.push(row(&name, pairs.each_ref().map(Pairs::processor_each)));
    }
    // Without the processor time, because the link is in this process.
    let pairs = measure(SIDES, &link::urls(urls), THREADS_AWAY, TOGETHER);
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
    (turns, span): Effort,
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
