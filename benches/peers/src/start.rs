//! From nothing to the first lock: make a manager, connect to five servers, acquire and release.

use redlatch_testing::Server;

use crate::effort::Effort;
use crate::figures::{faster, short, times};
use crate::floor::Order;
use crate::mode::Mode;
use crate::plot::Dot;
use crate::report::{Aim, Better, Report};
use crate::table::Samples;
use crate::who::{Who, Workers, make_runtimes};

const SIDES: [Who; 6] = [
    Who::Raw(Order::Sequential),
    Who::Redlatch(Mode::Sequential),
    Who::Redlatch(Mode::Overlapped),
    Who::Redlock,
    Who::Rslock(Workers::One),
    Who::Rslock(Workers::Two),
];

pub(crate) fn first_lock(report: &mut Report, servers: &[Server], effort: Effort) {
    make_runtimes();
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let mut makes = <[Samples; SIDES.len()]>::default();
    let mut totals = <[Samples; SIDES.len()]>::default();
    for n in 0..effort.starts {
        for side in 0..SIDES.len() {
            let side = (side + usize::try_from(n).unwrap()) % SIDES.len();
            // Only the beginning is timed, not the end of what was made.
            let locker = totals[side].time(|| {
                let locker = makes[side].time(|| SIDES[side].locker(&urls));
                assert!(locker.hold("bench:start", &mut || {}), "it is free");
                locker
            });
            drop(locker);
        }
    }

    let (mut rows, mut dots, mut figures) = (Vec::new(), Vec::new(), Vec::new());
    let [floor, .., redlock, one, two] = &totals;
    let rslock = faster(one, two);
    for (n, who) in SIDES.into_iter().enumerate() {
        let micros = |samples: &Samples, percent| 1e6 * samples.percentile(percent).as_secs_f64();
        let total = micros(&totals[n], 50);
        let mut row = vec![
            who.name().to_owned(),
            short(micros(&makes[n], 50)),
            short(total),
        ];
        row.push(short(micros(&totals[n], 99)));
        row.extend([floor, redlock, rslock].map(|other| times(totals[n].against(other))));
        rows.push(row);
        dots.push(Dot::new(who, total).up_to(micros(&totals[n], 99)));
        figures.push((who, total));
    }
    let head = [
        "5 servers",
        "made, p50 [µs]",
        "first pair done, p50 [µs]",
        "p99 [µs]",
        "of raw",
        "of redlock",
        "of rslock",
    ];
    report.table("start", &head, &rows);
    report.plot(
        "start",
        "from nothing to the first pair, p50 to p99",
        "µs",
        &dots,
    );
    report.compare("start-up", "µs", Better::Less, &figures);
    let what = "from nothing to the first lock, one node after the other";
    let reached = 1e3 * totals[1].percentile(50).as_secs_f64();
    report.target(what, "ms", reached, Aim::AtMost(1.1));
    let reached = short(reached);
    report.say(format!(
        "From nothing to the first lock: {reached} ms one node after the other."
    ));
}
