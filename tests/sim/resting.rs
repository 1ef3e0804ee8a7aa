//! Locks with a minimum: while one rests on a majority of the nodes, nobody has it.

use super::claims::NOTICE;
use super::node::Executed;
use super::plan::SHORTEST_DELAY;
use super::prelude::*;
use crate::wire::scripts::is_missing;

pub(super) struct Rest {
    client: usize,
    hold: Call,
    on: On,
    until: Nanos,
    /// When the validity of the guard would have ended.
    valid_until: Nanos,
    /// Where the rest has begun: the place of the resource among those of the guard, and the node.
    begun: HashSet<(usize, usize)>,
}

impl Rest {
    /// Whether all resources rest on a majority.
    fn is_whole(&self, majority: usize) -> bool {
        let nodes = |place| self.begun.iter().filter(|(its, _)| *its == place).count();
        (0..self.on.places.len()).all(|place| nodes(place) >= majority)
    }
}

/// In front of the value of a lock that rests.
const MARK: &str = "rest:";

impl Worker {
    /// Whether a lock of this ttl is to be held for a time at least, and for which. None is drawn where the plan has none,
    /// so that it changes nothing about a seed.
    pub(super) fn draw_minimum(&mut self, ttl: Duration) -> Option<Duration> {
        if !self.plan.rests || self.rng.u8(0..3) == 0 {
            return None;
        }
        let longest = self.plan.longest_ttl();
        let minimum = self.rng.u64(1..=(2 * nanos(ttl)).min(longest));
        Some(Duration::from_nanos(minimum))
    }
}

impl World {
    /// A guard was returned whose lock is to be held for that long at least.
    pub(super) fn has_a_minimum(&self, client: usize, guard: &LockGuard, minimum: Duration) {
        let mut state = self.state();
        if state.is_over {
            return;
        }
        let clock = state.clients[client].clock;
        let until = guard.rests_until.map_or(0, Timestamp::as_nanos);
        let began = state.witness.began(guard.token());
        let least = clock.shows(began + 2 * SHORTEST_DELAY) + nanos(minimum);
        let most = clock.shows(state.now) + nanos(minimum);
        state.count("held for a time at least");
        if until < least || until > most {
            state.fail(format!(
                "P13: c{client} holds a lock to {until} at least, and not to between {least} and {most}"
            ));
        }
    }

    /// The guard ends now, and its lock rests if its minimum is not over.
    pub(super) fn is_to_rest(&self, Held { claim, on, guard }: &Held) {
        let Some(until) = guard.rests_until else {
            return;
        };
        let valid_until = guard.watch().deadline();
        let mut state = self.state();
        let claim = state.claim(*claim).map(|claim| (claim.client, claim.hold));
        let Some((client, hold)) = claim else {
            return;
        };
        let process = &state.clients[client];
        let rest = Rest {
            client,
            hold,
            on: on.clone(),
            until: process.when(until),
            valid_until: process.when(valid_until),
            begun: HashSet::new(),
        };
        if rest.until > state.now {
            state.witness.rests.insert(guard.token().to_owned(), rest);
        }
    }

    /// `unlock` has said that all is well.
    pub(super) fn has_rested(&self, client: usize, (token, until): (&str, Option<Timestamp>)) {
        let mut state = self.state();
        let until = until.map(|until| state.clients[client].when(until));
        let (majority, now) = (state.majority(), state.now);
        // The next thread may have given it back since then.
        let rest = state.witness.rests.get(token);
        let rest = rest.filter(|rest| Some(rest.until) == until);
        let is_short = rest.is_some_and(|rest| rest.until > now && !rest.is_whole(majority));
        state.require(!is_short, || {
            "P13: a lock rests on fewer nodes than a majority, and nothing was said".to_owned()
        });
    }
}

impl State {
    /// A command is sent. A lock whose minimum is not over is not released, but for what may be: on the other nodes it rests.
    pub(super) fn sends_for_a_rest(&mut self, message: &Message, may_release: bool) {
        if message.verb == Verb::Rest && !self.witness.rests.contains_key(&message.token) {
            return self.fail("P13: a lock is to rest that was to be free at once".to_owned());
        }
        let Some(token) = message.releases().filter(|_| message.verb != Verb::Rest) else {
            return;
        };
        if self.plan.kind != Kind::Sound || may_release {
            return;
        }
        // A thread may stop within the release, until the lock is lost. It is lost a notice before its end, for hooks.
        let notice = if self.plan.may_stop_after_a_look() {
            NOTICE + NOTICE / 100
        } else {
            0
        };
        let rest = self.witness.rests.get(token).filter(|rest| {
            let lost = rest.valid_until.saturating_sub(notice);
            rest.until.min(lost) > self.now
        });
        if let Some(rest) = rest {
            let (client, on) = (rest.client, &rest.on);
            let words = format!("P13: c{client} releases {on} before its minimum");
            self.fail(words);
        }
    }

    /// A node has executed the command by which a lock rests.
    pub(super) fn lets_rest(&mut self, node: usize, message: &Message, executed: &Executed) {
        if is_missing(&executed.reply) {
            return;
        }
        let value = format!("{MARK}{}", message.token);
        let (now, majority) = (self.now, self.majority());
        let rest = self.witness.rests.get(&message.token);
        let until = rest.map_or(0, |rest| rest.until);
        for (place, (key, before)) in message.keys.iter().zip(&executed.before).enumerate() {
            if !before.has(&message.token) {
                continue;
            }
            let end = self.nodes[node].expiry(key, &value, now);
            if end.is_none_or(|end| end < until) {
                let words = format!("P13: a lock rests for too short a time on n{node}");
                return self.fail(words);
            }
            let Some(rest) = self.witness.rests.get_mut(&message.token) else {
                return;
            };
            let was_whole = rest.is_whole(majority);
            rest.begun.insert((place, node));
            if !was_whole && rest.is_whole(majority) && until > now {
                let hold = rest.hold;
                let is_of_several = rest.on.places.len() > 1;
                self.count(if is_of_several {
                    "a lock on several resources rests"
                } else {
                    "a lock rests"
                });
                // From now on, the judge lets nobody have it.
                self.records(Some(hold), What::Rests(until));
            }
        }
    }

    /// For how long a lock rests at most from now on. An adopted one ends its minimum by the wall clock of its new holder.
    pub(super) fn longest_rest(&self) -> Nanos {
        let ends = self.witness.rests.values().map(|rest| rest.until);
        ends.max().map_or(0, |last| last.saturating_sub(self.now))
    }

    /// Whether a key may be there although all guards were given back.
    pub(super) fn may_rest(&self, value: &str) -> bool {
        let token = value.strip_prefix(MARK);
        token.is_some_and(|token| self.witness.rests.contains_key(token))
    }
}
