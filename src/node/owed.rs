//! What a node is owed: releases that it has not answered, and undos on connections that it has not read to their end. Both are
//! repeated in the background, so that a lock that nobody has does not stay taken for the rest of its time to live.
//!
//! A release compares the value of the key, which no other attempt has. So it may be executed twice, and at any later time. Releases
//! of values that may be those of other programs are not among them.

use std::collections::VecDeque;
use std::time::Duration;

use super::connection::OpenConnection;
use crate::clock::Timestamp;
use crate::wire::pack::Packed;
use crate::wire::resp::Reply;

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
    releases: VecDeque<Release>,
    closing: VecDeque<Closing>,
    pause: Duration,
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
    undos: Vec<Packed>,
    since: Timestamp,
    /// Whether a reply was an error. Not all may have been executed.
    has_refused: bool,
}

impl Closing {
    /// How many requests have no answer, beside the undos.
    fn asked(&self) -> usize {
        self.connection.awaited().saturating_sub(self.undos.len())
    }

    /// Reads the replies that are there, without waiting. Returns the undos if they have to go again: no more replies will come, one
    /// was an error, or nothing has come for so long. Returns itself if replies are still to come.
    fn read(mut self, now: Timestamp, patience: Duration) -> Result<Option<Self>, Vec<Packed>> {
        let is_patient = now.saturating_since(self.since) < patience;
        while self.connection.is_awaited() {
            match self.connection.recv(now, now) {
                Some(Ok(reply)) => self.has_refused |= matches!(reply, Reply::Error(_)),
                Some(Err(error)) if error.is_silence() && is_patient => return Ok(Some(self)),
                Some(Err(_)) | None => return Err(self.undos),
            }
        }
        if self.has_refused {
            Err(self.undos)
        } else {
            Ok(None)
        }
    }
}

impl Owed {
    /// Repeats undos as releases. How long the keys live is not known here.
    fn repeat(&mut self, undos: Vec<Packed>, from: Timestamp) {
        let until = from.saturating_add(UNDONE_FOR);
        let releases = undos.into_iter().map(|command| Release {
            command,
            from,
            until,
        });
        self.releases.extend(releases);
    }

    /// The pause before the next try, if one is needed and none is planned.
    fn plan(&mut self, now: Timestamp) -> Option<Duration> {
        while self.closing.len() > MOST_CONNECTIONS {
            let oldest = self.closing.pop_front();
            self.repeat(oldest.map(|oldest| oldest.undos).unwrap_or_default(), now);
        }
        while self.releases.len() > MOST_RELEASES {
            let places = self.releases.iter().enumerate();
            let first = places.min_by_key(|(_, release)| release.until);
            self.releases.remove(first.map_or(0, |(place, _)| place));
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
