//! The marker of a node: the key `<key_prefix>redlatch:node`, which clients of the fenced protocol write.

use super::info::printable;

/// What is under the key.
#[derive(Clone)]
pub(super) enum Marker {
    Absent,
    /// Something else than a text is as unreadable as an empty one.
    Text(String),
}

/// What the marker says to clients that fence, as far as it is known.
#[derive(Default)]
pub(super) struct MarkerState {
    pub(super) quarantine: Option<&'static str>,
    pub(super) remaining_ms: Option<u64>,
    /// Those of the clients that wrote the marker; only where it is of this process.
    pub(super) settings: Option<String>,
}

impl Marker {
    /// What it says about the process with this `run_id`, at `now_us` by the node's wall clock.
    pub(super) fn state(&self, run_id: Option<&str>, now_us: Option<u64>) -> MarkerState {
        let only = |quarantine| MarkerState {
            quarantine: Some(quarantine),
            ..MarkerState::default()
        };
        let Self::Text(text) = self else {
            // No client that fences has used the node, or it has lost its data: quarantine begins with the next lock.
            return only("no_marker");
        };
        let Some((of_process, settings, open_us)) = parse(text) else {
            // The node does not vote until the key is deleted.
            return only("unreadable");
        };
        match run_id {
            None => return MarkerState::default(),
            // Of an earlier process, or copied from another server: quarantine begins with the next lock.
            Some(run_id) if run_id != of_process => return only("other_process"),
            Some(_) => {}
        }
        let left_us = now_us.map(|now_us| open_us.saturating_sub(now_us));
        let quarantine = |left_us| if left_us == 0 { "open" } else { "quarantined" };
        MarkerState {
            quarantine: left_us.map(quarantine),
            remaining_ms: left_us.filter(|us| *us > 0).map(|us| us.div_ceil(1_000)),
            settings: Some(printable(settings)),
        }
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
