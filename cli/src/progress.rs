//! What a person is told who waits for a lock: on a terminal a line that is written over, elsewhere one line after a second.

use std::time::{Duration, Instant};

use log::info;
use redlatch::LockManager;

use crate::clock;
use crate::durations;
use crate::failure::{by_cause, told};
use crate::output;
use crate::request::Request;
use crate::state::{self, State};
use crate::wanted::Wanted;

/// How often the nodes are asked for the display, and when a wait is worth a word.
const FRESH: Duration = Duration::from_secs(1);

pub(crate) struct Progress<'a> {
    wanted: Wanted<'a>,
    started: Instant,
    /// The longest wait.
    wait: Duration,
    /// Whether a line is written over, in place of a message.
    is_live: bool,
    /// What the nodes said, and when.
    last: Option<(String, Instant)>,
}

impl<'a> Progress<'a> {
    pub(crate) fn new(request: &Request<'a>, started: Instant) -> Self {
        Self {
            wanted: request.wanted,
            started,
            wait: request.wait.unwrap_or_default(),
            is_live: output::is_watched(),
            last: None,
        }
    }

    /// Shows or updates the line.
    pub(crate) fn show(&mut self, manager: &LockManager) {
        let now = clock::now();
        let waited = now.saturating_duration_since(self.started);
        let is_due = waited >= FRESH || log::log_enabled!(log::Level::Info);
        if !self.is_live && (self.last.is_some() || !is_due) {
            return;
        }
        let is_fresh = |since: &Instant| now.saturating_duration_since(*since) < FRESH;
        if !self.last.as_ref().is_some_and(|(_, since)| is_fresh(since)) {
            self.last = Some((describe(&self.wanted, manager), now));
        }
        let text = self.last.as_ref().map_or("", |(text, _)| text);
        let wait = durations::rough(self.wait);
        if self.is_live {
            let waited = durations::rough(waited);
            output::show_line(&format!("waited {waited} of {wait}: {text}"));
        } else {
            output::tell_times();
            output::complain(&format!("waiting: {text}; for up to {wait}"));
        }
    }

    /// Tells that the lock is there.
    pub(crate) fn got(&self) {
        let waited = durations::rough(clock::now().saturating_duration_since(self.started));
        let (lock, purpose) = (self.wanted, self.wanted.purpose());
        let message = format!("got the lock {lock}{purpose} after {waited}");
        if self.last.is_some() {
            output::complain(&message);
        } else {
            info!("{message}");
        }
    }
}

/// Who has what is wanted.
fn describe(wanted: &Wanted<'_>, manager: &LockManager) -> String {
    let name = wanted.name;
    if let Some(permits) = wanted.permits() {
        return match manager.semaphore_status(name.as_str(), permits) {
            Ok(status) => {
                let held = state::held(&status);
                format!("{held} of {permits} permits of {name} are held")
            }
            Err(error) => format!("{name} can't be looked at: {error}"),
        };
    }
    match wanted.status(manager) {
        (name, Ok(status)) => {
            let state = State::of(&status);
            let silent = status
                .nodes()
                .iter()
                .filter(|report| state::failure(report).is_some());
            let silent = if state.word == "unknown" {
                by_cause(silent)
            } else {
                String::new()
            };
            let silent = if silent.is_empty() {
                silent
            } else {
                format!(" ({silent})")
            };
            format!("{name} {}{silent}", state.sentence())
        }
        (name, Err(error)) => format!("{name} can't be looked at: {}", told(&error)),
    }
}

#[cfg(test)]
mod tests {
    use redlatch::fake::FakeNode;

    use super::*;
    use crate::name::Name;

    #[track_caller]
    fn shown(prepare: impl FnOnce(&[FakeNode])) -> String {
        let nodes = FakeNode::cluster(5);
        prepare(&nodes);
        let manager = LockManager::builder().fakes(&nodes).build().unwrap();
        describe(&Wanted::one(&Name::parse("job").unwrap(), None), &manager)
    }

    #[test]
    fn the_line_tells_who_has_the_lock_on_how_many_nodes_and_for_how_long() {
        let token = "0123456789abcdef0123456789abcdef01234567";
        let hold = |nodes: &[FakeNode]| {
            for node in nodes {
                node.hold("job", token, Duration::from_secs(20));
            }
        };
        let line = shown(|nodes| hold(&nodes[..3]));
        assert_eq!(
            line,
            "job is held for another 19 s by 01234567…, on 3 of 5 nodes"
        );
        let line = shown(|nodes| {
            let value = format!("{token} web-3 4711 nightly since=2026-11-22T05:52:53Z");
            for node in nodes {
                node.hold("job", &value, Duration::from_secs(20));
            }
        });
        let begin =
            "job is held for another 19 s by web-3 4711 nightly since 2026-11-22 05:52:53 UTC";
        assert!(
            line.starts_with(begin) && line.ends_with(", on 5 of 5 nodes"),
            "{line}"
        );
        assert_eq!(shown(|_| ()), "job is free on 5 of 5 nodes");
        let line = shown(|nodes| {
            nodes[..3].iter().for_each(FakeNode::refuse);
            hold(&nodes[3..]);
        });
        assert!(
            line.starts_with("job is not known: too few nodes answer, 2 of 5 ("),
            "{line}"
        );
        let line = shown(|nodes| {
            for (node, token) in nodes.iter().zip(["a", "b", "c", "d", "e"]) {
                node.hold("job", token, Duration::from_secs(20));
            }
        });
        assert_eq!(line, "job is nobody's, and keys of it are on 5 of 5 nodes");
    }
}
