//! Reads what a node says to a command, once, where the reply comes in. Accepts exactly what the commands of the verb return; the rows
//! and words of scripts are in a table at the head of `wire/scripts.rs`. `echo` keeps the arguments of commands out of messages.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

mod echo;
mod rows;
mod word;

pub(super) use self::echo::{hide_echo, kind};
pub(crate) use self::rows::{Row, Woken, one_vote};
use self::rows::{Rows, Voted, bytes, items, millis};
use self::word::word;
use super::receipt::Receipt;
use super::request::Verb;
use crate::claim::Claim;
use crate::clock::{Clock, Timestamp};
use crate::error::{NodeError, Vote};
use crate::wire::pack::Packed;
use crate::wire::resp::Reply;
use crate::wire::transport::{closed, refusal};

/// What has become of a request at one node.
pub(crate) struct Answer {
    /// What the node says, or why it says nothing.
    pub(super) result: Result<Said, NodeError>,
    pub(crate) elapsed: Duration,
    /// When it came.
    pub(crate) at: Timestamp,
    /// The run id of the server that answered, where it is known.
    pub(super) server: Option<Arc<str>>,
    /// What the request may have left on the node.
    pub(super) leftover: Leftover,
    /// Why the request was sent more than once, if it was.
    pub(super) first_failure: Option<Box<NodeError>>,
    pub(super) again: Again,
}

/// Whether the node is asked once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    Never,
    /// The connection was idle before and is silent now. It may be forgotten on the way, so a connection newer than this generation
    /// is used, unless a majority has answered.
    OnNewerThan(u64),
    /// The thread that was to send has panicked.
    Left,
}

/// The answers of one node to several requests, or of several nodes to one.
pub(crate) type Answers = SmallVec<[Answer; 1]>;

/// What a request may have left on a node.
#[derive(Debug, Clone)]
pub(crate) enum Leftover {
    /// Nothing, now or later: the node was not asked, or no whole request has reached it.
    None,
    /// The node may have executed the request, so an acquire has to be released.
    Possible,
    /// An undo was sent behind the request. The node may execute both, at any later time before the undo is answered.
    Undone(Receipt),
}

impl Answer {
    /// That of a node that was not sent the request, because its thread has panicked.
    pub(super) fn lost(at: Timestamp) -> Self {
        Self {
            result: Err(closed(io::ErrorKind::ConnectionAborted)),
            elapsed: Duration::ZERO,
            at,
            server: None,
            leftover: Leftover::None,
            first_failure: None,
            again: Again::Left,
        }
    }

    /// Whether it does not say what has become of a key that was released. An error, as while a server loads its data, does not.
    pub(super) fn is_silent(&self) -> bool {
        match &self.result {
            Ok(Said::Vote(vote, _) | Said::Passed(vote, ..)) => vote.is_silent(),
            Err(_) | Ok(Said::Partly(..)) => true,
            Ok(_) => false,
        }
    }

    /// The reply to a command of any kind.
    pub(crate) fn reply(self) -> Result<Reply, NodeError> {
        if let Said::Raw(reply) = self.result? {
            return Ok(reply);
        }
        Err(Said::misplaced())
    }

    /// Takes over the answer to a second request, if there was none to the first. The node may have executed the first already.
    pub(super) fn replace(&mut self, mut again: Self) {
        if let Err(failure) = &self.result {
            again.elapsed = again.elapsed.saturating_add(self.elapsed);
            again
                .first_failure
                .get_or_insert_with(|| Box::new(failure.clone()));
            *self = again;
        }
    }
}

/// What a node says.
#[derive(Debug, Clone)]
pub(crate) enum Said {
    /// Its vote, and whom a release has woken.
    Vote(Vote, Woken),
    /// As `Vote`, for several resources. The vote is about one key, and the row of another key is an error.
    Partly(Vote, Woken),
    /// Of a pass: the same of the release, and the vote on what rode with it. There is none if the release has woken a client, which
    /// comes first.
    Passed(Vote, Woken, Option<Box<Vote>>),
    /// What is under each key.
    Shown(Vec<Row>),
    Look(LookReply),
    Page(Page),
    /// The reply as it came.
    Raw(Reply),
    /// Whether the bell has rung that the node was to wait for.
    Rang(bool),
}

/// What a node says of a lock that a client waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LookReply {
    /// Of the slot that is free first, if it is a semaphore.
    pub(crate) state: LockState,
    /// Whether a release of the lock is going to wake a client.
    pub(crate) is_announced: bool,
    /// The slots of the semaphore that the node would grant.
    pub(crate) free: Vec<u32>,
    /// Of several resources, the place of the one that this is about: the first that is not free.
    pub(crate) place: usize,
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

/// More keys than any server finds in one step. Each is asked about on all nodes, so a server that lies must not have us
/// ask for long.
const MOST_KEYS: usize = 4096;

