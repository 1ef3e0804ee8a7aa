//! Who has a place: at most one holder, readers together, no more permits than there are, nobody while a lock rests; and with
//! fencing tokens that grow in the order in which locks are had.

use std::sync::Arc;

use crate::checker::{Checker, Hold, Rule};
use crate::event::{Asks, Call, Nanos};

impl Checker {
    /// A guard is returned.
    pub(crate) fn is_had(&mut self, call: Call, hold: Hold, asks: &Asks) {
        for place in &hold.on.places {
            // A guard that had ended when it was returned has held nothing.
            let is_over = hold.is_over_at(hold.start);
            if asks.adopts.is_some() || hold.shares_permits() || is_over {
                continue;
            }
            let last = self.places.last.entry((*place, hold.slot)).or_default();
            let last = if hold.on.is_read() {
                &mut last.read
            } else {
                &mut last.alone
            };
            *last = Some((call, hold.start));
        }
        self.holds.insert(call, hold);
    }

    /// A guard has ended whose lock nobody is to have before this time.
    pub(crate) fn rests(&mut self, call: Call, until: Nanos) {
        let Some(hold) = self.holds.get(&call) else {
            return;
        };
        for place in &hold.on.places {
            let resting = self.places.resting.entry((*place, hold.slot));
            let resting = resting.or_insert((call, until));
            if resting.1 < until {
                *resting = (call, until);
            }
        }
    }

    /// A guard is returned: its lock does not rest.
    pub(crate) fn does_not_rest(&mut self, call: Call, hold: &Hold) {
        if hold.is_over_at(hold.start) {
            return;
        }
        let mut places = hold.on.places.iter();
        let resting = places.find_map(|place| {
            let resting = self.places.resting.get(&(*place, hold.slot))?;
            (resting.1 > hold.start).then_some((resting.0, *place))
        });
        if let Some((rests, place)) = resting {
            let words = format!("{} has r{place}, which rests", hold.who);
            self.finds(Rule::Rest, hold.start, &[rests, call], words);
        }
    }

    /// Who, of those that the guard excludes, has taken one of its places since its lock was first had.
    pub(crate) fn next_after(&self, hold: &Hold) -> Option<Call> {
        if hold.shares_permits() {
            return None;
        }
        let (first, since) = hold.first;
        let mut places = hold.on.places.iter();
        places.find_map(|place| {
            let last = self.places.last.get(&(*place, hold.slot))?;
            let read = last.read.filter(|_| !hold.on.is_read());
            let mut others = last.alone.into_iter().chain(read);
            others.find_map(|(call, at)| (call != first && at > since).then_some(call))
        })
    }

    /// A guard says from now on that it is valid. Nobody else may have its places.
    pub(crate) fn excludes(&mut self, call: Call, at: Nanos) {
        let Some(hold) = self.holds.get(&call) else {
            return;
        };
        let mut found = None;
        for place in &hold.on.places {
            let open = self.places.open.entry(*place).or_default();
            // A guard that goes on after its end counts again.
            let holds = &self.holds;
            open.retain(|other| holds.get(other).is_some_and(|other| other.is_valid_at(at)));
            if !open.contains(&call) {
                open.push(call);
            }
            let others = open.iter().filter_map(|other| {
                let their = self.holds.get(other).filter(|_| *other != call)?;
                their.is_valid_at(at).then_some((*other, their))
            });
            let mut permits = 1;
            for (other, their) in others.filter(|_| hold.is_valid_at(at)) {
                let is_same_slot = hold.slot.is_some() && hold.slot == their.slot;
                if hold.on.excludes(&their.on) || is_same_slot {
                    let (rule, words) = two_holders(hold, their, *place);
                    found = found.or(Some((rule, vec![other, call], words)));
                }
                permits += 1;
            }
            let most = self.assumed.permits.get(place);
            if let Some(most) = most.filter(|most| **most < permits) {
                let words = format!("too many holders: {permits} of {most} permits of r{place}");
                found = found.or(Some((Rule::Permits, open.clone(), words)));
            }
        }
        if let Some((rule, calls, words)) = found {
            self.finds(rule, at, &calls, words);
        }
    }

