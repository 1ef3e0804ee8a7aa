//! Counts the nodes that have the keys of each held lock.

use std::time::Duration;

use crate::claim::slot_key;
use crate::cluster::Cluster;
use crate::error::Error;
use crate::health::Survey;
use crate::node::command;
use crate::protocol::list::{List, MOST_AT_ONCE};
use crate::protocol::look::{judge, look_at_closed};
use crate::quorum::quorum;
use crate::status::{ListedLock, LockStatus};
use crate::token::Token;

/// The longest time for which the locks are listed, and for which those that look thin are looked at again. A list of some thousand
/// locks takes no longer.
const LONGEST: Duration = Duration::from_secs(1);

/// Lists the held locks, and counts those that are on fewer nodes than can vote. Asks nothing if only a quorum can vote, because
/// then no held lock is on fewer nodes.
pub(super) fn survey(cluster: &Cluster, voters: usize) -> Result<Survey, Error> {
    let mut survey = Survey::default();
    let fewest = quorum(cluster.nodes().len());
    if voters <= fewest {
        return Ok(survey);
    }
    let on = |status: &LockStatus| status.margin().unwrap_or_default().saturating_add(fewest);
    let is_thin = |status: &LockStatus| status.margin().is_some() && on(status) < voters;
    let (mut list, started) = (List::new(cluster, "")?, cluster.clock.now());
    let is_late = |begun| cluster.clock.now().saturating_since(begun) >= LONGEST;
    let mut thin: Vec<ListedLock> = Vec::new();
    while let Some(locks) = list.step(cluster) {
        let locks = match locks {
            Ok(locks) => locks,
            Err(Error::Incomplete { nodes, .. }) => {
                survey.note_failed(&nodes);
                break;
            }
            Err(error) => return Err(error),
        };
        let locks = locks.into_iter().filter(|lock| is_a_lock(&lock.status));
        for lock in locks {
            survey.held = survey.held.saturating_add(1);
            thin.extend(Some(lock).filter(|lock| is_thin(&lock.status)));
        }
        if is_late(started) {
            survey.note_late();
            break;
        }
    }
    if thin.is_empty() {
        return Ok(survey);
    }
    // A lock that is being taken or given back is on a few nodes for a moment.
    cluster.clock.sleep(cluster.options.node_timeout);
    let again = cluster.clock.now();
    for locks in thin.chunks(MOST_AT_ONCE) {
        if is_late(again) {
            survey.note_late();
            break;
        }
        let keys: Vec<String> = locks.iter().map(|lock| key(cluster, lock)).collect();
        let nodes = look_at_closed(cluster, &command::show(keys.iter().map(String::as_str)));
        let statuses = judge(cluster, &nodes);
        for (lock, status) in locks.iter().zip(statuses) {
            if is_thin(&status) && is_same(&lock.status, &status) {
                let lacking = status.nodes().iter().filter(|node| !status.is_on(node));
                survey.note_thin(on(&status), lacking.map(|node| &node.node));
            }
        }
    }
    Ok(survey)
}

/// Whether `status` is of a lock that somebody has, and not of another program's key that happens to be on several nodes.
fn is_a_lock(status: &LockStatus) -> bool {
    if let LockStatus::Held { token, .. } = status {
        return Token::parse(token).is_some();
    }
    matches!(status, LockStatus::Read { .. })
}

/// Whether the lock has the same holder as before, or still has readers.
fn is_same(before: &LockStatus, now: &LockStatus) -> bool {
    match (before, now) {
        (LockStatus::Held { token: before, .. }, LockStatus::Held { token, .. }) => before == token,
        (LockStatus::Read { .. }, LockStatus::Read { .. }) => true,
        _ => false,
    }
}

fn key(cluster: &Cluster, lock: &ListedLock) -> String {
    let key = cluster.key(&lock.resource);
    match lock.slot {
        Some(slot) => slot_key(&key, slot),
        None => key.into_owned(),
    }
}
