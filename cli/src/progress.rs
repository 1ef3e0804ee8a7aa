//! The progress line for a person who waits for a lock: the holder, on how many nodes, for how much longer, and the
//! time waited. If standard error is no terminal, there is only one line, with `--verbose`.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use log::info;
use redlatch::{Error, LockManager, LockStatus, NodeError, Vote};

use crate::clock;
use crate::durations;
use crate::name::Name;
use crate::output;
use crate::wanted::Wanted;

/// How often the nodes are asked for the display.
const FRESH: Duration = Duration::from_secs(1);

pub(crate) struct Progress<'a> {
    wanted: Wanted<'a>,
    started: Instant,
    /// Only on a terminal, from the first display on.
    bar: Option<ProgressBar>,
    /// What the nodes said, and when.
    last: Option<(String, Instant)>,
}

impl<'a> Progress<'a> {
    pub(crate) fn new(wanted: Wanted<'a>, started: Instant) -> Self {
        Self {
            wanted,
            started,
            bar: None,
            last: None,
        }
    }

    /// Shows or updates the line.
    pub(crate) fn show(&mut self, manager: &LockManager) {
        if !stderr().is_terminal() {
            if self.last.is_none() && log::log_enabled!(log::Level::Info) {
                let text = self.describe(manager);
                info!("waiting: {text}");
                self.last = Some((text, clock::now()));
            }
            return;
        }
        let now = clock::now();
        let is_fresh = |since: Instant| now.saturating_duration_since(since) < FRESH;
        if !self
            .last
            .as_ref()
            .is_some_and(|(_, since)| is_fresh(*since))
        {
            self.last = Some((self.describe(manager), now));
        }
        let text = self.last.as_ref().map_or("", |(text, _)| text);
        let waited = durations::rough(now.saturating_duration_since(self.started));
        let bar = self.bar.get_or_insert_with(bar);
        bar.set_message(format!("{text}, waited {waited}"));
        bar.tick();
    }

    /// The line without the time waited.
    fn describe(&self, manager: &LockManager) -> String {
        let Some(permits) = self.wanted.permits() else {
            let (name, status) = self.wanted.status(manager);
            return describe(name, &status);
        };
        let name = self.wanted.name;
        match manager.semaphore_status(name.as_str(), permits) {
            Ok(status) => format!("{} of {permits} permits of {name} are held", status.held()),
            Err(error) => unseen(name, &error),
        }
    }

    /// Removes the line from the screen.
    pub(crate) fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

pub(crate) fn bar() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    // The text is cut to the width of the terminal. The template is sound, so the default never shows.
    match ProgressStyle::with_template("{spinner} {wide_msg}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// The line for a lock.
fn describe(name: &Name, status: &Result<LockStatus, Error>) -> String {
    let status = match status {
        Ok(status) => status,
        Err(error) => return unseen(name, error),
    };
    let nodes = status.nodes();
    let count = |kind: &dyn Fn(&Vote) -> bool| nodes.iter().filter(|node| kind(&node.vote)).count();
    let of = nodes.len();
    match status {
        LockStatus::Held {
            token,
            remaining,
            holder,
            ..
        } => {
            let has = |vote: &Vote| matches!(vote, Vote::Held { token: other, .. } if other.as_ref() == Some(token));
            let holder = match holder {
                Some(holder) => holder.to_string(),
                None => token.chars().take(8).collect(),
            };
            let remaining = durations::rough(*remaining);
            format!(
                "{name} is held by {holder} on {} of {of} nodes, for another {remaining}",
                count(&has)
            )
        }
        LockStatus::Resting {
            remaining, holder, ..
        } => {
            let holder = holder
                .as_ref()
                .map(|holder| format!(", done by {}", holder.label));
            let (holder, remaining) = (holder.unwrap_or_default(), durations::rough(*remaining));
            format!("{name} rests{holder}, free in {remaining}")
        }
        LockStatus::Read { readers, last, .. } => {
            let last = durations::rough(*last);
            format!("{name} is read by {readers}, for another {last} at most")
        }
        LockStatus::Free { .. } => {
            let free = count(&|vote| matches!(vote, Vote::Missing));
            format!("{name} is free on {free} of {of} nodes")
        }
        LockStatus::Blocked { .. } => {
            let keys = count(&is_taken);
            format!("{name} is nobody's, and keys of it are on {keys} of {of} nodes")
        }
        LockStatus::Unknown { .. } => {
            let answers = count(&|vote| matches!(vote, Vote::Missing) || is_taken(vote));
            format!("too few nodes say who holds {name}: {answers} of {of}")
        }
    }
}

fn unseen(name: &Name, error: &Error) -> String {
    output::presentable(&format!("{name} can't be looked at: {error}"))
}

fn is_taken(vote: &Vote) -> bool {
    matches!(
        vote,
        Vote::Held { .. } | Vote::Read { .. } | Vote::Failed(NodeError::NotALock { .. })
    )
}

#[cfg(test)]
mod tests {
    use redlatch::fake::FakeNode;

    use super::*;

    #[track_caller]
    fn shown(prepare: impl FnOnce(&[FakeNode])) -> String {
        let nodes = FakeNode::cluster(5);
        prepare(&nodes);
        let manager = LockManager::builder().fakes(&nodes).build().unwrap();
        describe(&Name::parse("job").unwrap(), &manager.status("job"))
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
            "job is held by 01234567 on 3 of 5 nodes, for another 19 s"
        );
        let line = shown(|nodes| {
            let value = format!("{token} web-3 4711 nightly since=2026-11-22T05:52:53Z");
            for node in nodes {
                node.hold("job", &value, Duration::from_secs(20));
            }
        });
        assert_eq!(
            line,
            "job is held by web-3 4711 nightly since 2026-11-22 05:52:53 UTC on 5 of 5 nodes, for another 19 s"
        );
        assert_eq!(shown(|_| ()), "job is free on 5 of 5 nodes");
        let line = shown(|nodes| {
            nodes[..3].iter().for_each(FakeNode::refuse);
            hold(&nodes[3..]);
        });
        assert_eq!(line, "too few nodes say who holds job: 2 of 5");
        let line = shown(|nodes| {
            for (node, token) in nodes.iter().zip(["a", "b", "c", "d", "e"]) {
                node.hold("job", token, Duration::from_secs(20));
            }
        });
        assert_eq!(line, "job is nobody's, and keys of it are on 5 of 5 nodes");
    }
}
