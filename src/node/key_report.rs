//! What a node says of a request: the one type between a reply and the reports that people see.
//!
//! Every request of the plain path carries one report for each node, so a report is small. What few reports have is in a box.

use std::io;
use std::mem::{swap, take};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::undo::Leftover;
use crate::clock::Timestamp;
use crate::error::{NodeError, NodeReport, Vote};
use crate::value::Content;
use crate::wire::resp::Reply;
use crate::wire::transport::closed;

/// What a node says of a key, or of the keys of one lock.
#[derive(Debug, Clone)]
pub(crate) struct KeyReport {
    pub(crate) vote: SmallVote,
    /// For which resources of the lock a client waits. A release has woken these clients.
    pub(crate) waiters: Waiters,
    /// When the thread began to ask, later by the time that was spent on other nodes.
    pub(crate) since: Timestamp,
    /// When the reply came, or the request was given up.
    pub(crate) at: Timestamp,
    /// The run id of the server that answered, where it is known.
    pub(crate) server: Option<Arc<str>>,
    /// What the request may have left on the node.
    pub(crate) leftover: Leftover,
    /// Whether the node has replied. An error of the server is a reply.
    pub(super) has_replied: bool,
    pub(super) rare: Option<Box<Rare>>,
}

/// The reports of all nodes of a manager, in the canonical order.
pub(crate) type KeyReports = SmallVec<[KeyReport; 5]>;

/// What few reports have.
#[derive(Debug, Clone, Default)]
pub(super) struct Rare {
    /// Why the request was sent more than once, if it was.
    pub(super) first_failure: Option<NodeError>,
    pub(super) again: Again,
    pub(super) payload: Payload,
}

/// Whether the node is asked once more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Again {
    #[default]
    Never,
    /// The connection was idle before and is silent now. It may be forgotten on the way, so a connection newer than this generation
    /// is used, unless a majority has answered.
    OnNewerThan(u64),
    /// The thread that was to send has panicked.
    Left,
}

/// What a reply says in addition to a vote.
#[derive(Debug, Clone, Default)]
pub(super) enum Payload {
    #[default]
    Nothing,
    /// The vote is about one of several keys, and the node replied with an error about another one.
    ErrorOfAnotherKey,
    /// The reply to a pass: the vote on the attempt that went with the release. There is none if the release has woken a client,
    /// because that client comes first.
    NextVote(Option<SmallVote>),
    /// A report for each key that was asked for.
    Keys(Vec<KeyReport>),
    /// The value of a key, and whether it is the value of a reader who was looked for.
    Value {
        content: Content,
        is_reader: bool,
    },
    Look(LookReply),
    Page(Page),
    /// The reply to a question about the server itself.
    Raw(Reply),
}

/// What a node says of a lock that a client waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LookReply {
    /// The state of the lock; the state of the slot that is free first, if it is a semaphore.
    pub(crate) state: LockState,
    /// Whether a release of the lock is going to wake a client.
    pub(crate) is_announced: bool,
    /// The slots of the semaphore that the node would grant.
    pub(crate) free: Vec<u32>,
    /// The index of the resource that this is about: the first of several that is not free.
    pub(crate) index: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockState {
    /// The node would grant the lock.
    Free,
    /// The node would grant the lock, and no woken client has come for it. There is nobody to yield to.
    Deserted,
    /// The node has the lock for this long.
    Held(Duration),
    /// The node has a key that never expires.
    Stuck,
}

/// What one step of a scan has found.
#[derive(Debug, Clone)]
pub(crate) struct Page {
    /// Where the next step begins; 0 after the last one.
    pub(crate) cursor: u64,
    /// Keys that may be locks. Some may be there twice.
    pub(crate) keys: Vec<Vec<u8>>,
}

/// A bit for each resource of a lock, by its index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Waiters(pub(super) u64);

impl KeyReport {
    /// The report with this vote, of a node that replied or was not asked. The exchange adds the times, the server and what may be
    /// left.
    pub(crate) fn of(vote: impl Into<SmallVote>) -> Self {
        Self {
            vote: vote.into(),
            waiters: Waiters::default(),
            since: Timestamp::from_nanos(0),
            at: Timestamp::from_nanos(0),
            server: None,
            leftover: Leftover::None,
            has_replied: true,
            rare: None,
        }
    }

    /// The report of a node that has not replied, for this reason.
    pub(super) fn failed(error: NodeError) -> Self {
        let mut report = Self::of(Vote::Failed(error));
        report.has_replied = false;
        report
    }

    /// The report of a node that was not sent the request, because the thread that was to send has panicked.
    pub(super) fn lost(at: Timestamp) -> Self {
        let mut report = Self::failed(closed(io::ErrorKind::ConnectionAborted));
        report.at = at;
        report.rare().again = Again::Left;
        report
    }

    /// The report of a reply that says more than a vote.
    pub(super) fn with_payload(vote: impl Into<SmallVote>, payload: Payload) -> Self {
        let mut report = Self::of(vote);
        report.rare().payload = payload;
        report
    }

    /// The report of a node at which a client waits for the first resource of the lock.
    pub(super) fn with_waiter(mut self) -> Self {
        self.waiters = Waiters::at(0);
        self
    }

