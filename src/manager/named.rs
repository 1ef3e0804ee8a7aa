//! Names the holder in the error of a call that has asked the nodes and waited, where no reply has shown who that is.

use super::LockManager;
use super::acquire::LockParams;
use crate::error::{Error, NodeReport, Vote};
use crate::protocol::look;

impl LockManager {
    /// The same error. If the lock is held and no reply has told by whom, one look at the nodes does.
    pub(super) fn named(&self, params: &LockParams, error: Error) -> Error {
        let Error::Held { holder, nodes, .. } = &error else {
            return error;
        };
        if params.timeout.is_zero() || holder.is_some() || nodes.iter().any(is_told) {
            return error;
        }
        match look::holder(self.cluster(), &params.resource) {
            Some((named, votes)) => error.naming(named, votes),
            None => error,
        }
    }
}

/// Whether a node's answer has the key, so that the holder is known, or known to have no label.
fn is_told(report: &NodeReport) -> bool {
    matches!(
        report.vote,
        Vote::Held {
            remaining: Some(_),
            ..
        }
    )
}
