//! What a node is owed: releases that it has not answered, and undos on connections that it has not read to their end. Both are
//! repeated in the background, so that a lock that nobody has does not stay taken for the rest of its time to live.
//!
//! A release compares the value of the key, which no other attempt has. So it may be executed twice, and at any later time. Releases
//! of values that may be those of other programs are not among them.

use std::collections::VecDeque;
use std::mem::take;
use std::sync::Weak;
use std::time::Duration;

use super::Node;
use super::release::repeat;
use super::slot::closing::{Closing, Progress};
use crate::clock::Timestamp;
use crate::sync::Mutex;
use crate::wire::pack::Packed;

/// The most releases that are kept. Beyond that, the one whose key ends first is left to the time to live of the key.
const MOST_RELEASES: usize = 1024;

/// The most connections that are kept open for their undos. Beyond that, the undos of the oldest go again on another one.
const MOST_CONNECTIONS: usize = 16;

/// For how long a release is repeated at most.
const REPEATED_FOR: Duration = Duration::from_secs(60 * 60);

/// For how long an undo is repeated whose connection has ended.
const UNDONE_FOR: Duration = Duration::from_secs(60);

/// A connection that is silent for this long, at a node that answers otherwise, may be forgotten on the way.
const SILENT_FOR: Duration = Duration::from_secs(1);

/// How long one try of all releases may take. The thread also asks whether other nodes are back.
const LONGEST_TRY: Duration = Duration::from_millis(50);

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
    since: Timestamp,
}

impl State {
    /// The pause before the next try, if one is needed and none is planned.
    fn plan(&mut self, now: Timestamp) -> Option<Duration> {
        while self.connections.len() > MOST_CONNECTIONS {
            let oldest = self.connections.pop_front();
            let undos = oldest.map(|oldest| releases(oldest.undos, now));
            self.releases.extend(undos.into_iter().flatten());
        }
        while self.releases.len() > MOST_RELEASES {
            let places = self.releases.iter().enumerate();
            let first = places.min_by_key(|(_, release)| release.until);
            let Some((place, _)) = first else { break };
            self.releases.remove(place);
        }
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
    /// Repeats a release in the background until the node has answered it, but not before `from`, and not beyond the life of the
    /// key.
    pub(super) fn owe(&self, command: Packed, from: Timestamp, life: Duration) {
        let span = life.saturating_add(self.timeout).min(REPEATED_FOR);
        let until = self.now().max(from).saturating_add(span);
        self.owe_all([Release {
            command,
            from,
            until,
        }]);
    }

    /// Keeps a connection open until the server has answered these undos, which were sent on it.
    pub(super) fn close_behind(&self, mut closing: Closing, undos: Vec<Packed>) {
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

/// How long the keys live is not known here.
fn releases(undos: Vec<Packed>, from: Timestamp) -> impl Iterator<Item = Release> {
    let until = from.saturating_add(UNDONE_FOR);
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
