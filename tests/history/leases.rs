//! Leases: from when to when a guard is valid, who is told when, and what is said of it at its end.

use crate::checker::{Checker, Hold, Rule};
use crate::event::{Asks, Call, Nanos, Says, Span, What, Why};

const TOO_LONG: &str = "has it for longer than it asked for";
const UNASKED: &str = "has it for longer, and did not ask for that";
const SHORTENED: &str = "shortened its lease";
const TOLD_TOO_EARLY: &str = "was told that it is lost while its lease lasted";

impl Checker {
    /// A call returns a guard.
    pub(crate) fn begins(&mut self, hold: &mut Hold) {
        let (at, end) = (hold.start, hold.end);
        if self.assumed.is_exact && end.high <= at {
            let words = "was given it when it had expired";
            self.finds(Rule::Validity, hold, None, words);
        }
        if hold.asks.ttl.is_some_and(|ttl| end.low > at + ttl) {
            self.finds(Rule::TooLong, hold, None, TOO_LONG);
        }
        let former = self.by_token.get(&hold.given.token);
        let former = former.and_then(|former| self.holds.get(former));
        if let Some(former) = former.filter(|_| hold.asks.adopts.is_some()) {
            hold.first = former.first;
            let next = self.next_after(former).filter(|_| end.high > at);
            self.is_not_revived(hold, next);
        }
    }

    fn is_not_revived(&mut self, hold: &Hold, next: Option<Call>) {
        if let Some(next) = next {
            let words = "goes on with a lock that another client has had since";
            self.finds(Rule::Revival, hold, [next], words);
        }
    }

    /// A call fails.
    pub(crate) fn fails(&mut self, call: Call, asks: &Asks, why: Why) {
        let former = asks.adopts.as_ref();
        let former = former.and_then(|leased| self.by_token.get(&leased.token));
        let former = former.and_then(|former| self.holds.get(former)).cloned();
        if let Some(former) = former.filter(|former| why == Why::Gone && self.now < former.end.low)
            && !self.assumed.nodes_forget
        {
            self.finds(Rule::EarlyLoss, &former, [call], TOLD_TOO_EARLY);
        }
    }

    pub(crate) fn hears_of_a_guard(&mut self, hold: &mut Hold, what: &What) {
        match what {
            What::Extends(ttl) => {
                hold.extending = Some((*ttl, hold.is_over_at(self.now) && !hold.is_kept));
            }
            What::Extended(end) => self.extended(hold, *end),
            What::NotExtended(why) => {
                hold.extending = None;
                if why.is_loss() {
                    self.lost(hold, *why);
                }
            }
            What::Moves { end, is_limited } => self.moves(hold, *end, *is_limited),
            What::Keeps => hold.is_kept = true,
            What::Hooks => hold.has_hook = true,
            // A guard may say that it has ended a little before its time.
            What::Looks(None) => self.lost(hold, Why::Expired),
            What::Looks(Some(end)) => self.looks(hold, *end),
            // A lock that ends by its release is not lost.
            What::Lost(why) if hold.released.is_none() => {
                hold.has_hook = false;
                self.lost(hold, *why);
            }
            What::Releases => self.releases(hold),
            What::Released(Says::Okay) => {
                if let Some(next) = hold.disputed_by {
                    let words = "was told that it had it, and another had it before";
                    self.finds(Rule::Release, hold, [next], words);
                }
            }
            What::Released(Says::Not(why)) if why.is_loss() => self.lost(hold, *why),
            What::Rests(until) => self.rests(hold, *until),
            What::Lost(_)
            | What::Released(_)
            | What::Asks(_)
            | What::Gets(_)
            | What::Fails(_)
            | What::Dies(_)
            | What::Beside(_) => {}
        }
    }

