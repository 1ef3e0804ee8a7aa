//! Pure: what the votes of a refused attempt say of the next one.

use crate::claim::{Kind, Resource};
use crate::cluster::Places;
use crate::error::{Error, NodeError, Vote};
use crate::verdict::Tally;

/// The indexes of the nodes at which a look is useless: they failed, or called the lock free while others name a holder. The
/// attempt followed a look at the node `hinted_by`.
pub(super) fn useless_nodes(error: &Error, hinted_by: Option<usize>) -> Places {
    let has_holder = votes(error).any(names_a_holder);
    let is_useless = |index: usize, vote: &Vote| {
        // A node where the key is no lock has not failed: an attempt that begins at the arbiter ends there, so a look goes there,
        // too.
        let has_failed = vote.is_silent() && !vote.is_left_out();
        let is_wrong = vote.is_granted() || hinted_by == Some(index) && !names_a_holder(vote);
        has_failed || has_holder && is_wrong
    };
    let nodes = votes(error).enumerate();
    let useless = nodes.filter(|(index, vote)| is_useless(*index, vote));
    useless.map(|(index, _)| index).collect()
}

/// The index of the key that readers have on other nodes, if the first node granted the lock to this writer. The bell of the first
/// node does not ring when these readers release the key, so a look leaves an intent there, which keeps further readers out. An
/// intent needs no bell, so a client that can't listen leaves it, too. Where the first node refuses the writer, each look leaves an
/// intent.
pub(super) fn read_elsewhere(error: &Error, resource: &Resource) -> Option<usize> {
    let mut answers = votes(error).filter(|vote| !vote.is_failure());
    if votes(error).any(names_a_holder) || !answers.next()?.is_granted() {
        return None;
    }
    answers.find_map(|vote| match (vote, &resource.kind) {
        (Vote::Read { .. }, Kind::Lock) => Some(0),
        (Vote::Read { resource, .. }, Kind::Several(names)) => names
            .iter()
            .position(|name| Some(name) == resource.as_ref()),
        _ => None,
    })
}

/// The votes on the lock, or on the last slot that was asked for. A release that is under way frees a slot on the first node before
/// the others, so earlier refusals say less.
fn votes(error: &Error) -> impl Iterator<Item = &Vote> + Clone {
    error.round().1.iter().map(|report| &report.vote)
}

fn names_a_holder(vote: &Vote) -> bool {
    matches!(
        vote,
        Vote::Held { remaining: Some(left), .. } | Vote::WriterWaits { remaining: left } if !left.is_zero()
    )
}

/// Whether an attempt without a majority may get one on new connections. This is so if nodes were silent on old connections, which
/// something on the way may have forgotten, and their votes would be enough. The next attempt has a token of its own, and the undos
/// of this one went behind its requests, so nothing of this attempt counts in the next one.
pub(super) fn needs_new_connections(error: &Error) -> bool {
    let is_old = |vote: &Vote| matches!(vote, Vote::Failed(error) if error.is_of_old_connection());
    let votes = open_votes(error);
    let as_unasked = votes
        .clone()
        .map(|vote| if is_old(vote) { &Vote::NotAsked } else { vote });
    votes.clone().any(is_old) && !Tally::of(as_unasked).is_lost()
}

/// Whether nodes would have granted another fencing token: a larger one, or a smaller one if the last one was too far
/// ahead of the clocks.
pub(super) fn needs_another_token(error: &Error) -> bool {
    open_votes(error).any(|vote| match vote.failure() {
        Some(NodeError::ClockSkew {
            difference,
            allowed,
            ..
        }) => difference <= allowed,
        _ => matches!(vote, Vote::Stale { .. }),
    })
}

/// The votes of an attempt that another one may win.
fn open_votes(error: &Error) -> impl Iterator<Item = &Vote> + Clone {
    let is_open = matches!(error, Error::Held { .. } | Error::Unavailable { .. });
    votes(error).filter(move |_| is_open)
}

#[cfg(test)]
#[path = "../../tests/rooms/contend/forgotten.rs"]
mod forgotten;
