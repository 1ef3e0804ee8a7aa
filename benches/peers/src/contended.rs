//! Many clients that hold one lock for a millisecond each, as threads of one process and as processes.

use std::path::PathBuf;
use std::time::Duration;

use redlatch_testing::Server;

use crate::crowd::{self, Crowd};
use crate::effort::Effort;
use crate::figures::{short, times};
use crate::mode::Mode;
use crate::plot::Dot;
use crate::report::{Aim, Better, Report};
use crate::tasks;
use crate::who::{Peer, RAW_OVERLAPPED, Rslock, Who, Workers};

const THREADS: usize = 8;
const PROCESSES: usize = 4;

/// What a process of the crowd is started with, and then its side, its span, the witness and the servers.
const CONTENDER: &str = "--contender";

pub(crate) fn threads(report: &mut Report, servers: &[Server], effort: Effort) {
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let sides = [
        RAW_OVERLAPPED,
        Who::Redlatch(Mode::Sequential),
        Who::Redlatch(Mode::Overlapped),
        Who::Redlock,
        Who::Rslock(Workers::One),
        Who::Rslock(Workers::Two),
    ];
    let crowds = sides.map(|who| {
        let (span, witness) = (effort.threads, witness(servers));
        let crowd = match who {
            Who::Rslock(workers) => {
                tasks::crowd(&Rslock::new(&urls, workers), THREADS, span, &witness)
            }
            _ => crowd::threads(&*who.locker(&urls), THREADS, span, &witness),
        };
        (who, crowd)
    });
    print(report, ["threads", "threads-waits"], "8 threads", &crowds);

    judge_threads(report, &crowds);
}

fn judge_threads(report: &mut Report, crowds: &[(Who, Crowd)]) {
    let (_, ours) = &crowds[2];
    let mut aim = |what: &str, unit, reached, aim| {
        let what = format!("one lock, 8 threads, overlapped: {what}");
        report.target(&what, unit, reached, aim);
    };
    let rate = ours.per_second();
    aim("sections", "/s", rate, Aim::AtLeast(720.0));
    let best = best_rate(crowds, |who| who.peer().is_some()).unwrap();
    let what = "sections, of the best peer";
    aim(what, "x", rate / best, Aim::Above(1.0));
    let (what, share) = ("smallest share of the largest", ours.evenness());
    aim(what, "", share, Aim::AtLeast(0.9));
    let p99 = 1e3 * ours.waits().percentile(99).as_secs_f64();
    aim("p99 wait", "ms", p99, Aim::AtMost(25.0));
    let (of_best, p99) = (times(rate / best), short(p99));
    report.say(format!(
        "8 threads, one lock, overlapped: {rate:.0} sections of 1 ms a second, {of_best} of the best peer; \
         99 % of the waits are below {p99} ms."
    ));
}

pub(crate) fn processes(report: &mut Report, servers: &[Server], effort: Effort) {
    let sides = [
        Who::Redlatch(Mode::Sequential),
        Who::Redlatch(Mode::Overlapped),
        Who::Redlock,
        Who::Rslock(Workers::One),
        Who::Rslock(Workers::Two),
    ];
    let crowds = sides.map(|who| {
        let arguments = arguments(servers, who, effort.processes);
        (who, crowd::processes(&arguments, effort.processes))
    });
    print(
        report,
        ["processes", "processes-waits"],
        "4 processes",
        &crowds,
    );

    let rslock = best_rate(&crowds, |who| who.peer() == Some(Peer::Rslock)).unwrap();
    for (who, ours) in crowds.iter().filter(|(who, _)| who.is_redlatch()) {
        let name = who.name();
        let what = |what: &str| format!("one lock, 4 processes, {name}: {what}");
        let rate = ours.per_second();
        let sections = what("sections, of rslock");
        report.target(&sections, "x", rate / rslock, Aim::Above(1.0));
        let largest = 1.0 / ours.evenness();
        let shares = what("largest share of the smallest");
        report.target(&shares, "x", largest, Aim::AtMost(1.2));
        if *who == Who::Redlatch(Mode::Overlapped) {
            let of_rslock = times(rate / rslock);
            report.say(format!(
                "4 processes, one lock, overlapped: {rate:.0} sections a second, {of_rslock} of `rslock`."
            ));
        }
    }
}

