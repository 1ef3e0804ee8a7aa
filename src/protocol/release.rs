//! Releases a lock on every node that may have its key.

use std::time::Duration;

use crate::cluster::Cluster;
use crate::error::Error;
use crate::fencing::FencingToken;
use crate::lease::state::LeaseState;
use crate::lease::state::standing::Standing;
use crate::node::Node;
use crate::node::command::{self, Command, Keys};
use crate::node::fence::Fence;
use crate::node::inspect::{Found, find_all};
use crate::node::release::{Released, release_all, release_now, rest_all};
use crate::shown;
use crate::subject::Subject;
use crate::value::Content;
use crate::verdict;

/// Releases the lock of a guard that has ended it. With a `rest`, nobody gets it before that time is over.
pub(crate) fn release(
    cluster: &Cluster,
    lease: &LeaseState,
    ended: &[Standing],
    (keys, rest): (&Keys, Option<Duration>),
) -> Released {
    let command = super::command(cluster, lease, keys);
    let release = command.release();
    let asked = ended.iter().map(|standing| standing.has_to_be_released());
    let nodes = cluster.each().zip(asked);
    // An extension without a reply may have given the key this much.
    let life = cluster.options.max_ttl;
    let Some(left) = rest else {
        return release_all(nodes, &release, life);
    };
    // The drift is added, so that the key does not end too early on a node whose clock runs fast.
    let ttl = cluster.options.ttl_for(left);
    let until = cluster.clock.now().saturating_add(ttl);
    rest_all(nodes, &command.rest(ttl), (&release, until), life)
}

/// Releases the lock with this token, or with this value, whoever holds it.
///
/// Of a semaphore, it is the lock on this slot.
pub(crate) fn release_by_token(
    cluster: &Cluster,
    resource: &str,
    slot: Option<u32>,
    token: &str,
) -> Result<(), Error> {
    cluster.checked_key(resource)?;
    let subject = slot.map_or(Subject::Lock, Subject::Slot);
    let keys = cluster.keys_of(resource, &subject);
    let value = shown::bytes(token).map_err(|reason| Error::InvalidToken { reason })?;
    let fence = cluster.rules.as_ref().map(|rules| Fence {
        rules,
        token: FencingToken::UNKNOWN,
        reserve: 0,
    });
    let started = cluster.clock.now_for_records();
    let everywhere = || cluster.each().map(|node| (node, true));
    let (keys, values) = match Content::read(&value) {
        named @ (Content::Held(_) | Content::Resting(_)) => {
            values_of(everywhere(), keys, (&named, value))
        }
        Content::Foreign => (keys, vec![value]),
    };
    let command = |value: &Vec<u8>| {
        let keys = &keys;
        Command { keys, value, fence }.release()
    };
    let mut commands = values.iter().map(command);
    let Some(first) = commands.next() else {
        return Ok(());
    };
    let command = first.followed_by(commands.collect());
    let nodes = release_now(everywhere(), &command).nodes;
    let waited = cluster.clock.now_for_records().saturating_since(started);
    verdict::confirm(&resource.into(), waited, nodes).map(drop)
}

/// The values with a token, which stands for them: those that the nodes have, and the token itself where a node may have
/// another one. A whole value stands for itself. With them come the keys as they are released: as a reader's, if it is one.
fn values_of<'n>(
    nodes: impl Iterator<Item = (&'n Node, bool)>,
    keys: Keys,
    (named, given): (&Content, Vec<u8>),
) -> (Keys, Vec<Vec<u8>>) {
    let found = find_all(nodes, &command::find(keys.first(), &given));
    let is_silent = found.iter().any(|found| matches!(found, Found::Silence));
    let is_read = found.iter().any(|found| matches!(found, Found::Reader(_)));
    let mut values = Vec::new();
    for found in found {
        if let Found::Key(content) | Found::Reader(content) = found
            && content.is_named_by(named)
            && let Some(value) = content.bytes()
            && !values.contains(&value)
        {
            values.push(value);
        }
    }
    if (values.is_empty() || is_silent) && !values.contains(&given) {
        values.push(given);
    }
    let keys = if is_read {
        Keys::Read(keys.first().to_owned())
    } else {
        keys
    };
    (keys, values)
}
