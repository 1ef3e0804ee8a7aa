//! Many locks at the same time: pairs per second of many threads, each with a lock of its own.

use redlatch_testing::Server;

use crate::curves::Curve;
use crate::effort::Effort;
use crate::figures::{short, times};
use crate::floor::Order;
use crate::link;
use crate::mode::Mode;
use crate::own_keys::measure;
use crate::pairs::Pairs;
use crate::plot::Dot;
use crate::report::{Aim, Better, Report};
use crate::who::{Peer, RAW_OVERLAPPED, Who, Workers};

const SIDES: [Who; 7] = [
    RAW_OVERLAPPED,
    Who::Raw(Order::ByDigest),
    Who::Redlatch(Mode::Sequential),
    Who::Redlatch(Mode::Overlapped),
    Who::Redlock,
    Who::Rslock(Workers::One),
    Who::Rslock(Workers::Two),
];

pub(crate) fn own_keys(report: &mut Report, servers: &[Server], effort: Effort) {
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let mut page = Page::new("µs", 1e6);
    for threads in [8, 64] {
        let pairs = measure(SIDES, &urls, threads, effort.own_keys);
        let setting = format!("{threads} threads");
        let [raw, rslock] = page.add(report, &setting, &pairs);
        let least = if threads == 8 { 1.35 } else { 3.0 };
        let ours = own(&pairs);
        let of = |who: &str| format!("{setting}, own locks, overlapped, of {who}");
        let rate = ours.per_second();
        let [of_raw, of_rslock] = [raw, rslock].map(|other| times(rate / other));
        report.say(format!(
            "{threads} threads with locks of their own: {rate:.0} pairs of acquire and release a second, \
             {of_raw} of raw TCP, {of_rslock} of `rslock`."
        ));
        report.target(&of("raw overlapped"), "x", rate / raw, Aim::AtLeast(least));
        report.target(&of("rslock"), "x", rate / rslock, Aim::AtLeast(1.0));
        if threads == 8 {
            let what = "8 threads, own locks, overlapped, processor time of the client per pair";
            report.target(what, "µs", ours.processor_each(), Aim::AtMost(65.0));
        }
    }
    page.finish(
        report,
        "own-keys",
        "pairs per second of threads with locks of their own",
    );
}

pub(crate) fn own_keys_over_a_link(report: &mut Report, servers: &[Server], effort: Effort) {
    let mut page = Page::new("ms", 1e3);
    let pairs = measure(SIDES, &link::urls(servers), 8, effort.own_keys_link);
    let [raw, _] = page.add(report, "8 threads, 1 ms away", &pairs);
    let what = "8 threads, own locks, overlapped, 1 ms away, of raw overlapped";
    let reached = own(&pairs).per_second() / raw;
    report.target(what, "x", reached, Aim::AtLeast(0.95));
    let reached = times(reached);
    report.say(format!(
        "8 threads through a link of 1 ms: {reached} of raw TCP."
    ));
    page.finish(
        report,
        "own-keys-link",
        "pairs per second of 8 threads through a 1 ms link",
    );
}

/// Ours, on the faster fan-out.
fn own(pairs: &[Pairs; SIDES.len()]) -> &Pairs {
    &pairs[3]
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

    /// Over the link the processor time is left out, because the link is in this process.
    fn has_processor_time(&self) -> bool {
        self.unit == "µs"
    }

    /// Returns the rates of raw overlapped and of rslock on its better runtime.
    fn add(
        &mut self,
        report: &mut Report,
        setting: &str,
        pairs: &[Pairs; SIDES.len()],
    ) -> [f64; 2] {
        self.dots.push(Dot::head(setting));
        let sides = || SIDES.into_iter().zip(pairs);
        let rate = |wanted: &dyn Fn(Who) -> bool| {
            let found = sides().filter(|(who, _)| wanted(*who));
            found
                .map(|(_, pairs)| pairs.per_second())
                .fold(0.0, f64::max)
        };
        let raw = rate(&|who| who == RAW_OVERLAPPED);
        let rslock = rate(&|who| who.peer() == Some(Peer::Rslock));
        let (mut rates, mut costs) = (Vec::new(), Vec::new());
        for (who, own) in sides() {
            let time = |percent| self.scale * own.times.percentile(percent).as_secs_f64();
            let per_second = own.per_second();
            let mut row = vec![format!("{setting}: {}", who.name())];
            row.extend([per_second, time(50), time(99)].map(short));
            if self.has_processor_time() {
                row.push(short(own.processor_each()));
            }
            row.push(own.gave_up.to_string());
            row.extend([raw, rslock].map(|other| times(per_second / other)));
            self.rows.push(row);
            self.dots.push(Dot::new(who, per_second));
            rates.push((who, per_second));
            costs.push((who, own.processor_each()));
        }
        let what = format!("own locks, {setting}: pairs");
        report.compare(&what, "/s", Better::More, &rates);
        if self.has_processor_time() {
            let what = format!("own locks, {setting}: processor time");
            report.compare(&what, "µs", Better::Less, &costs);
        }
        [raw, rslock]
    }

    fn finish(self, report: &mut Report, name: &'static str, title: &str) {
        let [p50, p99] = ["p50", "p99"].map(|figure| format!("{figure} [{}]", self.unit));
        let mut head = vec!["acquire + release", "pairs/s", &p50, &p99];
        if self.has_processor_time() {
            head.push("client processor time [µs/pair]");
        }
        head.extend(["gave up", "of raw", "of rslock"]);
        report.table(name, &head, &self.rows);
        report.plot(name, title, "pairs/s", &self.dots);
    }
}

/// From one thread to many, on the faster fan-out.
pub(crate) fn scaling(report: &mut Report, servers: &[Server], effort: Effort) {
    const SIDES: [Who; 4] = [
        RAW_OVERLAPPED,
        Who::Redlatch(Mode::Overlapped),
        Who::Rslock(Workers::One),
        Who::Rslock(Workers::Two),
    ];
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let mut rows = Vec::new();
    let mut curves = [
        Curve::new(SIDES[0], "raw, own connections"),
        Curve::new(SIDES[1], SIDES[1].name()),
        Curve::new(SIDES[2], "rslock 0.10, better runtime"),
    ];
    for threads in [1_u32, 2, 4, 8, 16, 64] {
        let number = usize::try_from(threads).unwrap();
        let pairs = measure(SIDES, &urls, number, effort.scaling);
        let rates = pairs.map(|pairs| pairs.per_second());
        let [raw, ours, one, two] = rates;
        let best = one.max(two);
        let mut row = vec![threads.to_string()];
        row.extend(rates.map(short));
        row.extend([ours / raw, ours / best].map(times));
        rows.push(row);
        for (curve, rate) in curves.iter_mut().zip([raw, ours, best]) {
            curve.push(f64::from(threads), rate);
        }
    }
    let mut head = vec!["threads"];
    head.extend(SIDES.map(Who::name));
    head.extend(["redlatch of raw", "redlatch of rslock"]);
    report.table("scaling", &head, &rows);
    let title = "pairs per second of threads with locks of their own";
    report.curves("scaling", title, ["threads", "pairs/s"], &curves);
}
