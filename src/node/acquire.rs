//! Asks nodes for their votes: one node, or all of them in one round trip.

use std::borrow::Cow;
use std::time::Duration;

use super::command::Command;
use super::exchange::Answer;
use super::fenced::is_fenced_reply;
use super::request::{Again, Kind, Request, Rule};
use super::round::{exchange, exchange_all};
use super::{Ballot, Node, refused};
use crate::error::Vote;
use crate::fencing::Rules;
use crate::wire::pack::Packed;
use crate::wire::resp::Reply;

/// The commands of one attempt, packed once for all nodes.
pub(crate) struct Attempt<'a> {
    command: Command<'a>,
    ttl: Duration,
    set: Packed,
    release: Packed,
}

impl<'a> Attempt<'a> {
    pub(crate) fn new(command: Command<'a>, ttl: Duration) -> Self {
        Self {
            set: command.acquire(ttl),
            release: command.release(),
            command,
            ttl,
        }
    }

    /// Releases the keys of the attempt.
    pub(crate) fn release(&self) -> &Packed {
        &self.release
    }

    fn request(&self) -> Request<'_> {
        let rule = match self.command.fence {
            Some(_) => Rule::new(|reply, _| is_fenced_reply(reply), 0),
            None => Rule::new(|reply, _| acquire_vote(reply).is_some(), 0),
        };
        let kind = Kind::Acquire {
            again: Again::Of(self.command, self.ttl),
            undo: Cow::Borrowed(&self.release),
        };
        Request::new(&self.set, kind, rule)
    }

    pub(super) fn is_fenced(&self) -> bool {
        self.command.fence.is_some()
    }

    pub(super) fn vote(&self, node: &Node, reply: &Reply) -> Option<Vote> {
        let Some(fence) = self.command.fence else {
            return acquire_vote(reply);
        };
        let counter = Rules::fence(self.command.keys.first());
        node.fenced_vote(reply, fence.rules, counter)
    }
}

impl Node {
    /// Asks the node for its vote.
    pub(crate) fn acquire(&self, attempt: &Attempt<'_>) -> Ballot {
        self.ballot(attempt, exchange(self, &attempt.request()))
    }

    fn ballot(&self, attempt: &Attempt<'_>, answer: Answer) -> Ballot {
        let answer = answer.read(|reply| attempt.vote(self, reply));
        let vote = answer.result.unwrap_or_else(Vote::Failed);
        let report = self.report(vote, answer.elapsed, answer.server);
        Ballot {
            report,
            trace: answer.trace,
        }
    }
}

/// Asks these nodes for their votes before any reply is read. Returns a ballot for each node that is asked.
pub(crate) fn acquire_all<'n>(
    nodes: impl Iterator<Item = (&'n Node, bool)> + Clone,
    attempt: &Attempt<'_>,
) -> Vec<Option<Ballot>> {
    let answers = exchange_all(nodes.clone(), &attempt.request());
    let nodes = nodes.map(|(node, _)| node).zip(answers);
    nodes
        .map(|(node, answer)| answer.map(|answer| node.ballot(attempt, answer)))
        .collect()
}

/// Reads the reply to `SET NX` or retake.lua. Only `+OK` is a vote.
pub(super) fn acquire_vote(reply: &Reply) -> Option<Vote> {
    match reply {
        Reply::Okay => Some(Vote::Granted),
        Reply::Nil => Some(Vote::held(None)),
        Reply::Error(error) => Some(refused(error)),
        Reply::Text(_) | Reply::Int(_) | Reply::Bulk(_) | Reply::Array(_) => None,
    }
}
