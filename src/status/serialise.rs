//! The status of a lock, and what a node said, as data for other programs. The names of the fields are a promise; unknown values are null.

use std::time::Duration;

use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::LockStatus;
use crate::error::{NodeError, NodeReport, Vote};

impl Serialize for LockStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (state, token, remaining, holder) = match self {
            Self::Held {
                token,
                remaining,
                holder,
                ..
            } => {
                let remaining = milliseconds(*remaining);
                ("held", Some(token), Some(remaining), holder.as_ref())
            }
            Self::Resting {
                token,
                remaining,
                holder,
                ..
            } => {
                let remaining = milliseconds(*remaining);
                ("resting", Some(token), Some(remaining), holder.as_ref())
            }
            Self::Read { remaining, .. } => ("read", None, Some(milliseconds(*remaining)), None),
            Self::Free { .. } => ("free", None, None, None),
            Self::Blocked { .. } => ("blocked", None, None, None),
            Self::Unknown { .. } => ("unknown", None, None, None),
        };
        let read = if let Self::Read { readers, last, .. } = self {
            Some((*readers, *last))
        } else {
            None
        };
        let mut status = serializer.serialize_struct("LockStatus", 7)?;
        status.serialize_field("state", state)?;
        status.serialize_field("token", &token)?;
        status.serialize_field("remaining_ms", &remaining)?;
        status.serialize_field("holder", &holder)?;
        serialize_readers(&mut status, read)?;
        status.serialize_field("nodes", self.nodes())?;
        status.end()
    }
}

impl Serialize for NodeReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (mut token, mut remaining, mut read, mut error) = (None, None, None, None);
        let view = match &self.vote {
            Vote::Held {
                token: value,
                remaining: left,
                resting,
                ..
            } => {
                (token, remaining) = (value.as_ref(), *left);
                if *resting { "resting" } else { "held" }
            }
            Vote::Read {
                readers,
                first,
                last,
                ..
            } => {
                (remaining, read) = (*first, Some((*readers, *last)));
                "read"
            }
            Vote::WriterWaits { remaining: left } => {
                remaining = Some(*left);
                "writer_waits"
            }
            Vote::Missing => "free",
            Vote::Failed(failed) => {
                let view;
                (view, error) = failure(failed);
                view
            }
            Vote::Stale { .. } => {
                error = Some(self.vote.to_string());
                "stale"
            }
            Vote::Granted => "granted",
            Vote::Released => "released",
            Vote::NotAsked => "not_asked",
        };
        let elapsed = u64::try_from(self.elapsed.as_micros()).unwrap_or(u64::MAX);
        let mut node = serializer.serialize_struct("NodeReport", 9)?;
        node.serialize_field("node", &*self.node)?;
        node.serialize_field("view", view)?;
        node.serialize_field("token", &token)?;
        node.serialize_field("remaining_ms", &remaining.map(milliseconds))?;
        node.serialize_field("holder", &self.vote.holder())?;
        serialize_readers(&mut node, read)?;
        node.serialize_field("error", &error)?;
        node.serialize_field("elapsed_us", &elapsed)?;
        node.end()
    }
}

/// How many readers there are, and when the last of them ends.
fn serialize_readers<S: SerializeStruct>(
    fields: &mut S,
    read: Option<(u64, Duration)>,
) -> Result<(), S::Error> {
    fields.serialize_field("readers", &read.map(|(readers, _)| readers))?;
    fields.serialize_field("last_ms", &read.map(|(_, last)| milliseconds(last)))
}

/// The name of a failure, and its text if the name does not tell everything.
fn failure(error: &NodeError) -> (&'static str, Option<String>) {
    if error.is_a_lock_without_ttl() {
        return ("never_expires", Some(error.to_string()));
    }
    if let NodeError::NotALock { length, .. } = error {
        let never_expires = length.is_some();
        return (
            if never_expires {
                "never_expires"
            } else {
                "other_type"
            },
            None,
        );
    }
    if let NodeError::BreakerOpen { failure } = error {
        return ("left_out", Some(failure.to_string()));
    }
    if let NodeError::TimedOut = error {
        return ("timed_out", None);
    }
    ("failed", Some(error.to_string()))
}

fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
