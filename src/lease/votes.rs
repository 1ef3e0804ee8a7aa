//! What the nodes said when a lock was acquired, in little memory: a program may hold many locks, and seldom asks for it.

use std::iter::repeat_n;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use smallvec::SmallVec;

use crate::cluster::Owner;
use crate::error::{NodeReport, Vote};

/// The votes on a lock, in the canonical order.
///
/// If all nodes granted the lock, only the times are kept, and the reports are made when somebody asks for them. These reports
/// lack the run ids of the servers, which count only before a lock is granted.
#[derive(Debug, Clone)]
pub(crate) struct Votes {
    /// How long each node took to grant the lock, in nanoseconds. Empty if the reports were kept from the beginning.
    granted_in: SmallVec<[u32; 5]>,
    reports: OnceLock<Box<[NodeReport]>>,
}

impl Votes {
    /// It makes a list of the reports only where it keeps them. A list that ends at once would leave a hole between what stays.
    pub(crate) fn new<'r>(reports: impl Iterator<Item = &'r NodeReport> + Clone) -> Self {
        let granted_in: Option<SmallVec<_>> = reports.clone().map(granted_in).collect();
        let votes = Self {
            granted_in: granted_in.unwrap_or_default(),
            reports: OnceLock::new(),
        };
        if votes.granted_in.is_empty() {
            votes.reports.get_or_init(|| reports.cloned().collect());
        }
        votes
    }

    /// What each node said. `names` are those of the nodes, in the canonical order.
    pub(crate) fn reports<'n>(
        &self,
        names: impl Iterator<Item = &'n Arc<str>>,
        owner: &Owner,
    ) -> &[NodeReport] {
        let make = || {
            let granted = names.zip(&self.granted_in);
            let reports = granted.map(|(name, nanos)| NodeReport {
                node: Arc::clone(name),
                vote: Vote::Granted,
                elapsed: Duration::from_nanos(u64::from(*nanos)),
                is_wanted: false,
                server: None,
            });
            reports.collect()
        };
        match self.reports.get() {
            Some(reports) => reports,
            // A thread of the parent may have been making them at the fork, and in the child nobody ends that. So these are leaked,
            // in place of a hang.
            None if owner.is_forked() => Box::leak(make()),
            None => self.reports.get_or_init(make),
        }
    }

    /// The vote of each node.
    pub(crate) fn each(&self) -> impl Iterator<Item = &Vote> {
        let kept = self.reports.get().filter(|_| self.granted_in.is_empty());
        let kept = kept.into_iter().flat_map(|reports| reports.iter());
        let granted = repeat_n(&Vote::Granted, self.granted_in.len());
        granted.chain(kept.map(|report| &report.vote))
    }
}

/// How long the node took to grant the lock, if it did, and in a time that can be kept.
fn granted_in(report: &NodeReport) -> Option<u32> {
    let nanos = u32::try_from(report.elapsed.as_nanos()).ok();
    nanos.filter(|_| matches!(report.vote, Vote::Granted))
}

#[cfg(test)]
mod at_a_fork;
#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::clock::Clock;
    use crate::error::NodeError;

    /// Granted in the first 4.29 seconds; anything else.
    fn vote() -> impl Strategy<Value = Vote> {
        let others = [
            Vote::NotAsked,
            Vote::Failed(NodeError::TimedOut),
            Vote::held(None),
        ];
        prop_oneof![20 => Just(Vote::Granted), 1 => prop::sample::select(others.to_vec())]
    }

    fn elapsed() -> impl Strategy<Value = Duration> {
        let longest = u64::from(u32::MAX);
        let nanos = prop_oneof![20 => 0..=longest, 1 => longest..=longest.saturating_add(1), 1 => any::<u64>()];
        nanos.prop_map(Duration::from_nanos)
    }

    pub(super) fn names(count: usize) -> Vec<Arc<str>> {
        (0..count).map(|i| format!("node-{i}").into()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn every_report_is_as_it_was(nodes in prop::collection::vec((vote(), elapsed()), 1..9)) {
            let names = names(nodes.len());
            let reports = names.iter().zip(&nodes).map(|(name, (vote, elapsed))| NodeReport {
                node: Arc::clone(name),
                vote: vote.clone(),
                elapsed: *elapsed,
                is_wanted: false,
                server: None,
            });
            let reports: Vec<NodeReport> = reports.collect();
            let votes = Votes::new(reports.iter());
            let shown = format!("{reports:?}");
            let of_each = format!("{:?}", reports.iter().map(|report| &report.vote).collect::<Vec<_>>());
            let owner = Owner::new(Clock::system());
            for votes in [votes.clone(), votes] {
                prop_assert_eq!(format!("{:?}", votes.each().collect::<Vec<_>>()), &*of_each);
                // The same ones each time.
                let first = votes.reports(names.iter(), &owner);
                prop_assert_eq!(format!("{first:?}"), &*shown);
                prop_assert!(std::ptr::eq(first, votes.reports(names.iter(), &owner)));
                prop_assert_eq!(format!("{:?}", votes.each().collect::<Vec<_>>()), &*of_each);
            }
        }
    }

    pub(super) fn granted(name: &Arc<str>) -> NodeReport {
        NodeReport {
            node: Arc::clone(name),
            vote: Vote::Granted,
            elapsed: Duration::from_micros(300),
            is_wanted: false,
            server: None,
        }
    }
}
