//! Who has a lock, in words: what the holder of a call calls itself, and whom an error names.

use std::sync::Arc;
use std::time::Duration;

use super::LockManager;
use super::params::LockParams;
use super::request::LockOptions;
use crate::contend::queue::Refusal;
use crate::error::{Error, NodeReport, Vote};
use crate::guard::LockGuard;
use crate::holder::{Holder, Label};
use crate::node::Node;
use crate::protocol::look;

impl LockManager {
    /// What the holder of this call calls itself.
    pub(super) fn label(&self, options: &LockOptions) -> Result<Option<Label>, Error> {
        let of_builder = || self.cluster().options.holder.clone();
        let of_call = options.holder.clone().transpose();
        let of_call = of_call.map_err(|reason| Error::invalid("holder", reason))?;
        Ok(of_call.or_else(of_builder))
    }

    /// The error for a thread that waited for other threads until its time was over.
    pub(super) fn refused(
        &self,
        params: &LockParams,
        line: &Arc<str>,
        refusal: Refusal<LockGuard>,
    ) -> Error {
        let of_several = params.resource.kind.names().is_some();
        let resource = if of_several {
            line
        } else {
            &params.resource.name
        };
        let lock = refusal.lock;
        if let (None, Some(error)) = (&lock, refusal.met)
            && let Some(error) = error.met_by_another(resource, &params.resource.name)
        {
            return error;
        }
        let holder = lock.and_then(|lock| lock.claim.value.holder());
        self.held_here(params, resource, holder)
    }

    /// The error of a call that asks no node, because other threads of this manager have what it asks for.
    pub(super) fn held_here(
        &self,
        params: &LockParams,
        resource: &Arc<str>,
        holder: Option<Holder>,
    ) -> Error {
        let unasked = |node: &Node| node.unasked(Vote::NotAsked).report;
        let nodes: Vec<NodeReport> = self.cluster().each().map(unasked).collect();
        Error::Held {
            resource: Arc::clone(resource),
            permits: params.resource.kind.permits(),
            waited: Duration::ZERO,
            holder,
            nodes,
        }
    }

    /// The same error. If the lock is held and no reply has told by whom, one look at the nodes does.
    pub(super) fn with_holder(&self, params: &LockParams, error: Error) -> Error {
        let Error::Held {
            resource,
            holder,
            nodes,
            ..
        } = &error
        else {
            return error;
        };
        if params.timeout.is_zero()
            || params.resource.kind.permits().is_some()
            || holder.is_some()
            || !is_a_name(params, resource)
            || nodes.iter().any(is_told)
        {
            return error;
        }
        match look::holder(self.cluster(), resource) {
            Some((holder, votes)) => error.naming(holder, votes),
            None => error,
        }
    }
}

/// Whether this is the name of a resource, and not the text for several of them, of which none is in the way.
fn is_a_name(params: &LockParams, resource: &Arc<str>) -> bool {
    let names = params.resource.kind.names();
    names.is_none_or(|names| names.contains(resource))
}

/// Whether a node's answer has the key, so that the holder is known, or known to have no label.
fn is_told(report: &NodeReport) -> bool {
    matches!(
        report.vote,
        Vote::Held {
            remaining: Some(_),
            ..
        } | Vote::Read { .. }
    )
}
