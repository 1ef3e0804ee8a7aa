//! What a node is owed: releases that it has not answered, and undos on connections that it has not read to their end. Both are
//! repeated in the background, so that a lock that nobody has does not stay taken for the rest of its time to live.
//!
//! A release compares the value of the key, which no other attempt has. So it may be executed twice, and at any later time. Releases
//! of values that may be those of other programs are not among them.

use std::collections::VecDeque;
use std::mem::take;
use std::time::Duration;

use super::command::MOST_BYTES;
use super::connection::{OpenConnection, Wait};
use super::key_report::KeyReports;
use super::receipt::Undo;
use super::request::{Verb, room_of};
use crate::clock::Timestamp;
use crate::wire::pack::Packed;
use crate::wire::resp::Reply;

mod paying;

/// The most releases that are kept, and the most bytes of their commands. Beyond that, the one whose key ends first is left to the
/// time to live of the key.
const MOST_RELEASES: usize = 8192;
const MOST_KEPT_BYTES: usize = 8 * 1024 * 1024;

/// The most connections that are kept open for their undos. Beyond that, the undos of the oldest go again on another one.
const MOST_CONNECTIONS: usize = 16;

/// For how long a release is repeated at most.
const REPEATED_FOR: Duration = Duration::from_secs(60 * 60);

/// For how long an undo is repeated whose connection has ended.
const UNDONE_FOR: Duration = Duration::from_secs(60);

/// A connection that is silent for this long, at a node that answers otherwise, may be forgotten on the way.
const SILENT_FOR: Duration = Duration::from_secs(1);

/// How long one try may take. Connections with undos on them are read in between.
const LONGEST_TRY: Duration = Duration::from_millis(50);

/// The pause before the first try. It doubles up to the longest one.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

pub(super) struct Owed {
    releases: VecDeque<Release>,
    /// The releases of the write that is under way. The node is owed these releases until it has answered.
    under_way: Vec<Release>,
    /// The bytes of all these commands. Other nodes may share them.
    bytes: usize,
    /// How many bytes go in one write. A slow link or server gets less.
    room: usize,
    closing: VecDeque<Closing>,
    /// Whether the replies on connections with undos are read right now, without the mutex.
    is_reading: bool,
    pause: Duration,
    /// Whether a try is planned or under way: the node is owed something.
    is_planned: bool,
}

struct Release {
    command: Packed,
    from: Timestamp,
    until: Timestamp,
}

/// A connection with undos on it, on which nothing is asked any more.
///
/// A server reads 16 KiB of a connection at a time. If it finds the connection closed when it answers them, it drops the rest.
/// So a connection with an undo on it stays open until all that was sent is answered.
struct Closing {
    connection: Box<OpenConnection>,
    undos: Vec<Undo>,
    since: Timestamp,
    /// Whether a reply was an error. Not all may have been executed.
    has_refused: bool,
}

impl Closing {
    /// How many requests have no answer, beside the undos.
    fn asked(&self) -> usize {
        self.connection.awaited().saturating_sub(self.undos.len())
    }

    /// Reads the replies that are there, without waiting. Returns the undos if they have to go again: no more replies will come,
    /// one was an error, or none has come for `patience`. Returns the connection if replies are still to come.
    fn read(mut self, now: Timestamp, patience: Duration) -> Result<Option<Self>, Vec<Undo>> {
        let is_patient = now.saturating_since(self.since) < patience;
        while self.connection.is_awaited() {
            match self.connection.recv(Wait::Until(now), now) {
                Some(Ok(reply)) => self.has_refused |= matches!(reply, Reply::Error(_)),
                Some(Err(error)) if error.is_silence() && is_patient => return Ok(Some(self)),
                Some(Err(_)) | None => return Err(self.undos),
            }
        }
        if self.has_refused {
            Err(self.undos)
        } else {
            // Do not count the undos as answered after a reply that made no sense, because the number of replies then proves
            // nothing.
            if !self.connection.is_used_up {
                self.undos.into_iter().for_each(Undo::was_answered);
            }
            Ok(None)
        }
    }
}

impl Default for Owed {
    fn default() -> Self {
        Self {
            releases: VecDeque::new(),
            under_way: Vec::new(),
            bytes: 0,
            room: MOST_BYTES,
            closing: VecDeque::new(),
            is_reading: false,
            pause: Duration::ZERO,
            is_planned: false,
        }
    }
}

impl Owed {
    fn add(&mut self, release: Release) {
        self.bytes = self.bytes.saturating_add(release.command.bytes.len());
        self.releases.push_back(release);
    }

