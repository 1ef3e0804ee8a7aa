//! Which process is at the other end of a connection.
//!
//! A process of Redis, Valkey or `KeyDB` has a `run_id`, 40 random characters, for as long as it lives. Dragonfly has
//! none, but a `master_replid` that is as good.

use std::sync::Arc;

use redis::{FromRedisValue, Value};

use super::command::{Packed, info};
use super::refusal;
use crate::error::NodeError;

/// Where it is: a section of `INFO`, and a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    RunId,
    MasterReplid,
}

/// Longer than any that is known.
const LONGEST: usize = 64;

impl Place {
    pub(super) fn question(self) -> Packed {
        info(match self {
            Self::RunId => "server",
            Self::MasterReplid => "replication",
        })
    }

    /// Where to look when it is not here.
    pub(super) fn next(self) -> Option<Self> {
        match self {
            Self::RunId => Some(Self::MasterReplid),
            Self::MasterReplid => None,
        }
    }

    /// Finds it in the answer; none if the answer is a good one and has none.
    pub(super) fn find(self, reply: &Value) -> Result<Option<Arc<str>>, NodeError> {
        if let Value::ServerError(error) = reply {
            let is_forbidden = error.code() == "NOPERM"
                || error
                    .details()
                    .is_some_and(|text| text.starts_with("unknown command"));
            let refusal = refusal(error);
            return Err(if is_forbidden {
                let reason = refusal.to_string();
                NodeError::Unidentified { reason }
            } else {
                refusal
            });
        }
        let text = String::from_redis_value_ref(reply).map_err(|_| NodeError::Protocol {
            got: "no reply to INFO".into(),
        })?;
        let field = match self {
            Self::RunId => "run_id:",
            Self::MasterReplid => "master_replid:",
        };
        Ok(value(&text, field).map(Arc::from))
    }
}

/// The value of a field that is as such values are. It becomes a part of a marker, so nothing else may be in it.
fn value<'a>(text: &'a str, field: &str) -> Option<&'a str> {
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(field))?.trim();
    let is_good = (1..=LONGEST).contains(&value.len())
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_good.then_some(value)
}

pub(super) fn nowhere() -> NodeError {
    let reason = "INFO has neither a run_id nor a master_replid".into();
    NodeError::Unidentified { reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_letters_and_digits_are_a_run_id() {
        let id = "0123456789abcdef0123456789abcdef01234567";
        let find = |text: &str| {
            let reply = Value::BulkString(text.into());
            Place::RunId.find(&reply).unwrap()
        };
        let text = format!("# Server\r\nredis_version:7\r\nrun_id:{id}\r\n");
        assert_eq!(find(&text).as_deref(), Some(id));
        for bad in [
            "",
            "run_id:",
            "run_id:a|b",
            "run_id:a b",
            "xrun_id:abc",
            "run_id:\u{e9}",
        ] {
            assert_eq!(find(bad), None, "{bad:?}");
        }
        assert_eq!(find(&format!("run_id:{}", "a".repeat(65))), None);
    }
}
