//! Pure: when a command is ended for the loss of its lock, by `redlatch` or by the watchdog, and the form of the messages between them.
//!
//! Times count from the start of the machine, by the clock that goes on while the machine is suspended.

use std::time::Duration;

use rustix::process::Pid;

use crate::arguments::OnLoss;

/// The message that dismisses the watchdog.
pub(crate) const GOODBYE: &str = "goodbye\n";

/// The longest grace by default.
const LONGEST: Duration = Duration::from_secs(10);

/// A span that is longer than the constant part of the drift.
const DRIFT_FLOOR: Duration = Duration::from_millis(3);

/// How long a group has from TERM to KILL if the time for both has passed, because the machine was suspended or the
/// watchdog stopped. Within this time, a `redlatch` that runs sends a new plan.
pub(crate) const LATE_GRACE: Duration = Duration::from_millis(100);

/// How much time a command has to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Notice {
    /// How long before the end of the validity the lock is lost for `redlatch`.
    pub(crate) margin: Duration,
    /// The time from TERM to KILL. If this is zero, the command gets KILL without a TERM.
    pub(crate) grace: Duration,
}

impl Notice {
    /// Returns the notice for a lock with this ttl. The margin is the grace, but never so short that the signals come too late. If
    /// `grace` is too long for the ttl, the library refuses the margin.
    pub(crate) fn of(
        on_loss: OnLoss,
        grace: Option<Duration>,
        ttl: Duration,
        node_timeout: Duration,
    ) -> Self {
        let grace = match on_loss {
            OnLoss::Ignore => return Self::NONE,
            OnLoss::Kill => Duration::ZERO,
            OnLoss::Term => grace.unwrap_or_else(|| {
                // Leave two node timeouts for renewals. The drift is less than a tenth of the ttl + 3 ms.
                let valid = part(ttl, 10).saturating_mul(9).saturating_sub(DRIFT_FLOOR);
                let longest = valid.saturating_sub(node_timeout.saturating_mul(2));
                part(ttl, 3).min(LONGEST).min(longest)
            }),
        };
        let least = part(ttl, 30).min(part(LONGEST, 10));
        let margin = grace.max(least);
        Self { margin, grace }
    }

    /// The notice of a command that runs on after a loss.
    const NONE: Self = Self {
        margin: Duration::ZERO,
        grace: Duration::ZERO,
    };

    /// Returns how long before the end of the validity KILL comes, so that the processes have ended by then. The watchdog acts this
    /// long after `redlatch`.
    fn lead(self) -> Duration {
        part(self.margin, 10)
    }

    /// Returns when a command gets KILL if its lock was lost at `deadline`: before the validity ends, or soon after `now` if that
    /// time is over.
    pub(crate) fn kill_at(self, deadline: Duration, now: Duration) -> Duration {
        let latest = self.margin.saturating_sub(self.lead());
        let kill_at = deadline.saturating_add(self.grace.min(latest));
        if kill_at >= now {
            return kill_at;
        }
        now.saturating_add(self.grace.min(LATE_GRACE))
    }
}

/// What the watchdog does to the group, unless a new plan replaces this one in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    /// When it gets TERM. If this equals `kill_at`, it gets KILL alone.
    pub(crate) term_at: Duration,
    /// When it gets KILL.
    pub(crate) kill_at: Duration,
    /// While this process is stopped, the watchdog does nothing.
    pub(crate) unless_stopped: Option<Pid>,
}

impl Plan {
    /// Nothing happens.
    pub(crate) const NEVER: Self = Self::kill_at(Duration::from_nanos(u64::MAX));

    /// KILL at this time, without a TERM before.
    pub(crate) const fn kill_at(time: Duration) -> Self {
        Self {
            term_at: time,
            kill_at: time,
            unless_stopped: None,
        }
    }

