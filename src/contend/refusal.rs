//! Pure: what the votes of a refused attempt say of the next one.

use crate::claim::{Kind, Resource};
use crate::error::{Error, NodeError, Vote};
use crate::verdict::Tally;

pub(super) fn names_a_holder(vote: &Vote) -> bool {
    matches!(
        vote,
        Vote::Held { remaining: Some(left), .. } | Vote::WriterWaits { remaining: left } if !left.is_zero()
    )
}

/// The place of the key that readers have, by this vote of a node that refused a writer. Where the first node refuses the writer, a
/// look there leaves an intent in any case.
pub(super) fn place_read(resource: &Resource, vote: &Vote) -> Option<usize> {
    let Vote::Read {
        resource: named, ..
    } = vote
    else {
        return None;
    };
    match (&resource.kind, named) {
        (Kind::Lock, _) => Some(0),
        (Kind::Several(names), Some(named)) => names.iter().position(|name| name == named),
        _ => None,
    }
}

/// Whether an attempt without a majority may get one on new connections. This is so if nodes were silent on old connections, which
/// something on the way may have forgotten, and their votes would be enough. The next attempt has a token of its own, and the undos
/// of this one went behind its requests, so nothing of this attempt counts in the next one.
pub(super) fn needs_new_connections(error: &Error) -> bool {
    let (Error::Held { nodes, .. } | Error::Unavailable { nodes, .. }) = error else {
        return false;
    };
    let is_old = |vote: &Vote| matches!(vote, Vote::Failed(error) if error.is_of_old_connection());
    let votes = nodes.iter().map(|report| &report.vote);
    let as_unasked = votes
        .clone()
        .map(|vote| if is_old(vote) { &Vote::NotAsked } else { vote });
    votes.clone().any(is_old) && !Tally::of(&as_unasked).is_lost()
}

/// Whether nodes would have granted another fencing token: a larger one, or a smaller one if the last one was too far
/// ahead of the clocks.
pub(super) fn needs_another_token(error: &Error) -> bool {
    let (Error::Held { nodes, .. } | Error::Unavailable { nodes, .. }) = error else {
        return false;
    };
    nodes.iter().any(|report| {
        if let Vote::Failed(NodeError::ClockSkew {
            difference,
            allowed,
            ..
        }) = &report.vote
        {
            return difference <= allowed;
        }
        matches!(report.vote, Vote::Stale { .. })
    })
}

#[cfg(test)]
#[path = "../../tests/rooms/contend/forgotten.rs"]
mod forgotten;
