//! In which order the nodes are asked in one attempt, and in the next.

use crate::error::{Error, NodeError, NodeReport, Vote};
use crate::fanout::Fanout;

/// So many attempts in a row meet an arbiter's refusal before all nodes are asked again. What is in the way there may be
/// the key of a holder that never had the others, or is gone.
const MOST_REFUSALS: u32 = 7;

/// In which order the nodes are asked in one attempt.
///
/// While others want the lock as well, one node that all of them ask first is the arbiter: only who is granted that one
/// goes on to the others, so that contenders don't split the votes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Order {
    fanout: Fanout,
    /// How many attempts in a row have met another holder.
    refusals: u32,
}

impl Order {
    /// The order of the first attempt.
    pub(super) fn of(fanout: Fanout) -> Self {
        Self {
            fanout,
            refusals: 0,
        }
    }

    /// The order of the next attempt, after one in this order that failed.
    pub(super) fn after(self, error: &Error) -> Self {
        let Error::Held { nodes } = error else {
            return Self::of(self.fanout);
        };
        // That one does not go away, and says nothing about other contenders.
        if self.refusals >= MOST_REFUSALS || nodes.iter().any(has_no_lock) {
            return Self::of(self.fanout);
        }
        Self {
            refusals: self.refusals.saturating_add(1),
            ..self
        }
    }

    /// Whether the attempt ends where the first node that answers does not grant.
    pub(super) fn is_by_arbiter(self) -> bool {
        self.refusals > 0
    }

    /// How many nodes are asked before any reply is read, when one has granted, or none.
    pub(super) fn together(self, has_one: bool) -> usize {
        match self.fanout {
            Fanout::Sequential => 1,
            Fanout::Overlapped if self.is_by_arbiter() && !has_one => 1,
            Fanout::Overlapped => usize::MAX,
        }
    }
}

fn has_no_lock(report: &NodeReport) -> bool {
    matches!(report.vote, Vote::Failed(NodeError::NotALock { .. }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const BOTH: [Fanout; 2] = [Fanout::Sequential, Fanout::Overlapped];

    fn report(vote: Vote) -> NodeReport {
        NodeReport {
            node: "a:1".into(),
            vote,
            elapsed: Duration::ZERO,
            server: None,
        }
    }

    fn held(vote: Vote) -> Error {
        let nodes = vec![report(vote)];
        Error::Held { nodes }
    }

    #[test]
    fn every_eighth_attempt_in_a_row_asks_more_than_the_arbiter() {
        for fanout in BOTH {
            let mut order = Order::of(fanout);
            let mut by_arbiter = Vec::new();
            for _ in 0..17 {
                by_arbiter.push(order.is_by_arbiter());
                let remaining = None;
                order = order.after(&held(Vote::Held { remaining }));
            }
            let asks_all = by_arbiter.iter().enumerate().filter(|(_, is)| !**is);
            let asks_all: Vec<usize> = asks_all.map(|(attempt, _)| attempt).collect();
            assert_eq!(asks_all, [0, 8, 16]);
        }
    }

    #[test]
    fn only_other_holders_make_the_first_node_an_arbiter() {
        let nodes = vec![report(Vote::TimedOut)];
        let elapsed = Duration::ZERO;
        let reason = "never expires";
        for error in [
            Error::Unavailable {
                nodes: nodes.clone(),
            },
            Error::TooSlow { elapsed, nodes },
            held(Vote::Failed(NodeError::NotALock { reason })),
        ] {
            for fanout in BOTH {
                assert_eq!(Order::of(fanout).after(&error), Order::of(fanout));
            }
        }
    }

    #[test]
    fn nodes_are_asked_together_unless_one_after_the_other_or_before_the_arbiter_grants() {
        let remaining = None;
        let held = held(Vote::Held { remaining });
        for has_one in [false, true] {
            let sequential = Order::of(Fanout::Sequential);
            assert_eq!(sequential.together(has_one), 1);
            assert_eq!(sequential.after(&held).together(has_one), 1);
            let overlapped = Order::of(Fanout::Overlapped);
            assert_eq!(overlapped.together(has_one), usize::MAX);
            let alone = overlapped.after(&held).together(has_one) == 1;
            assert_eq!(alone, !has_one);
        }
    }
}
