//! Who has a place: at most one holder, readers together, no more permits than there are, nobody while a lock rests; and with
//! fencing tokens that grow in the order in which locks are had.

use std::sync::Arc;

use crate::checker::{Checker, Hold, Rule};
use crate::event::{Call, Nanos, Way};

impl Checker {
    /// A guard is returned that is the first of its lock. One that had ended by then has held nothing.
    pub(crate) fn takes_its_places(&mut self, hold: &Hold) {
        let is_over = hold.is_over_at(hold.start);
        if hold.asks.adopts.is_some() || hold.shares_permits() || is_over {
            return;
        }
        for slot in hold.slots() {
            let place = self.places.entry(slot).or_default();
            let taken = Some((hold.call, hold.start));
            if hold.asks.on.is_read() {
                place.read = taken;
            } else {
                place.alone = taken;
            }
        }
    }

    /// A guard has ended whose lock nobody is to have before this time.
    pub(crate) fn rests(&mut self, hold: &Hold, until: Nanos) {
        for slot in hold.slots() {
            let resting = &mut self.places.entry(slot).or_default().resting;
            if resting.is_none_or(|(_, other)| other < until) {
                *resting = Some((hold.call, until));
            }
        }
    }

    /// A guard is returned: its lock does not rest.
    pub(crate) fn does_not_rest(&mut self, hold: &Hold) {
        let at = hold.start;
        let resting = hold.slots().find_map(|slot| {
            let (call, until) = self.places.get(&slot)?.resting?;
            (until > at && !hold.is_over_at(at)).then_some(call)
        });
        if let Some(resting) = resting {
            let words = "has it while it rests";
            self.finds(Rule::Rest, hold, [resting], words);
        }
    }

    /// Who, of those that the guard excludes, has taken one of its places since its lock was first had.
    pub(crate) fn next_after(&self, hold: &Hold) -> Option<Call> {
        if hold.shares_permits() {
            return None;
        }
        let (first, since) = hold.first;
        hold.slots().find_map(|slot| {
            let place = self.places.get(&slot)?;
            let read = place.read.filter(|_| !hold.asks.on.is_read());
            let mut others = place.alone.into_iter().chain(read);
            others.find_map(|(call, at)| (call != first && at > since).then_some(call))
        })
    }

    /// A guard says from now on that it is valid. Nobody else may have its places.
    pub(crate) fn excludes(&mut self, hold: &Hold) {
        let now = self.now;
        for place in &hold.asks.on.places {
            let open = self.open.entry(*place).or_default();
            let is_valid =
                |other: &Call| self.holds.get(other).is_some_and(|it| it.is_valid_at(now));
            open.retain(|other| *other != hold.call && is_valid(other));
            // A guard that goes on after its end counts again.
            open.push(hold.call);
            if !hold.is_valid_at(now) {
                continue;
            }
            let open = open.clone();
            for other in &open {
                let Some(their) = self.holds.get(other).filter(|_| *other != hold.call) else {
                    continue;
                };
                if let Some(rule) = broken_by_two(hold, their) {
                    let words = format!("two holders: c{} has r{place}, too", their.asks.client);
                    self.finds(rule, hold, [*other], &words);
                }
            }
            let permits = u32::try_from(open.len()).unwrap_or(u32::MAX);
            let most = self.assumed.permits.get(place);
            if let Some(most) = most.filter(|most| **most < permits) {
                let words = format!("too many holders: {permits} of {most} permits");
                self.finds(Rule::Permits, hold, open, &words);
            }
        }
    }

    /// A guard is returned: where it adopts a lease, that has the tokens of a lock, and the guard has what the lease has.
    pub(crate) fn is_of_its_lease(&mut self, hold: &Hold) {
        let given = &hold.given;
        let Some(leased) = &hold.asks.adopts else {
            return;
        };
        if (&given.token, given.fencing) != (&leased.token, leased.fencing) {
            let words = "adopted it with other tokens than the lease has";
            self.finds(Rule::Adoption, hold, None, words);
        }
        let former = self.by_token.get(&leased.token).copied();
        let lock = former.and_then(|former| self.holds.get(&former));
        let wrong = match lock {
            None => "adopted what nobody has had",
            Some(lock) if leased.fencing == lock.given.fencing && lock.asks.on == hold.asks.on => {
                return;
            }
            Some(_) => "adopted it by a lease that is of another lock",
        };
        self.finds(Rule::Adoption, hold, former, wrong);
    }

    /// A guard is returned: its tokens were not there before, and no fencing token was larger.
    pub(crate) fn in_order(&mut self, hold: &Hold) {
        let (at, token, is_adopted) = (hold.start, &hold.given.token, hold.asks.adopts.is_some());
        let former = self.by_token.get(token).copied();
        if let Some(former) = former.filter(|_| !is_adopted) {
            let words = format!("was given the token {token}, which was there before");
            self.finds(Rule::Twice, hold, [former], &words);
        }
        let Some(fencing) = hold.given.fencing else {
            return;
        };
        if hold.asks.on.is_read() {
            let words = format!("reads with the fencing token {fencing}");
            self.finds(Rule::Order, hold, None, &words);
            return;
        }
        for slot in hold.slots() {
            let place = self.places.entry(slot).or_default();
            let mut largest = place.largest.iter().rev();
            let before = largest.find(|(returned, ..)| *returned <= hold.began);
            let before = before.map(|(_, largest, whose)| (*largest, *whose));
            // Valid guards follow one after the other.
            let is_valid = at < hold.end.low;
            let valid = place.largest_valid.filter(|_| is_valid);
            let before = before.into_iter().chain(valid).max();
            let last = place.largest.last().map(|(_, last, whose)| (*last, *whose));
            let most = last.map_or((fencing, hold.call), |last| last.max((fencing, hold.call)));
            place.largest.push((at, most.0, most.1));
            if is_valid {
                place.largest_valid = place.largest_valid.max(Some((fencing, hold.call)));
            }
            let owner = place.fencing.insert(fencing, Arc::clone(token));
            // A lock that is adopted is the same lock.
            if owner.is_some_and(|owner| !is_adopted || owner != *token) {
                let whose = place.largest.iter().find(|(_, other, _)| *other == fencing);
                let whose = whose.map(|(.., whose)| *whose);
                let words = format!("has the fencing token {fencing}, which was there before");
                self.finds(Rule::Twice, hold, whose, &words);
            } else if let Some((other, whose)) = before.filter(|(other, _)| *other > fencing) {
                let words = format!("has the fencing token {fencing}, and {other} was before");
                self.finds(Rule::Order, hold, [whose], &words);
            }
        }
    }
}

/// The rule that these two break if both are valid.
fn broken_by_two(one: &Hold, other: &Hold) -> Option<Rule> {
    let (way, their_way) = (one.asks.on.way, other.asks.on.way);
    let is_shared = way == their_way && matches!(way, Way::Read | Way::Permit);
    let is_same_slot = one.given.slot.is_some() && one.given.slot == other.given.slot;
    if is_shared && !is_same_slot {
        None
    } else if way == Way::Read || their_way == Way::Read {
        Some(Rule::Readers)
    } else {
        Some(Rule::Exclusion)
    }
}
