//! What the nodes said when a lock was acquired, in little memory: a program may hold many locks, and seldom asks for it.

use std::iter::repeat_n;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use crate::error::{NodeReport, Vote};

/// The votes on a lock, in the canonical order.
#[derive(Debug, Clone)]
pub(crate) enum Votes {
    /// All nodes granted the lock. How long each node took, in nanoseconds. Reports that are made of them lack the run ids of the
    /// servers, which count only before a lock is granted.
    Granted(SmallVec<[u32; 5]>),
    Other(Box<[NodeReport]>),
}

impl Votes {
    /// It makes a list of the reports only where it keeps them. A list that ends at once would leave a hole between what stays.
    pub(crate) fn new<'r>(reports: impl Iterator<Item = &'r NodeReport> + Clone) -> Self {
        let granted: Option<_> = reports.clone().map(granted_in).collect();
        granted.map_or_else(|| Self::Other(reports.cloned().collect()), Self::Granted)
    }

    /// What each node said. `names` are those of the nodes, in the canonical order.
    pub(crate) fn reports<'n>(&self, names: impl Iterator<Item = &'n Arc<str>>) -> Vec<NodeReport> {
        let granted = |(name, nanos): (_, &u32)| {
            let elapsed = Duration::from_nanos(u64::from(*nanos));
            NodeReport::new(name, Vote::Granted, elapsed)
        };
        match self {
            Self::Granted(times) => names.zip(times).map(granted).collect(),
            Self::Other(reports) => reports.to_vec(),
        }
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = &Vote> {
        let (granted, reports) = match self {
            Self::Granted(times) => (times.len(), &[][..]),
            Self::Other(reports) => (0, &reports[..]),
        };
        let others = reports.iter().map(|report| &report.vote);
        repeat_n(&Vote::Granted, granted).chain(others)
    }
}

/// How long the node took to grant the lock, if it did, and in a time that can be kept.
fn granted_in(report: &NodeReport) -> Option<u32> {
    let nanos = u32::try_from(report.elapsed.as_nanos()).ok();
    nanos.filter(|_| matches!(report.vote, Vote::Granted))
}

#[cfg(test)]
mod tests {
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
            let reports = names.iter().zip(&nodes);
            let reports = reports.map(|(name, (vote, elapsed))| NodeReport::new(name, vote.clone(), *elapsed));
            let reports: Vec<NodeReport> = reports.collect();
            let votes = Votes::new(reports.iter());
            let shown = format!("{reports:?}");
            let of_each = format!("{:?}", reports.iter().map(|report| &report.vote).collect::<Vec<_>>());
            prop_assert_eq!(format!("{:?}", votes.each().collect::<Vec<_>>()), of_each);
            prop_assert_eq!(format!("{:?}", votes.reports(names.iter())), shown);
        }
    }
}
