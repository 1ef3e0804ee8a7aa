//! Leases: from when to when a guard is valid, who is told when, and what is said of it at its end.

use crate::checker::{Checker, Extending, Hold, Rule};
use crate::event::{Asks, Call, Given, Nanos, Says, Span, Why};

impl Checker {
    /// A call returns a guard.
    pub(crate) fn begins(&mut self, (call, at): (Call, Nanos), asks: &Asks, given: &Given) -> Hold {
        let (who, on) = (asks.who, &asks.on);
        let former = self.by_token.get(&given.token);
        let former = former.and_then(|former| self.holds.get(former)).cloned();
        let end = given.end.unwrap_or(Span::exactly(at));
        if self.assumed.is_exact && end.high <= at {
            let words = format!("{who} was given {on} when it had expired");
            self.finds(Rule::Validity, at, &[call], words);
        }
        if asks.ttl.is_some_and(|ttl| end.low > at + ttl) {
            let words = format!("{who} has {on} for longer than it asked for");
            self.finds(Rule::TooLong, at, &[call], words);
        }
        let former = former.filter(|_| asks.adopts.is_some());
        let next = former.as_ref().and_then(|former| self.next_after(former));
        if let Some(next) = next.filter(|_| end.high > at) {
            let words = format!("{who} took {on} over, which another client has had since");
            self.finds(Rule::Revival, at, &[next, call], words);
        }
        Hold {
            who,
            on: on.clone(),
            slot: given.slot,
            fencing: given.fencing,
            start: at,
            end,
            lost: None,
            released: None,
            first: former.map_or((call, at), |former| former.first),
            is_kept: false,
            has_hook: false,
            extending: None,
            disputed_by: None,
        }
    }

    /// A call fails.
    pub(crate) fn fails(&mut self, call: Call, at: Nanos, asks: &Asks, why: Why) {
        let former = asks.adopts.as_ref();
        let former = former.and_then(|leased| self.by_token.get(&leased.token));
        let former = former.copied();
        let Some(former) = former.filter(|_| why == Why::Gone) else {
            return;
        };
        let lasts = self
            .holds
            .get(&former)
            .is_some_and(|hold| at < hold.end.low);
        if lasts && !self.assumed.nodes_forget {
            let (who, on) = (asks.who, &asks.on);
            let words = format!("{who} was told that {on} is lost while its lease lasted");
            self.finds(Rule::EarlyLoss, at, &[former, call], words);
        }
    }

    /// An extension is asked for.
    pub(crate) fn extends(&mut self, call: Call, at: Nanos, ttl: Nanos) {
        if let Some(hold) = self.holds.get_mut(&call) {
            let is_late = hold.is_over_at(at) && !hold.is_kept;
            hold.extending = Some(Extending { ttl, is_late });
        }
    }

    /// An extension says that it has succeeded.
    pub(crate) fn extended(&mut self, call: Call, at: Nanos, end: Option<Span>) {
        let Some(hold) = self.holds.get_mut(&call) else {
            return;
        };
        let extending = hold.extending.take();
        let (who, on) = (hold.who, hold.on.clone());
        let (former, lost) = (hold.end, hold.lost);
        if extending.is_some_and(|extending| extending.is_late) {
            let words = format!("{who} extended its lease of {on} after its end");
            self.finds(Rule::AfterEnd, at, &[call], words);
        }
        let Some(end) = end else {
            return;
        };
        let longest = extending.map(|extending| former.high.max(at + extending.ttl));
        if longest.is_some_and(|longest| end.low > longest) {
            let words = format!("{who} has {on} for longer than it asked for");
            self.finds(Rule::TooLong, at, &[call], words);
        }
        let was_lost_before = lost.is_some_and(|lost| lost < at);
        if lost == Some(at) {
            // The lock was lost after the extension.
        } else if self.assumed.is_exact && (end.high <= at || was_lost_before) {
            let words =
                format!("{who} was told that its lease of {on} is longer when that was over");
            self.finds(Rule::LateLoss, at, &[call], words);
        } else if end.high < former.low && !was_lost_before {
            self.shortened(call, at);
        }
        self.has_moved(call, at, end);
    }

    /// An extension says that it has failed.
    pub(crate) fn not_extended(&mut self, call: Call, at: Nanos, why: Why) {
        if let Some(hold) = self.holds.get_mut(&call) {
            hold.extending = None;
        }
        if why.is_loss() {
            self.lost(call, at, why);
        }
    }

    /// The end of a guard's validity moves at this very moment.
    pub(crate) fn moves(&mut self, call: Call, at: Nanos, end: Nanos, is_limited: bool) {
        let Some(hold) = self.holds.get(&call) else {
            return;
        };
        let (who, on, former) = (hold.who, &hold.on, hold.end);
        if hold.released.is_some() {
            // A renewal that was under way has moved the end.
        } else if end > former.high && hold.lost.is_some_and(|lost| lost < at) {
            let words = format!("{who} revived its lease of {on}, which it had lost");
            self.finds(Rule::Revival, at, &[call], words);
        } else if end > former.high && hold.is_over_at(at) {
            let words = format!("{who} revived its expired lease of {on}");
            self.finds(Rule::LateMove, at, &[call], words);
        } else if end > former.high && !hold.is_kept && hold.extending.is_none() {
            let words = format!("{who} has {on} for longer, and did not ask for it");
            self.finds(Rule::Extension, at, &[call], words);
        } else if end < former.low && !is_limited {
            self.shortened(call, at);
        }
        self.has_moved(call, at, Span::exactly(end));
    }