    /// Subtracts the bytes of a release that was taken out of the queue.
    fn forget(&mut self, release: &Release) {
        self.bytes = self.bytes.saturating_sub(release.command.bytes.len());
    }

    /// Repeats undos as releases. How long the keys live is not known here. Their receipts are never answered.
    fn repeat(&mut self, undos: Vec<Undo>, from: Timestamp) {
        let until = from.saturating_add(UNDONE_FOR);
        for undo in undos {
            self.add(Release {
                command: undo.command.to_repeat(),
                from,
                until,
            });
        }
    }

    /// Gives up the releases whose keys have ended.
    fn give_up_ended(&mut self, now: Timestamp) {
        for release in take(&mut self.releases) {
            if now < release.until {
                self.releases.push_back(release);
            } else {
                self.forget(&release);
            }
        }
    }

    /// Takes the oldest releases whose time has come for one write, and gives up those whose keys have ended. Returns their commands.
    fn begin_write(&mut self, now: Timestamp) -> Vec<Packed> {
        let mut bytes = 0_usize;
        let mut commands = Vec::new();
        self.give_up_ended(now);
        for release in take(&mut self.releases) {
            let after = bytes.saturating_add(room_of(&release.command, &Verb::Drop));
            if now < release.from || (after > self.room && !commands.is_empty()) {
                self.releases.push_back(release);
            } else {
                bytes = after;
                commands.push(release.command.clone());
                self.under_way.push(release);
            }
        }
        commands
    }

    /// Ends the write. Keeps the releases that the node has not answered, behind all others, so that they delay no other release.
    /// Returns how many were answered.
    fn end_write(&mut self, reports: &[KeyReports]) -> usize {
        let (mut bytes, mut count) = (0_usize, 0_usize);
        for (place, release) in take(&mut self.under_way).into_iter().enumerate() {
            bytes = bytes.saturating_add(room_of(&release.command, &Verb::Drop));
            let report = reports.get(place).and_then(|reports| reports.first());
            if report.is_some_and(|report| !report.is_silent()) {
                count = count.saturating_add(1);
                self.forget(&release);
            } else {
                self.releases.push_back(release);
            }
        }
        // Allow half as many bytes after a write that was not answered in time. One release always goes, whatever the room.
        self.room = if reports.iter().flatten().any(|report| !report.has_replied) {
            bytes / 2
        } else {
            self.room.max(1).saturating_mul(2).min(MOST_BYTES)
        };
        count
    }

    /// Leaves the release whose key ends first to the time to live of the key.
    fn give_one_up(&mut self) {
        let places = self.releases.iter().enumerate();
        let first = places.min_by_key(|(_, release)| release.until);
        let first = first.map_or(0, |(place, _)| place);
        if let Some(release) = self.releases.remove(first) {
            self.forget(&release);
        }
    }

    /// Whether a release is owed that may go before `until`.
    fn is_owed_before(&self, until: Timestamp) -> bool {
        let may_go = |release: &Release| release.from < until;
        let rests = self.under_way.is_empty()
            && !self.is_reading
            && self.closing.is_empty()
            && !self.releases.is_empty()
            && !self.releases.iter().any(may_go);
        self.is_planned && !rests
    }

    /// The commands that have no answer.
    fn commands(&self) -> impl Iterator<Item = &Packed> {
        let releases = self.under_way.iter().chain(&self.releases);
        let undos = self.closing.iter().flat_map(|closing| &closing.undos);
        let undos = undos.map(|undo| &undo.command);
        undos.chain(releases.map(|release| &release.command))
    }

    fn is_too_much(&self) -> bool {
        let count = self.releases.len().saturating_add(self.under_way.len());
        let is_beyond = count > MOST_RELEASES || self.bytes > MOST_KEPT_BYTES;
        is_beyond && !self.releases.is_empty()
    }

    /// The pause before the next try, if one is needed and none is planned.
    fn plan(&mut self, now: Timestamp) -> Option<Duration> {
        while self.closing.len() > MOST_CONNECTIONS {
            let oldest = self.closing.pop_front();
            self.repeat(oldest.map(|oldest| oldest.undos).unwrap_or_default(), now);
        }
        while self.is_too_much() {
            self.give_one_up();
        }
        let is_empty = self.releases.is_empty() && self.closing.is_empty();
        if is_empty || self.is_planned {
            return None;
        }
        self.is_planned = true;
        let pause = self.pause.saturating_mul(2);
        self.pause = pause.clamp(FIRST_PAUSE, LONGEST_PAUSE);
        Some(self.pause)
    }
}

#[cfg(test)]
mod tests;
