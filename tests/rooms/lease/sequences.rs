//! The state of a lock in any sequence of events, compared with the few lines that say what a holder is told.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "an overflow is a failure here"
)]

use std::mem::{discriminant, take};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::state::nodes::Holding;
use super::state::{LeaseState, Renewal};
use crate::claim::Claim;
use crate::clock::{Clock, FakeClock, Timestamp};
use crate::cluster::Owner;
use crate::error::{Error, LossCause, NodeError, NodeReport, Vote};
use crate::node::Trace;

const TTL_MS: u64 = 100;

/// A thread that waits is told of the end by that much earlier, and so are hooks.
const NOTICE_MS: u64 = 1;

#[derive(Debug, Clone)]
enum Event {
    Passes(u64),
    /// The votes of three nodes, the validity, how long it takes, and the keep-alive that it begins.
    Extends(Box<[Vote; 3]>, u64, u64, Option<Limit>),
    RenewalFails,
    Keeps(Limit),
    Checks,
    Waits(u64),
    AddsHook,
    CallsHooks,
    Ends,
}

/// A `max_hold`.
type Limit = Option<u64>;

fn any_vote() -> impl Strategy<Value = Vote> {
    prop_oneof![
        4 => Just(Vote::Granted),
        1 => Just(Vote::Missing),
        1 => Just(Vote::held(None)),
        1 => Just(Vote::Failed(NodeError::TimedOut)),
    ]
}

fn any_event() -> impl Strategy<Value = Event> {
    let limit = || prop::option::of(0..400_u64);
    let votes = || [any_vote(), any_vote(), any_vote()].prop_map(Box::new);
    prop_oneof![
        (0..60_u64).prop_map(Event::Passes),
        (
            votes(),
            0..150_u64,
            0..60_u64,
            prop::option::weighted(0.2, limit())
        )
            .prop_map(|(votes, validity, takes, kept)| Event::Extends(
                votes, validity, takes, kept
            )),
        (votes(), 0..150_u64)
            .prop_map(|(votes, validity)| Event::Extends(votes, validity, 0, None)),
        Just(Event::RenewalFails),
        limit().prop_map(Event::Keeps),
        Just(Event::Checks),
        (0..60_u64).prop_map(Event::Waits),
        Just(Event::AddsHook),
        Just(Event::CallsHooks),
        Just(Event::Ends),
    ]
}

/// What the holder is to be told. All times are in milliseconds since the beginning.
#[derive(Default)]
struct Expected {
    now: u64,
    end: u64,
    limit: Option<Limit>,
    has_failed: bool,
    loss: Option<LossCause>,
    hooks: usize,
}

impl Expected {
    fn lose(&mut self, cause: LossCause) {
        self.loss = Some(cause);
        (self.end, self.limit) = (0, None);
    }

    /// Loses the lock if its validity is over, or nearly over.
    fn look(&mut self, notice: u64) {
        if self.loss.is_none() && self.end.saturating_sub(self.now) <= notice {
            let nodes = Vec::new();
            let has_failed = take(&mut self.has_failed);
            let cause = match self.limit {
                Some(Some(limit)) if self.end >= limit => LossCause::MaxHold { nodes },
                _ if has_failed => LossCause::Unreachable { nodes },
                _ => LossCause::Expired { nodes },
            };
            self.lose(cause);
        }
    }

    /// Whether the extension succeeds.
    fn extend(
        &mut self,
        votes: &[Vote; 3],
        validity: u64,
        takes: u64,
        kept: Option<Limit>,
    ) -> bool {
        let begin = self.now;
        self.now += takes;
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
        if count(|vote| matches!(vote, Vote::Granted)) < 2 || begin + validity <= self.now {
            return false;
        }
        let limit = kept.or(self.limit).flatten().unwrap_or(u64::MAX);
        self.end = self.end.max((begin + validity).min(limit));
        self.has_failed = false;
        if let Some(kept) = kept {
            self.keep(kept);
        }
        true
    }

    fn keep(&mut self, limit: Limit) {
        (self.limit, self.has_failed) = (Some(limit), false);
        self.end = self.end.min(limit.unwrap_or(u64::MAX));
    }
}

fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos(0).saturating_add(Duration::from_millis(ms))
}

fn reports(votes: &[Vote]) -> Vec<NodeReport> {
    let report = |vote: &Vote| NodeReport {
        node: "a".into(),
        vote: vote.clone(),
        elapsed: Duration::ZERO,
        is_wanted: false,
        server: None,
    };
    votes.iter().map(report).collect()
}

fn renewal(limit: Limit) -> Renewal {
    Renewal {
        ttl: Duration::from_millis(TTL_MS),
        until: limit.map(at),
    }
}

fn same(cause: Option<&LossCause>, expected: Option<&LossCause>) -> bool {
    cause.map(discriminant) == expected.map(discriminant)
}

struct Compared {
    clock: FakeClock,
    lease: LeaseState,
    expected: Expected,
}

