//! Sends what a node is owed, in the background.

use std::collections::VecDeque;
use std::mem::take;
use std::sync::Weak;
use std::time::Duration;

use super::{Connection, LONGEST_TRY, REPEATED_FOR, Release, SILENT_FOR, State, releases};
use crate::clock::Timestamp;
use crate::node::Node;
use crate::node::release::repeat;
use crate::node::slot::closing::{Closing, Progress};
use crate::wire::pack::Packed;

impl Node {
    /// Repeats a release in the background until the node has answered it, but not before `from`, and not beyond the life of the
    /// key.
    pub(in super::super) fn owe(&self, command: Packed, from: Timestamp, life: Duration) {
        let span = life.saturating_add(self.timeout).min(REPEATED_FOR);
        let until = self.now().max(from).saturating_add(span);
        self.owe_all([Release {
            command,
            from,
            until,
        }]);
    }

    /// Keeps a connection open until the server has answered these undos, which were sent on it.
    pub(in super::super) fn close_behind(&self, mut closing: Closing, undos: Vec<Packed>) {
        let now = self.now();
        match closing.read(now) {
            Progress::Done => {}
            Progress::Broken => self.owe_all(releases(undos, now)),
            Progress::Waits => self.owe_more(|state| {
                state.connections.push_back(Connection {
                    closing,
                    undos,
                    since: now,
                });
            }),
        }
    }

    /// Forgets what is owed.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn owes_nothing_more(&self) {
        let mut state = self.owed.state.lock();
        state.releases.clear();
        state.connections.clear();
    }

    fn owe_all(&self, releases: impl IntoIterator<Item = Release>) {
        self.owe_more(|state| state.releases.extend(releases));
    }

    fn owe_more(&self, add: impl FnOnce(&mut State)) {
        let now = self.now();
        let mut state = self.owed.state.lock();
        add(&mut state);
        let next = state.plan(now);
        drop(state);
        let Some(pause) = next else {
            return;
        };
        let me = Weak::clone(&self.me);
        self.timers.after(pause, move || {
            if let Some(node) = me.upgrade() {
                node.pay();
            }
        });
    }

    /// One try of all that is owed.
    fn pay(&self) {
        let now = self.now();
        let (connections, mut releases) = {
            let mut state = self.owed.state.lock();
            (take(&mut state.connections), take(&mut state.releases))
        };
        let owed = (connections.len(), releases.len());
        let patience = if self.is_closed() {
            SILENT_FOR
        } else {
            REPEATED_FOR
        };
        let began_by = now.saturating_sub(patience);
        let connections = still_open(connections, &mut releases, (began_by, now));
        let releases = self.unanswered(releases, now);
        self.owe_more(|state| {
            state.is_planned = false;
            if (connections.len(), releases.len()) != owed {
                state.pause = Duration::ZERO;
            }
            prepend(&mut state.connections, connections);
            prepend(&mut state.releases, releases);
        });
    }

    /// Sends the releases whose time has come, until the node does not answer. Returns those that it has not answered; last those
    /// that it has refused, so that they are in nobody's way.
    fn unanswered(&self, releases: VecDeque<Release>, now: Timestamp) -> VecDeque<Release> {
        // While the breaker is open, its probes ask whether the node is back.
        let mut answers = self.is_closed();
        let end = now.saturating_add(LONGEST_TRY);
        let (mut left, mut refused) = (VecDeque::new(), VecDeque::new());
        for release in releases {
            if now >= release.until {
                continue;
            }
            if now < release.from || !answers || self.now() > end {
                left.push_back(release);
                continue;
            }
            match repeat(self, &release.command) {
                Some(true) => {}
                Some(false) => refused.push_back(release),
                None => {
                    answers = false;
                    left.push_back(release);
                }
            }
        }
        left.append(&mut refused);
        left
    }
}

/// Reads what has come on the connections. Undos that a connection has not brought to the server go to the releases.
fn still_open(
    connections: VecDeque<Connection>,
    to_repeat: &mut VecDeque<Release>,
    (began_by, now): (Timestamp, Timestamp),
) -> VecDeque<Connection> {
    let mut open = VecDeque::new();
    for mut connection in connections {
        match connection.closing.read(now) {
            Progress::Done => {}
            Progress::Waits if connection.since > began_by => open.push_back(connection),
            Progress::Waits | Progress::Broken => {
                to_repeat.extend(releases(connection.undos, now));
            }
        }
    }
    open
}

/// Puts back what was taken, before what has come meanwhile.
fn prepend<T>(queue: &mut VecDeque<T>, mut before: VecDeque<T>) {
    before.append(queue);
    *queue = before;
}