    /// Returns the plan for a lock that is lost at `deadline` unless a renewal comes. `redlatch` acts at the deadline if it runs.
    /// The watchdog acts a little later, for a `redlatch` that stands still, so that the command gets no signal twice.
    pub(crate) fn of(notice: Notice, deadline: Duration) -> Self {
        let term_at = deadline.saturating_add(notice.lead());
        let latest = deadline.saturating_add(notice.margin.saturating_sub(notice.lead()));
        Self {
            term_at,
            kill_at: term_at.saturating_add(notice.grace).min(latest),
            unless_stopped: None,
        }
    }

    /// How long after a plan the next one is sent. There are eight or more before the end, so some may be late.
    pub(crate) fn lasts(remaining: Duration) -> Duration {
        part(remaining, 8).max(Duration::from_millis(10))
    }

    /// The plan as a message: a line, which a pipe takes as a whole or not at all.
    pub(crate) fn message(self) -> String {
        let [term_at, kill_at] = [self.term_at, self.kill_at].map(|time| time.as_nanos());
        format!("{term_at} {kill_at} {}\n", Pid::as_raw(self.unless_stopped))
    }

    pub(crate) fn read(message: &str) -> Option<Self> {
        let time = |text: &str| Some(Duration::from_nanos(text.parse().ok()?));
        let (term_at, rest) = message.strip_suffix('\n')?.split_once(' ')?;
        let (kill_at, process) = rest.split_once(' ')?;
        Some(Self {
            term_at: time(term_at)?,
            kill_at: time(kill_at)?,
            unless_stopped: Pid::from_raw(process.parse().ok().filter(|raw| *raw >= 0)?),
        })
    }
}

/// How far a plan was carried out.
pub(crate) struct Course {
    pub(crate) plan: Plan,
    has_sent_term: bool,
}

/// What is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Nothing,
    Term,
    Kill,
}

impl Course {
    pub(crate) fn new(plan: Plan) -> Self {
        Self {
            plan,
            has_sent_term: false,
        }
    }

    /// Returns the time until the next step, if there is one.
    pub(crate) fn left(&self, now: Duration) -> Option<Duration> {
        let next = if self.has_sent_term {
            self.plan.kill_at
        } else {
            self.plan.term_at
        };
        (self.plan != Plan::NEVER).then(|| next.saturating_sub(now))
    }

