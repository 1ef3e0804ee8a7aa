//! Opens the nodes of a brand-new deployment of the fenced protocol.

use crate::cluster::{Cluster, places};
use crate::error::{Error, NodeError, Vote};
use crate::node::command::MarkerAction;
use crate::node::key_report::KeyReport;
use crate::node::verbs::open_all;

/// Opens all nodes, or none.
pub(crate) fn open(cluster: &Cluster) -> Result<(), Error> {
    let Some(rules) = &cluster.rules else {
        let reason = "it is Protocol::Classic, whose nodes need no opening; build the manager with Protocol::Fenced";
        return Err(Error::invalid("protocol", reason));
    };
    let all = |nodes: &[KeyReport]| nodes.iter().all(|report| report.vote.is_granted());
    let nodes = open_all(cluster.asking_all(), rules, MarkerAction::Look);
    if !all(&nodes) {
        let nodes = cluster.in_full(nodes);
        return Err(Error::NotOpened { nodes });
    }
    let nodes = open_all(cluster.asking_all(), rules, MarkerAction::Open);
    if all(&nodes) {
        return Ok(());
    }
    // Nodes that another client has opened meanwhile stay open: that client was told that they are. A node that can't
    // be reached now stays open too. That does no harm, because it has granted no lock that it could have forgotten.
    let is_mine = |report: &KeyReport| !matches!(*report.vote, Vote::Failed(NodeError::Serving));
    let mine = places(&nodes, is_mine);
    drop(open_all(cluster.asking(&mine), rules, MarkerAction::Close));
    let nodes = cluster.in_full(nodes);
    Err(Error::NotOpened { nodes })
}
