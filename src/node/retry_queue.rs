//! Releases that a node has not answered, and undos that it may not have executed. They go again in the background, so that a lock that
//! nobody has does not stay taken for the rest of its time to live.
//!
//! A release compares the value of the key, which no other attempt has. So it may be executed twice, and at any later time. Releases
//! of values that may be those of other programs are not among them.

use std::collections::VecDeque;
use std::mem::take;
use std::time::Duration;

use super::command::MOST_BYTES;
use super::key_report::KeyReports;
use super::request::{Verb, room_of};
use super::undo::{Behind, Undo};
use crate::clock::Timestamp;
use crate::wire::pack::Packed;

mod background;

/// The most bytes of releases that are kept, where each has a KiB at least. Beyond that, the one whose key ends first is left to the
/// time to live of the key.
const MOST_KEPT: usize = 8 * 1024 * 1024;
const LEAST_OF_ONE: usize = 1024;

/// The most connections that are kept open for their undos. Beyond that, the undos of the oldest go again on another one.
const MOST_CONNECTIONS: usize = 16;

/// For how long an undo is repeated whose connection has ended. How long its key lives is not known here.
const UNDONE_FOR: Duration = Duration::from_secs(60);

/// What is to be done for a node in the background.
#[derive(Default)]
pub(super) struct RetryQueue {
    releases: Vec<Release>,
    /// The releases of the write that is under way. They are in the queue until the node has answered.
    under_way: Vec<Release>,
    /// How many bytes all releases keep. A command that goes to several nodes counts at each of them.
    kept: usize,
    /// How many bytes go in one write. A slow link or server gets less.
    room: usize,
    /// Undos that were written, the oldest first.
    undone: VecDeque<Behind>,
    /// Whether the replies to undos are read right now, without the mutex.
    is_reading: bool,
    /// The last pause; zero after an answer.
    pause: Duration,
    next: Next,
}

/// The next try.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Next {
    #[default]
    Unplanned,
    /// A try that was planned for a later time does nothing.
    At(Timestamp),
    UnderWay,
}

struct Release {
    command: Packed,
    from: Timestamp,
    until: Timestamp,
}

impl Release {
    fn room(&self) -> usize {
        room_of(&self.command, &Verb::Drop)
    }

    fn kept(&self) -> usize {
        self.command.bytes.len().max(LEAST_OF_ONE)
    }
}

impl RetryQueue {
    pub(super) fn new() -> Self {
        Self {
            room: MOST_BYTES,
            ..Self::default()
        }
    }

    fn add(&mut self, command: Packed, from: Timestamp, until: Timestamp) {
        let release = Release {
            command,
            from,
            until,
        };
        self.kept = self.kept.saturating_add(release.kept());
        self.releases.push(release);
    }

    /// Repeats undos as releases. Their receipts are never answered.
    fn repeat(&mut self, undos: Vec<Undo>, from: Timestamp) {
        for undo in undos {
            let until = from.saturating_add(UNDONE_FOR);
            self.add(undo.command.to_repeat(), from, until);
        }
    }

    /// Gives up the releases whose keys have ended by then.
    fn give_up(&mut self, until: Timestamp) {
        let ended = |release: &mut Release| release.until <= until;
        for release in self.releases.extract_if(.., ended) {
            self.kept = self.kept.saturating_sub(release.kept());
        }
    }

    /// Takes the oldest releases whose time has come for one write. Returns their commands.
    fn begin_write(&mut self, now: Timestamp) -> Vec<Packed> {
        let mut bytes = 0_usize;
        let is_taken = |release: &mut Release| {
            let after = bytes.saturating_add(release.room());
            // At least one release goes, whatever the room.
            let is_taken = release.from <= now && (bytes == 0 || after <= self.room);
            bytes = if is_taken { after } else { bytes };
            is_taken
        };
        self.under_way = self.releases.extract_if(.., is_taken).collect();
        let commands = self.under_way.iter();
        commands.map(|release| release.command.clone()).collect()
    }

    /// Ends the write. Keeps the releases that the node has not answered, behind all others, so that they delay no other release.
    /// Returns how many were answered.
    fn end_write(&mut self, reports: &[KeyReports]) -> usize {
        let (mut bytes, mut count, mut is_late) = (0_usize, 0_usize, false);
        for (release, reports) in take(&mut self.under_way).into_iter().zip(reports) {
            let report = reports.first();
            bytes = bytes.saturating_add(release.room());
            is_late |= report.is_some_and(|report| !report.has_replied);
            if report.is_some_and(|report| !report.is_silent()) {
                count = count.saturating_add(1);
                self.kept = self.kept.saturating_sub(release.kept());
            } else {
                self.releases.push(release);
            }
        }
        // Allow half as many bytes after a write that was not answered in time.
        self.room = if is_late {
            bytes / 2
        } else {
            self.room.max(1).saturating_mul(2).min(MOST_BYTES)
        };
        count
    }

    fn is_empty(&self) -> bool {
        !self.is_reading && self.commands().next().is_none()
    }

    /// The commands that have no answer.
    fn commands(&self) -> impl Iterator<Item = &Packed> {
        let releases = self.under_way.iter().chain(&self.releases);
        let undos = self.undone.iter().flat_map(|behind| &behind.undos);
        let undos = undos.map(|undo| &undo.command);
        undos.chain(releases.map(|release| &release.command))
    }

    /// Leaves the releases whose keys end first to the time to live of the keys, while there are too many.
    fn keep_bounds(&mut self, now: Timestamp) {
        while self.undone.len() > MOST_CONNECTIONS
            && let Some(oldest) = self.undone.pop_front()
        {
            self.repeat(oldest.undos, now);
        }
        while self.kept > MOST_KEPT {
            let releases = self.releases.iter().enumerate();
            let Some((first, _)) = releases.min_by_key(|(_, release)| release.until) else {
                break;
            };
            let release = self.releases.remove(first);
            self.kept = self.kept.saturating_sub(release.kept());
        }
    }
}

#[cfg(test)]
mod tests;
