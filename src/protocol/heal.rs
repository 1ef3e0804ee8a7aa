//! Heals a lock: sets its key again on nodes that have none, as where a server came back empty, or where nothing of the
//! acquisition has arrived, or it was undone.
//!
//! `docs/protocol.md` says why that is safe, and why not on a node that was sent an undo which is not answered.

use std::time::Duration;

use super::extend::Extension;
use crate::clock::Timestamp;
use crate::cluster::{Cluster, Places, places};
use crate::log_lines;
use crate::node::key_report::KeyReport;
use crate::node::verbs::{acquire, release_all};
use crate::node::{Attempt, Node, command};

/// Sets the key on the nodes that have none, and adds their votes to those of the extension. An extension heals once.
///
/// A node that failed lately is not asked, so a node that hangs delays one heal at most. New connections have as much time as those of
/// the extension.
pub(crate) fn heal(cluster: &Cluster, extension: &mut Extension, latest: Option<Timestamp>) {
    let asked = wanted(cluster, extension);
    if asked.is_empty() {
        return;
    }
    let healer = extension.healer.take();
    let Some(healer) = healer.filter(|healer| healer.begin(&asked)) else {
        return;
    };
    let claim = &extension.lease.claim;
    let half = extension.half_of_the_rest();
    let connect_by = latest.map_or(half, |latest| latest.min(half));
    let attempt = Attempt::healing(claim.clone(), ttl(cluster, extension), connect_by);
    let all = cluster.asking(&asked);
    let mut reports = all.unasked();
    acquire(all, &attempt, &mut reports);
    let leftovers = asked.iter().filter_map(|place| {
        let report = reports.get(*place)?;
        Some((*place, report.leftover.clone()))
    });
    if healer.end(leftovers) {
        // The lock has ended meanwhile, and its guard has not passed these nodes on.
        let left_behind = places(&reports, KeyReport::may_have_key);
        let nodes = cluster.asking(&left_behind);
        release_all(nodes, &command::release(claim), cluster.options.max_ttl);
        return;
    }
    for (place, report) in reports.into_iter().enumerate() {
        if let Some(before) = extension
            .nodes
            .get_mut(place)
            .filter(|_| asked.contains(&place))
        {
            *before = report;
        }
    }
    all.one_vote_each(&mut extension.nodes);
    for (place, node) in all.each() {
        if extension
            .nodes
            .get(place)
            .is_some_and(|report| report.vote.is_granted())
        {
            cluster.stats.healed.count();
            log_lines::healed(&claim.resource, node.name());
        }
    }
}

/// The nodes to heal: those that have no key, and did not fail lately.
pub(crate) fn wanted(cluster: &Cluster, extension: &Extension) -> Places {
    let healer = extension.healer.as_ref();
    healer.map_or_else(Places::new, |healer| {
        cluster.only(&healer.wanted(&extension.nodes), Node::is_well)
    })
}

/// The time to live of the key: that of the extension, or what is left of the lock if that is more. A key that ends before the lock
/// would leave it as it was.
fn ttl(cluster: &Cluster, extension: &Extension) -> Duration {
    let Extension { lease, term, .. } = extension;
    let end = lease.end_of_validity();
    // Not since the extension began: that may be long ago, and the key is set after this reading.
    let left = end.saturating_since(cluster.clock.now());
    if left <= term.validity {
        return term.ttl;
    }
    // A time to live is cut to whole milliseconds.
    let left = left.saturating_add(Duration::from_millis(1));
    cluster.options.ttl_for(left).max(term.ttl)
}
