//! Opens the nodes of a brand-new deployment of the fenced protocol.

use crate::cluster::Cluster;
use crate::error::{Error, NodeError, NodeReport, Vote};
use crate::node::command::MarkerAction;
use crate::node::verbs::open_all;

/// Opens all nodes, or none.
pub(crate) fn open(cluster: &Cluster) -> Result<(), Error> {
    let Some(rules) = &cluster.rules else {
        let reason = "it is Protocol::Classic, whose nodes need no opening; build the manager with Protocol::Fenced";
        return Err(Error::invalid("protocol", reason));
    };
    let all = |nodes: &[NodeReport]| nodes.iter().all(|report| report.vote.is_granted());
    let nodes = open_all(cluster.each(), rules, MarkerAction::Look);
    if !all(&nodes) {
        return Err(Error::NotOpened { nodes });
    }
    let nodes = open_all(cluster.each(), rules, MarkerAction::Open);
    if all(&nodes) {
        return Ok(());
    }
    // Nodes that another client has opened meanwhile stay open: that client was told that they are. A node that can't
    // be reached now stays open too. That does no harm, because it has granted no lock that it could have forgotten.
    let is_mine = |report: &NodeReport| !matches!(report.vote, Vote::Failed(NodeError::Serving));
    let mine = cluster.each().zip(&nodes);
    let mine = mine.filter_map(|(node, report)| is_mine(report).then_some(node));
    drop(open_all(mine, rules, MarkerAction::Close));
    Err(Error::NotOpened { nodes })
}
