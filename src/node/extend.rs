//! Extends many locks on all nodes: one write to each node with all locks, one round trip for all nodes.

use std::sync::Arc;
use std::time::Duration;

use super::Node;
use super::release::own_key_vote;
use super::request::{Kind, Request, Rule};
use super::round::exchange_all;
use super::several::extension_of_all;
use crate::error::{NodeError, NodeReport, Vote, one_vote_each};
use crate::wire::pack::Packed;
use crate::wire::resp::Reply;

/// More would take longer than a node timeout, on the server and on a link of 10 Mbit/s.
pub(crate) const MOST_AT_ONCE: usize = 128;
pub(crate) const MOST_BYTES: usize = 40 * 1024;

/// The length of a packed extension without the name of its lock, in bytes: about the digest of the script and its arguments.
pub(crate) const EXTENSION: usize = 300;

/// What each of its keys takes beside the name: the prefix, the counter of the fenced protocol, and the lengths.
pub(crate) const KEY: usize = 32;

/// Sends the packed extensions of this number of locks to every node that is asked, before it reads any reply.
///
/// Ignores breakers, and connects beside a pool that is used up. Returns for each lock a report of each node, in order.
pub(crate) fn extend_all<'n>(
    nodes: impl Iterator<Item = (&'n Node, bool)> + Clone,
    command: &Packed,
    locks: usize,
) -> Vec<Vec<NodeReport>> {
    let rule = Rule::Command(|reply, command| Votes::read(reply, command).is_some());
    let answers = exchange_all(nodes.clone(), &Request::new(command, Kind::Extend, rule));
    let answers: Vec<NodeAnswer<'n>> = nodes
        .zip(answers)
        .map(|((node, _), answer)| {
            let answer = answer.map(|answer| answer.read(|reply| Votes::read(reply, command)));
            (node, answer)
        })
        .map(|(node, answer)| match answer {
            None => NodeAnswer {
                node,
                votes: Votes::Same(Vote::NotAsked),
                elapsed: Duration::ZERO,
                server: None,
            },
            Some(answer) => NodeAnswer {
                node,
                votes: answer
                    .result
                    .unwrap_or_else(|error| Votes::Same(Vote::Failed(error))),
                elapsed: answer.elapsed,
                server: answer.server,
            },
        })
        .collect();
    let of_lock = |lock| {
        let mut reports: Vec<NodeReport> = answers.iter().map(|node| node.report(lock)).collect();
        one_vote_each(&mut reports);
        reports
    };
    (0..locks).map(of_lock).collect()
}

struct NodeAnswer<'n> {
    node: &'n Node,
    votes: Votes,
    elapsed: Duration,
    server: Option<Arc<str>>,
}

impl NodeAnswer<'_> {
    fn report(&self, lock: usize) -> NodeReport {
        let vote = match &self.votes {
            Votes::Same(vote) => vote.clone(),
            // The number of votes was checked when the reply was read, so the time-out never shows.
            Votes::Each(votes) => votes
                .get(lock)
                .cloned()
                .unwrap_or(Vote::Failed(NodeError::TimedOut)),
        };
        self.node.report(vote, self.elapsed, self.server.clone())
    }
}

/// What a node says of the locks.
#[derive(Debug)]
enum Votes {
    Each(Vec<Vote>),
    Same(Vote),
}

impl Votes {
    /// Reads the replies to as many extensions.
    fn read(reply: &Reply, command: &Packed) -> Option<Self> {
        let replies = reply.of_each(command.count());
        if replies.len() != command.count() {
            return None;
        }
        let each = replies.iter().zip(command.each());
        let votes = each.map(|(reply, command)| match command.several() {
            None => own_key_vote(reply),
            Some(names) => extension_of_all(reply, names),
        });
        votes.collect::<Option<_>>().map(Self::Each)
    }
}
