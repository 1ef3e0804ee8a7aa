//! What a node is owed: releases that it has not answered, and undos on connections that it has not read to their end. Both are
//! repeated in the background, so that a lock that nobody has does not stay taken for the rest of its time to live.
//!
//! A release compares the value of the key, which no other attempt has. So it may be executed twice, and at any later time. Releases
//! of values that may be those of other programs are not among them.

use std::collections::VecDeque;
use std::time::Duration;

use super::slot::closing::Closing;
use crate::clock::Timestamp;
use crate::sync::Mutex;
use crate::wire::pack::Packed;

mod paying;

/// The most releases that are kept. Beyond that, the one whose key ends first is left to the time to live of the key.
const MOST_RELEASES: usize = 8192;

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

/// How long the keys live is not known here.
fn releases(undos: Vec<Packed>, from: Timestamp) -> impl Iterator<Item = Release> {
    let until = from.saturating_add(UNDONE_FOR);
    undos.into_iter().map(move |command| Release {
        command,
        from,
        until,
    })
}

#[cfg(test)]
mod tests;
