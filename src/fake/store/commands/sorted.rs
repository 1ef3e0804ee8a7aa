//! The commands for sorted sets.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::super::entry::{Content, Sorted, bulk, count, error, integer};
use super::Store;
use crate::wire::resp::Reply;

impl Store {
    pub(super) fn sorted_command(&mut self, words: &[&str], now: Duration) -> Result<Reply, Reply> {
        match words {
            ["ZADD", key, "NX", score, member] => self.add(key, score, member, now, |old, _| old),
            ["ZADD", key, score, member] => self.add(key, score, member, now, |_, new| new),
            ["ZREM", key, member] => self.remove_from(key, Content::as_sorted, now, |sorted| {
                sorted.0.remove(*member).is_some().into()
            }),
            ["ZREMRANGEBYSCORE", key, min, max] => {
                let scores = scores(min, max)?;
                self.remove_from(key, Content::as_sorted, now, |sorted| {
                    let before = sorted.0.len();
                    sorted.0.retain(|_, score| !scores.contains(score));
                    let removed = before.saturating_sub(sorted.0.len());
                    i64::try_from(removed).unwrap_or(i64::MAX)
                })
            }
            ["ZSCORE", key, member] => {
                let sorted = self.sorted(key, now)?;
                let score = sorted.0.get(*member);
                Ok(score.map_or(Reply::Nil, |score| bulk(&score.to_string())))
            }
            ["ZCOUNT", key, min, max] => {
                let scores = scores(min, max)?;
                Ok(count(self.sorted(key, now)?.within(&scores).len()))
            }
            ["ZRANGE", key, "-1", "-1", "WITHSCORES"] => {
                let sorted = self.sorted(key, now)?;
                let members = sorted
                    .0
                    .iter()
                    .map(|(member, score)| (*score, member.as_str()));
                let last = members.max();
                Ok(Reply::Array(
                    last.map(with_score).into_iter().flatten().collect(),
                ))
            }
            ["ZRANGEBYSCORE", key, min, max, options @ ..] => {
                let scores = scores(min, max)?;
                let (has_scores, from, limit) = match options {
                    ["WITHSCORES", "LIMIT", from, limit] => (true, from, limit),
                    ["LIMIT", from, limit] => (false, from, limit),
                    _ => return Err(error("syntax error")),
                };
                let number = |text| Ok(usize::try_from(integer(text)?).unwrap_or(usize::MAX));
                let (from, limit) = (number(from)?, number(limit)?);
                let found = self.sorted(key, now)?.within(&scores);
                let found = found.into_iter().skip(from).take(limit);
                Ok(Reply::Array(if has_scores {
                    found.flat_map(with_score).collect()
                } else {
                    found.map(|(_, member)| bulk(member)).collect()
                }))
            }
            _ => Err(error("a command that a fake node does not know")),
        }
    }

    /// A key that is not there is an empty set.
    fn sorted(&mut self, key: &str, now: Duration) -> Result<&Sorted, Reply> {
        static EMPTY: Sorted = Sorted(BTreeMap::new());
        let sorted = self.typed(key, Content::as_sorted, now)?;
        Ok(sorted.map_or(&EMPTY, |sorted| sorted))
    }

    fn add(
        &mut self,
        key: &str,
        score: &str,
        member: &str,
        now: Duration,
        choose: impl FnOnce(i64, i64) -> i64,
    ) -> Result<Reply, Reply> {
        let score = integer(score).map_err(|_| error("value is not a valid float"))?;
        let new = Content::Sorted(Sorted::default());
        let sorted = self.typed_or_new(key, new, Content::as_sorted, now)?;
        let old = sorted.0.get(member).copied();
        let score = old.map_or(score, |old| choose(old, score));
        sorted.0.insert(member.to_owned(), score);
        Ok(Reply::Int(old.is_none().into()))
    }
}

fn with_score((score, member): (i64, &str)) -> [Reply; 2] {
    [bulk(member), bulk(&score.to_string())]
}

/// The whole numbers from one bound to another, as Redis writes them.
fn scores(min: &str, max: &str) -> Result<RangeInclusive<i64>, Reply> {
    let bound = |text: &str, towards: i64| match text.strip_prefix('(') {
        Some(text) => integer(text).ok()?.checked_add(towards),
        None if text == "-inf" => Some(i64::MIN),
        None if text == "+inf" => Some(i64::MAX),
        None => integer(text).ok(),
    };
    let range = bound(min, 1).zip(bound(max, -1));
    let range = range.map(|(min, max)| min..=max);
    range.ok_or_else(|| error("min or max is not a float"))
}
