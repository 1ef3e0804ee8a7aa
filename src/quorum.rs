//! Pure: what a number of votes means, and how long a lease is valid.
//!
//! The rules are those of the Redis documentation page "Distributed Locks with Redis".

use std::time::Duration;

/// The constant part of the drift: Redis expires keys with a precision of a millisecond, here and on the node.
const DRIFT_FLOOR: Duration = Duration::from_millis(2);

/// More than the rounding error of a floating-point product for a year.
const ROUNDING: Duration = Duration::from_nanos(100);

/// The time for which a lock is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Term {
    /// The time to live of the key, in whole milliseconds, as the nodes count it.
    pub(crate) ttl: Duration,
    /// How long the lease is valid from the moment before the first send: the ttl less the drift.
    pub(crate) validity: Duration,
}

/// The smallest number of votes that any two winners must share a node in.
pub(crate) fn quorum(nodes: usize) -> usize {
    (nodes / 2).saturating_add(1)
}

/// Whether `votes` are a majority of `nodes`.
pub(crate) fn is_reached(nodes: usize, votes: usize) -> bool {
    votes >= quorum(nodes)
}

/// Whether `against` nodes alone make a majority impossible, whatever the others say.
pub(crate) fn is_ruled_out(nodes: usize, against: usize) -> bool {
    nodes.saturating_sub(against) < quorum(nodes)
}

/// What a majority of `nodes` nodes reaches, if some nodes have these: the quorum-th largest. Of times to live, it is for how long
/// a majority will have a key. None if they are no majority.
pub(crate) fn of_a_majority<T: Ord + Copy>(nodes: usize, mut each: Vec<T>) -> Option<T> {
    each.sort_unstable_by(|a, b| b.cmp(a));
    each.get(quorum(nodes).checked_sub(1)?).copied()
}

/// How long until keys with these times to live leave a majority of `nodes` nodes without one.
pub(crate) fn time_until_no_obstacle(nodes: usize, mut times: Vec<Duration>) -> Duration {
    times.sort_unstable_by(|a, b| b.cmp(a));
    // As many nodes as this may have one.
    let most = nodes.saturating_sub(quorum(nodes));
    times.get(most).copied().unwrap_or_default()
}

/// The part of a time to live by which the clocks of client and nodes may differ at its end. Never less than this part
/// and 2 ms, and for a ttl of up to a year at most a microsecond more.
pub(crate) fn drift(ttl: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(ttl.as_secs_f64() * factor)
        .unwrap_or(ttl)
        .saturating_add(ROUNDING)
        .saturating_add(DRIFT_FLOOR)
}

/// What is left of a time to live, `elapsed` after the clock was read before the first send. Zero is not valid.
pub(crate) fn validity(ttl: Duration, elapsed: Duration, drift: Duration) -> Duration {
    ttl.saturating_sub(drift).saturating_sub(elapsed)
}

/// The shortest time to live, up to rounding, that is valid for this long from before the first send.
pub(crate) fn ttl_for(validity: Duration, factor: f64) -> Duration {
    // The nodes count whole milliseconds.
    let with_rest = validity
        .saturating_add(DRIFT_FLOOR)
        .saturating_add(ROUNDING)
        .saturating_add(Duration::from_millis(1));
    let ttl = Duration::try_from_secs_f64(with_rest.as_secs_f64() / (1.0 - factor));
    ttl.unwrap_or(Duration::MAX).saturating_add(ROUNDING)
}

#[cfg(test)]
mod exhaustive;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quorum_is_a_majority_for_every_number_of_nodes() {
        let expected = [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 4), (7, 4)];
        for (nodes, votes) in expected {
            assert_eq!(quorum(nodes), votes);
            // Any two quorums overlap, and no smaller number has that property.
            assert!(2 * votes > nodes);
            assert!(2 * (votes - 1) <= nodes);
        }
    }

    #[test]
    fn keys_are_an_obstacle_until_a_majority_has_none() {
        let seconds = |times: &[u64]| times.iter().map(|s| Duration::from_secs(*s)).collect();
        for (nodes, times, expected) in [
            (1, &[5][..], 5),
            (2, &[5, 9], 9),
            (3, &[9, 5], 5),
            (3, &[9, 5, 1], 5),
            (4, &[9, 5, 1], 5),
            (5, &[1, 9, 5, 7], 5),
            (5, &[9, 5], 0),
        ] {
            let left = time_until_no_obstacle(nodes, seconds(times));
            assert_eq!(left, Duration::from_secs(expected), "{nodes} {times:?}");
        }
    }

    #[test]
    fn a_majority_is_ruled_out_exactly_when_the_rest_cannot_reach_it() {
        for nodes in 1..=7 {
            for against in 0..=nodes {
                let best_case = nodes - against;
                assert_eq!(
                    is_ruled_out(nodes, against),
                    !is_reached(nodes, best_case),
                    "{against} of {nodes}"
                );
            }
        }
    }

    #[test]
    fn drift_is_a_share_of_the_ttl_and_two_milliseconds() {
        let drift = drift(Duration::from_secs(10), 0.01);
        assert!(drift >= Duration::from_millis(102));
        assert!(drift < Duration::from_millis(102) + Duration::from_micros(1));
    }

    #[test]
    fn a_ttl_for_a_validity_is_valid_for_as_long_and_hardly_longer() {
        for factor in [0.0, 0.01, 0.3, 0.5, 0.65, 0.9] {
            for span in [0, 1, 2, 7, 1000, 29_999, 600_000, 40_000_000] {
                let span = Duration::from_millis(span);
                let ttl = ttl_for(span, factor);
                let whole = Duration::from_millis(ttl.as_millis().try_into().unwrap());
                let valid = validity(whole, Duration::ZERO, drift(whole, factor));
                assert!(valid >= span, "{span:?} {factor}: {valid:?}");
                assert!(
                    valid <= span + Duration::from_millis(3),
                    "{span:?} {factor}: {valid:?}"
                );
            }
        }
    }

    #[test]
    fn validity_never_wraps() {
        let ms = Duration::from_millis;
        assert_eq!(validity(ms(100), ms(10), ms(3)), ms(87));
        for (ttl, elapsed, drift) in [
            (100, 97, 3),
            (100, 98, 3),
            (1, 0, 3),
            (0, 0, 0),
            (5, 900, 0),
        ] {
            assert_eq!(validity(ms(ttl), ms(elapsed), ms(drift)), Duration::ZERO);
        }
        assert_eq!(
            validity(ms(1), Duration::MAX, Duration::MAX),
            Duration::ZERO
        );
    }
}
