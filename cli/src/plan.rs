//! Pure: what the watchdog does to the command's group unless it gets a new plan in time, and the form of its messages.
//!
//! Times count from the start of the machine, by the clock that goes on while the machine is suspended.

use std::time::Duration;

use crate::arguments::OnLoss;

/// The first byte of a plan, and the message that dismisses the watchdog.
const PLAN: u8 = b'p';
const GOODBYE: u8 = b'g';

/// The length of a plan: a letter, and two times in nanoseconds. A pipe takes so few bytes as a whole or not at all.
pub(crate) const LENGTH: usize = 17;

/// What happens to the group, and when. A new plan replaces the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    /// When it gets TERM. No TERM is sent at or after `kill_at`.
    pub(crate) term_at: Duration,
    /// When it gets KILL.
    pub(crate) kill_at: Duration,
}

/// What happens to the command when the lock is lost, as the user chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LossPolicy {
    pub(crate) on_loss: OnLoss,
    pub(crate) grace: Duration,
    /// The ttl of the lock.
    pub(crate) ttl: Duration,
}

impl Plan {
    /// Nothing happens.
    pub(crate) const NEVER: Self = Self {
        term_at: Duration::from_nanos(u64::MAX),
        kill_at: Duration::from_nanos(u64::MAX),
    };

    /// KILL at this time, without a TERM before.
    pub(crate) const fn kill_at(time: Duration) -> Self {
        Self {
            term_at: time,
            kill_at: time,
        }
    }

    /// The plan at the time `now`, with `remaining` left of the validity.
    ///
    /// While renewals succeed, silence means that `redlatch` was stopped, and the group has to end before the validity
    /// does. If renewals have failed until little validity is left, `redlatch` runs, and will itself act on the loss
    /// with the whole grace. Then the plan is for the case that `redlatch` is stopped meanwhile.
    pub(crate) fn of(loss_policy: LossPolicy, now: Duration, remaining: Duration) -> Self {
        let end = now.saturating_add(remaining);
        let grace = match loss_policy.on_loss {
            OnLoss::Ignore => return Self::NEVER,
            OnLoss::Kill => Duration::ZERO,
            OnLoss::Term => loss_policy.grace,
        };
        if remaining < part(loss_policy.ttl, 8) {
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

    /// The time of the first action.
    pub(crate) fn first(self) -> Duration {
        self.term_at.min(self.kill_at)
    }

    pub(crate) fn to_bytes(self) -> [u8; LENGTH] {
        let mut bytes = [PLAN; LENGTH];
        let times = [self.term_at, self.kill_at].map(|time| nanoseconds(time).to_le_bytes());
        let places = bytes.iter_mut().skip(1);
        for (place, byte) in places.zip(times.as_flattened()) {
            *place = *byte;
        }
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (term_at, kill_at) = bytes.split_at_checked(8)?;
        let time = |bytes: &[u8]| {
            let bytes = bytes.try_into().ok()?;
            Some(Duration::from_nanos(u64::from_le_bytes(bytes)))
        };
        Some(Self {
            term_at: time(term_at)?,
            kill_at: time(kill_at)?,
        })
    }
}

/// A message to the watchdog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Message {
    Plan(Plan),
    Goodbye,
    /// Neither of these.
    Unreadable,
}

impl Message {
    pub(crate) const GOODBYE: [u8; 1] = [GOODBYE];

    /// Takes the first message from the bytes received up to now, if it is complete.
    pub(crate) fn take(bytes: &mut Vec<u8>) -> Option<Self> {
        match *bytes.first()? {
            GOODBYE => Some(Self::Goodbye),
            PLAN => {
                let plan = Plan::from_bytes(bytes.get(1..LENGTH)?);
                bytes.drain(..LENGTH);
                Some(plan.map_or(Self::Unreadable, Self::Plan))
            }
            _ => Some(Self::Unreadable),
        }
    }
}

fn part(span: Duration, of: u32) -> Duration {
    span.checked_div(of).unwrap_or_default()
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
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

    fn of(on_loss: OnLoss, grace_s: u64, remaining: f64) -> Plan {
        let loss_policy = LossPolicy {
            on_loss,
            grace: Duration::from_secs(grace_s),
            ttl: Duration::from_secs(32),
        };
        Plan::of(loss_policy, NOW, Duration::from_secs_f64(remaining))
    }

    #[test]
    fn silence_ends_the_group_before_the_validity_ends() {
        for remaining in [4.0, 16.0, 31.0] {
            for grace in [0, 1, 5, 3600] {
                for on_loss in [OnLoss::Term, OnLoss::Kill] {
                    let plan = of(on_loss, grace, remaining);
                    assert!(plan.kill_at < seconds(remaining), "{plan:?}");
                    // Far later than the next plan is due.
                    let due = Plan::lasts(Duration::from_secs_f64(remaining));
                    assert!(plan.first() > NOW + due * 5, "{plan:?}");
                }
            }
        }
        let plan = of(OnLoss::Term, 5, 32.0);
        assert_eq!((plan.term_at, plan.kill_at), (seconds(25.0), seconds(30.0)));
        let plan = of(OnLoss::Term, 60, 32.0);
        assert_eq!((plan.term_at, plan.kill_at), (seconds(24.0), seconds(30.0)));
        assert_eq!(of(OnLoss::Kill, 5, 32.0), Plan::kill_at(seconds(30.0)));
        assert_eq!(of(OnLoss::Ignore, 5, 32.0), Plan::NEVER);
    }

    #[test]
    fn a_redlatch_that_lives_while_renewals_fail_is_left_its_grace() {
        assert_eq!(of(OnLoss::Term, 5, 3.5), Plan::kill_at(seconds(8.5)));
        assert_eq!(of(OnLoss::Kill, 5, 3.5), Plan::kill_at(seconds(3.5)));
        assert_eq!(of(OnLoss::Term, 5, 0.0), Plan::kill_at(seconds(5.0)));
        assert_eq!(of(OnLoss::Ignore, 5, 0.0), Plan::NEVER);
    }

    #[test]
    fn words_are_read_whole_however_they_come() {
        let plans = [of(OnLoss::Term, 5, 20.0), Plan::NEVER, Plan::kill_at(NOW)];
        let sent: Vec<u8> = plans
            .iter()
            .flat_map(|plan| plan.to_bytes())
            .chain(Message::GOODBYE)
            .collect();
        for size in 1..=sent.len() {
            let (mut buffer, mut messages) = (Vec::new(), Vec::new());
            for piece in sent.chunks(size) {
                buffer.extend(piece);
                while let Some(message) = Message::take(&mut buffer) {
                    messages.push(message);
                    if message == Message::Goodbye {
                        break;
                    }
                }
            }
            let [first, never, last, goodbye] = messages[..] else {
                panic!("{size}: {messages:?}");
            };
            assert_eq!(
                [first, last],
                [Message::Plan(plans[0]), Message::Plan(plans[2])]
            );
            assert_eq!(goodbye, Message::Goodbye);
            assert_eq!(never, Message::Plan(Plan::NEVER));
        }
        assert_eq!(Message::take(&mut vec![b'x']), Some(Message::Unreadable));
        // A writer that was stopped in the middle has told nothing yet.
        assert_eq!(Message::take(&mut sent[..LENGTH - 1].to_vec()), None);
    }
}
