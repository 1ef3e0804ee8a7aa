//! What the reports of all nodes say together.

use std::fmt;

use super::report::{NodeReport, Vote};

/// What the nodes said in a round.
#[derive(Clone, Copy)]
pub(crate) struct Told<'a>(pub(crate) &'a [NodeReport]);

impl Told<'_> {
    fn count(self, kind: impl Fn(&Vote) -> bool) -> usize {
        self.0.iter().filter(|report| kind(&report.vote)).count()
    }

    /// Whether more nodes say that the lock rests than that somebody has it.
    pub(super) fn is_rest(self) -> bool {
        let rests = self.count(|vote| matches!(vote, Vote::Held { resting: true, .. }));
        // A node that tells no more than that there is a key may have one that rests.
        let told = self.count(|vote| vote.is_refusal() && !is_terse(vote));
        rests.saturating_mul(2) > told
    }

    /// Whether more nodes have something that is no lock under the key than another holder's.
    pub(super) fn is_no_lock(self) -> bool {
        self.count(Vote::is_no_lock) > self.count(Vote::is_refusal)
    }

    pub(super) fn writer_waits(self) -> bool {
        self.count(|vote| matches!(vote, Vote::WriterWaits { .. })) > 0
    }

    /// The largest number of readers that a node names, unless more nodes say that somebody has the lock alone.
    pub(super) fn readers(self) -> Option<u64> {
        let named = self.0.iter().filter_map(|report| report.vote.readers());
        let alone = self.count(|vote| matches!(vote, Vote::Held { .. }) && !is_terse(vote));
        let is_read = named.clone().count() >= alone;
        named.max().filter(|_| is_read)
    }

    /// Whether no node was asked.
    pub(super) fn is_nothing(self) -> bool {
        self.count(|vote| matches!(vote, Vote::NotAsked)) == self.0.len()
    }
}

/// Whether a vote tells no more than that another holder has a key.
fn is_terse(vote: &Vote) -> bool {
    matches!(vote, Vote::Held { remaining, .. } if remaining.is_none())
}

/// In one line. What several nodes say in the same words is told once, with their names.
impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut told: Vec<(String, String)> = Vec::new();
        for report in self.0 {
            let words = report.vote.to_string();
            match told.iter_mut().find(|(_, other)| *other == words) {
                Some((nodes, _)) => *nodes = format!("{nodes}, {}", report.node),
                None => told.push((report.node.to_string(), words)),
            }
        }
        for (i, (nodes, words)) in told.iter().enumerate() {
            let separator = if i > 0 { "; " } else { "" };
            write!(f, "{separator}{nodes}: {words}")?;
        }
        Ok(())
    }
}
