//! The scripts of the fenced protocol for several locks.

use std::time::Duration;

use super::acquire::Ask;
use super::bad_arguments;
use crate::fake::store::Store;
use crate::fake::store::entry::wrong_type;
use crate::wire::resp::Reply;
use crate::wire::scripts::fenced::{ACQUIRE_ALL, EXTEND_ALL, RELEASE_ALL, REST_ALL};

impl Store {
    /// Executes a script for several locks, if it is one.
    pub(super) fn execute_fenced_for_several(
        &mut self,
        words: &[&str],
        now: Duration,
    ) -> Option<Reply> {
        let ["EVAL", script, number, rest @ ..] = words else {
            return None;
        };
        let scripts = [ACQUIRE_ALL, EXTEND_ALL, RELEASE_ALL, REST_ALL];
        if !scripts.contains(script) {
            return None;
        }
        let number: usize = number.parse().ok()?;
        let (keys, arguments) = rest.split_at_checked(number)?;
        let (pairs, marker) = keys.as_chunks::<2>();
        let reply = match (marker, *script) {
            ([marker], script) if script == ACQUIRE_ALL => {
                self.fenced_acquire_all(pairs, marker, arguments, now)
            }
            ([marker], script) if script == EXTEND_ALL => each(pairs, |[lock, counter]| {
                self.fenced_extend([lock, counter, marker], arguments, now)
            }),
            ([], script) if script == RELEASE_ALL => each(pairs, |pair| {
                self.fenced_release(pair, arguments, None, now)
            }),
            ([], script) if script == REST_ALL => {
                arguments.split_last().and_then(|(left, rest)| {
                    each(pairs, |pair| {
                        self.fenced_release(pair, rest, Some(left), now)
                    })
                })
            }
            _ => return None,
        };
        Some(reply.unwrap_or_else(bad_arguments))
    }

    fn fenced_acquire_all(
        &mut self,
        pairs: &[[&str; 2]],
        marker: &str,
        arguments: &[&str],
        now: Duration,
    ) -> Option<Reply> {
        let ask = Ask::read(arguments)?;
        if self.is_of_another_type(marker, now) {
            return Some(wrong_type());
        }
        let open = match self.enter(marker, ask.quarantine, ask.config, now)? {
            Ok(open) => open,
            Err(closed) => return Some(closed),
        };
        let locks: Vec<&str> = pairs.iter().map(|[lock, _]| *lock).collect();
        let free = match self.missing(&locks, ask.value, ask.again, now) {
            Ok(asked) => asked.free,
            Err(refusal) => return Some(refusal),
        };
        let free: Vec<(usize, [&str; 2])> = free
            .iter()
            .filter_map(|(at, _)| Some((*at, pairs.get(*at).copied()?)))
            .collect();
        if free.is_empty() {
            return Some(Reply::Okay);
        }
        Some(match self.count_all(&free, open, &ask, now) {
            Ok(()) => self.set_all(
                free.iter().map(|(_, [lock, _])| *lock),
                ask.value,
                ask.ttl,
                now,
            ),
            Err(answer) => answer,
        })
    }

    /// Sets all counters to the token, if it is larger than every one.
    fn count_all(
        &mut self,
        free: &[(usize, [&str; 2])],
        open: i64,
        ask: &Ask<'_>,
        now: Duration,
    ) -> Result<(), Reply> {
        let mut largest = 0;
        for (at, [_, counter]) in free {
            let floor = self.floor(counter, ask, now);
            largest = floor
                .map_err(|answer| counter_at(*at, answer))?
                .max(largest);
        }
        self.judge(largest, open, ask, now)?;
        for (at, [_, counter]) in free {
            let counted = self.count(counter, ask, now);
            counted.map_err(|answer| counter_at(*at, answer))?;
        }
        Ok(())
    }
}

/// The answer, which says of a counter that is none which one it is.
fn counter_at(at: usize, answer: Reply) -> Reply {
    let Reply::Array(mut items) = answer else {
        return answer;
    };
    if items == [Reply::Bulk(b"COUNTER".to_vec())] {
        let place = at.saturating_add(1);
        items.push(Reply::Int(i64::try_from(place).unwrap_or(i64::MAX)));
    }
    Reply::Array(items)
}

fn each<'k>(
    pairs: &[[&'k str; 2]],
    mut one: impl FnMut([&'k str; 2]) -> Option<Reply>,
) -> Option<Reply> {
    let replies: Option<Vec<Reply>> = pairs.iter().map(|pair| one(*pair)).collect();
    replies.map(Reply::Array)
}