impl Compared {
    fn new() -> Self {
        let clock = FakeClock::new();
        let owner = Owner::new(&Clock::from(clock.clone()));
        let nodes = [Holding::from(Trace::Possible); 3].into_iter().collect();
        let times = at(0)..at(TTL_MS);
        let expected = Expected {
            end: TTL_MS,
            ..Expected::default()
        };
        let lease = LeaseState::new(&owner, Claim::of_key("job"), nodes, times);
        Self {
            clock,
            lease,
            expected,
        }
    }

    fn execute(&mut self, event: Event) {
        let Self {
            clock,
            lease,
            expected,
        } = self;
        match event {
            Event::Passes(ms) => {
                clock.advance(Duration::from_millis(ms));
                expected.now += ms;
            }
            Event::Extends(votes, validity, takes, kept) => {
                self.extend(&votes, validity, takes, kept);
            }
            Event::RenewalFails => {
                lease.note_failed_renewal(&reports(&[Vote::Failed(NodeError::TimedOut)]));
                // There are no renewals without keep-alive.
                expected.has_failed = expected.limit.is_some();
            }
            Event::Keeps(limit) if expected.loss.is_none() => {
                lease.keep(renewal(limit));
                expected.keep(limit);
            }
            Event::Keeps(_) => {}
            Event::Checks => {
                expected.look(0);
                assert_eq!(lease.check().is_ok(), expected.loss.is_none());
            }
            Event::Waits(ms) => {
                expected.look(NOTICE_MS);
                if expected.loss.is_none() {
                    expected.now = (expected.now + ms).min(expected.end - NOTICE_MS);
                    expected.look(NOTICE_MS);
                }
                let told = lease.wait_lost(Duration::from_millis(ms));
                assert!(same(told.as_ref(), expected.loss.as_ref()), "{told:?}");
            }
            Event::AddsHook => {
                lease.on_lost(Box::new(drop));
                expected.hooks += 1;
            }
            Event::CallsHooks => {
                lease.call_hooks(Some(&LossCause::Released));
                expected.hooks = 0;
            }
            Event::Ends => {
                expected.look(0);
                let ended = lease.end();
                assert!(same(ended.loss.as_ref(), expected.loss.as_ref()));
                assert_eq!(ended.deadline, at(expected.end));
                let hooks = ended.hooks.map_or(0, |hooks| hooks.lost.len());
                assert_eq!(hooks, take(&mut expected.hooks));
                let loss = expected.loss.take().unwrap_or(LossCause::Released);
                expected.lose(loss);
            }
        }
    }

    fn extend(&mut self, votes: &[Vote; 3], validity: u64, takes: u64, kept: Option<Limit>) {
        let Self {
            clock,
            lease,
            expected,
        } = self;
        let started = at(expected.now);
        let succeeds = expected.extend(votes, validity, takes, kept);
        clock.advance(Duration::from_millis(takes));
        let (round, validity) = (started..at(expected.now), Duration::from_millis(validity));
        let mut nodes = reports(votes);
        let result = lease.extended(round, validity, kept.map(renewal), &mut nodes);
        assert_eq!(result.is_ok(), succeeds, "{result:?}");
        let told = if let Err(Error::Lost { cause, .. }) = &result {
            Some(cause)
        } else {
            None
        };
        assert!(same(told, expected.loss.as_ref()), "{result:?}");
    }

    fn look(&self) {
        let Self {
            clock,
            lease,
            expected,
        } = self;
        assert_eq!(clock.elapsed(), Duration::from_millis(expected.now));
        assert_eq!(lease.is_lost(), expected.loss.is_some());
        assert_eq!(lease.has_hooks(), expected.hooks > 0);
        assert_eq!(lease.limit(), expected.limit.flatten().map(at));
        let is_kept = expected
            .limit
            .is_some_and(|limit| limit.is_none_or(|limit| expected.end < limit));
        assert_eq!(lease.renewal().is_some(), is_kept);
        assert_eq!(lease.deadline(), at(expected.end));
        let left = expected.end.saturating_sub(expected.now);
        assert_eq!(lease.remaining(), Duration::from_millis(left));
    }
}

#[test]
fn a_lock_that_is_lost_is_wanted_no_more() {
    let Compared { clock, lease, .. } = Compared::new();
    lease.on_wanted(|| ());
    lease.note_wanted(true);
    assert!(lease.is_wanted() && lease.has_news());
    clock.advance(lease.remaining());
    assert!(lease.check().is_err());
    assert!(!lease.is_wanted());
    // An extension that began before.
    lease.note_wanted(true);
    assert!(!lease.is_wanted());
}

#[test]
fn a_watch_says_of_which_lock_it_is_and_how_long_that_is_held() {
    let compared = Compared::new();
    let watch = super::LeaseWatch::new(&Arc::new(compared.lease));
    assert_eq!(watch.resource(), "job");
    let shown = format!("{watch:?}");
    assert_eq!(
        shown,
        r#"LeaseWatch { resource: "job", remaining: 100ms, .. }"#
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn a_holder_is_told_what_a_few_lines_say(events in prop::collection::vec(any_event(), 1..20)) {
        let mut compared = Compared::new();
        for event in events {
            compared.execute(event);
            compared.look();
        }
    }
}
