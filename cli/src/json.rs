//! The JSON that programs read, but for that of `health`, which the library has. Its keys are a promise; fields that are not known are `null`.

use std::time::Duration;

use redlatch::{Error, LockStatus, NodeError, NodeStatus, View};
use serde_json::{Value, json};

pub(crate) fn of_status(name: &str, status: &LockStatus) -> Value {
    let (state, token, remaining) = match status {
        LockStatus::Held {
            token, remaining, ..
        } => ("held", Some(token), Some(*remaining)),
        LockStatus::Free { .. } => ("free", None, None),
        LockStatus::Blocked { .. } => ("blocked", None, None),
        LockStatus::Unknown { .. } => ("unknown", None, None),
    };
    let nodes: Vec<Value> = status.nodes().iter().map(of_view).collect();
    json!({
        "resource": name,
        "state": state,
        "token": token,
        "remaining_ms": remaining.map(milliseconds),
        "nodes": nodes,
    })
}

/// Whether the lock was given back is not known if too few servers answered.
pub(crate) fn of_release(name: &str, result: &Result<(), Error>, why: Option<&str>) -> Value {
    let (outcome, released) = match result {
        Ok(()) => ("released", Some(true)),
        Err(Error::Lost { .. }) => ("not_held", Some(false)),
        Err(Error::Unavailable { .. }) => ("unknown", None),
        Err(_) => ("refused", Some(false)),
    };
    json!({
        "resource": name,
        "outcome": outcome,
        "released": released,
        "error": why,
    })
}

fn of_view(node: &NodeStatus) -> Value {
    let (view, token, remaining, error) = match &node.view {
        View::Held { token, remaining } => ("held", Some(token), Some(*remaining), None),
        View::Free => ("free", None, None, None),
        View::Failed(NodeError::NotALock {
            length: Some(_), ..
        }) => ("never_expires", None, None, None),
        View::Failed(NodeError::NotALock { .. }) => ("other_type", None, None, None),
        View::Failed(NodeError::TimedOut) => ("timed_out", None, None, None),
        View::Failed(NodeError::BreakerOpen { failure }) => {
            ("left_out", None, None, Some(failure.to_string()))
        }
        View::Failed(error) => ("failed", None, None, Some(error.to_string())),
        _ => ("unknown", None, None, None),
    };
    json!({
        "node": node.node.as_ref(),
        "view": view,
        "token": token,
        "remaining_ms": remaining.map(milliseconds),
        "error": error,
        "elapsed_us": microseconds(node.elapsed),
    })
}

fn milliseconds(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

fn microseconds(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}
