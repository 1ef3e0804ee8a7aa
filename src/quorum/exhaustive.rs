//! Every case of a few nodes, and every whole number of a range, against what the algorithm asks for.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails, as it should"
)]

use super::*;

const MOST_NODES: usize = 7;

/// Sets of nodes are numbers, with a bit for each node.
fn subsets(nodes: usize) -> impl Iterator<Item = u32> + Clone {
    0..1 << nodes
}

fn size(set: u32) -> usize {
    usize::try_from(set.count_ones()).unwrap()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ballot {
    Granted,
    Held,
    Failed,
}

const BALLOTS: [Ballot; 3] = [Ballot::Granted, Ballot::Held, Ballot::Failed];

/// All ways in which `nodes` nodes may vote.
fn rounds(nodes: usize) -> Vec<Vec<Ballot>> {
    let mut rounds = vec![Vec::new()];
    for _ in 0..nodes {
        let more = |round: &Vec<Ballot>| {
            let round = round.clone();
            BALLOTS.map(move |ballot| [round.as_slice(), &[ballot]].concat())
        };
        rounds = rounds.iter().flat_map(more).collect();
    }
    rounds
}

fn count(round: &[Ballot], ballot: Ballot) -> usize {
    round.iter().filter(|other| **other == ballot).count()
}

#[test]
fn any_two_sets_that_are_a_quorum_have_a_node_in_common_and_no_smaller_size_would_do() {
    for nodes in 1..=MOST_NODES {
        let quorums = subsets(nodes).filter(|set| is_reached(nodes, size(*set)));
        for one in quorums.clone() {
            assert!(quorums.clone().all(|other| one & other != 0), "{nodes}");
        }
        let smaller = quorum(nodes) - 1;
        let mut of_size = subsets(nodes).filter(|set| size(*set) == smaller);
        assert!(of_size.any(|set| size(!set & ((1 << nodes) - 1)) >= smaller));
    }
}

#[test]
fn at_most_one_claimant_wins_however_the_nodes_are_shared_out() {
    for nodes in 1..=MOST_NODES {
        // Each node gives its vote to one of as many claimants, or to none.
        let choices = nodes + 1;
        let ways = choices.pow(u32::try_from(nodes).unwrap());
        for way in 0..ways {
            let mut votes = [0; MOST_NODES + 1];
            let mut rest = way;
            for _ in 0..nodes {
                votes[rest % choices] += 1;
                rest /= choices;
            }
            let claimants = &votes[1..];
            let winners = claimants.iter().filter(|votes| is_reached(nodes, **votes));
            assert!(winners.count() <= 1, "{nodes} nodes: {votes:?}");
        }
    }
}

#[test]
fn a_round_is_won_lost_to_holders_or_lost_to_faults_exactly_as_its_votes_say() {
    let mut seen = 0;
    for nodes in 1..=MOST_NODES {
        for round in rounds(nodes) {
            seen += 1;
            let granted = count(&round, Ballot::Granted);
            let failed = count(&round, Ballot::Failed);
            // More than half, and whether the nodes that work could be that.
            assert_eq!(is_reached(nodes, granted), 2 * granted > nodes, "{round:?}");
            let could_be_won = 2 * (granted + count(&round, Ballot::Held)) > nodes;
            assert_eq!(is_ruled_out(nodes, failed), !could_be_won, "{round:?}");
            // So the two never contradict each other.
            assert!(!(is_reached(nodes, granted) && is_ruled_out(nodes, failed)));
        }
    }
    assert_eq!(seen, (1..=7).map(|nodes| 3_usize.pow(nodes)).sum::<usize>());
}

#[test]
fn a_majority_is_ruled_out_exactly_when_no_votes_of_the_nodes_that_are_left_reach_it() {
    for nodes in 1..=MOST_NODES {
        // After each beginning of a round, by all of its ends.
        for asked in 0..=nodes {
            for begun in rounds(asked) {
                let granted = count(&begun, Ballot::Granted);
                let ends = rounds(nodes - asked);
                let mut votes = ends.iter().map(|end| granted + count(end, Ballot::Granted));
                let is_possible = votes.any(|votes| is_reached(nodes, votes));
                assert_eq!(is_ruled_out(nodes, asked - granted), !is_possible);
            }
        }
    }
}

#[test]
fn counts_beyond_the_nodes_do_not_panic() {
    for nodes in [0, 1, 7, usize::MAX] {
        for votes in [0, 1, 7, 8, usize::MAX] {
            assert_eq!(is_reached(nodes, votes), votes > nodes / 2);
            assert_eq!(
                is_ruled_out(nodes, votes),
                nodes.saturating_sub(votes) <= nodes / 2
            );
        }
    }
}

/// Spans from a nanosecond to more than time can count.
fn spans() -> Vec<Duration> {
    let small = (0..=64).flat_map(|n| [Duration::from_millis(n), Duration::from_nanos(n)]);
    let edges = [
        Duration::from_millis(999),
        Duration::from_secs(30),
        Duration::from_hours(365 * 24 - 1),
        Duration::from_hours(365 * 24),
        Duration::from_nanos(u64::MAX),
        Duration::from_millis(u64::MAX),
        Duration::new(u64::MAX, 0),
        Duration::MAX,
    ];
    small.chain(edges).collect()
}

#[test]
fn validity_is_the_ttl_less_the_drift_and_what_has_passed_and_never_less_than_nothing() {
    let nanos = |span: Duration| i128::try_from(span.as_nanos()).unwrap();
    let spans = spans();
    for &ttl in &spans {
        for &elapsed in &spans {
            for &drift in &spans {
                let exact = nanos(ttl) - nanos(elapsed) - nanos(drift);
                assert_eq!(nanos(validity(ttl, elapsed, drift)), exact.max(0));
            }
        }
    }
}

/// The mantissa and the exponent of two of a number from 0 to below 1.
fn parts(factor: f64) -> (u128, u32) {
    let bits = factor.to_bits();
    let (exponent, mantissa) = (u32::try_from(bits >> 52).unwrap(), bits & ((1 << 52) - 1));
    if exponent == 0 {
        (mantissa.into(), 1074)
    } else {
        ((mantissa | 1 << 52).into(), 1075 - exponent)
    }
}

#[test]
fn drift_is_never_less_than_the_exact_share_and_two_milliseconds_and_hardly_more() {
    let year = Duration::from_hours(365 * 24);
    let steps = (0..1000_u32).map(|n| f64::from(n) / 1000.0);
    let small = [
        1e-300,
        f64::MIN_POSITIVE,
        5e-324,
        1e-10,
        0.1 + 0.2,
        1.0 - f64::EPSILON,
    ];
    let odd = (1..400).map(|n| Duration::from_nanos(n * n * n * 997 + n));
    let ttls = spans().into_iter().filter(|ttl| *ttl <= year);
    let ttls: Vec<Duration> = ttls.chain(odd).chain((1..99).map(|n| year / n)).collect();
    for factor in steps.chain(small) {
        let (mantissa, exponent) = parts(factor);
        for &ttl in &ttls {
            // ttl * mantissa / 2^exponent, rounded up; up to 2^108, so a larger divisor leaves a part of one.
            let product = ttl.as_nanos() * mantissa;
            let exact = match 1_u128.checked_shl(exponent) {
                Some(divisor) => product.div_ceil(divisor),
                None => product.min(1),
            };
            let share = drift(ttl, factor).as_nanos() - 2_000_000;
            assert!(share >= exact, "{ttl:?} * {factor}: {share} < {exact}");
            let most = exact + 200;
            assert!(share <= most, "{ttl:?} * {factor}: {share} > {most}");
        }
    }
}

#[test]
fn drift_grows_with_the_ttl_and_with_the_factor_and_does_not_panic() {
    let mut ttls = spans();
    ttls.sort();
    let factors: Vec<f64> = (0..1000).map(|n| f64::from(n) / 1000.0).collect();
    for &factor in &factors {
        assert!(ttls.is_sorted_by_key(|ttl| drift(*ttl, factor)), "{factor}");
    }
    for &ttl in &ttls {
        assert!(
            factors.is_sorted_by_key(|factor| drift(ttl, *factor)),
            "{ttl:?}"
        );
        // The builder refuses these.
        for factor in [-1.0, 1.0, 2.0, f64::NAN, f64::INFINITY, f64::MAX] {
            assert!(drift(ttl, factor) >= Duration::from_millis(2));
        }
    }
}
