//! Acquire and release of a lock that nobody else wants, by one thread.

use redlatch::Fanout;
use redlatch_testing::Server;

use crate::effort::Effort;
use crate::link;
use crate::own_keys::measure;
use crate::report::{Aim, Report, short};
use crate::samples::Samples;
use crate::who::{RAW, Who, Workers};

const SETTINGS: [&str; 4] = ["1 node", "3 nodes", "5 nodes", "5 nodes, 1 ms away"];

const SIDES: [Who; 7] = [
    Who::Raw(Fanout::Sequential),
    RAW,
    Who::Redlatch(Fanout::Sequential),
    Who::Redlatch(Fanout::Overlapped),
    Who::Redlock,
    Who::Rslock(Workers::One),
    Who::Rslock(Workers::Two),
];

pub(crate) fn all(report: &mut Report, servers: &[Server], effort: Effort) {
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let far = link::urls(servers);
    let mut rows = SIDES.map(|who| vec![who.name().to_owned()]);
    let nodes = [&urls[..1], &urls[..3], &urls[..], &far[..]];
    for (setting, urls) in SETTINGS.into_iter().zip(nodes) {
        let samples = measure(SIDES, urls, 1, effort.alone).map(|pairs| pairs.times);
        for (row, own) in rows.iter_mut().zip(&samples) {
            let [p50, p99] = [50, 99].map(|percent| short(micros(own, percent)));
            row.push(format!("{p50} / {p99}"));
        }
        aim(report, setting, &samples);
    }
    let mut head = vec!["p50 / p99 [µs]"];
    head.extend(SETTINGS);
    report.table("alone", &head, &rows);
}

/// On five nodes.
fn aim(report: &mut Report, setting: &str, samples: &[Samples; SIDES.len()]) {
    let [sequential, raw, ours, overlapped, _, one, two] = samples;
    let mut aim = |what: &str, reached, most| {
        let what = format!("1 thread, {setting}, {what}");
        report.target(&what, "x", reached, Aim::AtMost(most));
    };
    match setting {
        "5 nodes" => {
            aim("sequential, of raw", ours.against(sequential), 0.82);
            aim("overlapped, of raw", overlapped.against(raw), 1.08);
            let of_rslock = overlapped.against(faster(one, two));
            aim("overlapped, of rslock", of_rslock, 1.0);
        }
        "5 nodes, 1 ms away" => aim("overlapped, of raw", overlapped.against(raw), 1.05),
        _ => {}
    }
}

fn micros(samples: &Samples, percent: usize) -> f64 {
    1e6 * samples.percentile(percent).as_secs_f64()
}

/// The one with the smaller median.
pub(crate) fn faster<'a>(one: &'a Samples, other: &'a Samples) -> &'a Samples {
    if one.against(other) <= 1.0 {
        one
    } else {
        other
    }
}
