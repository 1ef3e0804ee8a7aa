//! What the nodes said when a lock was acquired, in little memory: a program may hold many locks, and seldom asks for it.

use std::iter::repeat_n;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::clock::Timestamp;
use crate::error::{NodeReport, Vote};
use crate::node::key_report::{KeyReport, SmallVote, votes};

/// The votes on a lock, in the canonical order.
///
/// If all nodes granted the lock, only the times are kept. Reports that are made of them lack the run ids of the servers, which count
/// only before a lock is granted.
#[derive(Debug, Clone)]
pub(crate) struct Votes {
    /// How long each node took to grant the lock, in nanoseconds. Empty if the reports are kept.
    granted_in: SmallVec<[u32; 5]>,
    reports: Box<[KeyReport]>,
}

impl Votes {
    /// It makes a list of the reports only where it keeps them. A list that ends at once would leave a hole between what stays.
    pub(crate) fn new(reports: &[KeyReport]) -> Self {
        let mut granted_in: SmallVec<[u32; 5]> = SmallVec::new();
        for report in reports {
            let nanos = report.elapsed().as_nanos().try_into().ok();
            let Some(nanos) = nanos.filter(|_| matches!(report.vote, SmallVote::Granted)) else {
                return Self {
                    granted_in: SmallVec::new(),
                    reports: reports.into(),
                };
            };
            granted_in.push(nanos);
        }
        Self {
            granted_in,
            reports: Box::default(),
        }
    }

    /// What each node said. `names` are those of the nodes, in the canonical order.
    pub(crate) fn reports<'n>(&self, names: impl Iterator<Item = &'n Arc<str>>) -> Vec<NodeReport> {
        let granted = self.granted_in.iter().map(|nanos| {
            let mut report = KeyReport::unasked(SmallVote::Granted);
            report.at = Timestamp::from_nanos(u64::from(*nanos));
            report
        });
        let all = granted.chain(self.reports.iter().cloned()).zip(names);
        all.map(|(report, name)| report.into_report(name)).collect()
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = &Vote> {
        let granted = repeat_n(&Vote::Granted, self.granted_in.len());
        granted.chain(votes(&self.reports))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::error::NodeError;

    /// Granted in the first 4.29 seconds; anything else.
    fn vote() -> impl Strategy<Value = Vote> {
        let others = [
            Vote::NotAsked,
            Vote::Failed(NodeError::silence()),
            Vote::held(None),
        ];
        prop_oneof![20 => Just(Vote::Granted), 1 => prop::sample::select(others.to_vec())]
    }

    fn elapsed() -> impl Strategy<Value = Duration> {
        let longest = u64::from(u32::MAX);
        let nanos = prop_oneof![20 => 0..=longest, 1 => longest..=longest.saturating_add(1), 1 => any::<u64>()];
        nanos.prop_map(Duration::from_nanos)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn every_report_is_as_it_was(nodes in prop::collection::vec((vote(), elapsed()), 1..9)) {
            let names = 0..nodes.len();
            let names: Vec<Arc<str>> = names.map(|i| format!("node-{i}").into()).collect();
            let report = |(vote, elapsed): &(Vote, Duration)| {
                let mut report = KeyReport::unasked(vote.clone());
                report.at = report.since.saturating_add(*elapsed);
                report
            };
            let reports: Vec<KeyReport> = nodes.iter().map(report).collect();
            let votes = Votes::new(&reports);
            let in_full = reports.iter().cloned().zip(&names);
            let in_full: Vec<_> = in_full.map(|(report, name)| report.into_report(name)).collect();
            let shown = format!("{in_full:?}");
            let of_each = format!("{:?}", in_full.iter().map(|report| &report.vote).collect::<Vec<_>>());
            prop_assert_eq!(format!("{:?}", votes.each().collect::<Vec<_>>()), of_each);
            prop_assert_eq!(format!("{:?}", votes.reports(names.iter())), shown);
        }
    }
}
