//! The JSON that programs read. Its keys are a promise; fields that are not known are `null`.

use std::time::Duration;

use redlatch::{
    ClockDifference, Error, Finding, Health, LockStatus, Margin, NodeError, NodeHealth, NodeStatus,
    Persistence, Quarantine, Reach, Role, View,
};
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

pub(crate) fn of_health(health: &Health) -> Value {
    let (survives, missing) = match health.margin() {
        Margin::Survives { failures } => (Some(failures), 0),
        Margin::NoMajority { missing } => (None, missing),
    };
    let findings: Vec<Value> = health.findings.iter().map(of_finding).collect();
    let nodes: Vec<Value> = health.nodes.iter().map(of_node).collect();
    json!({
        "severity": health.severity().to_string(),
        "voters": health.voters,
        "quorum": health.quorum,
        "survives_failures": survives,
        "missing_votes": missing,
        "findings": findings,
        "nodes": nodes,
    })
}

fn of_finding(finding: &Finding) -> Value {
    json!({ "severity": finding.severity().to_string(), "text": finding.to_string() })
}

fn of_node(node: &NodeHealth) -> Value {
    let (state, error) = match &node.reach {
        Reach::Answers => ("up", None),
        Reach::Refuses(error) => ("refuses", Some(error.to_string())),
        Reach::TimedOut => ("timed_out", None),
        Reach::Failed(error) => ("failed", Some(error.to_string())),
        _ => ("unknown", None),
    };
    let (role, master) = match &node.role {
        Role::Master => (Some("master"), None),
        Role::Replica { master } => (Some("replica"), master.as_deref()),
        Role::ActiveReplica => (Some("active_replica"), None),
        Role::Other(role) => (Some(role.as_str()), None),
        Role::Unknown | _ => (None, None),
    };
    let (quarantine, quarantine_remaining) = match node.quarantine {
        Quarantine::NoMarker => (Some("no_marker"), None),
        Quarantine::Open => (Some("open"), None),
        Quarantine::Quarantined { remaining, .. } => (Some("quarantined"), Some(remaining)),
        Quarantine::OtherProcess => (Some("other_process"), None),
        Quarantine::Unreadable => (Some("unreadable"), None),
        Quarantine::Unknown | _ => (None, None),
    };
    let (ahead, uncertainty) = match node.clock {
        Some(ClockDifference::Ahead {
            by, uncertainty, ..
        }) => (Some(microseconds(by)), Some(uncertainty)),
        Some(ClockDifference::Behind {
            by, uncertainty, ..
        }) => (Some(microseconds(by).saturating_neg()), Some(uncertainty)),
        _ => (None, None),
    };
    json!({
        "node": node.node.as_ref(),
        "state": state,
        "error": error,
        "round_trip_us": node.round_trip.map(microseconds),
        "server": node.server,
        "version": node.version,
        "mode": node.mode,
        "role": role,
        "master": master,
        "run_id": node.run_id,
        "uptime_s": node.uptime.map(|uptime| uptime.as_secs()),
        "eviction": node.eviction,
        "persistence": node.persistence.and_then(of_persistence),
        "clock_ahead_us": ahead,
        "clock_uncertainty_us": uncertainty.map(microseconds),
        "quarantine": quarantine,
        "quarantine_remaining_ms": quarantine_remaining.map(milliseconds),
        "settings": node.settings,
    })
}

fn of_persistence(persistence: Persistence) -> Option<&'static str> {
    match persistence {
        Persistence::Off => Some("off"),
        Persistence::Snapshots => Some("rdb"),
        Persistence::AppendOnly => Some("aof"),
        Persistence::AppendOnlyAndSnapshots => Some("aof+rdb"),
        _ => None,
    }
}

fn milliseconds(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

fn microseconds(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}
