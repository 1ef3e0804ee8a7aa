//! A round: requests to some nodes at once. They are sent to all before any reply is read, so that all take one round trip.
//!
//! What several threads want of the same nodes at the same time goes in one round: one write to each node, and one read
//! (group commit, `batch`). One of the threads leads: it sends for all, reads the replies (`drive`), and brings each its own.
//! `lanes` says which one, and when. Whatever holds for a request that goes alone holds for each of them: its undo, its repetitions.
//! What is asked once more after a round is asked here.

use std::io;
use std::time::Duration;

use smallvec::SmallVec;

use self::batch::{exchange_with_others, lead};
use self::drive::Nodes;
use super::Node;
use super::lanes::Lanes;
use super::request::{Answer, Answers, Asked, Request};
use crate::error::NodeError;
use crate::spans::Caller;
use crate::wire::transport::closed;

mod batch;
mod drive;

#[cfg(test)]
pub(crate) use self::batch::MOST;

/// Sends a request to every node that is asked, and reads the replies. The nodes come in the canonical order.
pub(super) fn exchange_all<'n>(
    nodes: impl Iterator<Item = (&'n Node, bool)>,
    request: &Request<'_>,
) -> Answers {
    let nodes: SmallVec<[(&Node, bool); 5]> = nodes.collect();
    let mut asked = nodes.iter().filter(|(_, asked)| *asked);
    let lanes = match (asked.next(), asked.next()) {
        (None, _) => return nodes.iter().map(|_| None).collect(),
        (Some((node, _)), None) => &node.lanes,
        (Some((node, _)), Some(_)) => &*node.common_lanes,
    };
    exchange_in(lanes, &nodes, request)
}

/// Sends a request to one node, and reads the reply.
pub(super) fn exchange(node: &Node, request: &Request<'_>) -> Answer {
    let mut answers = exchange_in(&node.lanes, &[(node, true)], request);
    let answer = answers.pop().flatten();
    answer.unwrap_or_else(|| Answer::failed(NodeError::TimedOut, Duration::ZERO, node.now()))
}

/// Sends a request, together with those of other threads if the lanes are full.
fn exchange_in(lanes: &Lanes, nodes: &Nodes<'_>, request: &Request<'_>) -> Answers {
    let Some((node, _)) = nodes.first() else {
        return Answers::new();
    };
    let (caller, since) = (Caller::here(), node.now());
    let own = Asked {
        request,
        since,
        caller: &caller,
    };
    let answers = if request.is_for_others() && node.connector.is_remote() {
        exchange_with_others(lanes, nodes, own)
    } else {
        lead(nodes, own, None, Vec::new(), since)
    };
    ask_again(lanes, nodes, own, answers)
}

/// Asks the nodes again that have no answer because the thread that led has panicked, and, where the request allows it, those that
/// were silent on an old connection: something on the way may have forgotten it.
fn ask_again(lanes: &Lanes, nodes: &Nodes<'_>, own: Asked<'_>, mut answers: Answers) -> Answers {
    let Some((node, _)) = nodes.first() else {
        return answers;
    };
    let asked = || nodes.iter().zip(&answers).filter(|((_, asked), _)| *asked);
    let is_answered = |answer: &Answer| answer.result.is_ok();
    if asked().all(|(_, answer)| answer.as_ref().is_some_and(is_answered)) {
        return answers;
    }
    if asked().any(|(_, answer)| answer.is_none()) {
        let missing = those(nodes, &answers, |_, answer| answer.is_none());
        let again = lead(&missing, own, None, Vec::new(), node.now());
        return replace(answers, again);
    }
    let answered = answers.iter().flatten().filter(|one| is_answered(one));
    if own.request.is_content_with(nodes.len(), answered.count()) {
        return answers;
    }
    let Some(idle) = own.request.is_asked_again_after() else {
        return answers;
    };
    let silent = those(nodes, &answers, |node, answer| {
        let is_silence = |answer: &Answer| answer.is_silence_after(idle);
        node.connector.is_remote() && answer.as_ref().is_some_and(is_silence)
    });
    if silent.iter().any(|(_, is_asked)| *is_asked) {
        let request = own.request.on_a_new_connection();
        // It waits for other threads anew.
        let own = Asked {
            request: &request,
            since: node.now(),
            ..own
        };
        let again = if request.is_for_others() {
            exchange_with_others(lanes, &silent, own)
        } else {
            lead(&silent, own, None, Vec::new(), own.since)
        };
        answers = replace(answers, again);
    }
    answers
}

/// All nodes, with whether they were asked and are meant.
fn those<'n>(
    nodes: &Nodes<'n>,
    answers: &Answers,
    is_meant: impl Fn(&Node, &Option<Answer>) -> bool,
) -> Vec<(&'n Node, bool)> {
    let all = nodes.iter().zip(answers);
    let all = all.map(|((node, asked), answer)| (*node, *asked && is_meant(node, answer)));
    all.collect()
}

/// Puts the new answers in the place of the first ones.
fn replace(first: Answers, again: Answers) -> Answers {
    let both = first.into_iter().zip(again);
    let newest = both.map(|(first, again)| {
        let Some(mut again) = again else {
            return first;
        };
        // The node may have executed it already.
        let (elapsed, result) = first.map(|first| (first.elapsed, first.result)).unzip();
        let failure = match result {
            Some(Err(failure)) => failure,
            _ => closed(io::ErrorKind::ConnectionAborted),
        };
        again.elapsed = again.elapsed.saturating_add(elapsed.unwrap_or_default());
        again.first_failure.get_or_insert(Box::new(failure));
        Some(again)
    });
    newest.collect()
}

#[cfg(test)]
mod tests;