    /// An extension says that it has succeeded.
    fn extended(&mut self, hold: &mut Hold, end: Option<Span>) {
        let extending = hold.extending.take();
        if extending.is_some_and(|(_, is_late)| is_late) {
            let words = "extended its lease after its end";
            self.finds(Rule::AfterEnd, hold, None, words);
        }
        let Some(end) = end else {
            return;
        };
        let longest = extending.map(|(ttl, _)| hold.end.high.max(self.now + ttl));
        if longest.is_some_and(|longest| end.low > longest) {
            self.finds(Rule::TooLong, hold, None, TOO_LONG);
        }
        let was_lost_before = hold.lost.is_some_and(|lost| lost < self.now);
        if hold.lost == Some(self.now) {
            // The lock was lost after the extension.
        } else if self.assumed.is_exact && (end.high <= self.now || was_lost_before) {
            let words = "was told that its lease is longer when that was over";
            self.finds(Rule::LateLoss, hold, None, words);
        } else if end.high < hold.end.low && !was_lost_before {
            self.finds(Rule::Extension, hold, None, SHORTENED);
        }
        self.has_moved(hold, end);
    }

    /// The end of a guard's validity moves at this very moment.
    fn moves(&mut self, hold: &mut Hold, end: Nanos, is_limited: bool) {
        let is_longer = end > hold.end.high;
        let found = if hold.released.is_some() {
            // A renewal that was under way has moved the end.
            None
        } else if is_longer && hold.lost.is_some_and(|lost| lost < self.now) {
            Some((Rule::Revival, "revived its lease, which it had lost"))
        } else if is_longer && hold.is_over_at(self.now) {
            Some((Rule::LateMove, "revived its expired lease"))
        } else if is_longer && !hold.is_kept && hold.extending.is_none() {
            Some((Rule::Extension, UNASKED))
        } else {
            let is_shortened = end < hold.end.low && !is_limited;
            is_shortened.then_some((Rule::Extension, SHORTENED))
        };
        if let Some((rule, words)) = found {
            self.finds(rule, hold, None, words);
        }
        self.has_moved(hold, Span::exactly(end));
    }

    fn has_moved(&mut self, hold: &mut Hold, end: Span) {
        let is_longer = end.low > hold.end.high;
        hold.end = end;
        if is_longer && !hold.has_ended() {
            self.is_not_revived(hold, self.next_after(hold));
            self.excludes(hold);
        }
    }

    /// A guard says until when it is valid.
    fn looks(&mut self, hold: &mut Hold, end: Span) {
        // Where ends are not exact, a renewal may not have been told yet.
        let may_be_renewed = hold.is_kept && !self.assumed.is_exact;
        if hold.has_ended() || (hold.is_over_at(self.now) && !may_be_renewed) {
            let words = "was told that it has it when that was over";
            self.finds(Rule::LateLoss, hold, None, words);
        } else if end.low > hold.end.high {
            if !hold.is_kept && hold.extending.is_none() {
                self.finds(Rule::Extension, hold, None, UNASKED);
            }
            self.has_moved(hold, end);
        } else if end.high + self.assumed.notice < hold.end.low && !hold.is_kept {
            // Only one that is kept can be given a limit. One that is about to end may be lost a little sooner.
            self.finds(Rule::Extension, hold, None, SHORTENED);
        }
    }

    fn lost(&mut self, hold: &mut Hold, why: Why) {
        let notice = match why {
            Why::Gone => 0,
            Why::Held | Why::Unknown | Why::Expired | Why::Limited => self.assumed.notice,
        };
        let is_early =
            self.now + notice < hold.end.low && hold.lost.is_none() && why != Why::Limited;
        hold.lost = hold.lost.or(Some(self.now));
        if is_early && !self.assumed.nodes_forget {
            self.finds(Rule::EarlyLoss, hold, None, TOLD_TOO_EARLY);
        }
    }

    /// A guard begins to end.
    fn releases(&mut self, hold: &mut Hold) {
        if hold.has_hook && hold.lost.is_some() && hold.released.is_none() {
            let words = "its hook was not called when it was lost";
            self.finds(Rule::LateLoss, hold, None, words);
        }
        hold.disputed_by = self.next_after(hold);
        hold.released = hold.released.or(Some(self.now));
    }
}
