//! Pure: how long to wait before the next attempt.

use std::time::Duration;

/// A delay spread evenly over `min..=max` by `random`, so that contenders don't retry at the same time again.
pub(crate) fn delay(min: Duration, max: Duration, random: u32) -> Duration {
    let span = max.saturating_sub(min);
    let share = f64::from(random) / f64::from(u32::MAX);
    let extra = Duration::try_from_secs_f64(span.as_secs_f64() * share).unwrap_or(span);
    min.saturating_add(extra.min(span))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_delay_is_within_its_bounds_and_grows_with_the_random_number() {
        let small = (0..=16).flat_map(|n| [Duration::from_nanos(n), Duration::from_millis(n)]);
        let edges = [
            Duration::from_nanos(999_999_999),
            Duration::from_hours(1),
            Duration::from_nanos(u64::MAX),
            Duration::new(u64::MAX, 0),
            Duration::MAX,
        ];
        let bounds: Vec<Duration> = small.chain(edges).collect();
        let dense = (0..=u32::MAX).step_by(1 << 26);
        let ends = [1, 2, u32::MAX / 2, u32::MAX - 1, u32::MAX];
        let mut randoms: Vec<u32> = dense.chain(ends).collect();
        randoms.sort_unstable();
        for &min in &bounds {
            for &max in &bounds {
                let delays = randoms.iter().map(|random| delay(min, max, *random));
                let delays: Vec<Duration> = delays.collect();
                assert!(delays.is_sorted(), "{min:?} to {max:?}");
                assert_eq!(delays.first(), Some(&min));
                // With bounds in the wrong order, which the builder refuses, there is no span.
                let (last, most) = (delays[delays.len() - 1], max.max(min));
                // For delays of centuries, rounding may leave out the last microsecond.
                assert!(last <= most, "{min:?} to {max:?}");
                assert!(last == most || max > Duration::from_hours(1));
            }
        }
    }

    #[test]
    fn all_parts_of_the_span_are_as_likely_as_each_other() {
        let (min, parts) = (Duration::from_millis(50), 20_u32);
        for part in 0..=parts {
            let share = u32::MAX / parts * part;
            let exact = min + Duration::from_millis(10) * part;
            let delay = delay(min, Duration::from_millis(250), share);
            assert!(
                delay.abs_diff(exact) < Duration::from_micros(1),
                "{delay:?} {exact:?}"
            );
        }
    }
}
