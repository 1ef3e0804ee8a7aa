//! Reads what a node says to a command, once, where the reply comes in. Accepts exactly what the commands of the verb return; the rows
//! and words of scripts are in a table at the head of `wire/scripts.rs`.

use std::time::Duration;

mod rows;

use self::rows::{Rows, items, millis};
pub(crate) use self::rows::{Shown, Woken, one_vote};
pub(super) use self::rows::{Taker, Verb};
use crate::error::{NodeError, QuarantineCause, Vote};
use crate::health::answers::{self, Question};
use crate::wire::pack::Packed;
use crate::wire::resp::Reply;
use crate::wire::transport::{clean, refusal};

/// What a node says.
#[derive(Debug, Clone)]
pub(crate) enum Said {
    /// Its vote on a lock.
    Vote(Vote),
    /// Its vote on a release, and whom that has woken.
    Released(Vote, Woken),
    /// Something about itself, which is no vote.
    Word(Word),
    /// Of a pass: the release, and the vote of what rode with it; none if the release has woken a client, which comes first.
    Passed(Box<(Self, Option<Self>)>),
    /// What is under each key.
    Shown(Vec<Shown>),
    Look(LookReply),
    Page(Page),
    Alive,
    Fact(answers::Content),
    /// To each of several commands.
    Each(Vec<Self>),
    Other(Reply),
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

/// What a node of the fenced protocol says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Word {
    Done,
    Marker,
    /// The counter of the lock at this place is none.
    Counter(usize),
    Config(String),
    Closed(Duration, QuarantineCause),
    Future(Duration),
    /// The node's time.
    Skew(u64),
    /// The node's counter, or what stands in for it.
    Stale(u64),
    Serving,
    /// The server does not say which process it is.
    Unknown(String),
}

impl Said {
    /// Reads the reply to a command, or to several that went out together.
    pub(super) fn read(verb: Verb, reply: &Reply, command: &Packed) -> Option<Self> {
        let count = command.count();
        if count == 1 {
            return read_one(verb, reply, command);
        }
        let replies = reply.of_each(count);
        let each = replies.iter().zip(command.each());
        let said = each.map(|(reply, command)| read_one(verb, reply, command));
        let said: Vec<Self> = said.collect::<Option<_>>()?;
        (said.len() == count && replies.len() == count).then_some(Self::Each(said))
    }

    /// The vote on one lock.
    pub(super) fn vote(self) -> Vote {
        if let Self::Vote(vote) | Self::Released(vote, _) = self {
            vote
        } else {
            Vote::Failed(Self::misplaced())
        }
    }

    #[cfg(test)]
    pub(super) fn into_reply(self) -> Reply {
        if let Self::Each(each) = self {
            return Reply::Array(each.into_iter().map(Self::into_reply).collect());
        }
        let Self::Other(reply) = self else {
            panic!("{self:?}");
        };
        reply
    }

    /// The error where a command of another verb was read, which no caller does.
    pub(super) fn misplaced() -> NodeError {
        NodeError::protocol("the answer to another question")
    }
}

fn read_one(verb: Verb, reply: &Reply, command: &Packed) -> Option<Said> {
    let rows = Rows {
        verb,
        keys: command.keys(),
        names: command.names(),
    };
    let votes = || rows.vote(reply);
    match (verb, reply) {
        (Verb::Take(taker), _) => taken(reply, taker, &rows),
        (Verb::Keep, _) => votes().map(|(vote, _)| Said::Vote(vote)),
        (Verb::Drop, _) => votes().map(|(vote, woken)| Said::Released(vote, woken)),
        (Verb::Pass(taker), _) => passed(reply, taker, &rows),
        (Verb::Show, _) => {
            let shown = rows.read(reply)?.into_iter().map(|row| row.shown);
            Some(Said::Shown(shown.collect()))
        }
        (Verb::Look(_), Reply::Error(_)) | (Verb::Other, _) => Some(Said::Other(reply.clone())),
        (Verb::Look(permits), _) => look(items(reply)?, permits, rows.keys).map(Said::Look),
        (Verb::Open, Reply::Okay) => Some(Said::Word(Word::Done)),
        (Verb::Open | Verb::Scan, Reply::Error(error)) => {
            Some(Said::Vote(Vote::Failed(refusal(error))))
        }
        (Verb::Open, _) => word(items(reply)?).map(Said::Word),
        (Verb::Scan, _) => page(items(reply)?).map(Said::Page),
        // A server that refuses is alive, too.
        (Verb::Probe, Reply::Int(1) | Reply::Error(_)) => Some(Said::Alive),
        (Verb::Probe, _) => None,
        (Verb::Ask(question), _) => fact(question, reply).map(Said::Fact),
    }
}

