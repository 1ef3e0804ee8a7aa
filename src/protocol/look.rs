//! Reads the status of locks without changing them.

use super::acquire::unasked;
use crate::claim::slot_key;
use crate::cluster::{Cluster, places};
use crate::error::{Error, NodeReport, Vote};
use crate::holder::Holder;
use crate::node::command;
use crate::node::key_report::KeyReport;
use crate::node::verbs::show_all;
use crate::status::LockStatus;
use crate::verdict;
use crate::wire::pack::Packed;

/// How many slots are looked at in one round trip.
const MOST_AT_ONCE: usize = 64;

/// Asks the nodes for the value and the time to live of a resource's key.
pub(crate) fn status(cluster: &Cluster, resource: &str) -> Result<LockStatus, Error> {
    let keys = [cluster.checked_key(resource)?.into_owned()];
    let mut status = look(cluster, &keys);
    let unasked = || LockStatus::Unknown { nodes: Vec::new() };
    Ok(status.pop().unwrap_or_else(unasked))
}

/// Who has the lock of a resource, as the holder says, and the votes that show it.
pub(crate) fn holder(cluster: &Cluster, resource: &str) -> Option<(Holder, Vec<NodeReport>)> {
    let status = look(cluster, &[cluster.key(resource).into_owned()]).pop()?;
    let (LockStatus::Held {
        holder: Some(holder),
        mut nodes,
        ..
    }
    | LockStatus::Resting {
        holder: Some(holder),
        mut nodes,
        ..
    }) = status
    else {
        return None;
    };
    for node in &mut nodes {
        node.vote.hide_token();
    }
    Some((holder, nodes))
}

/// As [`status`], for each slot of a semaphore.
pub(crate) fn status_of_slots(
    cluster: &Cluster,
    semaphore: &str,
    permits: u32,
) -> Result<Vec<LockStatus>, Error> {
    let key = cluster.checked_key(semaphore)?;
    let keys: Vec<String> = (0..permits).map(|slot| slot_key(&key, slot)).collect();
    let status = keys.chunks(MOST_AT_ONCE).map(|keys| look(cluster, keys));
    Ok(status.flatten().collect())
}

/// Asks the nodes that did not fail lately, and then the others if they can decide anything.
fn look(cluster: &Cluster, keys: &[String]) -> Vec<LockStatus> {
    let command = command::show(keys.iter().map(String::as_str));
    let mut nodes = look_at_closed(cluster, &command);
    let status = judge(cluster, &nodes);
    if status.iter().all(LockStatus::is_decided) {
        return status;
    }
    ask(cluster, &command, &mut nodes, Vote::is_left_out);
    judge(cluster, &nodes)
}

/// The status of each lock, from what each node said of it.
pub(super) fn judge(cluster: &Cluster, nodes: &[Vec<KeyReport>]) -> Vec<LockStatus> {
    let locks = nodes.first().map_or(0, Vec::len);
    let of_lock = |lock| nodes.iter().filter_map(move |node| node.get(lock).cloned());
    let drift = |ttl| cluster.options.drift(ttl);
    (0..locks)
        .map(|lock| verdict::of_keys(cluster.in_full(of_lock(lock)), drift))
        .collect()
}

/// Asks the nodes that did not fail lately, or all nodes if these are no majority. Returns what each node said of each
/// lock.
pub(super) fn look_at_closed(cluster: &Cluster, command: &Packed) -> Vec<Vec<KeyReport>> {
    // Read once, because a breaker may close during the round.
    let unasked = unasked(cluster).into_iter();
    let mut nodes: Vec<_> = unasked.map(|report| vec![report; command.keys]).collect();
    ask(cluster, command, &mut nodes, |vote| !vote.is_left_out());
    nodes
}

/// Asks the nodes for whose votes so far `is_asked` is true.
fn ask(
    cluster: &Cluster,
    command: &Packed,
    nodes: &mut [Vec<KeyReport>],
    is_asked: impl Fn(&Vote) -> bool,
) {
    let indexes = places(nodes, |locks| {
        locks.first().is_some_and(|report| is_asked(&report.vote))
    });
    let asked = cluster.asking(&indexes);
    for ((_, locks), keys) in asked.with(nodes).zip(show_all(asked, command)) {
        *locks = keys;
    }
}
