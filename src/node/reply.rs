//! Reads what a node says to a command, once, where the reply comes in. Accepts exactly what the commands of the verb return; the rows
//! and words of scripts are in a table at the head of `wire/scripts.rs`. `echo` keeps the arguments of commands out of messages.

mod echo;
mod rows;
mod word;

pub(super) use self::echo::{hide_echo, kind};
pub(crate) use self::rows::one_vote;
use self::rows::{Rows, bytes, items, millis};
use self::word::word;
use super::key_report::{KeyReport, LockState, LookReply, Page, Payload, SmallVote};
use super::request::Verb;
use crate::claim::Claim;
use crate::clock::Clock;
use crate::error::Vote;
use crate::wire::pack::Packed;
use crate::wire::resp::Reply;
use crate::wire::transport::refusal;

/// More keys than any server finds in one step. Each is asked about on all nodes, so a server that lies must not have us
/// ask for long.
const MOST_KEYS: usize = 4096;

/// Reads the reply to a command. None if it is no such reply, which is a fault of the node.
pub(super) fn read(
    verb: &Verb,
    command: &Packed,
    reply: &Reply,
    clock: &Clock,
) -> Option<KeyReport> {
    let rows = Rows { verb, command };
    let payload = match (verb, reply) {
        (Verb::Take(attempt), _) => return taken(&rows, reply, &attempt.claim, clock),
        (Verb::Keep { .. } | Verb::Drop, _) => return rows.vote(reply),
        (Verb::Pass(attempt), _) => return passed(&rows, reply, &attempt.claim, clock),
        (Verb::Show, _) => Payload::Keys(rows.read(reply)?.into_vec()),
        (Verb::Raw(is_answer), reply) if matches!(reply, Reply::Error(_)) || is_answer(reply) => {
            Payload::Raw(reply.clone())
        }
        (_, Reply::Error(error)) => return Some(KeyReport::of(Vote::Failed(refusal(error)))),
        (Verb::Open(_), Reply::Okay)
        | (Verb::Probe, Reply::Int(1))
        // The bell has rung.
        | (Verb::Listen(_), Reply::Array(_)) => return Some(KeyReport::of(&Vote::Granted)),
        (Verb::Listen(_), Reply::Nil) => return Some(KeyReport::of(&Vote::Missing)),
        (Verb::Open(rules), _) => {
            return word(items(reply)?, rules, None, clock.wall_micros()).map(KeyReport::of);
        }
        (Verb::Scan, _) => Payload::Page(page(items(reply)?)?),
        (Verb::Look { permits }, _) => Payload::Look(look(items(reply)?, *permits, command.keys)?),
        (Verb::Raw(_) | Verb::Probe | Verb::Listen(_), _) => return None,
    };
    Some(KeyReport::with_payload(&Vote::NotAsked, payload))
}

/// Reads the reply to an acquire. Only `+OK` is a vote for it.
fn taken(rows: &Rows<'_>, reply: &Reply, claim: &Claim, clock: &Clock) -> Option<KeyReport> {
    let is_plain = rows.command.names.is_none() && !claim.resource.is_read();
    match (reply, &claim.fence) {
        (Reply::Okay, _) => Some(KeyReport::of(&Vote::Granted)),
        (Reply::Nil, None) if is_plain => Some(KeyReport::of(Vote::held(None))),
        (Reply::Array(items), Some(fence)) if matches!(items.first(), Some(Reply::Bulk(_))) => {
            let resource = Some(&*claim.resource);
            word(items, &fence.rules, resource, clock.wall_micros()).map(KeyReport::of)
        }
        _ => rows.vote(reply),
    }
}

/// Reads the reply to a pass: the row of the release, and the reply to the acquire.
fn passed(rows: &Rows<'_>, reply: &Reply, claim: &Claim, clock: &Clock) -> Option<KeyReport> {
    if let Reply::Error(error) = reply {
        let failed = SmallVote::from(Vote::Failed(refusal(error)));
        let next = Payload::NextVote(Some(failed.clone()));
        return Some(KeyReport::with_payload(failed, next));
    }
    let [released, asked] = items(reply)? else {
        return None;
    };
    let (verb, command) = (&Verb::Drop, rows.command);
    let mut report = Rows { verb, command }.vote(released)?;
    let next = match (asked, report.waiters.any()) {
        (Reply::Int(0), true) => None,
        (_, true) => return None,
        (asked, false) => Some(taken(rows, asked, claim, clock)?.vote),
    };
    report.rare().payload = Payload::NextVote(next);
    Some(report)
}

fn look(items: &[Reply], permits: Option<u32>, keys: usize) -> Option<LookReply> {
    let [
        Reply::Int(index),
        Reply::Int(left),
        Reply::Int(announced @ 0..=1),
        Reply::Bulk(free),
    ] = items
    else {
        return None;
    };
    let index = usize::try_from(*index).ok()?.checked_sub(1)?;
    let state = match left {
        -2 => LockState::Free,
        -1 => LockState::Stuck,
        -3 => LockState::Deserted,
        0.. => LockState::Held(millis(*left)),
        _ => return None,
    };
    (index < keys).then_some(LookReply {
        state,
        is_announced: *announced == 1,
        free: free_slots(free, permits.unwrap_or_default())?,
        index,
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
