//! Releases a lock on every node that may have its key.

use std::time::Duration;

use crate::cluster::Cluster;
use crate::error::Error;
use crate::fencing::FencingToken;
use crate::lease::state::LeaseState;
use crate::lease::state::standing::Standing;
use crate::node::command::Command;
use crate::node::fence::Fence;
use crate::node::release::{Released, release_all};
use crate::shown;
use crate::verdict;

/// Releases the lock of a guard that has ended it. With a `rest`, nobody gets it before that time is over.
pub(crate) fn release(
    cluster: &Cluster,
    lease: &LeaseState,
    ended: &[Standing],
    (key, rest): (&str, Option<Duration>),
) -> Released {
    let command = super::command(cluster, lease, key);
    let command = match rest {
        // The drift is added, so that the key does not end too early on a node whose clock runs fast.
        Some(left) => command.rest(cluster.options.ttl_for(left)),
        None => command.release(),
    };
    let asked = ended.iter().map(|standing| standing.has_to_be_released());
    release_all(cluster.each().zip(asked), &command)
}

/// Releases the lock with this token, whoever holds it.
pub(crate) fn release_by_token(
    cluster: &Cluster,
    resource: &str,
    token: &str,
) -> Result<(), Error> {
    let key = cluster.checked_key(resource)?;
    let value = shown::bytes(token).map_err(|reason| Error::InvalidToken { reason })?;
    let fence = cluster.rules.as_ref().map(|rules| Fence {
        rules,
        token: FencingToken::UNKNOWN,
        reserve: 0,
    });
    let command = Command {
        key: &key,
        value: &value,
        fence,
    };
    let started = cluster.clock.now_for_records();
    let everywhere = cluster.each().map(|node| (node, true));
    let nodes = release_all(everywhere, &command.release()).nodes;
    let waited = cluster.clock.now_for_records().saturating_since(started);
    verdict::confirm(&resource.into(), waited, nodes).map(drop)
}
