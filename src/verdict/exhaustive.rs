//! Every answer of up to seven nodes, against what the words mean when they are taken literally.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails, as it should"
)]

use std::time::Duration;

use super::*;
use crate::error::QuarantineCause;
use crate::fencing::FencingToken;

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
    /// It was asked, and nobody knows.
    Nothing,
    /// It was not asked, because there is nothing of the lock, or no need.
    Unasked,
    /// It was spared, because it failed a moment ago.
    Spared,
}

use Says::{Anothers, NoKey, Nothing, Ours, Spared, Unasked};

const ALL: [Says; 6] = [Ours, Anothers, NoKey, Nothing, Unasked, Spared];

impl Says {
    /// One of the votes that mean this, by its place.
    fn vote(self, place: usize) -> Vote {
        match (self, place % 2) {
            (Ours, 0) => Vote::Granted,
            (Ours, _) => Vote::Released,
            (Anothers, _) => Vote::Held { remaining: None },
            (NoKey, _) => Vote::Missing,
            (Nothing, 0) => Vote::TimedOut,
            (Nothing, _) => Vote::Failed(NodeError::PoolExhausted),
            (Unasked, _) => Vote::NotAsked,
            (Spared, _) => Vote::BreakerOpen {
                failure: "down".into(),
            },
        }
    }
}

fn report(place: usize, vote: Vote) -> NodeReport {
    NodeReport {
        node: format!("n{place}").into(),
        vote,
        elapsed: Duration::ZERO,
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
    fn go_on(round: &mut Vec<Says>, from: usize, check: &mut impl FnMut(&[Says])) {
        if !round.is_empty() {
            check(round);
        }
        if round.len() == MOST_NODES {
            return;
        }
        for (at, says) in ALL.iter().enumerate().skip(from) {
            round.push(*says);
            go_on(round, at, check);
            round.pop();
        }
    }
    go_on(&mut Vec::new(), 0, check);
}

fn count(round: &[Says], kinds: &[Says]) -> usize {
    round.iter().filter(|says| kinds.contains(says)).count()
}

/// A majority, in the words of the algorithm: more than half.
fn is_majority(round: &[Says], part: usize) -> bool {
    part > round.len() - part
}

#[test]
fn a_held_lock_is_confirmed_by_a_majority_and_lost_when_none_is_possible_for_certain() {
    let mut rounds = 0;
    each_round(&mut |round| {
        rounds += 1;
        let ours = count(round, &[Ours]);
        let maybe = count(round, &[Ours, Nothing, Spared]);
        let verdict = of_held(&reports(round));
        let expected = if is_majority(round, ours) {
            Verdict::Confirmed
        } else if is_majority(round, maybe) {
            Verdict::Unknown
        } else {
            Verdict::Lost
        };
        assert_eq!(verdict, expected, "{round:?}");
        match (
            confirm(&"job".into(), Duration::ZERO, reports(round)),
            expected,
        ) {
            (Ok(nodes), Verdict::Confirmed) => assert_eq!(nodes.len(), round.len()),
            (Err(Error::Unavailable { nodes, .. }), Verdict::Unknown) => {
                assert_eq!(nodes.len(), round.len());
            }
            (Err(Error::Lost { cause, .. }), Verdict::Lost) => {
                let is_taken = count(round, &[Anothers]) > count(round, &[NoKey]);
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
            }
            (other, _) => panic!("{round:?}: {other:?}"),
        }
    });
    // The ways to choose 1 to 7 of 6 kinds, where the order does not matter.
    assert_eq!(rounds, 1715);
}

#[test]
fn an_attempt_is_won_by_a_majority_and_over_when_none_is_possible() {
    each_round(&mut |round| {
        let votes: Vec<Vote> = reports(round).into_iter().map(|node| node.vote).collect();
        let tally = Tally::of(votes.iter());
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
        let without_faults = round.len() - count(round, &[Nothing, Spared]);
        let error = why_not(&"job".into(), Duration::ZERO, reports(round));
        let is_held = matches!(error, Error::Held { .. });
        assert_eq!(is_held, is_majority(round, without_faults), "{round:?}");
        assert!(is_held || matches!(error, Error::Unavailable { .. }));
    });
}

#[test]
fn a_stale_proposal_is_a_refusal_and_an_abstention_is_a_vote_against() {
    let counter = FencingToken::new(5);
    let stale = [Vote::Stale { counter }, Vote::NotAsked, Vote::NotAsked];
    assert!(Tally::of(stale.iter()).is_taken());
    let closed = NodeError::Quarantined {
        remaining: Duration::from_secs(1),
        cause: QuarantineCause::Reborn,
    };
    let abstains = [
        Vote::Failed(closed.clone()),
        Vote::Failed(closed),
        Vote::NotAsked,
    ];
    let tally = Tally::of(abstains.iter());
    assert!(tally.has_an_abstention() && tally.is_lost() && !tally.is_taken());
    assert!(!Tally::of(stale.iter()).has_an_abstention());
}
