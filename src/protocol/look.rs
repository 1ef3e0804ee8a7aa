//! Reads the status of locks without changing them.

use std::sync::Arc;

use crate::cluster::Cluster;
use crate::error::{Error, NodeReport};
use crate::holder::Holder;
use crate::node::Node;
use crate::node::command::{inspect, slot_key};
use crate::node::inspect::inspect_each;
use crate::status::{LockStatus, NodeStatus};
use crate::verdict;
use crate::wire::pack::Packed;

/// How many slots are looked at in one round trip.
const MOST_AT_ONCE: usize = 64;

/// Asks the nodes for the value and the time to live of a resource's key.
pub(crate) fn status(cluster: &Cluster, resource: &str) -> Result<LockStatus, Error> {
    let keys = [cluster.checked_key(resource)?];
    let mut status = look(cluster, &keys);
    let unasked = || LockStatus::Unknown { nodes: Vec::new() };
    Ok(status.pop().unwrap_or_else(unasked))
}

/// Who has the lock of a resource, as the holder says, and the votes that show it.
pub(crate) fn holder(cluster: &Cluster, resource: &str) -> Option<(Holder, Vec<NodeReport>)> {
    let status = look(cluster, &[cluster.key(resource)]).pop()?;
    let (LockStatus::Held {
        holder: Some(holder),
        nodes,
        ..
    }
    | LockStatus::Resting {
        holder: Some(holder),
        nodes,
        ..
    }) = status
    else {
        return None;
    };
    Some((holder, nodes.into_iter().map(NodeStatus::against).collect()))
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
    let mut commands = keys.iter().map(|key| inspect(key));
    let Some(first) = commands.next() else {
        return Vec::new();
    };
    let command = first.followed_by(commands.collect());
    let mut nodes = look_at_closed(cluster, &command);
    let status = judge(cluster, &nodes);
    if status.iter().all(LockStatus::is_decided) {
        return status;
    }
    look_again(cluster, &command, &mut nodes);
    judge(cluster, &nodes)
}

/// The status of each lock, from what each node said of it.
pub(super) fn judge(cluster: &Cluster, nodes: &[Vec<NodeStatus>]) -> Vec<LockStatus> {
    let locks = nodes.first().map_or(0, Vec::len);
    let of_lock = |lock| nodes.iter().filter_map(move |node| node.get(lock).cloned());
    let drift = |ttl| cluster.options.drift(ttl);
    (0..locks)
        .map(|lock| verdict::of_views(of_lock(lock).collect(), drift))
        .collect()
}

/// Asks the nodes that did not fail lately, or all nodes if these are no majority. Returns what each node said of each
/// lock.
pub(super) fn look_at_closed(cluster: &Cluster, command: &Packed) -> Vec<Vec<NodeStatus>> {
    let heed_breakers = cluster.heeds_breakers();
    let failure = |node: &Node| node.recent_failure().filter(|_| heed_breakers);
    // Read once, because a breaker may close during the round.
    let failures: Vec<Option<Arc<str>>> = cluster.each().map(failure).collect();
    let asked = failures.iter().map(Option::is_none);
    let answers = inspect_each(cluster.each().zip(asked), command);
    let nodes = cluster.each().zip(answers).zip(failures);
    nodes
        .map(|((node, answer), failure)| {
            answer.unwrap_or_else(|| {
                vec![node.left_out(failure.unwrap_or_default()); command.count()]
            })
        })
        .collect()
}

/// Asks the nodes that were left out.
fn look_again(cluster: &Cluster, command: &Packed, nodes: &mut [Vec<NodeStatus>]) {
    let is_left_out = |node: &NodeStatus| node.view.is_left_out();
    let asked: Vec<bool> = nodes
        .iter()
        .map(|locks| locks.first().is_some_and(is_left_out))
        .collect();
    let answers = inspect_each(cluster.each().zip(asked.iter().copied()), command);
    for (node, answer) in nodes.iter_mut().zip(answers) {
        if let Some(answer) = answer {
            *node = answer;
        }
    }
}

#[cfg(test)]
mod left_out;