/// Plays one of the crowd, if the command line says so.
pub(crate) fn is_contender() -> bool {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() != Some(CONTENDER) {
        return false;
    }
    let who = Who::named(&arguments.next().unwrap()).unwrap();
    let span = Duration::from_millis(arguments.next().unwrap().parse().unwrap());
    let witness = PathBuf::from(arguments.next().unwrap());
    let urls: Vec<String> = arguments.collect();
    crowd::child(&*who.locker(&urls), span, &witness);
    true
}

fn arguments(servers: &[Server], who: Who, span: Duration) -> Vec<Vec<String>> {
    let mut arguments = vec![
        CONTENDER.to_owned(),
        who.name().to_owned(),
        span.as_millis().to_string(),
        witness(servers).display().to_string(),
    ];
    arguments.extend(servers.iter().map(Server::url));
    vec![arguments; PROCESSES]
}

/// The folder of a server goes when the server does.
fn witness(servers: &[Server]) -> PathBuf {
    servers[0].dir().join("witness")
}

fn best_rate(crowds: &[(Who, Crowd)], wanted: impl Fn(Who) -> bool) -> Option<f64> {
    let found = crowds.iter().filter(|(who, _)| wanted(*who));
    let rates = found.map(|(_, crowd)| crowd.per_second());
    rates.reduce(f64::max)
}

fn print(report: &mut Report, names: [&'static str; 2], crowd: &str, crowds: &[(Who, Crowd)]) {
    let floor = best_rate(crowds, |who| who == RAW_OVERLAPPED);
    let redlock = best_rate(crowds, |who| who.peer() == Some(Peer::Redlock));
    let rslock = best_rate(crowds, |who| who.peer() == Some(Peer::Rslock));

    let (mut rows, mut rates, mut waits) = (Vec::new(), Vec::new(), Vec::new());
    let (mut by_rate, mut by_wait, mut by_share) = (Vec::new(), Vec::new(), Vec::new());
    for (who, crowd) in crowds {
        let per_second = crowd.per_second();
        let samples = crowd.waits();
        let [p50, p99, max] = [50, 99, 100].map(|n| 1e3 * samples.percentile(n).as_secs_f64());
        let mut row = vec![who.name().to_owned(), short(per_second)];
        row.extend([crowd.evenness(), p50, p99, max].map(short));
        row.push(crowd.gave_up().to_string());
        for other in [floor, redlock, rslock] {
            row.push(
                other
                    .map(|other| times(per_second / other))
                    .unwrap_or_default(),
            );
        }
        rows.push(row);
        rates.push(Dot::new(*who, per_second));
        waits.push(Dot::new(*who, p50).up_to(p99));
        by_rate.push((*who, per_second));
        by_wait.push((*who, p99));
        by_share.push((*who, crowd.evenness()));
    }
    let [name, plot_of_waits] = names;
    let head = [
        "",
        "sections/s",
        "smallest share of the largest",
        "wait p50 [ms]",
        "wait p99 [ms]",
        "wait max [ms]",
        "gave up",
        "of raw",
        "of redlock",
        "of rslock",
    ];
    report.table(name, &head, &rows);
    report.plot(
        name,
        &format!("{crowd}, one lock, 1 ms sections"),
        "sections/s",
        &rates,
    );
    let title = format!("{crowd}, one lock: wait, p50 to p99");
    report.plot(plot_of_waits, &title, "ms", &waits);
    let what = |figure: &str| format!("{crowd}, one lock: {figure}");
    report.compare(&what("sections"), "/s", Better::More, &by_rate);
    report.compare(&what("p99 wait"), "ms", Better::Less, &by_wait);
    report.compare(
        &what("smallest share of the largest"),
        "",
        Better::More,
        &by_share,
    );
}
