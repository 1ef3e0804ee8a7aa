//! What goes on in the background: sends what a node is owed, and probes a node that failed until it answers.

use std::mem::take;
use std::sync::Arc;
use std::time::Duration;

use super::{Closing, LONGEST_TRY, Owed, REPEATED_FOR, Release, SILENT_FOR};
use crate::clock::Timestamp;
use crate::node::connection::OpenConnection;
use crate::node::key_report::KeyReports;
use crate::node::receipt::Undo;
use crate::node::request::Verb;
use crate::node::round::{Asked, ask_each, ask_one};
use crate::node::{Node, command};
use crate::wire::pack::Packed;

/// The longest time between the ends of two probes; with it a node that takes connections at once is back within 300 ms.
const LONGEST_PROBE_PAUSE: Duration = Duration::from_millis(200);

impl Node {
    /// Repeats a release in the background until the node has answered it, but not before `from`, and not beyond the life of the
    /// key.
    pub(crate) fn owe(&self, command: Packed, from: Timestamp, life: Duration) {
        let span = life.saturating_add(self.timeout).min(REPEATED_FOR);
        let release = Release {
            command,
            from,
            until: self.now().max(from).saturating_add(span),
        };
        self.owe_more(|state| state.add(release));
    }

    /// Keeps a connection open until the server has answered these undos, which were sent on it.
    pub(in super::super) fn close_behind(
        &self,
        mut connection: Box<OpenConnection>,
        undos: Vec<Undo>,
    ) {
        connection.transport.stop_asking();
        let now = self.now();
        let closing = Closing {
            connection,
            undos,
            since: now,
            has_refused: false,
        };
        match closing.read(now, REPEATED_FOR) {
            Ok(None) => {}
            Ok(Some(open)) => self.owe_more(|state| state.closing.push_back(open)),
            Err(undos) => self.owe_more(|state| state.repeat(undos, now)),
        }
    }

    /// Forgets what is owed.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn owes_nothing_more(&self) {
        *self.owed.lock() = Owed::default();
    }

    fn owe_more(&self, add: impl FnOnce(&mut Owed)) {
        let now = self.now();
        let mut state = self.owed.lock();
        add(&mut state);
        let next = state.plan(now);
        drop(state);
        if let Some(pause) = next {
            self.later(pause, Self::pay);
        }
    }

    /// One try: reads what has come on the connections with undos, and sends the releases whose time has come. Nothing is read or sent
    /// under the mutex.
    fn pay(self: &Arc<Self>) {
        let now = self.now();
        let mut state = self.owed.lock();
        let closing = take(&mut state.closing);
        state.is_reading = true;
        drop(state);
        let patience = if self.is_well() {
            SILENT_FOR
        } else {
            REPEATED_FOR
        };
        let connections = closing.len();
        let mut left = Owed::default();
        for one in closing {
            let (asked_at, asked) = (one.connection.used_at(), one.asked());
            let read = one.read(now, patience);
            let still_asked = read
                .as_ref()
                .ok()
                .map(|open| open.as_ref().map_or(0, Closing::asked));
            if still_asked.is_some_and(|still| still < asked) {
                self.pace.note_answer(asked_at, now);
            }
            match read {
                Ok(open) => left.closing.extend(open),
                Err(undos) => left.repeat(undos, now),
            }
        }
        let is_read = left.closing.len() < connections;
        let mut state = self.owed.lock();
        // Put these connections before those that have come meanwhile.
        left.closing.append(&mut state.closing);
        state.closing = left.closing;
        state.is_reading = false;
        left.releases.into_iter().for_each(|undo| state.add(undo));
        drop(state);

        let is_answered = self.send_releases(now.saturating_add(LONGEST_TRY));
        self.owe_more(|state| {
            state.is_planned = false;
            // Also while the breaker is open.
            state.give_up_ended(now);
            if is_read || is_answered {
                state.pause = Duration::ZERO;
            }
        });
    }

    /// Sends releases, as many as go in one write, until the node does not answer one, or the try is over. Returns whether the node has
    /// answered any.
    fn send_releases(self: &Arc<Self>, end: Timestamp) -> bool {
        let mut is_answered = false;
        // While the breaker is open, its probes ask whether the node is back.
        while self.is_well() {
            let now = self.now();
            if now > end {
                break;
            }
            let releases = self.owed.lock().begin_write(now);
            if releases.is_empty() {
                break;
            }
            let reports = self.ask_for(&releases);
            let answered = self.owed.lock().end_write(&reports);
            is_answered |= answered > 0;
            if answered < releases.len() {
                break;
            }
        }
        is_answered
    }

    /// Sends releases in one write, and reads the replies.
    fn ask_for(self: &Arc<Self>, releases: &[Packed]) -> Vec<KeyReports> {
        let asked = Asked::one(self);
        let mut reports: Vec<KeyReports> = releases.iter().map(|_| asked.unasked()).collect();
        ask_each(asked, releases, Verb::Drop, &mut reports);
        reports
    }

    /// Whether the node is owed a release that may go before `until`.
    pub(crate) fn is_owed_before(&self, until: Timestamp) -> bool {
        self.owed.lock().is_owed_before(until)
    }

    /// The keys whose releases the node has not answered, if there are any.
    pub(crate) fn owed_keys(&self) -> Option<Vec<Vec<u8>>> {
        let state = self.owed.lock();
        state
            .is_planned
            .then(|| state.commands().flat_map(Packed::keys_of_call).collect())
    }

    /// Asks whether the node is back, for as long as this opening of its breaker lasts. Each pause is twice as long as the one before,
    /// up to a bound.
    pub(in super::super) fn probe_after(&self, pause: Duration, opening: Arc<str>) {
        self.later(pause, move |node| {
            // Another opening with the same words is another one.
            let open = node.recent_failure();
            if !open.is_some_and(|open| Arc::ptr_eq(&open, &opening)) {
                return;
            }
            // A real command, because a stopped server still accepts connections.
            let report = ask_one(node, &command::probe(), Verb::Probe);
            if !report.has_replied {
                let next = pause.saturating_mul(2).min(LONGEST_PROBE_PAUSE);
                node.probe_after(next, opening);
            }
        });
    }
}