/// Reads the reply to an acquire. Only `+OK` is a vote.
fn taken(reply: &Reply, taker: Taker, rows: &Rows<'_>) -> Option<Said> {
    let vote = match (reply, taker) {
        (Reply::Okay, _) => Vote::Granted,
        // Of the plain `SET NX`.
        (Reply::Nil, Taker::PLAIN) if rows.names.is_none() => Vote::held(None),
        (Reply::Error(error), _) => Vote::Failed(refusal(error)),
        (Reply::Array(items), _) if matches!(items.first(), Some(Reply::Bulk(_))) => {
            let word = word(items).filter(|_| taker.is_fenced)?;
            return Some(Said::Word(word));
        }
        _ => rows.vote(reply)?.0,
    };
    Some(Said::Vote(vote))
}

/// Reads the reply to a pass: the row of the release, and the reply to the acquire.
fn passed(reply: &Reply, taker: Taker, rows: &Rows<'_>) -> Option<Said> {
    if let Reply::Error(error) = reply {
        let failed = || Vote::Failed(refusal(error));
        let released = Said::Released(failed(), Woken::default());
        let asked = Some(Said::Vote(failed()));
        return Some(Said::Passed(Box::new((released, asked))));
    }
    let [released, asked] = items(reply)? else {
        return None;
    };
    let of = |verb| Rows { verb, ..*rows };
    let (vote, woken) = of(Verb::Drop).vote(released)?;
    let asked = match (asked, woken.any()) {
        (Reply::Int(0), true) => None,
        (_, true) => return None,
        (asked, false) => Some(taken(asked, taker, &of(Verb::Take(taker)))?),
    };
    Some(Said::Passed(Box::new((Said::Released(vote, woken), asked))))
}

/// Reads a word, and what follows it.
fn word(items: &[Reply]) -> Option<Word> {
    let (word, rest) = items.split_first()?;
    match (bytes(word)?, rest) {
        (b"MARKER", []) => Some(Word::Marker),
        (b"COUNTER", [place]) => {
            let place = usize::try_from(number(place)?).ok()?;
            Some(Word::Counter(place.checked_sub(1)?))
        }
        (b"SERVING", []) => Some(Word::Serving),
        (b"UNKNOWN", [reason]) => Some(Word::Unknown(text(reason)?)),
        (b"CONFIG", [config]) => Some(Word::Config(text(config)?)),
        (b"CLOSED", [left, why]) => {
            let why = match bytes(why)? {
                b"new" => QuarantineCause::Unmarked,
                _ => QuarantineCause::Reborn,
            };
            Some(Word::Closed(Duration::from_micros(number(left)?), why))
        }
        (b"FUTURE", [ahead]) => Some(Word::Future(Duration::from_micros(number(ahead)?))),
        (b"SKEW", [now]) => Some(Word::Skew(number(now)?)),
        (b"STALE", [counter]) => Some(Word::Stale(number(counter)?)),
        _ => None,
    }
}

fn bytes(value: &Reply) -> Option<&[u8]> {
    if let Reply::Bulk(bytes) = value {
        Some(bytes)
    } else {
        None
    }
}

fn text(value: &Reply) -> Option<String> {
    Some(clean(&String::from_utf8_lossy(bytes(value)?)))
}

fn number(value: &Reply) -> Option<u64> {
    if let Reply::Int(number) = value {
        u64::try_from(*number).ok()
    } else {
        None
    }
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

/// Reads what a server says of itself.
fn fact(question: Question, reply: &Reply) -> Option<answers::Content> {
    match (question, reply) {
        (_, Reply::Error(error)) => Some(answers::Content::Refusal(refusal(error))),
        (Question::Marker, Reply::Nil) => Some(answers::Content::Nothing),
        (Question::Marker | Question::Info(_), Reply::Bulk(text)) => Some(answers::Content::Text(
            String::from_utf8_lossy(text).into_owned(),
        )),
        (Question::Time, Reply::Array(parts)) => time(parts),
        _ => None,
    }
}

/// Reads seconds and microseconds, each as text.
fn time(parts: &[Reply]) -> Option<answers::Content> {
    let [Reply::Bulk(seconds), Reply::Bulk(micros)] = parts else {
        return None;
    };
    let number = |digits: &[u8]| -> Option<u64> { str::from_utf8(digits).ok()?.parse().ok() };
    let seconds_us = number(seconds)?.checked_mul(1_000_000)?;
    let micros = number(micros).filter(|micros| *micros < 1_000_000)?;
    seconds_us.checked_add(micros).map(answers::Content::Time)
}

#[cfg(test)]
mod tests;
