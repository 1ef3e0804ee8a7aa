//! The status of a lock, and what a node said, as data for other programs. The names of the fields are a promise; unknown values are null.

use std::time::Duration;

use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::{ListedLock, LockStatus, Parts};
use crate::error::{NodeError, NodeReport, Vote};

impl Parts<'_> {
    fn serialize<S: SerializeStruct>(&self, fields: &mut S) -> Result<(), S::Error> {
        fields.serialize_field("token", &self.token)?;
        fields.serialize_field("remaining_ms", &self.remaining.map(milliseconds))?;
        fields.serialize_field("holder", &self.holder)?;
        fields.serialize_field("readers", &self.read.map(|(readers, _)| readers))?;
        fields.serialize_field("last_ms", &self.read.map(|(_, last)| milliseconds(last)))
    }
}

impl Serialize for LockStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut status = serializer.serialize_struct("LockStatus", FIELDS)?;
        self.serialize_fields(&mut status)?;
        status.end()
    }
}

/// The fields of a status.
const FIELDS: usize = 9;

impl LockStatus {
    fn serialize_fields<S: SerializeStruct>(&self, fields: &mut S) -> Result<(), S::Error> {
        fields.serialize_field("state", &self.name().to_lowercase())?;
        self.parts().serialize(fields)?;
        fields.serialize_field("wanted", &self.is_wanted())?;
        fields.serialize_field("margin", &self.margin())?;
        fields.serialize_field("nodes", self.nodes())
    }
}

/// The fields of the status, and what it is the status of.
impl Serialize for ListedLock {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut lock = serializer.serialize_struct("ListedLock", FIELDS.saturating_add(2))?;
        lock.serialize_field("resource", &self.resource)?;
        lock.serialize_field("slot", &self.slot)?;
        self.status.serialize_fields(&mut lock)?;
        lock.end()
    }
}

impl Serialize for NodeReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut parts = Parts::default();
        let (view, error) = match &self.vote {
            Vote::Held {
                token,
                remaining,
                holder,
                resting,
                ..
            } => {
                (parts.token, parts.remaining) = (token.as_deref(), *remaining);
                parts.holder = holder.as_ref();
                (if *resting { "resting" } else { "held" }, None)
            }
            Vote::Read {
                readers,
                first,
                last,
                ..
            } => {
                (parts.remaining, parts.read) = (*first, Some((*readers, *last)));
                ("read", None)
            }
            Vote::WriterWaits { remaining } => {
                parts.remaining = Some(*remaining);
                ("writer_waits", None)
            }
            Vote::Missing => ("free", None),
            Vote::Failed(error) => failure(error),
            Vote::Stale { .. } => ("stale", Some(self.vote.to_string())),
            Vote::Granted => ("granted", None),
            Vote::Released => ("released", None),
            Vote::NotAsked => ("not_asked", None),
        };
        let elapsed = u64::try_from(self.elapsed.as_micros()).unwrap_or(u64::MAX);
        let mut node = serializer.serialize_struct("NodeReport", 10)?;
        node.serialize_field("node", &*self.node)?;
        node.serialize_field("view", view)?;
        parts.serialize(&mut node)?;
        node.serialize_field("wanted", &self.is_wanted)?;
        node.serialize_field("error", &error)?;
        node.serialize_field("elapsed_us", &elapsed)?;
        node.end()
    }
}

/// The name of a failure, and its text if the name does not tell everything.
fn failure(error: &NodeError) -> (&'static str, Option<String>) {
    match (error, error.is_a_lock_without_ttl()) {
        (_, true) => ("never_expires", Some(error.to_string())),
        (NodeError::NotALock { length, .. }, _) if length.is_some() => ("never_expires", None),
        (NodeError::NotALock { .. }, _) => ("other_type", None),
        (NodeError::BreakerOpen { failure }, _) => ("left_out", Some(failure.to_string())),
        (NodeError::TimedOut { .. }, _) => ("timed_out", None),
        _ => ("failed", Some(error.to_string())),
    }
}

fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
