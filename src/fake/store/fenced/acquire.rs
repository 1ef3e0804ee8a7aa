//! What asks for a lock in the fenced protocol: the marker and the counters, for a lock, for several and for a reader.

use std::time::Duration;

use super::{Marker, another_config, answer, bulk, micros, number};
use crate::fake::store::Store;
use crate::fake::store::entry::{Content, until};
use crate::wire::resp::Reply;

/// The arguments of an acquire.
pub(super) struct Ask<'a> {
    pub(super) value: &'a str,
    pub(super) ttl: &'a str,
    token: i64,
    /// The smallest of the tokens that belong to the lock.
    lowest: i64,
    pub(super) quarantine: &'a str,
    span: i64,
    idle: &'a str,
    idle_micros: i64,
    pub(super) config: &'a str,
    pub(super) again: &'a str,
}

impl<'a> Ask<'a> {
    pub(super) fn read(arguments: &[&'a str]) -> Option<Self> {
        let [value, ttl, token, quarantine, idle, config, again, reserve] = *arguments else {
            return None;
        };
        let token = number(token)?;
        Some(Self {
            value,
            ttl,
            token,
            lowest: token.checked_sub(number(reserve)?)?,
            quarantine,
            span: micros(quarantine)?,
            idle,
            idle_micros: micros(idle)?,
            config,
            again,
        })
    }
}

impl Store {
    pub(super) fn fenced_acquire(
        &mut self,
        [lock, counter_key, marker]: [&str; 3],
        arguments: &[&str],
        now: Duration,
    ) -> Option<Reply> {
        let ask = Ask::read(arguments)?;
        let open = match self.enter(marker, ask.quarantine, ask.config, now)? {
            Ok(open) => open,
            Err(closed) => return Some(closed),
        };
        if let Some(text) = self.value(lock, now) {
            let is_ours = text == ask.value && ask.again == "1";
            return Some(if is_ours {
                Reply::Okay
            } else {
                self.refusal(lock, now)
            });
        }
        let verdict = match self.floor(counter_key, &ask, now) {
            Ok(floor) => self.judge(floor, open, &ask, now),
            Err(answer) => Err(answer),
        };
        // A key of another type is in the way of the lock, and says more than the counter.
        if self.get(lock, now).is_some() {
            // The counter is set before it is seen, and then has what it had.
            if let (Ok(()), Ok(idle)) = (&verdict, until(ask.idle, now, "set"))
                && let Some(counter) = self.get(counter_key, now)
                && counter.text().is_some()
            {
                counter.until = idle;
            }
            return Some(self.refusal(lock, now));
        }
        Some(
            match verdict.and_then(|()| self.count(counter_key, &ask, now)) {
                Ok(()) => self.set_all([lock].into_iter(), ask.value, ask.ttl, now),
                Err(answer) => answer,
            },
        )
    }

    /// When the node opened, if it is open. Writes the marker where there is none of this process.
    pub(super) fn enter(
        &mut self,
        key: &str,
        quarantine: &str,
        config: &str,
        now: Duration,
    ) -> Option<Result<i64, Reply>> {
        let (wall, span) = (self.wall(now), micros(quarantine)?);
        let run_id = self.process.run_id();
        let is_there = self.get(key, now).is_some();
        let written = self.value(key, now);
        let marker = match written.as_deref().map(Marker::read) {
            None if is_there => return Some(Err(answer("MARKER", []))),
            None => None,
            Some(None) => return Some(Err(answer("MARKER", []))),
            Some(Some(marker)) if marker.config != config => {
                return Some(Err(another_config(&marker)));
            }
            Some(marker) => marker,
        };
        let (open, why) = match marker {
            Some(marker) if marker.run_id == run_id => (marker.open_at, marker.why),
            other => {
                let why = if other.is_some() { "reborn" } else { "new" };
                let open = wall.checked_add(span)?;
                self.set_marker(key, (&run_id, config), open, why);
                (open, why)
            }
        };
        if wall < open {
            let left = Reply::Int(open.saturating_sub(wall));
            return Some(Err(answer("CLOSED", [left, bulk(why)])));
        }
        Some(Ok(open))
    }

    /// The number that a token has to be larger than, by the counter.
    pub(super) fn floor(
        &mut self,
        counter: &str,
        ask: &Ask<'_>,
        now: Duration,
    ) -> Result<i64, Reply> {
        let wall = self.wall(now);
        let Some(text) = self.value(counter, now) else {
            return Ok(wall
                .saturating_sub(ask.idle_micros)
                .saturating_add(ask.span));
        };
        let counter = number(&text).ok_or_else(|| answer("COUNTER", []))?;
        if counter > wall.saturating_add(ask.span).saturating_add(1) {
            let ahead = Reply::Int(counter.saturating_sub(wall));
            return Err(answer("FUTURE", [ahead]));
        }
        Ok(counter)
    }

    pub(super) fn judge(
        &self,
        floor: i64,
        open: i64,
        ask: &Ask<'_>,
        now: Duration,
    ) -> Result<(), Reply> {
        let wall = self.wall(now);
        if ask.token > wall.saturating_add(ask.span) {
            return Err(answer("SKEW", [Reply::Int(wall)]));
        }
        let floor = floor.max(open);
        if ask.lowest <= floor {
            return Err(answer("STALE", [Reply::Int(floor)]));
        }
        Ok(())
    }

    /// Sets a counter to the token.
    pub(super) fn count(
        &mut self,
        counter: &str,
        ask: &Ask<'_>,
        now: Duration,
    ) -> Result<(), Reply> {
        let until = until(ask.idle, now, "set")?;
        if self
            .get(counter, now)
            .is_some_and(|entry| entry.text().is_none())
        {
            return Err(answer("COUNTER", []));
        }
        self.put(counter, &ask.token.to_string(), until);
        Ok(())
    }

    /// The counter goes up where it is one, so that no earlier writer heals.
    pub(super) fn fenced_read(
        &mut self,
        [lock, counter_key, marker]: [&str; 3],
        arguments: &[&str],
        now: Duration,
    ) -> Option<Reply> {
        let [value, ttl, again, quarantine, config] = arguments else {
            return None;
        };
        if let Err(closed) = self.enter(marker, quarantine, config, now)? {
            return Some(closed);
        }
        let reply = self.read(lock, value, ttl, again, now);
        let counter = self.value(counter_key, now).unwrap_or_default();
        let is_counter = !counter.starts_with('0');
        if reply == Reply::Okay
            && let Some(counter) = number(&counter).filter(|_| is_counter)
            && let Some(entry) = self.get(counter_key, now)
        {
            entry.content = Content::Text(counter.saturating_add(1).to_string());
        }
        Some(reply)
    }
}
