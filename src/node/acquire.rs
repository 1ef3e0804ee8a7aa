//! Asking for votes: one node, or all of them before any reply is read.

use std::time::Duration;

use crate::wire::resp::Reply;

use super::ask_all::{Answer, send_to_all};
use super::call::Call;
use super::command::{Command, Packed};
use super::{Ballot, Node, fenced, refused};
use crate::error::{NodeError, Vote};
use crate::fencing::Rules;

/// One attempt as the nodes see it. Its commands are packed once.
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

    /// What gives back what the attempt has got.
    pub(crate) fn release(&self) -> &Packed {
        &self.release
    }

    fn send(&self, call: &mut Call<'_>) -> Result<(), NodeError> {
        call.send(&self.set, &|| self.command.retake(self.ttl))
    }

    /// As one of several nodes.
    fn send_among_others(&self, call: &mut Call<'_>) -> Result<(), NodeError> {
        call.resume();
        self.send(call)
    }

    /// Reads a node's vote, and whether a key may be there.
    fn read(&self, node: &Node, call: &mut Call<'_>) -> (Vote, bool) {
        let fault = match self.vote(node, call) {
            Ok(vote) => return (vote, true),
            Err(fault) => fault,
        };
        // The outcome is unknown. The undo goes behind the command, on the same connection: on another one it could
        // arrive first, and the key would stay.
        let undone = call.undo(&self.release, &fault);
        (Vote::Failed(fault), !undone)
    }

    fn vote(&self, node: &Node, call: &mut Call<'_>) -> Result<Vote, NodeError> {
        let again = || self.command.retake(self.ttl);
        let Some(fence) = self.command.fence else {
            return call.reply(&again, acquire_vote);
        };
        let answer = call.reply(&again, fenced::answer)?;
        Ok(node.read(answer, fence.rules, Rules::fence(self.command.key)))
    }
}

impl Node {
    /// Asks the node for its vote.
    pub(crate) fn acquire(&self, attempt: &Attempt<'_>) -> Ballot {
        let started = self.clock.now();
        let elapsed = || self.clock.now().saturating_since(started);
        let mut call = match self.call() {
            Ok(call) => call,
            Err(fault) => {
                return Ballot::new(self.report(Vote::Failed(fault), elapsed(), None), false);
            }
        };
        // A command that was not sent whole is not executed, so nothing is owed yet.
        let (vote, owed) = match attempt.send(&mut call) {
            Ok(()) => attempt.read(self, &mut call),
            Err(fault) => (Vote::Failed(fault), false),
        };
        Ballot::new(self.report(vote, elapsed(), call.server()), owed)
    }
}

/// Asks all of these nodes for their votes before any reply is read. Returns a ballot of each that is asked.
pub(crate) fn acquire_all<'n>(
    nodes: impl Iterator<Item = (&'n Node, bool)> + Clone,
    attempt: &Attempt<'_>,
) -> Vec<Option<Ballot>> {
    let send = |call: &mut Call<'n>| attempt.send_among_others(call);
    let read = |call: &mut Call<'n>| Ok(attempt.read(call.node(), call));
    let answers = send_to_all(nodes.clone(), send, Call::new, read);
    let ballot = |node: &Node, answer: Answer<(Vote, bool)>| {
        // A command that was not sent whole is not executed, so nothing is owed.
        let (vote, owed) = answer
            .result
            .unwrap_or_else(|fault| (Vote::Failed(fault), false));
        let report = node.report(vote, answer.elapsed, answer.server);
        Ballot::new(report, owed)
    };
    let nodes = nodes.map(|(node, _)| node).zip(answers);
    nodes
        .map(|(node, answer)| answer.map(|answer| ballot(node, answer)))
        .collect()
}

/// Reads the reply to `SET NX` or retake.lua. Only `+OK` is a vote.
pub(super) fn acquire_vote(reply: &Reply) -> Option<Vote> {
    match reply {
        Reply::Okay => Some(Vote::Granted),
        Reply::Nil => Some(Vote::Held { remaining: None }),
        Reply::Error(error) => Some(refused(error)),
        Reply::Text(_) | Reply::Int(_) | Reply::Bulk(_) | Reply::Array(_) => None,
    }
}
