//! Every answer of up to seven nodes, against what the words mean when they are taken literally.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails, as it should"
)]

use std::time::Duration;

use super::*;

const MOST_NODES: usize = 7;

/// What a vote means for the lock. Each stands for the votes that mean the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Says {
    /// It has our key, or has deleted it.
    Ours,
    /// Another has it there.
    Anothers,
    /// It has no key.
    NoKey,
    /// What it has under the key is no lock.
    NoLock,
    /// It was asked, and nobody knows.
    Nothing,
    /// It was not asked, because there is nothing of the lock, or no need.
    Unasked,
    /// It was spared, because it failed a moment ago.
    Spared,
}

use Says::{Anothers, NoKey, NoLock, Nothing, Ours, Spared, Unasked};

const ALL: [Says; 7] = [Ours, Anothers, NoKey, NoLock, Nothing, Unasked, Spared];

impl Says {
    /// One of the votes that mean this, by its place.
    fn vote(self, place: usize) -> Vote {
        match (self, place % 2) {
            (Ours, 0) => Vote::Granted,
            (Ours, _) => Vote::Released,
            (Anothers, _) => Vote::held(None),
            (NoKey, _) => Vote::Missing,
            (NoLock, 0) => Vote::Failed(NodeError::other_type()),
            (NoLock, _) => Vote::Failed(NodeError::never_expires(None, None)),
            (Nothing, 0) => Vote::Failed(NodeError::TimedOut),
            (Nothing, _) => Vote::Failed(NodeError::PoolExhausted),
            (Unasked, _) => Vote::NotAsked,
            (Spared, _) => Vote::Failed(NodeError::BreakerOpen {
                failure: "down".into(),
            }),
        }
    }
}

pub(super) fn report(place: usize, vote: Vote) -> NodeReport {
    NodeReport {
        node: format!("n{place}").into(),
        vote,
        elapsed: Duration::ZERO,
        is_wanted: false,
        server: None,
    }
}

fn reports(round: &[Says]) -> Vec<NodeReport> {
    let votes = round.iter().enumerate();
    votes
        .map(|(place, says)| report(place, says.vote(place)))
        .collect()
}

/// Calls `check` with all that so many nodes may say, in any order: which of them says it does not matter.
fn each_round(check: &mut impl FnMut(&[Says])) {
    each_choice(&ALL, check);
}

fn each_choice<T: Copy>(kinds: &[T], check: &mut impl FnMut(&[T])) {
    fn go_on<T: Copy>(round: &mut Vec<T>, from: usize, kinds: &[T], check: &mut impl FnMut(&[T])) {
        if !round.is_empty() {
            check(round);
        }
        if round.len() == MOST_NODES {
            return;
        }
        for (at, says) in kinds.iter().enumerate().skip(from) {
            round.push(*says);
            go_on(round, at, kinds, check);
            round.pop();
        }
    }
    go_on(&mut Vec::new(), 0, kinds, check);
}

fn count(round: &[Says], kinds: &[Says]) -> usize {
    round.iter().filter(|says| kinds.contains(says)).count()
}

/// A majority, in the words of the algorithm: more than half.
fn is_majority(round: &[Says], part: usize) -> bool {
    part > round.len() - part
}

/// The verdict on a lock that these nodes may have.
fn expected(round: &[Says], maybe: &[Says]) -> Verdict {
    if is_majority(round, count(round, &[Ours])) {
        Verdict::Confirmed
    } else if is_majority(round, count(round, maybe)) {
        Verdict::Unknown
    } else {
        Verdict::Lost
    }
}

#[test]
fn a_held_lock_is_confirmed_by_a_majority_and_lost_when_none_is_possible_for_certain() {
    let mut rounds = 0;
    each_round(&mut |round| {
        rounds += 1;
        let verdict = of_held(&reports(round));
        let maybe = [Ours, Nothing, Spared];
        assert_eq!(verdict, expected(round, &maybe), "{round:?}");
        let cause = loss(reports(round));
        let is_taken = count(round, &[Anothers, NoLock]) > count(round, &[NoKey]);
        let is_right = match &cause {
            LossCause::Taken { .. } => is_taken,
            LossCause::Vanished { .. } => !is_taken,
            LossCause::Expired { .. }
            | LossCause::Unreachable { .. }
            | LossCause::MaxHold { .. }
            | LossCause::Released => false,
        };
        assert!(is_right, "{round:?}: {cause:?}");
        assert_eq!(cause.nodes().len(), round.len());
        // Of a lock without a guard, a key that is no lock tells nothing.
        let confirmed = confirm(&"job".into(), Duration::ZERO, reports(round));
        let expected = expected(round, &[&maybe[..], &[NoLock]].concat());
        match (confirmed, expected) {
            (Ok(nodes), Verdict::Confirmed)
            | (Err(Error::Unavailable { nodes, .. }), Verdict::Unknown) => {
                assert_eq!(nodes.len(), round.len());
            }
            (Err(Error::Lost { .. }), Verdict::Lost) => {}
            (other, _) => panic!("{round:?}: {other:?}"),
        }
    });
    // The ways to choose 1 to 7 of 7 kinds, where the order does not matter.
    assert_eq!(rounds, 3431);
}

/// Whether keys that are no locks alone make a majority impossible.
fn blocks(round: &[Says]) -> bool {
    !is_majority(round, round.len() - count(round, &[NoLock]))
}

