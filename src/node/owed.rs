//! What a node is owed: releases that it has not answered, and undos on connections that it has not read to their end. Both are
//! repeated in the background, so that a lock that nobody has does not stay taken for the rest of its time to live.
//!
//! A release compares the value of the key, which no other attempt has. So it may be executed twice, and at any later time.

use std::collections::VecDeque;
use std::mem::take;
use std::sync::Weak;
use std::time::Duration;

use super::Node;
use super::release::has_answered;
use super::slot::closing::{Closing, Progress};
use crate::clock::Timestamp;
use crate::sync::Mutex;
use crate::wire::pack::Packed;

/// The most releases that are kept. Beyond that, the oldest is left to the time to live of its key.
const MOST_RELEASES: usize = 1024;

/// The most connections that are kept open for their undos. Beyond that, the undos of the oldest go again on another one.
const MOST_CONNECTIONS: usize = 16;

/// For how long a release is repeated.
const REPEATED_FOR: Duration = Duration::from_secs(60 * 60);

/// The pause before the first try. It doubles up to the longest one.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

#[derive(Default)]
pub(super) struct Owed {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    releases: VecDeque<Release>,
    connections: VecDeque<Connection>,
    pause: Duration,
    is_planned: bool,
}

struct Release {
    command: Packed,
    from: Timestamp,
    until: Timestamp,
}

/// A connection with undos on it.
struct Connection {
    closing: Closing,
    undos: Vec<Packed>,
    until: Timestamp,
}

impl State {
    /// The pause before the next try, if one is needed and none is planned.
    fn plan(&mut self) -> Option<Duration> {
        let surplus = self.releases.len().saturating_sub(MOST_RELEASES);
        self.releases.drain(..surplus);
        let is_empty = self.releases.is_empty() && self.connections.is_empty();
        if is_empty || self.is_planned {
            return None;
        }
        self.is_planned = true;
        let pause = self.pause.saturating_mul(2);
        self.pause = pause.clamp(FIRST_PAUSE, LONGEST_PAUSE);
        Some(self.pause)
    }
}

impl Node {
    /// Repeats a release in the background until the node has answered it, but not before `from`.
    pub(super) fn owe(&self, command: Packed, from: Timestamp) {
        let until = self.now().max(from).saturating_add(REPEATED_FOR);
        self.owe_all([Release {
            command,
            from,
            until,
        }]);
    }

    /// Keeps a connection open until the server has answered these undos, which were sent on it.
    pub(super) fn close_behind(&self, mut closing: Closing, undos: Vec<Packed>) {
        let now = self.now();
        let until = now.saturating_add(REPEATED_FOR);
        match closing.read(now) {
            Progress::Done => {}
            Progress::Broken => self.owe_all(releases(undos, now, until)),
            Progress::Waits => {
                self.owe_more(|state| {
                    state.connections.push_back(Connection {
                        closing,
                        undos,
                        until,
                    });
                    if state.connections.len() > MOST_CONNECTIONS
                        && let Some(oldest) = state.connections.pop_front()
                    {
                        let undos = releases(oldest.undos, now, oldest.until);
                        state.releases.extend(undos);
                    }
                });
            }
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
        let mut state = self.owed.state.lock();
        add(&mut state);
        let next = state.plan();
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
        let connections = still_open(connections, &mut releases, now);
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

    /// Sends the releases whose time has come, until the node does not answer. Returns those that it has not answered.
    fn unanswered(&self, releases: VecDeque<Release>, now: Timestamp) -> VecDeque<Release> {
        // While the breaker is open, its probes ask whether the node is back.
        let mut answers = self.is_closed();
        let mut left = VecDeque::new();
        for release in releases {
            let is_due = now >= release.from;
            if is_due && answers {
                answers = has_answered(self, &release.command);
                if answers {
                    continue;
                }
            }
            if now < release.until {
                left.push_back(release);
            }
        }
        left
    }
}

/// Reads what has come on the connections. Undos that a connection has not brought to the server go to the releases.
fn still_open(
    connections: VecDeque<Connection>,
    to_repeat: &mut VecDeque<Release>,
    now: Timestamp,
) -> VecDeque<Connection> {
    let mut open = VecDeque::new();
    for mut connection in connections {
        match connection.closing.read(now) {
            Progress::Done => {}
            Progress::Waits if now < connection.until => open.push_back(connection),
            Progress::Waits | Progress::Broken => {
                to_repeat.extend(releases(connection.undos, now, connection.until));
            }
        }
    }
    open
}

fn releases(
    undos: Vec<Packed>,
    from: Timestamp,
    until: Timestamp,
) -> impl Iterator<Item = Release> {
    undos.into_iter().map(move |command| Release {
        command,
        from,
        until,
    })
}

/// Puts back what was taken, before what has come meanwhile.
fn prepend<T>(queue: &mut VecDeque<T>, mut before: VecDeque<T>) {
    before.append(queue);
    *queue = before;
}

#[cfg(test)]
mod tests;
