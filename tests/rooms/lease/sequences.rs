//! The state of a lock in any sequence of events, compared with the few lines that say what a holder is told.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "an overflow is a failure here"
)]

use std::mem::{discriminant, take};
use std::time::Duration;

use proptest::prelude::*;

use super::state::{LeaseState, Renewal};
use crate::claim::Claim;
use crate::clock::{FakeClock, at};
use crate::error::{Error, LossCause, NodeError, NodeReport, Vote};
use crate::node::Leftover;
use crate::node::key_report::{KeyReport, KeyReports};

/// The lock's first time to live, and how long before its end a loss is reported to those who wait.
const TTL_MS: u64 = 100;
const NOTICE_MS: u64 = 1;

/// In milliseconds.
#[derive(Debug, Clone)]
enum Event {
    Passes(u64),
    /// The votes, the validity that is asked for, how long the round takes, and the keep-alive that it sets if it succeeds.
    Extends(Box<[Vote; 3]>, u64, u64, Option<Keep>),
    RenewalFails,
    Keeps(Keep),
    Checks,
    Waits(u64),
    Ends,
}

/// A keep-alive.
#[derive(Debug, Clone, Copy)]
struct Keep {
    /// The end of the validity that it sets, if it has one.
    limit: Option<u64>,
    margin: u64,
}

fn any_event() -> impl Strategy<Value = Event> {
    let votes = [
        Vote::Granted,
        Vote::Granted,
        Vote::Granted,
        Vote::Granted,
        Vote::Missing,
        Vote::held(None),
        Vote::Failed(NodeError::silence()),
    ];
    let votes = prop::array::uniform3(prop::sample::select(votes.to_vec()));
    // A margin is shorter than any limit.
    let limit = || prop::option::of(20..400_u64);
    let margin = || prop_oneof![Just(0), 0..20_u64];
    let keep = || (limit(), margin()).prop_map(|(limit, margin)| Keep { limit, margin });
    let takes = prop_oneof![Just(0), 0..60_u64];
    let kept = prop::option::weighted(0.1, keep());
    let extends = (votes.prop_map(Box::new), 0..150_u64, takes, kept);
    prop_oneof![
        1 => (0..60_u64).prop_map(Event::Passes),
        2 => extends.prop_map(|(votes, validity, takes, kept)| Event::Extends(votes, validity, takes, kept)),
        1 => Just(Event::RenewalFails),
        1 => keep().prop_map(Event::Keeps),
        1 => Just(Event::Checks),
        1 => (0..60_u64).prop_map(Event::Waits),
        1 => Just(Event::Ends),
    ]
}

fn reports(votes: &[Vote]) -> KeyReports {
    let report = |vote: &Vote| KeyReport::of(vote.clone());
    votes.iter().map(report).collect()
}

fn renewal(keep: Keep) -> Renewal {
    Renewal {
        ttl: Duration::from_millis(TTL_MS),
        margin: Duration::from_millis(keep.margin),
        until: keep.limit.map(at),
    }
}

/// A lock, and what it has to be like, in milliseconds from its beginning.
struct Compared {
    clock: FakeClock,
    lease: LeaseState,
    now: u64,
    /// When the validity ends.
    end: u64,
    /// The keep-alive that is set.
    kept: Option<Keep>,
    /// Whether the last renewal failed.
    has_failed: bool,
    loss: Option<LossCause>,
}

impl Compared {
    fn new() -> Self {
        let (clock, nodes) = (FakeClock::new(), [const { Leftover::Possible }; 3]);
        Self {
            lease: LeaseState::on(&clock, Claim::of_key("job"), nodes, at(TTL_MS)),
            clock,
            now: 0,
            end: TTL_MS,
            kept: None,
            has_failed: false,
            loss: None,
        }
    }

    fn passes(&mut self, ms: u64) {
        self.clock.advance(Duration::from_millis(ms));
        self.now += ms;
    }

    fn lose(&mut self, cause: LossCause) {
        self.loss = Some(cause);
        (self.end, self.kept) = (0, None);
    }

    /// When the holder loses the lock.
    fn deadline(&self) -> u64 {
        self.end
            .saturating_sub(self.kept.map_or(0, |kept| kept.margin))
    }

    /// Loses the lock if it ends so soon.
    fn look(&mut self, notice: u64) {
        if self.loss.is_none() && self.deadline().saturating_sub(self.now) <= notice {
            let nodes = Vec::new();
            let has_failed = take(&mut self.has_failed);
            let cause = match self.kept.and_then(|kept| kept.limit) {
                Some(limit) if self.end >= limit => LossCause::MaxHold { nodes },
                _ if has_failed => LossCause::Unreachable { nodes },
                _ => LossCause::Expired { nodes },
            };
            self.lose(cause);
        }
    }

    fn keep(&mut self, kept: Keep) {
        (self.kept, self.has_failed) = (Some(kept), false);
        self.end = self.end.min(kept.limit.unwrap_or(u64::MAX));
    }

