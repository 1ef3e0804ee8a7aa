//! Every round of up to seven nodes, against what the words mean when they are taken literally.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails, as it should"
)]

use super::*;

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
            (Nothing, 0) => Vote::Failed(NodeError::silence()),
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

/// All that up to so many nodes may say, whichever of them says it.
pub(super) fn choices<T: Copy>(kinds: &[T], most: usize) -> Vec<Vec<T>> {
    let mut all = vec![(0, Vec::new())];
    for next in 0.. {
        let Some((from, choice)) = all.get(next).cloned() else {
            break;
        };
        let longer = kinds.iter().enumerate().skip(from);
        let longer = longer.map(|(at, kind)| (at, [&choice[..], &[*kind]].concat()));
        all.extend(longer.take_while(|_| choice.len() < most));
    }
    all.into_iter().skip(1).map(|(_, choice)| choice).collect()
}

#[derive(Debug)]
struct Round(Vec<Says>);

impl Round {
    fn all() -> impl Iterator<Item = Self> {
        let all = [Ours, Anothers, NoKey, NoLock, Nothing, Unasked, Spared];
        let choices = choices(&all, 7);
        assert_eq!(choices.len(), 3431);
        choices.into_iter().map(Self)
    }

    fn nodes(&self) -> Vec<NodeReport> {
        let places = self.0.iter().enumerate();
        let reports = places.map(|(place, says)| report(place, says.vote(place)));
        reports.collect()
    }

    fn count(&self, kinds: &[Says]) -> usize {
        self.0.iter().filter(|says| kinds.contains(says)).count()
    }

    /// Whether these are a majority, in the words of the algorithm: more than half.
    fn most(&self, kinds: &[Says]) -> bool {
        2 * self.count(kinds) > self.0.len()
    }

    /// Whether all others are a majority.
    fn most_but(&self, kinds: &[Says]) -> bool {
        2 * (self.0.len() - self.count(kinds)) > self.0.len()
    }
}

fn told(result: Result<(), Error>) -> &'static str {
    match result {
        Ok(()) => "confirmed",
        Err(Error::Lost { .. }) => "lost",
        Err(Error::Held { .. }) => "held",
        Err(Error::NotALock { .. }) => "not a lock",
        Err(Error::Unavailable { .. }) => "unavailable",
        Err(Error::Unconfirmed { .. }) => "unconfirmed",
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_held_lock_is_confirmed_by_a_majority_and_lost_when_none_is_possible_for_certain() {
    let (job, waited) = ("job".into(), Duration::ZERO);
    for round in Round::all() {
        let nodes = round.nodes();
        let expected = |maybe: &[Says]| {
            if round.most(&[Ours]) {
                Verdict::Confirmed
            } else if round.most(maybe) {
                Verdict::Unknown
            } else {
                Verdict::Lost
            }
        };
        let maybe = [Ours, Nothing, Spared];
        assert_eq!(
            of_held(nodes.iter().map(|node| &node.vote)),
            expected(&maybe),
            "{round:?}"
        );
        let cause = loss(nodes.clone());
        assert_eq!(cause.nodes().len(), nodes.len());
        let is_taken = round.count(&[Anothers, NoLock]) > round.count(&[NoKey]);
        assert_eq!(matches!(cause, LossCause::Taken { .. }), is_taken);
        assert_eq!(matches!(cause, LossCause::Vanished { .. }), !is_taken);
        // Of a lock without a guard, a key that is no lock tells nothing. A release says why it is not known.
        let expected = match expected(&[Ours, Nothing, Spared, NoLock]) {
            Verdict::Confirmed => ["confirmed"; 2],
            Verdict::Lost => ["lost"; 2],
            Verdict::Unknown if round.most_but(&[NoLock]) => ["unavailable", "unconfirmed"],
            Verdict::Unknown => ["unavailable", "not a lock"],
        };
        let votes = nodes.iter().map(|node| &node.vote);
        let released = released(&job, waited, votes, || nodes.clone());
        let both = [confirm(&job, waited, nodes), released].map(told);
        assert_eq!(both, expected, "{round:?}");
    }
}

#[test]
fn an_attempt_has_failed_by_faults_only_if_they_alone_rule_a_majority_out() {
    for round in Round::all() {
        let nodes = round.nodes();
        let tally = Tally::of(nodes.iter().map(|node| &node.vote));
        assert_eq!(tally.is_won(), round.most(&[Ours]), "{round:?}");
        let may_be_won = round.most(&[Ours, Unasked, Spared]);
        assert_eq!(tally.is_lost(), !may_be_won, "{round:?}");
        assert_eq!(tally.granted, round.count(&[Ours]));
        let is_taken = tally.granted == 0 && round.count(&[Anothers]) > 0;
        assert_eq!(tally.is_taken(), is_taken);
        let expected = if round.most_but(&[NoLock, Nothing, Spared]) {
            "held"
        } else if round.most_but(&[NoLock]) {
            "unavailable"
        } else {
            "not a lock"
        };
        let error = attempt_error(&"job".into(), nodes);
        assert_eq!(told(Err(error)), expected, "{round:?}");
    }
}

#[test]
fn where_a_writer_waits_a_reader_has_lost_whatever_the_other_nodes_say() {
    for round in Round::all() {
        for place in 0..round.0.len() {
            let mut nodes = round.nodes();
            let remaining = Duration::from_secs(1);
            nodes[place].vote = Vote::WriterWaits { remaining };
            let tally = Tally::of(nodes.iter().map(|node| &node.vote));
            assert!(!tally.is_won() && tally.is_lost());
        }
    }
}

#[test]
fn a_stale_proposal_and_a_writer_that_waits_are_refusals_and_an_abstention_is_a_vote_against() {
    let remaining = Duration::from_secs(1);
    let closed = Vote::Failed(NodeError::Quarantined {
        remaining,
        has_marker: true,
    });
    for (vote, is_taken, abstaining) in [
        (Vote::Stale { counter: 5 }, true, 0),
        (Vote::WriterWaits { remaining }, true, 0),
        (closed, false, 2),
    ] {
        let tally = Tally::of([vote.clone(), vote, Vote::NotAsked].iter());
        assert!(tally.is_lost());
        assert_eq!((tally.is_taken(), tally.abstaining), (is_taken, abstaining));
    }
}

#[test]
fn a_lock_is_taken_over_for_as_long_as_a_majority_has_it() {
    // None of the others has it, for however long.
    let others = [Anothers, NoKey, Nothing].map(|says| (says, 9));
    let all = [&[(Ours, 1), (Ours, 2), (Ours, 5)], &others[..]].concat();
    let mut confirmed = 0;
    for mut round in choices(&all, 7) {
        let has = |second: &u64| {
            let has = |(says, left): &&(Says, u64)| *says == Ours && left >= second;
            2 * round.iter().filter(has).count() > round.len()
        };
        let Some(seconds) = (1..=9).rev().find(has) else {
            continue;
        };
        confirmed += 1;
        let expected = Duration::from_secs(seconds) * 9 / 10;
        // Whichever of the nodes has the longest time.
        for _ in 0..2 {
            let left = round.iter().filter(|(says, _)| *says == Ours);
            let left = left.map(|(_, seconds)| Duration::from_secs(*seconds));
            let validity = validity(round.len(), left.collect(), |time| time / 10);
            assert_eq!(validity, expected, "{round:?}");
            round.reverse();
        }
    }
    assert!(confirmed > 200, "{confirmed}");
}
