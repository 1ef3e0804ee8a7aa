//! The marker of a node: the key `<key_prefix>redlatch:node`, which clients of the fenced protocol write. The script
//! `wire/scripts/marker.lua` reads the same text on the server, for the votes of the node.

use super::info::printable;
use crate::wire::resp::Reply;

/// Replaces a value that is no text, or that is longer than a reply may be.
pub(super) const UNREADABLE: Reply = Reply::Bulk(Vec::new());

/// What a marker says to clients that fence: the state of the node, for how many milliseconds it is in quarantine, and the settings
/// of the clients that wrote the marker, if it is of this process.
type State = (Option<&'static str>, Option<u64>, Option<String>);

/// What the value of the key says about the process with this `run_id`, at `now_us` by the node's wall clock.
pub(super) fn state(marker: &Reply, run_id: Option<&str>, now_us: Option<u64>) -> State {
    let only = |state| (Some(state), None, None);
    let Reply::Bulk(text) = marker else {
        // No client that fences has used the node, or it has lost its data: quarantine begins with the next lock.
        return only("no_marker");
    };
    let text = String::from_utf8_lossy(text);
    let Some((of_process, settings, open_us)) = parse(&text) else {
        // The node does not vote until the key is deleted.
        return only("unreadable");
    };
    let settings = Some(printable(settings));
    let left_us = now_us.map(|now_us| open_us.saturating_sub(now_us));
    match (run_id, left_us) {
        (None, _) => (None, None, None),
        // The marker of an earlier process, or a copy from another server: quarantine begins with the next lock.
        (Some(run_id), _) if run_id != of_process => only("other_process"),
        (_, None) => (None, None, settings),
        (_, Some(0)) => (Some("open"), None, settings),
        (_, Some(us)) => (Some("quarantined"), Some(us.div_ceil(1_000)), settings),
    }
}

/// Parses `run_id|settings|open_at_us|how`. Newer clients may have further values of `how`.
fn parse(text: &str) -> Option<(&str, &str, u64)> {
    let parts: Vec<&str> = text.split('|').collect();
    let [run_id, settings, open_at, how] = parts[..] else {
        return None;
    };
    let has_digits = open_at.bytes().all(|byte| byte.is_ascii_digit());
    let is_whole = has_digits && !how.is_empty() && !run_id.is_empty();
    Some((run_id, settings, open_at.parse().ok()?)).filter(|_| is_whole)
}
