//! Asks nodes for their votes: one node, or all of them in one round trip.

use std::borrow::Cow;
use std::time::Duration;

use super::command::{Command, Keys};
use super::exchange::Answer;
use super::fenced::{is_fenced_read, is_fenced_reply};
use super::readers::{read_vote, refusal, refusal_of_a_reader};
use super::request::{Again, Kind, Request, Rule};
use super::round::{exchange, exchange_all};
use super::several::{self, is_acquire_reply};
use super::{Ballot, Node, refused};
use crate::error::Vote;
use crate::wire::pack::Packed;
use crate::wire::resp::Reply;

/// The commands of one attempt, packed once for all nodes.
pub(crate) struct Attempt<'a> {
    command: Command<'a>,
    set: Packed,
    /// The same for a second connection.
    again: Again<'a>,
    undo: Packed,
}

impl<'a> Attempt<'a> {
    pub(crate) fn new(command: Command<'a>, ttl: Duration) -> Self {
        Self {
            set: command.acquire(ttl),
            again: Again::Of(command, ttl),
            undo: command.undo(),
            command,
        }
    }

    /// As [`Self::new`], for a node that has no key of a lock that is held; of several resources, that lacks one at least. There
    /// the others count as set, with this time to live. A reader that has the lock does not heed a writer that waits for its end.
    pub(crate) fn healing(command: Command<'a>, ttl: Duration) -> Self {
        let attempt = Self::new(command, ttl);
        match command.heal(ttl) {
            None => attempt,
            Some(set) => Self {
                again: Again::Packed(set.clone()),
                set,
                ..attempt
            },
        }
    }

    /// As [`Self::new`], of a lock that nobody asks for again. Its undo leaves nothing for longer than the lock lasts.
    pub(crate) fn once(command: Command<'a>, ttl: Duration) -> Self {
        Self {
            undo: command.undo_for(ttl),
            ..Self::new(command, ttl)
        }
    }

    /// Releases the keys of the attempt.
    pub(crate) fn undo(&self) -> &Packed {
        &self.undo
    }

    fn request(&self) -> Request<'_> {
        let rule = match (&self.command.fence, self.command.keys) {
            (Some(_), Keys::Read(_)) => Rule::new(|reply, _| is_fenced_read(reply), 0),
            (None, Keys::Read(_)) => Rule::new(|reply, _| read_vote(reply).is_some(), 0),
            (Some(_), Keys::Lock(_)) => Rule::new(|reply, _| is_fenced_reply(reply), 0),
            (None, Keys::Lock(_)) => Rule::new(|reply, _| acquire_vote(reply).is_some(), 0),
            (Some(_), Keys::All(all)) => Rule::new(
                |reply, count| is_acquire_reply(reply, count, is_fenced_reply),
                all.names.len(),
            ),
            (None, Keys::All(all)) => Rule::new(
                |reply, count| is_acquire_reply(reply, count, several::is_plain),
                all.names.len(),
            ),
        };
        let kind = Kind::Acquire {
            again: self.again.clone(),
            undo: Cow::Borrowed(&self.undo),
        };
        Request::new(&self.set, kind, rule)
    }

    pub(super) fn is_fenced(&self) -> bool {
        self.command.fence.is_some()
    }

    pub(super) fn vote(&self, node: &Node, reply: &Reply) -> Option<Vote> {
        let names = self.command.keys.names();
        if let Some(refused) = names.and_then(|names| several::refusal(reply, names)) {
            return Some(refused);
        }
        let Some(fence) = self.command.fence else {
            return match self.command.keys {
                Keys::Lock(_) => acquire_vote(reply),
                Keys::Read(_) => read_vote(reply),
                Keys::All(_) => several::plain_vote(reply),
            };
        };
        let why_not = match self.command.keys {
            Keys::Read(_) => refusal_of_a_reader,
            Keys::Lock(_) | Keys::All(_) => refusal,
        };
        let locks = self.command.keys.each();
        node.fenced_vote(reply, fence.rules, locks, why_not)
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
