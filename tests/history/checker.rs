//! The judge: hears a history in the order of time, and says what no lock can have done.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use crate::event::{Asks, Call, Event, Nanos, On, Span, Way, What, Who};

/// What holds in a run, and so what may be asked of its locks.
#[derive(Clone, Debug, Default)]
pub struct Assumed {
    /// Whether nodes may forget locks, so that a lock may be lost while its lease lasts.
    pub nodes_forget: bool,
    /// How many permits each semaphore has.
    pub permits: BTreeMap<usize, u32>,
    /// By how much a loss by the clock may be told too early.
    pub notice: Nanos,
    /// Whether nothing comes between an event and the time that is noted for it, as where a process may be stopped there.
    pub is_exact: bool,
}

/// A rule of locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Two guards have at the same time what only one may have.
    Exclusion,
    /// One reads what another has alone.
    Readers,
    /// More permits are held than there are.
    Permits,
    /// A fencing token, or a token, was there before.
    Twice,
    /// A fencing token is smaller than one that was there before.
    Order,
    /// A lease has other tokens than its lock, or the guard that adopts it has.
    Adoption,
    /// A guard is over when it is returned.
    Validity,
    /// A guard is valid for longer than was asked for.
    TooLong,
    /// A lease ends earlier than it did, or later without being asked to.
    Extension,
    /// An extension succeeds that began after the end of the lease.
    AfterEnd,
    /// The end of a lease moves when the lease is over, whenever the extension began that moves it.
    LateMove,
    /// A lease goes on although it was lost, or although another has had the lock since it began.
    Revival,
    /// A guard that is over says that it is valid, or its hook is not called.
    LateLoss,
    /// A loss is told while the lease lasts.
    EarlyLoss,
    /// A lock that rests was had.
    Rest,
    /// A release says that all was well, and another had the lock before.
    Release,
    /// A call has not ended.
    Unended,
    /// A guard was returned, and no call had asked for it.
    Uncalled,
    /// Something else that the test itself saw.
    Other,
}

impl Rule {
    /// The number of the promise in docs/safety.md that the rule stands for, where it has one.
    #[must_use]
    pub fn promise(self) -> Option<u8> {
        Some(match self {
            Self::Exclusion | Self::Permits => 1,
            Self::Readers => 14,
            Self::Twice => 10,
            Self::Order => 11,
            Self::TooLong => 2,
            Self::Validity => 3,
            Self::Extension | Self::AfterEnd | Self::LateMove | Self::Revival => 4,
            Self::Rest => 13,
            Self::Release => 6,
            Self::Unended => 18,
            Self::Uncalled => 8,
            Self::Adoption | Self::LateLoss | Self::EarlyLoss | Self::Other => return None,
        })
    }
}

/// Something that no lock can have done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule that is broken.
    pub rule: Rule,
    /// When that was seen.
    pub at: Nanos,
    /// The calls, or guards, that show it.
    pub calls: Vec<Call>,
    /// What happened, for people.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(promise) = self.rule.promise() {
            write!(f, "P{promise}: ")?;
        }
        f.write_str(&self.text)
    }
}

/// The judge. It hears one event after the other, in the order of time.
#[derive(Debug, Default)]
pub struct Checker {
    pub(crate) assumed: Assumed,
    /// The calls that have not ended, and when they began.
    pub(crate) asked: HashMap<Call, (Nanos, Asks)>,
    pub(crate) holds: HashMap<Call, Hold>,
    /// Which guard had the lock with this token last.
    pub(crate) by_token: HashMap<Arc<str>, Call>,
    pub(crate) places: Places,
    pub(crate) tokens: HashMap<Slot, Given>,
    found: Vec<Violation>,
}

/// A guard.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    pub(crate) who: Who,
    pub(crate) on: On,
    pub(crate) slot: Option<u32>,
    pub(crate) fencing: Option<u64>,
    /// When it was returned.
    pub(crate) start: Nanos,
    /// Until when it says that it is valid.
    pub(crate) end: Span,
    /// When it was first told that the lock is lost.
    pub(crate) lost: Option<Nanos>,
    /// When its release began, or its client died.
    pub(crate) released: Option<Nanos>,
    /// The first guard of this lock, and when it was returned: a lock that is adopted stays the same.
    pub(crate) first: (Call, Nanos),
    /// Whether it is renewed in the background.
    pub(crate) is_kept: bool,
    /// Whether a hook is to be called when it is lost, and has not been.
    pub(crate) has_hook: bool,
    pub(crate) extending: Option<Extending>,
    /// Who had the lock before its release began, though it is not theirs.
    pub(crate) disputed_by: Option<Call>,
}

/// An extension that is under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extending {
    pub(crate) ttl: Nanos,
    /// Whether the guard was over when it began.
    pub(crate) is_late: bool,
}

/// A place, and the slot of a semaphore.
pub(crate) type Slot = (usize, Option<u32>);

