//! What goes on in the background: sends what a node is owed, and probes a node that failed until it answers.

use std::collections::VecDeque;
use std::mem::take;
use std::sync::Arc;
use std::time::Duration;

use super::{Closing, LONGEST_TRY, Owed, REPEATED_FOR, Release, SILENT_FOR};
use crate::clock::Timestamp;
use crate::node::connection::OpenConnection;
use crate::node::request::Verb;
use crate::node::round::ask;
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
        self.owe_more(|state| state.releases.push_back(release));
    }

    /// Keeps a connection open until the server has answered these undos, which were sent on it.
    pub(in super::super) fn close_behind(
        &self,
        mut connection: Box<OpenConnection>,
        undos: Vec<Packed>,
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
        let mut state = self.owed.lock();
        state.releases.clear();
        state.closing.clear();
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

    /// One try of all that is owed. Nothing is read or sent under the mutex.
    fn pay(&self) {
        let now = self.now();
        let mut left = Owed::default();
        let mut owed = self.owed.lock();
        let (closing, releases) = (take(&mut owed.closing), take(&mut owed.releases));
        drop(owed);
        let before = (closing.len(), releases.len());
        let patience = if self.is_well() {
            SILENT_FOR
        } else {
            REPEATED_FOR
        };
        left.releases = releases;
        for one in closing {
            let (asked_at, asked) = (one.connection.used_at(), one.asked());
            let read = one.read(now, patience);
            let still_asked = read
                .as_ref()
                .ok()
                .map(|open| open.as_ref().map_or(0, Closing::asked));
            if still_asked.is_some_and(|still| still < asked) {
                self.pace.note_answer(now.saturating_since(asked_at));
            }
            match read {
                Ok(open) => left.closing.extend(open),
                Err(undos) => left.repeat(undos, now),
            }
        }
        left.releases = self.unanswered(left.releases, now);
        self.owe_more(|state| {
            state.is_planned = false;
            if (left.closing.len(), left.releases.len()) != before {
                state.pause = Duration::ZERO;
            }
            // Before what has come meanwhile.
            left.closing.append(&mut state.closing);
            left.releases.append(&mut state.releases);
            (state.closing, state.releases) = (left.closing, left.releases);
        });
    }

    /// Sends the releases whose time has come, until the node does not answer. Returns those that it has not answered; last those
    /// that it has refused, so that they are in nobody's way.
    fn unanswered(&self, releases: VecDeque<Release>, now: Timestamp) -> VecDeque<Release> {
        // While the breaker is open, its probes ask whether the node is back.
        let mut answers = self.is_well();
        let end = now.saturating_add(LONGEST_TRY);
        let (mut left, mut refused) = (VecDeque::new(), VecDeque::new());
        for release in releases.into_iter().filter(|it| now < it.until) {
            if now < release.from || !answers || self.now() > end {
                left.push_back(release);
                continue;
            }
            let answer = ask(self, &release.command, &Verb::Drop);
            answers = answer.result.is_ok();
            if !answers {
                left.push_back(release);
            } else if answer.is_silent() {
                refused.push_back(release);
            }
        }
        left.append(&mut refused);
        left
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
            let answer = ask(node, &command::probe(), &Verb::Probe);
            if answer.result.is_err() {
                let next = pause.saturating_mul(2).min(LONGEST_PROBE_PAUSE);
                node.probe_after(next, opening);
            }
        });
    }
}
