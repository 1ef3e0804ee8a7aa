//! What the nodes said when a lock was acquired, in little memory: a program may hold many locks, and seldom asks for it.

use std::iter::repeat_n;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use crate::error::{NodeReport, Vote};
use crate::node::key_report::{KeyReport, SmallVote, votes};

/// The votes on a lock, in the canonical order.
#[derive(Debug, Clone)]
pub(crate) enum Votes {
    /// All nodes granted the lock. How long each node took, in nanoseconds.
    Granted(SmallVec<[u32; 5]>),
    Other(Box<[KeyReport]>),
}

impl Votes {
    /// It makes a list of the reports only where it keeps them. A list that ends at once would leave a hole between what stays.
    pub(crate) fn new(reports: &[KeyReport]) -> Self {
        let mut granted = SmallVec::new();
        for report in reports {
            let nanos = report.elapsed().as_nanos().try_into().ok();
            match nanos.filter(|_| matches!(report.vote, SmallVote::Granted)) {
                Some(nanos) => granted.push(nanos),
                None => return Self::Other(reports.into()),
            }
        }
        Self::Granted(granted)
    }

    /// What each node said. `names` are those of the nodes, in the canonical order.
    pub(crate) fn reports<'n>(&self, names: impl Iterator<Item = &'n Arc<str>>) -> Vec<NodeReport> {
        let granted = |(name, nanos): (_, &u32)| {
            let elapsed = Duration::from_nanos(u64::from(*nanos));
            NodeReport::new(name, Vote::Granted, elapsed)
        };
        let other = |(name, report): (_, &KeyReport)| report.clone().into_report(name);
        match self {
            Self::Granted(times) => names.zip(times).map(granted).collect(),
            Self::Other(reports) => names.zip(reports).map(other).collect(),
        }
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = &Vote> {
        let (granted, reports) = match self {
            Self::Granted(times) => (times.len(), &[][..]),
            Self::Other(reports) => (0, &reports[..]),
        };
        repeat_n(&Vote::Granted, granted).chain(votes(reports))
    }
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
            let report = |(vote, elapsed): &(Vote, Duration)| {
                let mut report = KeyReport::of(vote.clone());
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