    /// Returns the step that is due. The caller takes the step.
    pub(crate) fn step(&mut self, now: Duration) -> Step {
        let Plan {
            term_at, kill_at, ..
        } = self.plan;
        if term_at < kill_at && !self.has_sent_term && now >= term_at {
            self.has_sent_term = true;
            if now >= kill_at {
                self.plan.kill_at = now.saturating_add(LATE_GRACE);
            }
            return Step::Term;
        }
        if now >= kill_at {
            Step::Kill
        } else {
            Step::Nothing
        }
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
    use redlatch::fake::{FakeClock, FakeNode};
    use redlatch::{KeepAlive, LockManager};

    use super::Step::{Kill, Nothing, Term};
    use super::*;

    const DEADLINE: Duration = Duration::from_secs(1000);
    const NODE_TIMEOUT: Duration = Duration::from_millis(50);

    fn seconds(from_deadline: f64) -> Duration {
        DEADLINE + Duration::from_secs_f64(from_deadline)
    }

    fn notice(on_loss: OnLoss, grace: Option<u64>, ttl: u64) -> Notice {
        let [grace, ttl] = [grace, Some(ttl)].map(|ms| ms.map(Duration::from_millis));
        Notice::of(on_loss, grace, ttl.unwrap(), NODE_TIMEOUT)
    }

    #[test]
    fn the_grace_is_the_margin_and_a_third_of_the_ttl_unless_it_is_given() {
        for (on_loss, grace, ttl, margin, expected) in [
            (OnLoss::Term, None, 30_000, 10_000, 10_000),
            (OnLoss::Term, None, 6_000, 2_000, 2_000),
            (OnLoss::Term, None, 3_600_000, 10_000, 10_000),
            // The longest grace that leaves time for renewals.
            (OnLoss::Term, None, 150, 32, 32),
            (OnLoss::Term, Some(20_000), 30_000, 20_000, 20_000),
            // Time for the signals to arrive.
            (OnLoss::Term, Some(100), 30_000, 1_000, 100),
            (OnLoss::Term, Some(0), 3_000, 100, 0),
            (OnLoss::Kill, Some(5_000), 30_000, 1_000, 0),
            (OnLoss::Ignore, Some(5_000), 30_000, 0, 0),
        ] {
            let notice = notice(on_loss, grace, ttl);
            let told = [notice.margin, notice.grace].map(|span| span.as_millis());
            assert_eq!(told, [margin, expected], "{on_loss:?} {grace:?} {ttl}");
        }
    }

    #[test]
    fn what_is_not_given_is_never_too_long_for_a_ttl() {
        for node_timeout in [5, 50, 300, 5_000] {
            let node_timeout = Duration::from_millis(node_timeout);
            let nodes = FakeNode::cluster_on(3, &FakeClock::new());
            let builder = LockManager::builder()
                .fakes(&nodes)
                .node_timeout(node_timeout);
            let manager = builder.build().unwrap();
            for timeouts in [30, 31, 35, 40, 50, 100, 1000] {
                for on_loss in [OnLoss::Term, OnLoss::Kill, OnLoss::Ignore] {
                    let ttl = node_timeout * timeouts / 10;
                    let notice = Notice::of(on_loss, None, ttl, node_timeout);
                    let keep_alive = KeepAlive::unbounded().margin(notice.margin);
                    let request = manager.request("job").ttl(ttl).keep_alive(keep_alive);
                    request.try_lock().unwrap().unlock().unwrap();
                }
            }
        }
    }

    #[test]
    fn the_group_ends_before_the_validity_whether_redlatch_runs_or_stands_still() {
        for on_loss in [OnLoss::Term, OnLoss::Kill] {
            for grace in [None, Some(0), Some(1), Some(1_000), Some(20_000)] {
                for ttl in [150, 3_000, 30_000, 3_600_000] {
                    let notice = notice(on_loss, grace, ttl);
                    let lead = notice.margin / 10;
                    let end = DEADLINE + notice.margin;
                    let plan = Plan::of(notice, DEADLINE);
                    let kill_at = notice.kill_at(DEADLINE, DEADLINE);
                    assert!(!lead.is_zero() && kill_at + lead <= end, "{notice:?}");
                    assert!(plan.kill_at + lead <= end, "{notice:?} {plan:?}");
                    // The watchdog leaves the command to a `redlatch` that runs.
                    assert_eq!(plan.term_at, DEADLINE + lead, "{notice:?}");
                    assert_eq!(plan.kill_at > plan.term_at, !notice.grace.is_zero());
                }
            }
        }
        let notice = notice(OnLoss::Term, None, 30_000);
        let plan = Plan::of(notice, DEADLINE);
        assert_eq!((plan.term_at, plan.kill_at), (seconds(1.0), seconds(9.0)));
        for (now, kill_at) in [(0.0, 9.0), (5.0, 9.0), (9.0, 9.0), (9.1, 9.2), (60.0, 60.1)] {
            assert_eq!(notice.kill_at(DEADLINE, seconds(now)), seconds(kill_at));
        }
    }

    #[test]
    fn plans_follow_each_other_in_time() {
        for remaining in [0.0, 0.01, 4.0, 31.0] {
            let remaining = Duration::from_secs_f64(remaining);
            let next = Plan::lasts(remaining);
            assert!(
                next >= remaining / 8 && next <= (remaining / 8).max(Duration::from_millis(10))
            );
        }
    }

    #[test]
    fn a_plan_is_term_and_then_kill_and_one_that_comes_late_leaves_time_between() {
        let plan = Plan::of(notice(OnLoss::Term, None, 30_000), DEADLINE);
        let steps = |times: &[f64], plan| {
            let mut course = Course::new(plan);
            let steps = times.iter().map(|now| course.step(seconds(*now)));
            steps.collect::<Vec<_>>()
        };
        let told = steps(&[0.9, 1.0, 1.1, 8.9, 9.0], plan);
        assert_eq!(told, [Nothing, Term, Nothing, Nothing, Kill]);
        // The watchdog was stopped until then.
        let told = steps(&[60.0, 60.05, 60.1], plan);
        assert_eq!(told, [Term, Nothing, Kill]);
        let told = steps(&[0.0, 0.1], Plan::kill_at(seconds(0.1)));
        assert_eq!(told, [Nothing, Kill]);
        let mut course = Course::new(plan);
        assert_eq!(course.left(seconds(0.0)), Some(Duration::from_secs(1)));
        course.step(seconds(1.0));
        assert_eq!(course.left(seconds(1.0)), Some(Duration::from_secs(8)));
        assert_eq!(course.left(seconds(99.0)), Some(Duration::ZERO));
        assert_eq!(Course::new(Plan::NEVER).left(DEADLINE), None);
    }

    #[test]
    fn a_message_is_read_as_it_was_sent_and_nothing_else_is() {
        let plan = Plan::of(notice(OnLoss::Term, None, 20_000), DEADLINE);
        let of_a_stopped = Plan {
            unless_stopped: Pid::from_raw(4711),
            ..plan
        };
        for plan in [plan, of_a_stopped, Plan::NEVER, Plan::kill_at(DEADLINE)] {
            assert_eq!(Plan::read(&plan.message()), Some(plan));
        }
        // The last was cut.
        for garbage in [
            "",
            "x\n",
            "1\n",
            "1 2\n",
            "1 -1 0\n",
            "1 2 -3\n",
            "1 2 x\n",
            "99999999999999999999 1 0\n",
            "1 2 0",
        ] {
            assert_eq!(Plan::read(garbage), None, "{garbage}");
        }
    }

    /// What the row with this label says, in seconds.
    fn row(label: &str) -> Vec<f64> {
        let page = include_str!("../../docs/command.md");
        let mut rows = page.lines().filter_map(|line| line.strip_prefix("| "));
        let row = rows.find_map(|row| row.strip_prefix(label));
        let cells = row.expect(label).split('|').skip(1);
        let cells = cells.map(|cell| cell.trim().trim_matches(['*', '`', 's']));
        let cells = cells.filter(|cell| !cell.is_empty());
        cells.map(|cell| cell.parse().expect(label)).collect()
    }

    #[test]
    fn the_table_of_the_page_has_the_times_of_a_loss() {
        let labels = ["`--grace`", "a renewal", "TERM", "KILL", "others"];
        let table = labels.map(row);
        for (column, ttl) in row("`--ttl`").into_iter().enumerate() {
            let ttl = Duration::from_secs_f64(ttl);
            let notice = Notice::of(OnLoss::Term, None, ttl, NODE_TIMEOUT);
            let clock = FakeClock::new();
            let nodes = FakeNode::cluster_on(3, &clock);
            let manager = LockManager::builder().fakes(&nodes).build().unwrap();
            let keep_alive = KeepAlive::unbounded().margin(notice.margin);
            let request = manager.request("job").ttl(ttl).keep_alive(keep_alive);
            let held = request.try_lock().unwrap();
            let deadline = held.remaining();
            nodes.iter().for_each(FakeNode::refuse);
            while manager.stats().failed_renewals == 0 {
                clock.advance(Duration::from_millis(1));
            }
            let times = [
                notice.grace,
                clock.elapsed(),
                deadline,
                notice.kill_at(deadline, deadline),
                ttl,
            ];
            for ((label, row), time) in labels.iter().zip(&table).zip(times) {
                let difference = (row[column] - time.as_secs_f64()).abs();
                assert!(difference < 0.06, "{label} {ttl:?}: {time:?}, {row:?}");
            }
        }
    }
}
