//! Waits until the nodes have answered the releases that are repeated in the background.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::cluster::Cluster;
use crate::error::{Error, UnansweredReleases};
use crate::node::Node;
use crate::shown;

/// The pause between two looks at what is still owed.
const LOOK: Duration = Duration::from_millis(5);

/// Waits for `timeout` at most. Does not wait for releases of locks that rest for longer.
pub(crate) fn flush(cluster: &Cluster, timeout: Duration) -> Result<(), Error> {
    let started = cluster.clock.now();
    let until = started.saturating_add(timeout);
    loop {
        let left = until.saturating_since(cluster.clock.now());
        let is_owed = cluster
            .nodes()
            .iter()
            .any(|node| node.has_releases_before(until));
        if left.is_zero() || !is_owed {
            break;
        }
        cluster.clock.sleep(LOOK.min(left));
    }
    let nodes: Vec<UnansweredReleases> = cluster
        .nodes()
        .iter()
        .filter_map(|node| owed(cluster, node))
        .collect();
    if nodes.is_empty() {
        return Ok(());
    }
    let waited = cluster.clock.now().saturating_since(started);
    Err(Error::Unanswered { waited, nodes })
}

fn owed(cluster: &Cluster, node: &Node) -> Option<UnansweredReleases> {
    let keys = node.unanswered_keys()?.into_iter();
    let resources: BTreeSet<String> = keys.map(|key| name_of(cluster, &key)).collect();
    Some(UnansweredReleases {
        node: Arc::clone(node.name()),
        resources: resources.into_iter().collect(),
    })
}

/// The resource with this key; the key itself for the lock that a health report tries.
fn name_of(cluster: &Cluster, key: &[u8]) -> String {
    let resource = str::from_utf8(key)
        .ok()
        .and_then(|key| cluster.resource_of(key));
    resource.map_or_else(|| shown::text(key), |(name, _)| name)
}
