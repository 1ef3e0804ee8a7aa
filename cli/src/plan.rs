//! Pure: what the watchdog does to the command's group unless it gets a new plan in time, and the form of its messages.
//!
//! Times count from the start of the machine, by the clock that goes on while the machine is suspended.

use std::time::Duration;

/// The message that dismisses the watchdog.
pub(crate) const GOODBYE: &str = "goodbye\n";

/// What happens to the group, and when. A new plan replaces the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    /// When it gets TERM. If this equals `kill_at`, it gets KILL alone.
    pub(crate) term_at: Duration,
    /// When it gets KILL.
    pub(crate) kill_at: Duration,
}

impl Plan {
    /// Nothing happens.
    pub(crate) const NEVER: Self = Self::kill_at(Duration::from_nanos(u64::MAX));

    /// KILL at this time, without a TERM before.
    pub(crate) const fn kill_at(time: Duration) -> Self {
        Self {
            term_at: time,
            kill_at: time,
        }
    }

    /// The plan at the time `now`, with `remaining` left of the validity of a lock with this ttl. On a loss, the command
    /// has the grace between TERM and KILL; without a grace it gets KILL alone.
    ///
    /// While renewals succeed, silence means that `redlatch` was stopped, and the group has to end before the validity
    /// does. If renewals have failed until little validity is left, `redlatch` runs, and will itself act on the loss
    /// with the whole grace. Then the plan is for the case that `redlatch` is stopped meanwhile.
    pub(crate) fn of(grace: Duration, ttl: Duration, now: Duration, remaining: Duration) -> Self {
        let end = now.saturating_add(remaining);
        if remaining < part(ttl, 8) {
            return Self::kill_at(end.saturating_add(grace));
        }
        // Time for the processes to end, and for the watchdog to get the processor.
        let kill_at = end.saturating_sub(part(remaining, 16));
        let lead = grace.min(part(remaining, 16).saturating_mul(3));
        Self {
            term_at: kill_at.saturating_sub(lead),
            kill_at,
        }
    }

    /// How long after a plan the next one is sent. There are eight or more before the end, so some may be late.
    pub(crate) fn lasts(remaining: Duration) -> Duration {
        part(remaining, 8).max(Duration::from_millis(10))
    }

    /// The plan as a message: a line, which a pipe takes as a whole or not at all.
    pub(crate) fn message(self) -> String {
        format!("{} {}\n", self.term_at.as_nanos(), self.kill_at.as_nanos())
    }

    pub(crate) fn read(message: &str) -> Option<Self> {
        let time = |text: &str| Some(Duration::from_nanos(text.parse().ok()?));
        let (term_at, kill_at) = message.strip_suffix('\n')?.split_once(' ')?;
        Some(Self {
            term_at: time(term_at)?,
            kill_at: time(kill_at)?,
        })
    }
}

fn part(span: Duration, of: u32) -> Duration {
    span.checked_div(of).unwrap_or_default()
}

#[cfg(test)]
#[expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails, as it should"
)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1000);

    fn seconds(from_now: f64) -> Duration {
        NOW + Duration::from_secs_f64(from_now)
    }

    fn of(grace_s: u64, remaining: f64) -> Plan {
        let [grace, ttl] = [grace_s, 32].map(Duration::from_secs);
        Plan::of(grace, ttl, NOW, Duration::from_secs_f64(remaining))
    }

    #[test]
    fn silence_ends_the_group_before_the_validity_ends() {
        for remaining in [4.0, 16.0, 31.0] {
            for grace in [0, 1, 5, 3600] {
                let plan = of(grace, remaining);
                assert!(plan.kill_at < seconds(remaining), "{plan:?}");
                // Far later than the next plan is due.
                let due = Plan::lasts(Duration::from_secs_f64(remaining));
                assert!(plan.term_at > NOW + due * 5, "{plan:?}");
            }
        }
        let plan = of(5, 32.0);
        assert_eq!((plan.term_at, plan.kill_at), (seconds(25.0), seconds(30.0)));
        let plan = of(60, 32.0);
        assert_eq!((plan.term_at, plan.kill_at), (seconds(24.0), seconds(30.0)));
        assert_eq!(of(0, 32.0), Plan::kill_at(seconds(30.0)));
    }

    #[test]
    fn a_redlatch_that_lives_while_renewals_fail_is_left_its_grace() {
        assert_eq!(of(5, 3.5), Plan::kill_at(seconds(8.5)));
        assert_eq!(of(0, 3.5), Plan::kill_at(seconds(3.5)));
        assert_eq!(of(5, 0.0), Plan::kill_at(seconds(5.0)));
    }

    #[test]
    fn a_message_is_read_as_it_was_sent_and_nothing_else_is() {
        for plan in [of(5, 20.0), Plan::NEVER, Plan::kill_at(NOW)] {
            assert_eq!(Plan::read(&plan.message()), Some(plan));
        }
        // The last was cut.
        for garbage in [
            "",
            "x\n",
            "1\n",
            "1 -1\n",
            "99999999999999999999 1\n",
            "1 2",
        ] {
            assert_eq!(Plan::read(garbage), None, "{garbage}");
        }
    }
}