    /// Applies the votes on an extension that asked for this end. Returns whether it succeeds.
    fn apply(&mut self, votes: &[Vote; 3], end: u64, kept: Option<Keep>) -> bool {
        self.look(0);
        if self.loss.is_some() {
            return false;
        }
        let count = |kind: fn(&Vote) -> bool| votes.iter().filter(|vote| kind(vote)).count();
        let held = count(|vote| matches!(vote, Vote::Held { .. }));
        let missing = count(|vote| matches!(vote, Vote::Missing));
        if held + missing >= 2 {
            let nodes = Vec::new();
            self.lose(if held > missing {
                LossCause::Taken { nodes }
            } else {
                LossCause::Vanished { nodes }
            });
        }
        let margin = kept.map_or(0, |kept| kept.margin);
        let is_late = end <= self.now || self.end.max(end).saturating_sub(margin) <= self.now;
        if count(|vote| matches!(vote, Vote::Granted)) < 2 || is_late {
            return false;
        }
        let limit = kept.or(self.kept).and_then(|kept| kept.limit);
        self.end = self.end.max(end.min(limit.unwrap_or(u64::MAX)));
        self.has_failed = false;
        if let Some(kept) = kept {
            self.keep(kept);
        }
        true
    }

    fn assert_told(&self, told: Option<&LossCause>) {
        let expected = self.loss.as_ref().map(discriminant);
        assert_eq!(told.map(discriminant), expected, "{told:?}");
    }

    fn execute(&mut self, event: Event) {
        match event {
            Event::Passes(ms) => self.passes(ms),
            Event::Extends(votes, validity, takes, kept) => {
                let started = self.now;
                self.passes(takes);
                let succeeds = self.apply(&votes, started + validity, kept);
                let (round, validity) =
                    (at(started)..at(self.now), Duration::from_millis(validity));
                let (renewal, mut nodes) = (kept.map(renewal), reports(&*votes));
                let result = self.lease.apply(round, validity, renewal, &mut nodes);
                assert_eq!(result.is_ok(), succeeds, "{result:?}");
                self.assert_told(if let Err(Error::Lost { cause, .. }) = &result {
                    Some(cause)
                } else {
                    None
                });
            }
            Event::RenewalFails => {
                let silent = Vote::Failed(NodeError::silence());
                let silent = [NodeReport::new(&"a".into(), silent, Duration::ZERO)];
                self.lease.note_failed_renewal(&silent);
                // There are no renewals without keep-alive.
                self.has_failed = self.kept.is_some();
            }
            Event::Keeps(keep) if self.loss.is_none() => {
                self.lease.keep(renewal(keep));
                self.keep(keep);
            }
            Event::Keeps(_) => {}
            Event::Checks => {
                self.look(0);
                assert_eq!(self.lease.check().is_ok(), self.loss.is_none());
            }
            Event::Waits(ms) => {
                self.look(NOTICE_MS);
                if self.loss.is_none() {
                    self.now = (self.now + ms).min(self.deadline() - NOTICE_MS);
                    self.look(NOTICE_MS);
                }
                let told = self.lease.wait_lost(Duration::from_millis(ms));
                self.assert_told(told.as_ref());
            }
            Event::Ends => {
                self.look(0);
                let ended = self.lease.end();
                self.assert_told(ended.loss.as_ref());
                assert_eq!(ended.end, at(self.end));
                let loss = self.loss.take().unwrap_or(LossCause::Released);
                self.lose(loss);
            }
        }
    }

    fn assert_as_expected(&self) {
        let lease = &self.lease;
        assert_eq!(self.clock.elapsed(), Duration::from_millis(self.now));
        assert_eq!(lease.is_lost(), self.loss.is_some());
        let limit = self.kept.and_then(|kept| kept.limit);
        assert_eq!(lease.limit(), limit.map(at));
        let may_last = |kept: Keep| kept.limit.is_none_or(|limit| self.end < limit);
        assert_eq!(lease.renewal().is_some(), self.kept.is_some_and(may_last));
        let deadline = self.deadline();
        assert_eq!(lease.deadline(), at(deadline));
        assert_eq!(lease.end_of_validity(), at(self.end));
        let left = deadline.saturating_sub(self.now);
        assert_eq!(lease.remaining(), Duration::from_millis(left));
    }
}

#[test]
fn a_lock_that_is_lost_is_wanted_no_more() {
    let Compared { clock, lease, .. } = Compared::new();
    lease.hooks(|hooks| hooks.on_wanted(|| ()));
    lease.note_wanted(true);
    assert!(lease.is_wanted() && lease.has_news());
    clock.advance(lease.remaining());
    assert!(lease.check().is_err());
    assert!(!lease.is_wanted());
    // An extension that began before.
    lease.note_wanted(true);
    assert!(!lease.is_wanted());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn a_holder_is_told_what_a_few_lines_say(events in prop::collection::vec(any_event(), 1..20)) {
        let mut compared = Compared::new();
        for event in events {
            compared.execute(event);
            compared.assert_as_expected();
        }
    }
}
