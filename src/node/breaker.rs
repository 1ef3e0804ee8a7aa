//! Keeps callers away from a node that failed a moment ago.

use std::sync::Arc;
use std::time::Duration;

use crate::sync::Mutex;

/// How soon after a failure the node is tried again.
const FIRST_PROBE: Duration = Duration::from_millis(20);

/// The longest time between the ends of two probes; with it a node is back within 300 ms of its recovery.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// Open from a failure of the node until its next reply.
#[derive(Default)]
pub(super) struct Breaker(Mutex<BreakerState>);

#[derive(Default)]
struct BreakerState {
    failure: Option<Arc<str>>,
    /// Counts the openings, so that a probe of an earlier opening ends its chain.
    opening: u64,
}

/// When to probe next, and for which opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Probe {
    pub(super) after: Duration,
    opening: u64,
}

impl Breaker {
    /// Returns how the node failed, if the breaker is open.
    pub(super) fn failure(&self) -> Option<Arc<str>> {
        self.0.lock().failure.clone()
    }

    /// Opens the breaker; returns the first probe to schedule, or none if it was open before.
    pub(super) fn trip(&self, failure: impl FnOnce() -> String) -> Option<Probe> {
        let mut state = self.0.lock();
        if state.failure.is_some() {
            return None;
        }
        state.failure = Some(failure().into());
        state.opening = state.opening.wrapping_add(1);
        Some(Probe {
            after: FIRST_PROBE,
            opening: state.opening,
        })
    }

    /// Closes the breaker; returns whether it was open.
    pub(super) fn close(&self) -> bool {
        self.0.lock().failure.take().is_some()
    }

    /// Whether the opening that the probe belongs to still lasts.
    pub(super) fn wants(&self, probe: Probe) -> bool {
        let state = self.0.lock();
        state.failure.is_some() && state.opening == probe.opening
    }

    /// Returns the next probe after one that failed, if the opening still lasts: each pause is twice as long as the one before, up to
    /// a bound.
    pub(super) fn probe_failed(&self, probe: Probe) -> Option<Probe> {
        let after = probe.after.saturating_mul(2).min(LONGEST_PAUSE);
        self.wants(probe).then_some(Probe { after, ..probe })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_bound() {
        let breaker = Breaker::default();
        let mut probe = breaker.trip(|| "down".into()).unwrap();
        let mut pauses = vec![probe.after.as_millis()];
        for _ in 0..5 {
            probe = breaker.probe_failed(probe).unwrap();
            pauses.push(probe.after.as_millis());
        }
        assert_eq!(pauses, [20, 40, 80, 160, 200, 200]);
    }

    #[test]
    fn one_opening_has_one_chain_of_probes() {
        let breaker = Breaker::default();
        let old = breaker.trip(|| "down".into()).unwrap();
        assert_eq!(breaker.trip(|| "again".into()), None);
        assert_eq!(breaker.failure().as_deref(), Some("down"));
        assert!(breaker.close());
        assert!(!breaker.close());
        assert_eq!(breaker.failure(), None);

        let new = breaker.trip(|| "down once more".into()).unwrap();
        assert!(!breaker.wants(old));
        assert_eq!(breaker.probe_failed(old), None);
        assert!(breaker.wants(new));
        assert_eq!(new.after, FIRST_PROBE);
    }
}