/// The guards on each place that were valid last, and who took each place last.
#[derive(Debug, Default)]
pub(crate) struct Places {
    pub(crate) open: HashMap<usize, Vec<Call>>,
    pub(crate) last: HashMap<Slot, Last>,
    /// Whose lock rests, and until when.
    pub(crate) resting: HashMap<Slot, (Call, Nanos)>,
}

/// Who took a place last, and when.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Last {
    pub(crate) alone: Option<(Call, Nanos)>,
    pub(crate) read: Option<(Call, Nanos)>,
}

/// The fencing tokens of a place, or slot.
#[derive(Debug, Default)]
pub(crate) struct Given {
    /// With the token of the lock.
    pub(crate) all: HashMap<u64, Arc<str>>,
    /// When a guard was returned, the largest of those that were returned by then, and whose it is.
    pub(crate) largest: Vec<(Nanos, u64, Call)>,
    /// The largest of those whose guards were valid.
    pub(crate) valid: Option<(u64, Call)>,
}

impl Hold {
    /// Whether it has a permit, and nobody says which.
    pub(crate) fn shares_permits(&self) -> bool {
        self.on.way == Way::Permit && self.slot.is_none()
    }

    /// Whether it has ended before its time.
    pub(crate) fn has_ended(&self) -> bool {
        self.lost.is_some() || self.released.is_some()
    }

    /// Whether it is surely valid at this time, by what is known so far.
    pub(crate) fn is_valid_at(&self, at: Nanos) -> bool {
        at < self.end.low && !self.has_ended()
    }

    /// Whether it is surely over at this time.
    pub(crate) fn is_over_at(&self, at: Nanos) -> bool {
        self.end.high <= at || self.has_ended()
    }
}

impl Checker {
    /// A judge that has heard nothing yet.
    #[must_use]
    pub fn new(assumed: Assumed) -> Self {
        Self {
            assumed,
            ..Self::default()
        }
    }

    /// Takes the next event. Returns whether it breaks no rule.
    pub fn hear(&mut self, event: &Event) -> bool {
        let before = self.found.len();
        match (&event.what, event.call) {
            (What::Dies(client), _) => self.dies(*client, event.at),
            (what, Some(call)) => self.hears_of_a_call(call, event.at, what),
            (_, None) => {}
        }
        before == self.found.len()
    }

    fn hears_of_a_call(&mut self, call: Call, at: Nanos, what: &What) {
        match what {
            What::Asks(asks) => drop(self.asked.insert(call, (at, asks.clone()))),
            What::Gets(given) => {
                let Some((began, asks)) = self.asked.remove(&call) else {
                    let words = "a guard was returned to a call that nobody waits for".to_owned();
                    return self.finds(Rule::Uncalled, at, &[call], words);
                };
                let hold = self.begins((call, at), &asks, given);
                self.is_of_its_lease(call, &hold, &asks, &given.token);
                self.in_order(call, &hold, (began, &asks), &given.token);
                self.does_not_rest(call, &hold);
                self.by_token.insert(Arc::clone(&given.token), call);
                self.is_had(call, hold, &asks);
                self.excludes(call, at);
            }
            What::Fails(why) => {
                if let Some((_, asks)) = self.asked.remove(&call) {
                    self.fails(call, at, &asks, *why);
                }
            }
            What::Extends(ttl) => self.extends(call, at, *ttl),
            What::Extended(end) => self.extended(call, at, *end),
            What::NotExtended(why) => self.not_extended(call, at, *why),
            What::Moves { end, is_limited } => self.moves(call, at, *end, *is_limited),
            What::Keeps | What::Hooks => {
                if let Some(hold) = self.holds.get_mut(&call) {
                    hold.is_kept |= *what == What::Keeps;
                    hold.has_hook |= *what == What::Hooks;
                }
            }
            What::Looks(says) => self.looks(call, at, *says),
            What::Lost(why) => self.is_told_of_a_loss(call, at, *why),
            What::Releases => self.releases(call, at),
            What::Released(says) => self.released(call, at, *says),
            What::Rests(until) => self.rests(call, *until),
            What::Dies(_) | What::Beside(_) => {}
        }
    }

    /// A client is killed: its calls do not end any more, and its guards say nothing.
    fn dies(&mut self, client: u32, at: Nanos) {
        self.asked.retain(|_, (_, asks)| asks.who.client != client);
        let holds = self.holds.values_mut();
        for hold in holds.filter(|hold| hold.who.client == client) {
            hold.released = hold.released.or(Some(at));
        }
    }

    /// The run is over: every call has to be over as well.
    pub fn ends(&mut self, at: Nanos) {
        let mut asked: Vec<_> = std::mem::take(&mut self.asked).into_iter().collect();
        asked.sort_by_key(|(call, _)| *call);
        for (call, (_, Asks { who, on, .. })) in asked {
            let words = format!("{who} asked for {on}, and its call has not ended");
            self.finds(Rule::Unended, at, &[call], words);
        }
    }

    /// What was found so far.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        &self.found
    }

    pub(crate) fn finds(&mut self, rule: Rule, at: Nanos, calls: &[Call], text: String) {
        self.found.push(Violation {
            rule,
            at,
            calls: calls.to_vec(),
            text,
        });
    }
}