impl Said {
    /// Reads the reply to a command. None if it is no such reply, which is a fault of the node.
    pub(super) fn read(
        verb: &Verb,
        command: &Packed,
        reply: &Reply,
        clock: &Clock,
    ) -> Option<Self> {
        let rows = Rows { verb, command };
        match (verb, reply) {
            (Verb::Take(repair), _) => taken(&rows, reply, &repair.claim, clock).map(Said::from),
            (Verb::Keep { .. } | Verb::Drop, _) => rows.vote(reply).map(Said::from),
            (Verb::Pass(repair), _) => passed(&rows, reply, &repair.claim, clock),
            (Verb::Show, _) => Some(Said::Shown(rows.read(reply)?.into_vec())),
            (Verb::Raw(is_answer), _) => {
                let is_read = matches!(reply, Reply::Error(_)) || is_answer(reply);
                is_read.then(|| Said::Raw(reply.clone()))
            }
            (_, Reply::Error(error)) => Some(Vote::Failed(refusal(error)).into()),
            (Verb::Open(_), Reply::Okay) | (Verb::Probe, Reply::Int(1)) => {
                Some(Vote::Granted.into())
            }
            (Verb::Open(rules), _) => {
                let vote = word(items(reply)?, rules, &[], clock.wall_micros())?;
                Some(vote.into())
            }
            (Verb::Scan, _) => page(items(reply)?).map(Said::Page),
            (Verb::Look { permits }, _) => {
                look(items(reply)?, *permits, command.keys).map(Said::Look)
            }
            (Verb::Listen { .. }, Reply::Array(_)) => Some(Said::Rang(true)),
            (Verb::Listen { .. }, Reply::Nil) => Some(Said::Rang(false)),
            (Verb::Probe | Verb::Listen { .. }, _) => None,
        }
    }

    /// The vote, and whom a release has woken.
    pub(super) fn vote(self) -> (Vote, Woken) {
        match self {
            Self::Vote(vote, woken) | Self::Partly(vote, woken) | Self::Passed(vote, woken, _) => {
                (vote, woken)
            }
            Self::Shown(_) | Self::Look(_) | Self::Page(_) | Self::Raw(_) | Self::Rang(_) => {
                (Vote::Failed(Self::misplaced()), Woken::default())
            }
        }
    }

    /// The error where a command of another verb was read, which no caller does.
    pub(super) fn misplaced() -> NodeError {
        NodeError::protocol("the answer to another question")
    }
}

impl From<Voted> for Said {
    fn from(voted: Voted) -> Self {
        let Voted { vote, woken, .. } = voted;
        if voted.hides_silence {
            Self::Partly(vote, woken)
        } else {
            Self::Vote(vote, woken)
        }
    }
}

impl From<Vote> for Said {
    fn from(vote: Vote) -> Self {
        Self::Vote(vote, Woken::default())
    }
}

/// Reads the reply to an acquire. Only `+OK` is a vote for it.
fn taken(rows: &Rows<'_>, reply: &Reply, claim: &Claim, clock: &Clock) -> Option<Vote> {
    let is_plain = rows.command.names.is_none() && !claim.resource.is_read();
    match (reply, &claim.fence) {
        (Reply::Okay, _) => Some(Vote::Granted),
        (Reply::Nil, None) if is_plain => Some(Vote::held(None)),
        (Reply::Array(items), Some(fence)) if matches!(items.first(), Some(Reply::Bulk(_))) => {
            let keys = &claim.resource.keys;
            word(items, &fence.rules, keys, clock.wall_micros())
        }
        _ => rows.vote(reply).map(|voted| voted.vote),
    }
}

/// Reads the reply to a pass: the row of the release, and the reply to the acquire.
fn passed(rows: &Rows<'_>, reply: &Reply, claim: &Claim, clock: &Clock) -> Option<Said> {
    if let Reply::Error(error) = reply {
        let failed = || Vote::Failed(refusal(error));
        let asked = Some(Box::new(failed()));
        return Some(Said::Passed(failed(), Woken::default(), asked));
    }
    let [released, asked] = items(reply)? else {
        return None;
    };
    let of_release = Rows {
        verb: &Verb::Drop,
        ..*rows
    };
    let Voted { vote, woken, .. } = of_release.vote(released)?;
    let asked = match (asked, woken.any()) {
        (Reply::Int(0), true) => None,
        (_, true) => return None,
        (asked, false) => Some(Box::new(taken(rows, asked, claim, clock)?)),
    };
    Some(Said::Passed(vote, woken, asked))
}

fn look(items: &[Reply], permits: Option<u32>, keys: usize) -> Option<LookReply> {
    let [
        Reply::Int(place),
        Reply::Int(left),
        Reply::Int(announced @ 0..=1),
        Reply::Bulk(free),
    ] = items
    else {
        return None;
    };
    let place = usize::try_from(*place).ok()?.checked_sub(1)?;
    let state = match left {
        -2 => LockState::Free,
        -1 => LockState::Stuck,
        -3 => LockState::Deserted,
        0.. => LockState::Held(millis(*left)),
        _ => return None,
    };
    (place < keys).then_some(LookReply {
        state,
        is_announced: *announced == 1,
        free: free_slots(free, permits.unwrap_or_default())?,
        place,
    })
}

/// Reads `1` for each free slot, and `0` for each other.
fn free_slots(slots: &[u8], permits: u32) -> Option<Vec<u32>> {
    let is_whole =
        slots.iter().all(|slot| b"01".contains(slot)) && u32::try_from(slots.len()) == Ok(permits);
    let free = (0..permits).zip(slots).filter(|(_, slot)| **slot == b'1');
    is_whole.then(|| free.map(|(slot, _)| slot).collect())
}

fn page(items: &[Reply]) -> Option<Page> {
    let (cursor, keys) = items.split_first()?;
    if keys.len() > MOST_KEYS {
        return None;
    }
    let text = str::from_utf8(bytes(cursor)?).ok()?;
    // A cursor in the one way in which Redis writes it.
    let cursor: u64 = text.parse().ok()?;
    let keys = keys.iter().map(|key| bytes(key).map(<[u8]>::to_vec));
    (cursor.to_string() == text).then_some(Page {
        cursor,
        keys: keys.collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests;
