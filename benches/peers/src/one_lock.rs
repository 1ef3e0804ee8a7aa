//! Many clients that hold one lock for a millisecond each, as threads of one process and as processes.

use std::time::Duration;

use crate::crowd::{self, Crowd};
use crate::report::{Report, short};
use crate::tasks;
use crate::who::{Rslock, SIDES, Who, crates};

const THREADS: usize = 8;
const PROCESSES: usize = 4;

/// What a process of the crowd is started with, and then its side, its span and the servers.
const CONTENDER: &str = "--contender";

pub(crate) fn all(report: &mut Report, urls: &[String]) {
    let crowds = SIDES.map(|who| (who, threads(who, urls, Duration::from_secs(20))));
    let mut rows = rows("8 threads", &crowds);
    let crowd = |who| (who, processes(who, urls, Duration::from_secs(30)));
    let crowds: Vec<_> = crates().map(crowd).collect();
    rows.extend(self::rows("4 processes", &crowds));
    let head = [
        "",
        "sections/s",
        "smallest share of the largest",
        "wait p50 [ms]",
        "wait p99 [ms]",
        "wait max [ms]",
        "gave up",
    ];
    report.table("one-lock", &head, &rows);
}

fn threads(who: Who, urls: &[String], span: Duration) -> Crowd {
    match who {
        Who::Rslock(workers) => tasks::crowd(&Rslock::new(urls, workers), THREADS, span),
        _ => crowd::threads(&*who.locker(urls), THREADS, span),
    }
}

fn processes(who: Who, urls: &[String], span: Duration) -> Crowd {
    let mut arguments = vec![
        CONTENDER.to_owned(),
        who.name().to_owned(),
        span.as_millis().to_string(),
    ];
    arguments.extend_from_slice(urls);
    crowd::processes(&arguments, PROCESSES, span)
}

/// Plays one of the crowd, if the command line says so.
pub(crate) fn is_contender() -> bool {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() != Some(CONTENDER) {
        return false;
    }
    let who = Who::named(&arguments.next().unwrap()).unwrap();
    let span = Duration::from_millis(arguments.next().unwrap().parse().unwrap());
    let urls: Vec<String> = arguments.collect();
    crowd::child(&*who.locker(&urls), span);
    true
}

fn rows(setting: &str, crowds: &[(Who, Crowd)]) -> Vec<Vec<String>> {
    let row = |(who, crowd): &(Who, Crowd)| {
        let name = format!("{setting}: {}", who.name());
        let mut row = vec![name, short(crowd.per_second())];
        let waits = crowd.waits();
        let [p50, p99, max] = [50, 99, 100].map(|percent| waits.percentile_ms(percent));
        row.extend([crowd.evenness(), p50, p99, max].map(short));
        row.push(crowd.gave_up().to_string());
        row
    };
    crowds.iter().map(row).collect()
}
