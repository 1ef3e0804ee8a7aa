//! Pure: how long to wait before the next attempt, and between tries at a node that fails.

use std::time::Duration;

/// A delay spread evenly over `min..=max` by `random`, so that contenders don't retry at the same time again.
pub(crate) fn delay(min: Duration, max: Duration, random: u32) -> Duration {
    let span = max.saturating_sub(min);
    let share = f64::from(random) / f64::from(u32::MAX);
    let extra = Duration::try_from_secs_f64(span.as_secs_f64() * share).unwrap_or(span);
    min.saturating_add(extra.min(span))
}

/// The pauses between tries at a node: after each failure twice as long as before, up to a bound. The caller keeps the last pause, and
/// sets it to zero after an answer.
pub(crate) struct BackOff {
    pub(crate) first: Duration,
    pub(crate) longest: Duration,
}

impl BackOff {
    /// The pause that comes after this one.
    pub(crate) fn after(&self, last: Duration) -> Duration {
        last.saturating_mul(2).clamp(self.first, self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_bound_and_begin_anew_after_an_answer() {
        let [zero, first, second, longest] = [0, 4, 8, 10].map(Duration::from_millis);
        let pauses = BackOff { first, longest };
        for (last, next) in [
            (zero, first),
            (first, second),
            (second, longest),
            (longest, longest),
        ] {
            assert_eq!(pauses.after(last), next);
        }
    }

    #[test]
    fn every_delay_is_within_its_bounds_and_all_parts_of_the_span_are_as_likely_as_each_other() {
        let bounds = [
            Duration::ZERO,
            Duration::from_nanos(1),
            Duration::from_nanos(999_999_999),
            Duration::from_hours(1),
            Duration::from_nanos(u64::MAX),
            Duration::MAX,
        ];
        for min in bounds {
            for max in bounds {
                // They divide the largest random number.
                let parts = 15_u32;
                let delays = (0..=parts).map(|part| delay(min, max, u32::MAX / parts * part));
                let delays: Vec<Duration> = delays.collect();
                assert!(delays.is_sorted(), "{min:?} to {max:?}");
                assert_eq!(delays[0], min);
                // With bounds in the wrong order, which the builder refuses, there is no span.
                let most = max.max(min);
                assert!(delays.iter().all(|delay| *delay <= most));
                // For delays of centuries, rounding may leave out the last microsecond.
                if max <= Duration::from_hours(1) {
                    let share = most.saturating_sub(min) / parts;
                    for (delay, part) in delays.iter().zip(0..=parts) {
                        let exact = min + share * part;
                        let error = delay.abs_diff(exact);
                        assert!(error < Duration::from_micros(1), "{delay:?} {exact:?}");
                    }
                    assert_eq!(delays.last(), Some(&most));
                }
            }
        }
    }
}
