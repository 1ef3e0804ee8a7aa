//! The marker of a node: the key `<key_prefix>redlatch:node`, which clients of the fenced protocol write.

use super::facts::{Fact, Told};
use super::info::printable;

/// What is under the key.
#[derive(Debug)]
pub(super) enum Marker {
    Absent,
    /// Something else than a text.
    Unreadable,
    Text(String),
}

/// What the marker says to clients that fence, about the process with this `run_id`, at `node_us` by the node's wall clock.
/// The settings are those of the clients that wrote it, and unknown unless it is of this process.
pub(super) fn facts(
    marker: Option<&Marker>,
    run_id: Option<&str>,
    node_us: Option<u64>,
) -> [Told; 3] {
    let told = |state: Option<&str>, remaining_ms: Option<u64>, settings: Option<&str>| {
        [
            ("quarantine", state.map(Fact::text)),
            ("quarantine_remaining_ms", remaining_ms.map(Fact::number)),
            ("settings", settings.map(|text| Fact::text(printable(text)))),
        ]
    };
    let text = match marker {
        None => return told(None, None, None),
        // No client that fences has used the node, or it has lost its data: quarantine begins with the next lock.
        Some(Marker::Absent) => return told(Some("no_marker"), None, None),
        Some(Marker::Unreadable) => "",
        Some(Marker::Text(text)) => text,
    };
    let Some((of_process, settings, open_us)) = parse(text) else {
        // The node does not vote until the key is deleted.
        return told(Some("unreadable"), None, None);
    };
    match (run_id, node_us.map(|now_us| open_us.saturating_sub(now_us))) {
        (None, _) => told(None, None, None),
        // Of an earlier process, or copied from another server: quarantine begins with the next lock.
        (Some(run_id), _) if run_id != of_process => told(Some("other_process"), None, None),
        (Some(_), None) => told(None, None, Some(settings)),
        (Some(_), Some(0)) => told(Some("open"), None, Some(settings)),
        (Some(_), Some(left_us)) => told(
            Some("quarantined"),
            Some(left_us.div_ceil(1_000)),
            Some(settings),
        ),
    }
}

/// Parses `run_id|settings|open_at_us|how`. Newer clients may have further values of `how`.
fn parse(text: &str) -> Option<(&str, &str, u64)> {
    let mut parts = text.split('|');
    let (run_id, settings, open_at) = (parts.next()?, parts.next()?, parts.next()?);
    let how = parts.next()?;
    let is_whole = parts.next().is_none() && !how.is_empty() && !run_id.is_empty();
    let has_digits = open_at.bytes().all(|byte| byte.is_ascii_digit());
    let open_us = open_at.parse().ok()?;
    (is_whole && has_digits).then_some((run_id, settings, open_us))
}