    fn shortened(&mut self, call: Call, at: Nanos) {
        if let Some(hold) = self.holds.get(&call) {
            let words = format!("{} shortened its lease of {}", hold.who, hold.on);
            self.finds(Rule::Extension, at, &[call], words);
        }
    }

    fn has_moved(&mut self, call: Call, at: Nanos, end: Span) {
        let Some(hold) = self.holds.get_mut(&call) else {
            return;
        };
        let is_longer = end.low > hold.end.high;
        hold.end = end;
        let Some(hold) = self.holds.get(&call) else {
            return;
        };
        if hold.has_ended() || !is_longer {
            return;
        }
        if let Some(next) = self.next_after(hold) {
            let (who, on) = (hold.who, &hold.on);
            let words = format!("{who} revived its lease of {on}, which another has had since");
            self.finds(Rule::Revival, at, &[next, call], words);
        }
        self.excludes(call, at);
    }

    /// A guard is asked whether it is valid.
    pub(crate) fn looks(&mut self, call: Call, at: Nanos, says: Option<Span>) {
        let Some(hold) = self.holds.get(&call) else {
            return;
        };
        let Some(end) = says else {
            // A guard may say that it has ended a little before its time.
            return self.lost(call, at, Why::Expired);
        };
        let (who, on) = (hold.who, &hold.on);
        // Where ends are not exact, a renewal may not have been told yet.
        let may_be_renewed = hold.is_kept && !self.assumed.is_exact;
        if hold.has_ended() || (hold.is_over_at(at) && !may_be_renewed) {
            let words = format!("{who} was told that it has {on} when that was over");
            return self.finds(Rule::LateLoss, at, &[call], words);
        }
        if end.low > hold.end.high {
            if !hold.is_kept && hold.extending.is_none() {
                let words = format!("{who} has {on} for longer, and did not ask for it");
                self.finds(Rule::Extension, at, &[call], words);
            }
            self.has_moved(call, at, end);
        } else if end.high + self.assumed.notice < hold.end.low && !hold.is_kept {
            // Only one that is kept can be given a limit. One that is about to end may be lost a little sooner.
            self.shortened(call, at);
        }
    }

    /// The program is told that the lock is lost. A lock that ends by its release is not lost.
    pub(crate) fn is_told_of_a_loss(&mut self, call: Call, at: Nanos, why: Why) {
        let hold = self.holds.get_mut(&call);
        if let Some(hold) = hold.filter(|hold| hold.released.is_none()) {
            hold.has_hook = false;
            self.lost(call, at, why);
        }
    }

    fn lost(&mut self, call: Call, at: Nanos, why: Why) {
        let notice = match why {
            Why::Gone => 0,
            Why::Held | Why::Unknown | Why::Expired | Why::Limited => self.assumed.notice,
        };
        let forgets = self.assumed.nodes_forget;
        let Some(hold) = self.holds.get_mut(&call) else {
            return;
        };
        let is_early = at + notice < hold.end.low && hold.lost.is_none() && why != Why::Limited;
        let (who, on) = (hold.who, hold.on.clone());
        hold.lost = hold.lost.or(Some(at));
        if is_early && !forgets {
            let words = format!("{who} was told that {on} is lost while its lease lasted");
            self.finds(Rule::EarlyLoss, at, &[call], words);
        }
    }

    /// A guard begins to end.
    pub(crate) fn releases(&mut self, call: Call, at: Nanos) {
        let Some(hold) = self.holds.get(&call) else {
            return;
        };
        let disputed_by = self.next_after(hold);
        if hold.has_hook && hold.lost.is_some() && hold.released.is_none() {
            let words = format!(
                "{}'s hook was not called when {} was lost",
                hold.who, hold.on
            );
            self.finds(Rule::LateLoss, at, &[call], words);
        }
        if let Some(hold) = self.holds.get_mut(&call) {
            hold.disputed_by = disputed_by;
            hold.released = hold.released.or(Some(at));
        }
    }

    /// A guard has ended, and this was said of it.
    pub(crate) fn released(&mut self, call: Call, at: Nanos, says: Says) {
        let Some(hold) = self.holds.get(&call).cloned() else {
            return;
        };
        let (who, on) = (hold.who, &hold.on);
        match says {
            Says::Okay => {
                if let Some(next) = hold.disputed_by {
                    let words =
                        format!("{who} was told that it had {on}, and another had it before");
                    self.finds(Rule::Release, at, &[next, call], words);
                }
            }
            Says::Not(why) if why.is_loss() => self.lost(call, at, why),
            Says::Not(_) | Says::Nothing => {}
        }
    }
}
