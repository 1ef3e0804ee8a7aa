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
#[expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails, as it should"
)]
mod tests {
    use super::*;

    #[test]
    fn a_majority_is_more_than_half_and_ruled_out_exactly_when_the_rest_is_not() {
        for nodes in [0, 1, 2, 3, 4, 5, 6, 7, usize::MAX] {
            let votes = quorum(nodes);
            // Any two quorums share a node, and no smaller number has that property.
            assert!(votes > nodes - votes.min(nodes) && votes - 1 <= nodes - (votes - 1));
            for count in [0, 1, 2, 3, 4, 5, 6, 7, 8, usize::MAX] {
                assert_eq!(is_reached(nodes, count), count > nodes / 2);
                let best_case = nodes.saturating_sub(count);
                assert_eq!(is_ruled_out(nodes, count), !is_reached(nodes, best_case));
            }
        }
    }

    /// Spans from a nanosecond to more than time can count.
    fn spans() -> Vec<Duration> {
        let small = (0..=64).flat_map(|n| [Duration::from_millis(n), Duration::from_nanos(n)]);
        let year = Duration::from_hours(365 * 24);
        let large = [Duration::from_secs(30), year, Duration::MAX];
        small.chain(large).collect()
    }

    #[test]
    fn a_ttl_for_a_validity_is_valid_for_as_long_and_hardly_longer() {
        for factor in [0.0, 0.01, 0.3, 0.5, 0.65, 0.9] {
            for span in [0, 1, 2, 7, 1000, 29_999, 600_000, 40_000_000] {
                let span = Duration::from_millis(span);
                let ttl = ttl_for(span, factor);
                let whole = Duration::from_millis(ttl.as_millis().try_into().unwrap());
                let valid = whole.saturating_sub(drift(whole, factor));
                let most = span + Duration::from_millis(3);
                assert!(
                    span <= valid && valid <= most,
                    "{span:?} {factor}: {valid:?}"
                );
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
        let small = [1e-300, 5e-324, 1e-10, 0.1 + 0.2, 1.0 - f64::EPSILON];
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
                let range = exact..=exact + 200;
                assert!(
                    range.contains(&share),
                    "{ttl:?} * {factor}: {share} for {exact}"
                );
            }
        }
        // The builder refuses these.
        for factor in [-1.0, 1.0, 2.0, f64::NAN, f64::INFINITY, f64::MAX] {
            for ttl in spans() {
                assert!(drift(ttl, factor) >= Duration::from_millis(2));
            }
        }
    }
}
