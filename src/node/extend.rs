//! Extends many locks on all nodes: one write to each node with all locks, one round trip for all nodes.

use std::slice;
use std::time::Duration;

use super::Node;
use super::reply::{Said, Verb};
use super::request::{Answer, Kind, Request};
use super::round::exchange_all;
use crate::error::{NodeReport, Vote, one_vote_each};
use crate::wire::pack::Packed;

/// More would take longer than a node timeout, on the server and on a link of 10 Mbit/s.
pub(crate) const MOST_AT_ONCE: usize = 128;
pub(crate) const MOST_BYTES: usize = 40 * 1024;

/// The length of a packed extension without the name of its lock, in bytes: about the digest of the script and its arguments.
pub(crate) const EXTENSION: usize = 300;

/// What each of its keys takes beside the name: the prefix and the lengths.
pub(crate) const KEY: usize = 32;

/// Sends the packed extensions of this number of locks to every node that is asked, before it reads any reply.
///
/// Ignores breakers, and connects beside a pool that is used up. Returns for each lock a report of each node, in order.
pub(crate) fn extend_all<'n>(
    nodes: impl Iterator<Item = (&'n Node, bool)> + Clone,
    command: &Packed,
    locks: usize,
) -> Vec<Vec<NodeReport>> {
    let request = Request::new(command, Kind::Extend, Verb::Keep);
    let answers = exchange_all(nodes.clone(), &request);
    let answers: Vec<(&Node, Option<Answer>)> = nodes.map(|(node, _)| node).zip(answers).collect();
    let of_lock = |lock| {
        let reports = answers
            .iter()
            .map(|(node, answer)| report(node, answer.as_ref(), lock));
        let mut reports: Vec<NodeReport> = reports.collect();
        one_vote_each(&mut reports);
        reports
    };
    (0..locks).map(of_lock).collect()
}

/// What a node says of the lock at this place.
fn report(node: &Node, answer: Option<&Answer>, lock: usize) -> NodeReport {
    let Some(answer) = answer else {
        return node.report(Vote::NotAsked, Duration::ZERO, None);
    };
    let vote = match &answer.result {
        Ok(said) => {
            let each = if let Said::Each(each) = said {
                each
            } else {
                slice::from_ref(said)
            };
            each.get(lock)
                .map_or(Vote::NotAsked, |said| said.clone().vote())
        }
        Err(error) => Vote::Failed(error.clone()),
    };
    node.report(vote, answer.elapsed, answer.server.clone())
}
