//! Reads the status of a lock without changing it.

use std::sync::Arc;

use crate::cluster::Cluster;
use crate::error::{Error, NodeReport, Vote};
use crate::holder::Holder;
use crate::node::Node;
use crate::node::command;
use crate::node::inspect::inspect_all;
use crate::status::{LockStatus, NodeStatus, View};
use crate::verdict;
use crate::wire::pack::Packed;

/// Asks the nodes for the value and the time to live of a resource's key.
pub(crate) fn status(cluster: &Cluster, resource: &str) -> Result<LockStatus, Error> {
    let command = command::inspect(&cluster.checked_key(resource)?);
    let drift = |ttl| cluster.options.drift(ttl);
    let status = verdict::of_views(look(cluster, &command), drift);
    if status.is_decided() {
        return Ok(status);
    }
    let mut nodes = status.into_nodes();
    look_again(cluster, &command, &mut nodes);
    Ok(verdict::of_views(nodes, drift))
}

/// Who has the lock of a resource, as the holder says, and the votes that show it; by one round over the nodes.
pub(crate) fn holder(cluster: &Cluster, resource: &str) -> Option<(Holder, Vec<NodeReport>)> {
    let command = command::inspect(&cluster.key(resource));
    let drift = |ttl| cluster.options.drift(ttl);
    let status = verdict::of_views(look(cluster, &command), drift);
    let LockStatus::Held {
        holder: Some(holder),
        nodes,
        ..
    } = status
    else {
        return None;
    };
    Some((holder, nodes.into_iter().map(vote).collect()))
}

/// The vote of a node for another holder than the one that it has.
fn vote(status: NodeStatus) -> NodeReport {
    NodeReport {
        vote: match status.view {
            View::Held {
                remaining, holder, ..
            } => Vote::Held {
                remaining: Some(remaining),
                holder,
            },
            View::Free => Vote::Missing,
            View::Failed(error) => Vote::Failed(error),
        },
        node: status.node,
        elapsed: status.elapsed,
        server: status.server,
    }
}

/// Asks the nodes that did not fail lately, or all nodes if these are no majority.
fn look(cluster: &Cluster, command: &Packed) -> Vec<NodeStatus> {
    let heed_breakers = cluster.heeds_breakers();
    let failure = |node: &Node| node.recent_failure().filter(|_| heed_breakers);
    // Read once, because a breaker may close during the round.
    let failures: Vec<Option<Arc<str>>> = cluster.each().map(failure).collect();
    let asked = failures.iter().map(Option::is_none);
    let answers = inspect_all(cluster.each().zip(asked), command);
    let nodes = cluster.each().zip(answers).zip(failures);
    nodes
        .map(|((node, answer), failure)| {
            answer.unwrap_or_else(|| node.left_out(failure.unwrap_or_default()))
        })
        .collect()
}

/// Asks the nodes that were left out.
fn look_again(cluster: &Cluster, command: &Packed, nodes: &mut [NodeStatus]) {
    let asked: Vec<bool> = nodes.iter().map(|node| node.view.is_left_out()).collect();
    let answers = inspect_all(cluster.each().zip(asked.iter().copied()), command);
    for (node, answer) in nodes.iter_mut().zip(answers) {
        if let Some(answer) = answer {
            *node = answer;
        }
    }
}
