//! Acquire and release of a lock without contention, by one thread.

use redlatch_testing::Server;

use crate::crowd::Locker;
use crate::effort::Effort;
use crate::figures::{faster, short, times};
use crate::floor::Order;
use crate::link;
use crate::mode::Mode;
use crate::plot::Dot;
use crate::report::{Aim, Better, Report};
use crate::table::Samples;
use crate::who::{RAW_OVERLAPPED, Who, Workers};

const SIDES: [Who; 8] = [
    Who::Raw(Order::Sequential),
    RAW_OVERLAPPED,
    Who::Raw(Order::ByDigest),
    Who::Redlatch(Mode::Sequential),
    Who::Redlatch(Mode::Overlapped),
    Who::Redlock,
    Who::Rslock(Workers::One),
    Who::Rslock(Workers::Two),
];

pub(crate) fn uncontended(report: &mut Report, servers: &[Server], effort: Effort) {
    let mut page = Page::new("µs", 1e6);
    for nodes in [1, 3, 5] {
        let urls: Vec<String> = servers[..nodes].iter().map(Server::url).collect();
        let samples = measure(&urls, effort.pairs);
        page.add(report, &format!("N = {nodes}"), &samples);
        if nodes == 5 {
            aim(report, &samples);
        }
    }
    page.finish(report, "uncontended", "acquire + release, p50 to p99");
}

pub(crate) fn over_a_link(report: &mut Report, servers: &[Server], effort: Effort) {
    let mut page = Page::new("ms", 1e3);
    let samples = measure(&link::urls(servers), effort.link_pairs);
    page.add(report, "N = 5, 1 ms away", &samples);
    page.finish(
        report,
        "link",
        "acquire + release through a 1 ms link, p50 to p99",
    );
}

/// On five nodes.
fn aim(report: &mut Report, samples: &[Samples; SIDES.len()]) {
    let [raw, _, by_digest, ours, overlapped, _, one, two] = samples;
    let mut aim = |what: &str, reached, aim| {
        let what = format!("1 thread, {what}");
        report.target(&what, "x", reached, aim);
    };
    let in_turn = ours.against(raw);
    let what = "one node after the other, of raw sequential";
    aim(what, in_turn, Aim::AtMost(0.75));
    let beside = overlapped.against(by_digest);
    let what = "overlapped, of raw overlapped with EVALSHA";
    aim(what, beside, Aim::AtMost(1.08));
    let of_rslock = overlapped.against(faster(one, two));
    aim("overlapped, of rslock", of_rslock, Aim::Below(1.0));
    let slower = ours.against(faster(one, two));
    let [in_turn, slower, beside, of_rslock] = [in_turn, slower, beside, of_rslock].map(times);
    report.say(format!(
        "One thread alone, one node after the other: {in_turn} of the time of raw TCP, which [sends the script as \
         text and releases in turn](#method), and {slower} of `rslock`."
    ));
    report.say(format!(
        "One thread alone, overlapped: {beside} of the time of raw TCP with `EVALSHA`, and {of_rslock} of `rslock`."
    ));
}

fn measure(urls: &[String], pairs: u32) -> [Samples; SIDES.len()] {
    let lockers = SIDES.map(|who| who.locker(urls));
    let pair = |locker: &dyn Locker| assert!(locker.hold("bench:pair", &mut || {}), "it is free");
    let mut samples = <[Samples; SIDES.len()]>::default();
    for n in 0..pairs + pairs / 10 {
        if n == pairs / 10 {
            // The first pairs connect and let the allocators of the servers settle.
            samples = Default::default();
        }
        for side in 0..SIDES.len() {
            // No side is always the one that follows another.
            let side = (side + usize::try_from(n).unwrap()) % SIDES.len();
            samples[side].time(|| pair(&*lockers[side]));
        }
    }
    samples
}

/// A table and a plot.
struct Page {
    unit: &'static str,
    scale: f64,
    rows: Vec<Vec<String>>,
    dots: Vec<Dot>,
}

impl Page {
    fn new(unit: &'static str, scale: f64) -> Self {
        Self {
            unit,
            scale,
            rows: Vec::new(),
            dots: Vec::new(),
        }
    }

    fn add(&mut self, report: &mut Report, setting: &str, samples: &[Samples; SIDES.len()]) {
        self.dots.push(Dot::head(setting));
        let scaled =
            |samples: &Samples, percent| self.scale * samples.percentile(percent).as_secs_f64();
        let mut figures = Vec::new();
        for (who, own) in SIDES.into_iter().zip(samples) {
            let [p50, p99] = [50, 99].map(|percent| scaled(own, percent));
            figures.push((who, p50));
            self.dots.push(Dot::new(who, p50).up_to(p99));
            let mut row = vec![format!("{setting}: {}", who.name()), short(p50), short(p99)];
            let [sequential, overlapped, by_digest, .., redlock, one, two] = samples;
            for other in [sequential, overlapped, by_digest, redlock, faster(one, two)] {
                row.push(times(own.against(other)));
            }
            self.rows.push(row);
        }
        let what = format!("acquire + release, {setting}");
        report.compare(&what, self.unit, Better::Less, &figures);
    }

    fn finish(self, report: &mut Report, name: &'static str, title: &str) {
        let unit = self.unit;
        let head = [
            "acquire + release",
            &format!("p50 [{unit}]"),
            &format!("p99 [{unit}]"),
            "of raw sequential",
            "of raw overlapped",
            "of raw EVALSHA",
            "of redlock",
            "of rslock",
        ];
        report.table(name, &head, &self.rows);
        report.plot(name, title, unit, &self.dots);
    }
}
