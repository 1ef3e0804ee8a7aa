//! Pure: how long to wait before the next attempt.

use std::time::Duration;

/// A delay spread evenly over `min..=max` by `random`, so that clients that met once do not meet again.
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
    fn a_delay_stays_within_its_bounds_and_reaches_both() {
        let (min, max) = (Duration::from_millis(50), Duration::from_millis(250));
        assert_eq!(delay(min, max, 0), min);
        assert_eq!(delay(min, max, u32::MAX), max);
        for random in (0..=u32::MAX).step_by(1 << 22) {
            let delay = delay(min, max, random);
            assert!(min <= delay && delay <= max, "{random}: {delay:?}");
        }
    }

    #[test]
    fn equal_bounds_and_zero_give_that_delay() {
        let d = Duration::from_millis(7);
        assert_eq!(delay(d, d, 12_345), d);
        assert_eq!(
            delay(Duration::ZERO, Duration::ZERO, u32::MAX),
            Duration::ZERO
        );
        assert_eq!(
            delay(Duration::ZERO, Duration::MAX, u32::MAX),
            Duration::MAX
        );
    }
}
