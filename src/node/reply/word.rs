//! What a node of the fenced protocol says about itself: a word, and what follows it.

use std::time::Duration;

use super::rows::bytes;
use crate::claim::Resource;
use crate::error::{NodeError, Vote};
use crate::fencing::Rules;
use crate::wire::resp::Reply;
use crate::wire::transport::clean;

/// What a word means for a client with these rules and this wall clock. It is about a lock on `resource`.
pub(super) fn word(
    items: &[Reply],
    rules: &Rules,
    resource: Option<&Resource>,
    wall_micros: u64,
) -> Option<Vote> {
    let skew = |node_micros: u64| NodeError::ClockSkew {
        difference: Duration::from_micros(node_micros.abs_diff(wall_micros)),
        node_is_ahead: node_micros > wall_micros,
        allowed: rules.skew,
    };
    // The largest counter above which nodes with the same wall clock still grant a token.
    let span = u64::try_from(rules.quarantine.as_micros()).unwrap_or(u64::MAX);
    let latest = wall_micros.saturating_add(span);
    let (word, rest) = items.split_first()?;
    let error = match (bytes(word)?, rest) {
        (b"STALE", [counter]) => {
            let counter = number(counter)?;
            if counter <= latest {
                return Some(Vote::Stale { counter });
            }
            // A proposal above this counter would be refused by every other node.
            skew(counter)
        }
        (b"SKEW", [node_micros]) => skew(number(node_micros)?),
        (b"MARKER", []) => NodeError::InvalidKey {
            key: rules.marker.clone(),
            reason: "it is not a marker of the fenced protocol",
        },
        (b"COUNTER", [place]) => {
            let place = usize::try_from(number(place)?).ok()?.checked_sub(1)?;
            NodeError::InvalidKey {
                key: Rules::fence(resource?.keys().nth(place)?),
                reason: "it is not a counter of fencing tokens",
            }
        }
        (b"CONFIG", [theirs]) => NodeError::ConfigMismatch {
            ours: rules.config.clone(),
            theirs: text(theirs)?,
        },
        (b"CLOSED", [left, why]) => NodeError::Quarantined {
            remaining: Duration::from_micros(number(left)?),
            has_marker: bytes(why)? != b"new",
        },
        (b"FUTURE", [ahead]) => {
            let ahead = Duration::from_micros(number(ahead)?);
            NodeError::FutureCounter { ahead }
        }
        (b"SERVING", []) => NodeError::Serving,
        (b"UNKNOWN", [why]) => unidentified(&text(why)?),
        _ => return None,
    };
    Some(Vote::Failed(error))
}

/// The server does not say which process it is.
fn unidentified(why: &str) -> NodeError {
    if why == "CLUSTER" {
        return NodeError::InCluster;
    }
    let (code, message) = why.split_once(' ').unwrap_or((why, ""));
    let (code, message) = (code.to_owned(), message.to_owned());
    let reason = NodeError::Refused { code, message }.to_string();
    NodeError::Unidentified { reason }
}

fn text(value: &Reply) -> Option<String> {
    Some(clean(&String::from_utf8_lossy(bytes(value)?)))
}

fn number(value: &Reply) -> Option<u64> {
    let Reply::Int(number) = value else {
        return None;
    };
    u64::try_from(*number).ok()
}
