//! What the reports of all nodes say together.

use std::fmt;

use super::report::{NodeReport, Vote};

/// The reports of a round in one line.
pub(super) struct Reports<'a>(pub(super) &'a [NodeReport]);

impl fmt::Display for Reports<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, report) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{report}")?;
        }
        Ok(())
    }
}

/// Whether more nodes say that the lock rests than that somebody has it.
pub(super) fn is_resting(nodes: &[NodeReport]) -> bool {
    let rests = count(nodes, |vote| {
        matches!(vote, Vote::Held { resting: true, .. })
    });
    // A node that tells no more than that there is a key may have one that rests.
    let told = count(nodes, |vote| {
        vote.is_refusal()
            && !matches!(
                vote,
                Vote::Held {
                    remaining: None,
                    ..
                }
            )
    });
    rests.saturating_mul(2) > told
}

/// Whether more nodes have something that is no lock under the key than another holder's.
pub(super) fn is_no_lock(nodes: &[NodeReport]) -> bool {
    count(nodes, Vote::is_no_lock) > count(nodes, Vote::is_refusal)
}

/// Whether a reader was refused because a writer waits.
pub(super) fn writer_waits(nodes: &[NodeReport]) -> bool {
    count(nodes, |vote| matches!(vote, Vote::WriterWaits { .. })) > 0
}

/// The largest number of readers that a node names, unless more nodes say that somebody has the lock alone.
pub(super) fn readers(nodes: &[NodeReport]) -> Option<u64> {
    let named = nodes.iter().filter_map(|report| report.vote.readers());
    let alone = count(nodes, |vote| {
        matches!(
            vote,
            Vote::Held {
                remaining: Some(_),
                ..
            }
        )
    });
    let is_read = named.clone().count() >= alone;
    named.max().filter(|_| is_read)
}

fn count(nodes: &[NodeReport], kind: fn(&Vote) -> bool) -> usize {
    nodes.iter().filter(|report| kind(&report.vote)).count()
}

pub(super) fn is_unasked(nodes: &[NodeReport]) -> bool {
    count(nodes, |vote| matches!(vote, Vote::NotAsked)) == nodes.len()
}
