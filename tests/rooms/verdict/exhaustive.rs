//! Every round of up to seven nodes, against what the words mean when they are taken literally.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails, as it should"
)]

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
    NodeReport::new(&format!("n{place}").into(), vote, Duration::ZERO)
}

/// Calls `check` with all that so many nodes may say, in any order: which of them says it does not matter.
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

/// As [`each_choice`], with the votes, and with a count of the nodes that say one of these.
fn each_round(mut check: impl FnMut(&[NodeReport], &dyn Fn(&[Says]) -> usize)) {
    let mut rounds = 0;
    each_choice(&ALL, &mut |round: &[Says]| {
        let places = round.iter().enumerate();
        let reports = places.map(|(place, says)| report(place, says.vote(place)));
        let count = |kinds: &[Says]| round.iter().filter(|says| kinds.contains(says)).count();
        check(&reports.collect::<Vec<_>>(), &count);
        rounds += 1;
    });
    // The ways to choose 1 to 7 of 7 kinds, where the order does not matter.
    assert_eq!(rounds, 3431);
}

/// A majority, in the words of the algorithm: more than half.
fn is_majority(nodes: &[NodeReport], part: usize) -> bool {
    2 * part > nodes.len()
}

#[test]
fn a_held_lock_is_confirmed_by_a_majority_and_lost_when_none_is_possible_for_certain() {
    each_round(|nodes, count| {
        let expected = |maybe: usize| {
            if is_majority(nodes, count(&[Ours])) {
                Verdict::Confirmed
            } else if is_majority(nodes, maybe) {
                Verdict::Unknown
            } else {
                Verdict::Lost
            }
        };
        let verdict = of_held(nodes);
        assert_eq!(
            verdict,
            expected(count(&[Ours, Nothing, Spared])),
            "{nodes:?}"
        );
        let cause = loss(nodes.to_vec());
        assert_eq!(cause.nodes().len(), nodes.len());
        let is_taken = count(&[Anothers, NoLock]) > count(&[NoKey]);
        assert_eq!(matches!(cause, LossCause::Taken { .. }), is_taken);
        assert_eq!(matches!(cause, LossCause::Vanished { .. }), !is_taken);
        // Of a lock without a guard, a key that is no lock tells nothing.
        let expected = expected(count(&[Ours, Nothing, Spared, NoLock]));
        let confirmed = confirm(&"job".into(), Duration::ZERO, nodes.to_vec());
        assert!(
            matches!(
                (&confirmed, expected),
                (Ok(()), Verdict::Confirmed)
                    | (Err(Error::Unavailable { .. }), Verdict::Unknown)
                    | (Err(Error::Lost { .. }), Verdict::Lost)
            ),
            "{nodes:?}: {confirmed:?}"
        );
        // A release says in place of that why it is not known.
        let is_blocked = !is_majority(nodes, nodes.len() - count(&[NoLock]));
        let released = released(&"job".into(), Duration::ZERO, nodes.into());
        let is_unknown = expected == Verdict::Unknown;
        let told = [
            released.is_ok(),
            matches!(released, Err(Error::Lost { .. })),
            matches!(released, Err(Error::NotALock { .. })),
            matches!(released, Err(Error::Unconfirmed { .. })),
        ];
        let expected = [
            expected == Verdict::Confirmed,
            expected == Verdict::Lost,
            is_unknown && is_blocked,
            is_unknown && !is_blocked,
        ];
        assert_eq!(told, expected, "{nodes:?}");
    });
}

#[test]
fn an_attempt_has_failed_by_faults_only_if_they_alone_rule_a_majority_out() {
    each_round(|nodes, count| {
        let tally = Tally::of(&nodes.iter().map(|node| &node.vote));
        let ours = count(&[Ours]);
        let may_still = count(&[Ours, Unasked, Spared]);
        assert_eq!(tally.is_won(), is_majority(nodes, ours), "{nodes:?}");
        assert_eq!(tally.is_lost(), !is_majority(nodes, may_still), "{nodes:?}");
        assert_eq!(tally.granted, ours);
        assert_eq!(tally.is_taken(), ours == 0 && count(&[Anothers]) > 0);
        let without_faults = nodes.len() - count(&[NoLock, Nothing, Spared]);
        let is_blocked = !is_majority(nodes, nodes.len() - count(&[NoLock]));
        let error = attempt_error(&"job".into(), Duration::ZERO, nodes.to_vec());
        let is_held = is_majority(nodes, without_faults);
        let is_unavailable = !is_held && !is_blocked;
        let told = [
            matches!(error, Error::Held { .. }),
            matches!(error, Error::NotALock { .. }),
            matches!(error, Error::Unavailable { .. }),
        ];
        assert_eq!(told, [is_held, is_blocked, is_unavailable], "{nodes:?}");
    });
}

#[test]
fn where_a_writer_waits_a_reader_has_lost_whatever_the_other_nodes_say() {
    let for_a_writer = || Vote::WriterWaits {
        remaining: Duration::from_secs(1),
    };
    each_round(|nodes, _| {
        for place in 0..nodes.len() {
            let mut nodes = nodes.to_vec();
            nodes[place].vote = for_a_writer();
            let tally = Tally::of(&nodes.iter().map(|node| &node.vote));
            assert!(!tally.is_won() && tally.is_lost());
        }
    });
    let votes = [for_a_writer(), Vote::NotAsked, Vote::NotAsked];
    assert!(Tally::of(&votes.iter()).is_taken());
}

#[test]
fn a_stale_proposal_is_a_refusal_and_an_abstention_is_a_vote_against() {
    let stale = [Vote::Stale { counter: 5 }, Vote::NotAsked, Vote::NotAsked];
    assert!(Tally::of(&stale.iter()).is_taken());
    assert_eq!(Tally::of(&stale.iter()).abstaining, 0);
    let closed = Vote::Failed(NodeError::Quarantined {
        remaining: Duration::from_secs(1),
        has_marker: true,
    });
    let tally = Tally::of(&[closed.clone(), closed, Vote::NotAsked].iter());
    assert!(tally.abstaining == 2 && tally.is_lost() && !tally.is_taken());
}

#[test]
fn a_lock_is_taken_over_for_as_long_as_a_majority_has_it() {
    // None of the others has it, for however long.
    let all = [
        (Ours, 1),
        (Ours, 2),
        (Ours, 5),
        (Anothers, 9),
        (NoKey, 9),
        (Nothing, 9),
    ];
    let mut confirmed = 0;
    let mut check = |round: &[(Says, u64)]| {
        let kept = round.iter().map(|(says, seconds)| Kept {
            // `Released` is no answer to this.
            report: report(0, says.vote(0)),
            left: Duration::from_secs(*seconds),
        });
        let kept: Vec<Kept> = kept.collect();
        let has = |second: u64| {
            let has = |(says, left): &&(Says, u64)| *says == Ours && *left >= second;
            2 * round.iter().filter(has).count() > round.len()
        };
        let Some(seconds) = (1..=9).rev().find(|second| has(*second)) else {
            return;
        };
        confirmed += 1;
        let expected = Duration::from_secs(seconds) * 9 / 10;
        assert_eq!(validity(&kept, |time| time / 10), expected, "{round:?}");
    };
    each_choice(&all, &mut |round| {
        check(round);
        // Whichever of the nodes has the longest time.
        check(&round.iter().rev().copied().collect::<Vec<_>>());
    });
    assert!(confirmed > 500, "{confirmed}");
}
