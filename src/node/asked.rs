//! Which nodes are asked, and that each server among them has one vote.

use std::slice;
use std::sync::Arc;

use smallvec::SmallVec;

use super::Node;
use super::key_report::{KeyReport, KeyReports, NOT_ASKED};
use crate::error::{NodeError, Vote};

/// The nodes that are asked.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'n> {
    /// All nodes, in the canonical order.
    pub(crate) nodes: &'n [Arc<Node>],
    /// The indexes of those that are asked, in order.
    pub(crate) indexes: &'n [usize],
}

impl<'n> Asked<'n> {
    pub(crate) fn one(node: &'n Arc<Node>) -> Self {
        let (nodes, indexes) = (slice::from_ref(node), &[0]);
        Self { nodes, indexes }
    }

    /// The nodes that are asked, with their indexes.
    pub(crate) fn each(self) -> impl DoubleEndedIterator<Item = (usize, &'n Arc<Node>)> + Clone {
        let node = move |index: &usize| Some((*index, self.nodes.get(*index)?));
        self.indexes.iter().filter_map(node)
    }

    /// The nodes that are asked, with what there is for each of them in a list for all nodes.
    pub(crate) fn with<T>(self, all: &mut [T]) -> impl Iterator<Item = (&'n Arc<Node>, &mut T)> {
        let all = self.nodes.iter().zip(all).enumerate();
        let asked = all.filter(move |(index, _)| self.indexes.contains(index));
        asked.map(|(_, both)| both)
    }

    /// A report of each node, as if none was asked.
    pub(crate) fn unasked(self) -> KeyReports {
        let mut reports = KeyReports::new();
        for _ in self.nodes {
            reports.push(KeyReport::of(NOT_ASKED));
        }
        reports
    }

    /// Leaves each server only its first vote: a server has one vote, even if several nodes are that server. A server may have
    /// voted in an earlier report, of a node that was not asked now.
    pub(crate) fn one_vote_each(self, reports: &mut [KeyReport]) {
        if are_of_different_servers(reports) {
            return;
        }
        for (order, index) in self.indexes.iter().enumerate() {
            let later = self.indexes.get(order..).unwrap_or_default();
            deny_second_vote(self.nodes, reports, *index, later, Vote::is_granted);
        }
    }
}

/// Makes a failure of the vote of the node with this index, if `is_second` is true for it and the server has granted the lock under
/// another name. The nodes with the indexes `later` do not count as other names.
pub(crate) fn deny_second_vote(
    nodes: &[Arc<Node>],
    reports: &mut [KeyReport],
    index: usize,
    later: &[usize],
    is_second: fn(&Vote) -> bool,
) {
    let report = reports.get(index).filter(|it| is_second(&it.vote));
    let Some(server) = report.and_then(|report| report.server.as_ref()) else {
        return;
    };
    let mut others = nodes.iter().zip(&*reports).enumerate();
    let other = others.find(|(other, (_, report))| {
        let is_same = report.server.as_ref() == Some(server);
        is_same && report.vote.is_granted() && !later.contains(other)
    });
    let other = other.map(|(_, (node, _))| Arc::clone(node.name()));
    if let (Some(other), Some(report)) = (other, reports.get_mut(index)) {
        report.vote = Vote::Failed(NodeError::SameServer { other }).into();
    }
}

/// Whether all nodes that granted are different servers for sure, because their run ids differ in the first bytes.
fn are_of_different_servers(reports: &[KeyReport]) -> bool {
    let mut before: SmallVec<[u64; 8]> = SmallVec::new();
    for report in reports {
        if report.vote.is_granted()
            && let Some(server) = &report.server
        {
            let start = server.as_bytes().first_chunk();
            let start = start.map_or(0, |start| u64::from_ne_bytes(*start));
            if before.contains(&start) {
                return false;
            }
            before.push(start);
        }
    }
    true
}
