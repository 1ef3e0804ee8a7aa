//! Acquire and release of a lock that nobody else wants, by one thread.

use redlatch::Fanout;

use crate::effort::Effort;
use crate::link;
use crate::own_keys::measure;
use crate::report::{Report, short};
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

pub(crate) fn all(report: &mut Report, urls: &[String], effort: Effort) {
    let far = link::urls(urls);
    let mut rows = SIDES.map(|who| vec![who.name().to_owned()]);
    let nodes = [&urls[..1], &urls[..3], urls, &far[..]];
    for urls in nodes {
        let samples = measure(SIDES, urls, 1, effort.alone).map(|pairs| pairs.times);
        for (row, own) in rows.iter_mut().zip(&samples) {
            let [p50, p99] = [50, 99].map(|percent| short(1e3 * own.percentile_ms(percent)));
            row.push(format!("{p50} / {p99}"));
        }
    }
    let mut head = vec!["p50 / p99 [µs]"];
    head.extend(SETTINGS);
    report.table("alone", &head, &rows);
}
