//! Pure: how long to wait between a command's end and the next campaign for the lock.

use std::time::Duration;

const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);

/// A command that ran for this long was well.
const WELL: Duration = Duration::from_secs(10);

/// The pauses of one service. A command that ends at once must not take the lock all the time, and leave no turn to
/// others.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    last: Option<Duration>,
}

impl Pauses {
    /// The pause after a command that ran for this long. It is twice the last one where the command ended soon.
    pub(crate) fn after(&mut self, ran: Duration) -> Duration {
        let pause = match self.last {
            Some(last) if ran < WELL => last.saturating_mul(2).min(LONGEST),
            Some(_) | None => SHORTEST,
        };
        self.last = Some(pause);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_end_at_once_pause_for_longer_and_longer_up_to_a_bound() {
        let mut pauses = Pauses::default();
        let seconds: Vec<u64> = (0..8)
            .map(|_| pauses.after(Duration::ZERO).as_secs())
            .collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(pauses.after(WELL), SHORTEST);
        assert_eq!(pauses.after(WELL), SHORTEST);
        assert_eq!(pauses.after(Duration::ZERO).as_secs(), 2);
        // Also before they have come to the bound.
        assert_eq!(pauses.after(WELL), SHORTEST);
    }
}