#[test]
fn a_release_is_confirmed_or_lost_as_a_lock_without_a_guard_and_else_says_why_not() {
    each_round(&mut |round| {
        let expected = expected(round, &[Ours, Nothing, Spared, NoLock]);
        let nodes = reports(round).into_iter().collect();
        match released(&"job".into(), Duration::ZERO, nodes) {
            Ok(()) => assert_eq!(expected, Verdict::Confirmed, "{round:?}"),
            Err(Error::Lost { .. }) => assert_eq!(expected, Verdict::Lost, "{round:?}"),
            Err(error) => {
                assert_eq!(expected, Verdict::Unknown, "{round:?}");
                let is_blocked = matches!(error, Error::NotALock { .. });
                assert!(is_blocked || matches!(error, Error::Unconfirmed { .. }));
                assert_eq!(is_blocked, blocks(round), "{round:?}");
            }
        }
    });
}

#[test]
fn an_attempt_is_won_by_a_majority_and_over_when_none_is_possible() {
    each_round(&mut |round| {
        let votes: Vec<Vote> = reports(round).into_iter().map(|node| node.vote).collect();
        let tally = Tally::of(&votes.iter());
        let ours = count(round, &[Ours]);
        let may_still = count(round, &[Ours, Unasked, Spared]);
        assert_eq!(tally.is_won(), is_majority(round, ours), "{round:?}");
        assert_eq!(tally.is_lost(), !is_majority(round, may_still), "{round:?}");
        assert_eq!(tally.is_open(), !tally.is_won() && !tally.is_lost());
        assert!(!(tally.is_won() && tally.is_lost()), "{round:?}");
        assert_eq!(tally.has_a_vote(), ours > 0);
        let is_taken = ours == 0 && count(round, &[Anothers]) > 0;
        assert_eq!(tally.is_taken(), is_taken, "{round:?}");
    });
}

#[test]
fn an_attempt_has_failed_by_faults_only_if_they_alone_rule_a_majority_out() {
    each_round(&mut |round| {
        let without_faults = round.len() - count(round, &[NoLock, Nothing, Spared]);
        let error = attempt_error(&"job".into(), Duration::ZERO, reports(round));
        let is_held = matches!(error, Error::Held { .. });
        assert_eq!(is_held, is_majority(round, without_faults), "{round:?}");
        let is_blocked = matches!(error, Error::NotALock { .. });
        assert_eq!(is_blocked, blocks(round), "{round:?}");
        assert!(is_held || is_blocked || matches!(error, Error::Unavailable { .. }));
    });
}

#[test]
fn where_a_writer_waits_a_reader_has_lost_whatever_the_other_nodes_say() {
    let for_a_writer = || Vote::WriterWaits {
        remaining: Duration::from_secs(1),
    };
    each_round(&mut |round| {
        for place in 0..round.len() {
            let mut votes: Vec<Vote> = reports(round).into_iter().map(|node| node.vote).collect();
            votes[place] = for_a_writer();
            let tally = Tally::of(&votes.iter());
            assert!(!tally.is_won() && tally.is_lost() && !tally.is_open());
        }
    });
    let votes = [for_a_writer(), Vote::NotAsked, Vote::NotAsked];
    assert!(Tally::of(&votes.iter()).is_taken());
}

#[test]
fn a_stale_proposal_is_a_refusal_and_an_abstention_is_a_vote_against() {
    let counter = 5;
    let stale = [Vote::Stale { counter }, Vote::NotAsked, Vote::NotAsked];
    assert!(Tally::of(&stale.iter()).is_taken());
    let closed = NodeError::Quarantined {
        remaining: Duration::from_secs(1),
        has_marker: true,
    };
    let abstains = [
        Vote::Failed(closed.clone()),
        Vote::Failed(closed),
        Vote::NotAsked,
    ];
    let tally = Tally::of(&abstains.iter());
    assert!(tally.has_an_abstention() && tally.is_lost() && !tally.is_taken());
    assert!(!Tally::of(&stale.iter()).has_an_abstention());
}

/// What a node may say of a lock that is taken over: for how many seconds it goes on having it, or something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Has {
    OursFor(u64),
    Not(Says),
}

/// For how many seconds a majority goes on having it, as the words say it: the last second after which it still has.
fn seconds_of_a_majority(round: &[Has]) -> u64 {
    let has_after = |second: u64| {
        let has = |has: &&Has| matches!(has, Has::OursFor(seconds) if *seconds >= second);
        2 * round.iter().filter(has).count() > round.len()
    };
    (0..=9).rev().find(|second| has_after(*second)).unwrap_or(0)
}

#[test]
fn a_lock_is_taken_over_for_as_long_as_a_majority_has_it() {
    let ours = [1, 2, 5].map(Has::OursFor);
    let others = [Anothers, NoKey, NoLock, Nothing, Unasked, Spared].map(Has::Not);
    let kinds = [&ours[..], &others[..]].concat();
    let drift = |time: Duration| time / 10;
    let mut confirmed = 0;
    let mut check = |round: &[Has]| {
        let kept = round.iter().enumerate().map(|(place, has)| match has {
            Has::OursFor(seconds) => Kept {
                report: report(place, Vote::Granted),
                left: Duration::from_secs(*seconds),
            },
            Has::Not(says) => Kept {
                report: report(place, says.vote(place)),
                left: Duration::ZERO,
            },
        });
        let kept: Vec<_> = kept.collect();
        let reports = kept.iter().map(|kept| kept.report.clone()).collect();
        if confirm(&"job".into(), Duration::ZERO, reports).is_ok() {
            let time = Duration::from_secs(seconds_of_a_majority(round));
            let expected = time.saturating_sub(time / 10);
            assert_eq!(validity(&kept, drift), expected, "{round:?}");
            confirmed += 1;
        }
    };
    each_choice(&kinds, &mut |round| {
        check(round);
        // Whichever of the nodes has the longest time.
        let backwards: Vec<Has> = round.iter().rev().copied().collect();
        check(&backwards);
    });
    assert!(confirmed > 1000, "{confirmed}");
}
