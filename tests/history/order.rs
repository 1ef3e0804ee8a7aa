//! Fencing tokens: none twice, and growing in the order in which locks are had.

use std::sync::Arc;

use crate::checker::{Asked, Checker, Hold, Rule};
use crate::event::{Access, Call, Nanos, Origin};

impl Checker {
    /// A guard is returned: where it adopts a lease, that has the tokens of a lock, and the guard has what the lease has.
    pub(crate) fn is_of_its_lease(
        &mut self,
        call: Call,
        hold: &Hold,
        asked: &Asked,
        token: &Arc<str>,
    ) {
        let Some(leased) = &asked.adopts else {
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

    /// A guard is returned that was asked for at that time.
    pub(crate) fn in_order(
        &mut self,
        call: Call,
        hold: &Hold,
        (asked, origin): (Nanos, Origin),
        token: &Arc<str>,
    ) {
        let at = hold.start;
        let who = hold.who;
        let former = self.by_token.get(token).copied();
        if let Some(former) = former.filter(|_| origin == Origin::Nodes) {
            let words = format!("{who} was given the token {token}, which was there before");
            self.finds(Rule::Twice, at, &[former, call], words);
        }
        let Some(fencing) = hold.fencing else {
            return;
        };
        if hold.on.access == Access::Read {
            let words = format!("{who} reads with the fencing token {fencing}");
            self.finds(Rule::Order, at, &[call], words);
            return;
        }
        let mut found = None;
        for place in &hold.on.places {
            let given = self.tokens.of.entry((*place, hold.slot)).or_default();
            let on = &hold.on;
            let words = |other: u64| {
                format!("{who} has {on} with the fencing token {fencing}, and {other} was before")
            };
            let known = given.largest.iter().rev();
            let before = known.skip_while(|(returned, ..)| *returned > asked);
            let before = before.map(|(_, largest, whose)| (*largest, *whose)).next();
            // Valid guards follow one after the other.
            let is_valid = at < hold.end.low;
            let valid = given.valid.filter(|_| is_valid);
            let before = before.into_iter().chain(valid).max();
            let owner = given.all.insert(fencing, Arc::clone(token));
            // A lock that is adopted is the same lock.
            let is_its = |owner: &Arc<str>| origin == Origin::Adopted && owner == token;
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
