//! The judge: hears a history in the order of time, and says what no lock can have done.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::event::{Asks, Call, Event, Given, Nanos, Span, Way, What};

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    fn promise(self) -> &'static str {
        match self {
            Self::Exclusion | Self::Permits => "P1: ",
            Self::TooLong => "P2: ",
            Self::Validity => "P3: ",
            Self::Extension | Self::AfterEnd | Self::LateMove | Self::Revival => "P4: ",
            Self::Release => "P6: ",
            Self::Uncalled => "P8: ",
            Self::Twice => "P10: ",
            Self::Order => "P11: ",
            Self::Rest => "P13: ",
            Self::Readers => "P14: ",
            Self::Unended => "P18: ",
            Self::Adoption | Self::LateLoss | Self::EarlyLoss | Self::Other => "",
        }
    }
}

/// Something that no lock can have done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub rule: Rule,
    /// When that was seen.
    pub at: Nanos,
    /// The calls, or guards, that show it.
    pub calls: Vec<Call>,
    /// What happened, for people, behind the number of the promise.
    pub text: String,
}

/// The judge. It hears one event after the other, in the order of time.
#[derive(Debug, Default)]
pub struct Checker {
    pub(crate) now: Nanos,
    pub(crate) assumed: Assumed,
    /// The calls that have not ended, and when they began.
    pub(crate) asked: BTreeMap<Call, (Nanos, Asks)>,
    pub(crate) holds: HashMap<Call, Hold>,
    /// Which guard had the lock with this token last.
    pub(crate) by_token: HashMap<Arc<str>, Call>,
    /// The guards on each place that were valid last.
    pub(crate) open: HashMap<usize, Vec<Call>>,
    pub(crate) places: HashMap<Slot, Place>,
    found: Vec<Violation>,
}

/// A guard.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    pub(crate) call: Call,
    pub(crate) asks: Asks,
    pub(crate) given: Given,
    /// When its call began, and when it was returned.
    pub(crate) began: Nanos,
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
    /// The extension that is under way: by how much, and whether the guard was over when it began.
    pub(crate) extending: Option<(Nanos, bool)>,
    /// Who had the lock before its release began, though it is not theirs.
    pub(crate) disputed_by: Option<Call>,
}

/// A place, and the slot of a semaphore.
pub(crate) type Slot = (usize, Option<u32>);

/// What was on a place, or slot.
#[derive(Debug, Default)]
pub(crate) struct Place {
    /// Who took it last, alone and to read, and when.
    pub(crate) alone: Option<(Call, Nanos)>,
    pub(crate) read: Option<(Call, Nanos)>,
    /// Whose lock rests, and until when.
    pub(crate) resting: Option<(Call, Nanos)>,
    /// The fencing tokens, each with the token of its lock.
    pub(crate) fencing: HashMap<u64, Arc<str>>,
    /// When a guard was returned, the largest fencing token of those that were returned by then, and whose it is.
    pub(crate) largest: Vec<(Nanos, u64, Call)>,
    /// The largest of those whose guards were valid.
    pub(crate) largest_valid: Option<(u64, Call)>,
}

impl Hold {
    /// Whether it has a permit, and nobody says which.
    pub(crate) fn shares_permits(&self) -> bool {
        self.asks.on.way == Way::Permit && self.given.slot.is_none()
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        let places = self.asks.on.places.iter();
        places.map(|place| (*place, self.given.slot))
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

    /// Takes the next event.
    ///
    /// # Panics
    ///
    /// If it is before the last one.
    pub fn hear(&mut self, event: &Event) {
        assert!(self.now <= event.at, "out of order: {event:?}");
        self.now = event.at;
        match (&event.what, event.call) {
            (What::Dies(client), _) => self.dies(*client),
            (What::Asks(asks), Some(call)) => {
                self.asked.insert(call, (event.at, asks.clone()));
            }
            (What::Gets(given), Some(call)) => self.gets(call, given),
            (What::Fails(why), Some(call)) => {
                if let Some((_, asks)) = self.asked.remove(&call) {
                    self.fails(call, &asks, *why);
                }
            }
            (what, Some(call)) => {
                if let Some(mut hold) = self.holds.remove(&call) {
                    self.hears_of_a_guard(&mut hold, what);
                    self.holds.insert(call, hold);
                }
            }
            (_, None) => {}
        }
    }

    fn gets(&mut self, call: Call, given: &Given) {
        let at = self.now;
        let Some((began, asks)) = self.asked.remove(&call) else {
            let words = "a guard was returned to a call that nobody waits for";
            return self.adds(Rule::Uncalled, [call], words);
        };
        let mut hold = Hold {
            call,
            asks,
            given: given.clone(),
            began,
            start: at,
            end: given.end.unwrap_or(Span::exactly(at)),
            lost: None,
            released: None,
            first: (call, at),
            is_kept: false,
            has_hook: false,
            extending: None,
            disputed_by: None,
        };
        self.begins(&mut hold);
        self.is_of_its_lease(&hold);
        self.in_order(&hold);
        self.does_not_rest(&hold);
        self.by_token.insert(Arc::clone(&given.token), call);
        self.takes_its_places(&hold);
        self.excludes(&hold);
        self.holds.insert(call, hold);
    }

    /// A client is killed: its calls do not end any more, and its guards say nothing.
    fn dies(&mut self, client: u32) {
        self.asked.retain(|_, (_, asks)| asks.client != client);
        let holds = self.holds.values_mut();
        for hold in holds.filter(|hold| hold.asks.client == client) {
            hold.released = hold.released.or(Some(self.now));
        }
    }

    /// The run is over: every call has to be over as well.
    pub fn ends(&mut self, at: Nanos) {
        self.now = at;
        for (call, (_, Asks { client, on, .. })) in std::mem::take(&mut self.asked) {
            let words = format!("c{client} on {on}: its call has not ended");
            self.adds(Rule::Unended, [call], &words);
        }
    }

    /// What was found so far.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        &self.found
    }

    pub(crate) fn adds(&mut self, rule: Rule, calls: impl IntoIterator<Item = Call>, words: &str) {
        self.found.push(Violation {
            rule,
            at: self.now,
            calls: calls.into_iter().collect(),
            text: format!("{}{words}", rule.promise()),
        });
    }

    /// Notes what this guard shows, perhaps together with others.
    pub(crate) fn finds(
        &mut self,
        rule: Rule,
        hold: &Hold,
        others: impl IntoIterator<Item = Call>,
        words: &str,
    ) {
        let Asks { client, on, .. } = &hold.asks;
        let calls = others.into_iter().chain([hold.call]);
        self.adds(rule, calls, &format!("c{client} on {on}: {words}"));
    }
}
