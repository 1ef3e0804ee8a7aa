//! Releases a lock on every node that may have its key.

use std::sync::Arc;
use std::time::Duration;

use crate::claim::{Claim, Kind};
use crate::cluster::{Cluster, places};
use crate::error::{Error, Vote};
use crate::fencing::FencingToken;
use crate::lease::state::holding::Holding;
use crate::node::key_report::{KeyReport, KeyReports, votes};
use crate::node::verbs::{release_all, release_and, show_all};
use crate::node::{Node, command};
use crate::shown;
use crate::value::Content;
use crate::verdict;
use crate::wire::pack::Packed;

/// Releases the lock of a guard that has ended it. With a `rest`, nobody gets it before that time is over.
pub(crate) fn release(
    cluster: &Cluster,
    claim: &Claim,
    holdings: &[Holding],
    rest: Option<Duration>,
) -> KeyReports {
    let release = command::release(claim);
    let owed = places(holdings, |node| node.has_to_be_released());
    let asked = cluster.asking(&owed);
    // An extension without a reply may have given the key this much.
    let life = cluster.options.max_ttl;
    let Some(left) = rest else {
        return release_all(asked, &release, life);
    };
    // The drift is added, so that the key does not end too early on a node whose clock runs fast.
    let ttl = cluster.options.ttl_for(left);
    let until = cluster.clock.now().saturating_add(ttl);
    // The release that is repeated in the background must not end the rest too early.
    let release = release.to_repeat();
    let repeat = |node: &Arc<Node>| node.release_later(release.clone(), until, life);
    release_and(asked, &[command::rest(claim, ttl)], repeat)
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
    let kind = slot.map_or(Kind::Lock, Kind::Slot);
    let mut resource = cluster.resource(Arc::from(resource), kind)?;
    let given = shown::bytes(token).map_err(|reason| Error::invalid("token", reason))?;
    let fence = cluster.fence(FencingToken::UNKNOWN);
    let started = cluster.clock.now_for_records();
    let everywhere = cluster.asking_all();
    let named = Content::read(&given);
    let mut found = Vec::new();
    if named != Content::Foreign {
        let shown = show_all(everywhere, &command::find(resource.key(), &given));
        found.extend(shown.into_iter().flatten());
    }
    let mut values = found.iter().filter_map(KeyReport::value);
    if values.any(|(_, is_reader)| is_reader) {
        resource.kind = Kind::Read;
    }
    let release = |value: Vec<u8>| command::release_value(&resource, &value, fence.as_ref());
    let values = values_of(&found, &named, given).into_iter();
    let commands: Vec<Packed> = values.map(release).collect();
    // Nothing is repeated in the background: another program may have a lock with this value, now or later.
    let reports = release_and(everywhere, &commands, |_| ());
    let waited = cluster.clock.now_for_records().saturating_since(started);
    let in_full = || cluster.in_full(reports.iter().cloned());
    verdict::released(&resource.name, waited, votes(&reports), in_full)
}

/// The values that a token stands for: those that the nodes have, and the token itself if no node has one, or a silent node may
/// have it. Any other text stands for itself.
fn values_of(found: &[KeyReport], named: &Content, given: Vec<u8>) -> Vec<Vec<u8>> {
    let mut values = Vec::new();
    for (content, _) in found.iter().filter_map(KeyReport::value) {
        if content.is_named_by(named)
            && let Some(value) = content.bytes()
            && !values.contains(&value)
        {
            values.push(value);
        }
    }
    let is_asked_for = values.is_empty() || votes(found).any(Vote::is_silent);
    if is_asked_for && !values.contains(&given) {
        values.push(given);
    }
    values
}
