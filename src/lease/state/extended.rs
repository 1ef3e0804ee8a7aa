//! Applies the votes on an extension.

use std::mem::take;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::standing::discount;
use super::{LeaseState, Renewal};
use crate::clock::Timestamp;
use crate::error::{Error, NodeReport};
use crate::quorum::Term;
use crate::verdict::{self, Verdict};

impl LeaseState {
    /// Applies the votes on an extension by this term, which began at `started` and got its last reply by `now`. If it
    /// succeeds, `renewal` replaces the keep-alive of the lock, if there is one; if not, the votes go to the error.
    pub(crate) fn extended(
        &self,
        started: Timestamp,
        term: Term,
        renewal: Option<Renewal>,
        nodes: &mut Vec<NodeReport>,
        now: Timestamp,
    ) -> Result<(), Error> {
        let mut state = self.state.lock();
        discount(&state.standings, nodes);
        if let Some(cause) = state.loss() {
            return Err(self.lost_error(cause));
        }
        if now >= self.deadline() {
            // The nodes may have extended keys, but the lock may have been another holder's in between.
            let cause = self.end_cause(&mut state).with(take(nodes));
            return Err(self.lose(&mut state, cause));
        }
        match verdict::of_held(nodes) {
            Verdict::Confirmed => {}
            Verdict::Lost => return Err(self.lose(&mut state, verdict::loss(take(nodes)))),
            Verdict::Unknown => {
                return Err(Error::Unavailable {
                    resource: Arc::clone(self.name()),
                    waited: now.saturating_since(started),
                    nodes: take(nodes),
                });
            }
        }
        let deadline = started.saturating_add(term.validity);
        if deadline <= now {
            let elapsed = now.saturating_since(started);
            return Err(Error::TooSlow {
                resource: Arc::clone(self.name()),
                waited: elapsed,
                elapsed,
                nodes: take(nodes),
            });
        }
        let until = renewal
            .or(state.renewal())
            .and_then(|renewal| renewal.until);
        let deadline = until.map_or(deadline, |until| deadline.min(until));
        self.deadline
            .fetch_max(deadline.as_nanos(), Ordering::AcqRel);
        if let Some(rare) = state.rare_mut() {
            rare.failed = Box::default();
            let counted = rare.counted.iter_mut().flatten();
            for (counted, node) in counted.zip(&*nodes) {
                *counted |= node.vote.is_granted();
            }
        }
        if let Some(renewal) = renewal {
            self.renew_as(&mut state, renewal);
        }
        Ok(())
    }

    /// Keeps the votes on a renewal that failed, for the cause of a later loss.
    pub(crate) fn note_failed_renewal(&self, nodes: &[NodeReport]) {
        self.state.lock().make_rare().failed = nodes.into();
    }
}