    pub(super) fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// Takes what the reply says in addition to the vote.
    pub(super) fn take_payload(&mut self) -> Payload {
        let rare = self.rare.as_mut();
        rare.map(|rare| take(&mut rare.payload)).unwrap_or_default()
    }

    pub(super) fn again(&self) -> Again {
        self.rare.as_ref().map_or(Again::Never, |rare| rare.again)
    }

    /// Whether the node does not say what has become of a key that was released. An error, as while a server loads its data, does
    /// not.
    pub(super) fn is_silent(&self) -> bool {
        let rare = self.rare.as_deref();
        let hides_error = |rare: &Rare| matches!(rare.payload, Payload::ErrorOfAnotherKey);
        !self.has_replied || self.vote.is_silent() || rare.is_some_and(hides_error)
    }

    /// Takes over the report of a second request, if the node has not replied to the first. The node may have executed the first
    /// request already.
    pub(super) fn replace(&mut self, again: &mut Self) {
        if let Some(failure) = self.vote.failure().filter(|_| !self.has_replied) {
            again.since = self.since;
            let rare = again.rare();
            rare.first_failure.get_or_insert_with(|| failure.clone());
            swap(self, again);
        }
    }

    /// The report on the attempt that went with a release.
    pub(super) fn next_report(&mut self) -> Self {
        let mut report = Self::of(if let Payload::NextVote(next) = self.take_payload() {
            next.unwrap_or(NOT_ASKED)
        } else {
            self.vote.clone()
        });
        (report.since, report.at) = (self.since, self.at);
        report.server.clone_from(&self.server);
        if !matches!(*report.vote, Vote::NotAsked) {
            report.leftover = self.leftover.clone();
        }
        report
    }

    /// How long the node took, without the time that was spent on other nodes.
    pub(crate) fn elapsed(&self) -> Duration {
        self.at.saturating_since(self.since)
    }

    /// Takes the reply to a command of any kind.
    pub(crate) fn reply(mut self) -> Result<Reply, NodeError> {
        let Payload::Raw(reply) = self.take_payload() else {
            return Err(self.error());
        };
        Ok(reply)
    }

    /// The failure of the node. A report without one is the answer to another question.
    pub(super) fn error(&self) -> NodeError {
        let failure = self.vote.failure().cloned();
        failure.unwrap_or_else(|| NodeError::protocol("the answer to another question"))
    }

    /// Whether the node may have a key of this attempt, which then has to be released.
    pub(crate) fn may_have_key(&self) -> bool {
        matches!(self.leftover, Leftover::Possible)
    }

    /// The value of the key, if the node shows one, and whether it is the value of a reader who was looked for.
    pub(crate) fn value(&self) -> Option<(&Content, bool)> {
        let Payload::Value { content, is_reader } = &self.rare.as_ref()?.payload else {
            return None;
        };
        Some((content, *is_reader))
    }

    /// The report for people, of the node with this name.
    pub(crate) fn into_report(self, node: &Arc<str>) -> NodeReport {
        NodeReport {
            node: Arc::clone(node),
            elapsed: self.elapsed(),
            vote: self.vote.into(),
            is_wanted: self.waiters.any(),
        }
    }
}

/// The votes of these reports.
pub(crate) fn votes(reports: &[KeyReport]) -> impl DoubleEndedIterator<Item = &Vote> + Clone {
    reports.iter().map(|report| &*report.vote)
}

/// For which resources clients wait at any of the nodes.
pub(crate) fn waiters(reports: &[KeyReport]) -> Waiters {
    let each = reports.iter().map(|report| report.waiters);
    each.fold(Waiters::default(), Waiters::or)
}

/// A vote in few bytes.
#[derive(Debug, Clone)]
pub(crate) enum SmallVote {
    /// A vote of one word, which needs no box.
    Word(&'static Vote),
    Other(Box<Vote>),
}

/// The vote of a node that is not asked.
pub(crate) const NOT_ASKED: SmallVote = SmallVote::Word(&Vote::NotAsked);

impl Deref for SmallVote {
    type Target = Vote;

    fn deref(&self) -> &Vote {
        match self {
            Self::Word(vote) => vote,
            Self::Other(vote) => vote,
        }
    }
}

impl From<&'static Vote> for SmallVote {
    fn from(vote: &'static Vote) -> Self {
        Self::Word(vote)
    }
}

impl From<Vote> for SmallVote {
    fn from(vote: Vote) -> Self {
        Self::Other(Box::new(vote))
    }
}

impl From<SmallVote> for Vote {
    fn from(vote: SmallVote) -> Self {
        match vote {
            SmallVote::Word(vote) => vote.clone(),
            SmallVote::Other(vote) => *vote,
        }
    }
}

impl Waiters {
    /// The waiters for the resource at this index. No lock is on more resources than there are bits.
    pub(super) fn at(index: usize) -> Self {
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        Self(1_u64.checked_shl(index).unwrap_or_default())
    }

    pub(crate) fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn has(self, index: usize) -> bool {
        self.0 & Self::at(index).0 != 0
    }

    pub(crate) fn any(self) -> bool {
        self.0 != 0
    }
}