    /// A guard is returned: where it adopts a lease, that has the tokens of a lock, and the guard has what the lease has.
    pub(crate) fn is_of_its_lease(
        &mut self,
        call: Call,
        hold: &Hold,
        asks: &Asks,
        token: &Arc<str>,
    ) {
        let Some(leased) = &asks.adopts else {
            return;
        };
        let (at, who, on) = (hold.start, hold.who, &hold.on);
        if (token, hold.fencing) != (&leased.token, leased.fencing) {
            let words = format!("{who} adopted {on} with other tokens than the lease has");
            self.finds(Rule::Adoption, at, &[call], words);
        }
        let Some(former) = self.by_token.get(&leased.token).copied() else {
            let words = format!("{who} adopted {on}, which nobody has had");
            return self.finds(Rule::Adoption, at, &[call], words);
        };
        let Some(lock) = self.holds.get(&former) else {
            return;
        };
        if leased.fencing != lock.fencing || lock.on != *on {
            let words = format!("{who} adopted {on} by a lease that is of another lock");
            self.finds(Rule::Adoption, at, &[former, call], words);
        }
    }

    /// A guard is returned: its fencing token was not there before, and none was larger.
    pub(crate) fn in_order(
        &mut self,
        call: Call,
        hold: &Hold,
        (began, asks): (Nanos, &Asks),
        token: &Arc<str>,
    ) {
        let at = hold.start;
        let who = hold.who;
        let is_adopted = asks.adopts.is_some();
        let former = self.by_token.get(token).copied();
        if let Some(former) = former.filter(|_| !is_adopted) {
            let words = format!("{who} was given the token {token}, which was there before");
            self.finds(Rule::Twice, at, &[former, call], words);
        }
        let Some(fencing) = hold.fencing else {
            return;
        };
        if hold.on.is_read() {
            let words = format!("{who} reads with the fencing token {fencing}");
            self.finds(Rule::Order, at, &[call], words);
            return;
        }
        let mut found = None;
        for place in &hold.on.places {
            let given = self.tokens.entry((*place, hold.slot)).or_default();
            let on = &hold.on;
            let words = |other: u64| {
                format!("{who} has {on} with the fencing token {fencing}, and {other} was before")
            };
            let known = given.largest.iter().rev();
            let before = known.skip_while(|(returned, ..)| *returned > began);
            let before = before.map(|(_, largest, whose)| (*largest, *whose)).next();
            // Valid guards follow one after the other.
            let is_valid = at < hold.end.low;
            let valid = given.valid.filter(|_| is_valid);
            let before = before.into_iter().chain(valid).max();
            let owner = given.all.insert(fencing, Arc::clone(token));
            // A lock that is adopted is the same lock.
            let is_its = |owner: &Arc<str>| is_adopted && owner == token;
            if owner.is_some_and(|owner| !is_its(&owner)) {
                let whose = given.largest.iter().find(|(_, other, _)| *other == fencing);
                let calls = whose.map(|(.., whose)| *whose).into_iter().chain([call]);
                found = found.or(Some((
                    Rule::Twice,
                    calls.collect::<Vec<_>>(),
                    words(fencing),
                )));
            } else if let Some((other, whose)) = before.filter(|(other, _)| *other > fencing) {
                found = found.or(Some((Rule::Order, vec![whose, call], words(other))));
            }
            let last = given.largest.last().map(|(_, last, whose)| (*last, *whose));
            let (largest, whose) = last
                .into_iter()
                .chain([(fencing, call)])
                .max()
                .unwrap_or((fencing, call));
            given.largest.push((at, largest, whose));
            if is_valid {
                given.valid = given.valid.max(Some((fencing, call)));
            }
        }
        if let Some((rule, calls, words)) = found {
            self.finds(rule, at, &calls, words);
        }
    }
}

fn two_holders(one: &Hold, other: &Hold, place: usize) -> (Rule, String) {
    let reads = |reader: &Hold, holder: &Hold| {
        let (reader, holder) = (reader.who, holder.who);
        let words = format!("two holders: {reader} reads r{place}, which {holder} has");
        (Rule::Readers, words)
    };
    match (one.on.is_read(), other.on.is_read()) {
        (true, _) => reads(one, other),
        (_, true) => reads(other, one),
        (false, false) => {
            let (first, second) = (one.who, other.who);
            let words = format!("two holders: {first} and {second} both have r{place}");
            (Rule::Exclusion, words)
        }
    }
}
