//! What goes on in the background: sends what a node is owed, and probes a node that failed until it answers.

use std::collections::VecDeque;
use std::mem::take;
use std::time::Duration;

use super::{Closing, LONGEST_TRY, Progress, REPEATED_FOR, Release, SILENT_FOR, State};
use crate::clock::Timestamp;
use crate::node::breaker::Probe;
use crate::node::connection::OpenConnection;
use crate::node::request::{Request, Verb};
use crate::node::round::exchange;
use crate::node::votes::repeat;
use crate::node::{Node, command};
use crate::wire::pack::Packed;

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
        let mut closing = Closing {
            connection,
            undos,
            since: now,
            has_refused: false,
        };
        match closing.read(now) {
            Progress::Done => {}
            Progress::Waits => self.owe_more(|state| state.closing.push_back(closing)),
            Progress::Broken => self.owe_more(|state| state.releases.extend(closing.releases(now))),
        }
    }

    /// Forgets what is owed.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn owes_nothing_more(&self) {
        let mut state = self.owed.0.lock();
        state.releases.clear();
        state.closing.clear();
    }

    fn owe_more(&self, add: impl FnOnce(&mut State)) {
        let now = self.now();
        let mut state = self.owed.0.lock();
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
        let (closing, mut releases) = {
            let mut state = self.owed.0.lock();
            (take(&mut state.closing), take(&mut state.releases))
        };
        let owed = (closing.len(), releases.len());
        let patience = if self.is_closed() {
            SILENT_FOR
        } else {
            REPEATED_FOR
        };
        let mut open = VecDeque::new();
        for mut one in closing {
            match one.read(now) {
                Progress::Done => {}
                Progress::Waits if now.saturating_since(one.since) < patience => {
                    open.push_back(one);
                }
                Progress::Waits | Progress::Broken => releases.extend(one.releases(now)),
            }
        }
        let mut releases = self.unanswered(releases, now);
        self.owe_more(|state| {
            state.is_planned = false;
            if (open.len(), releases.len()) != owed {
                state.pause = Duration::ZERO;
            }
            // Before what has come meanwhile.
            open.append(&mut state.closing);
            state.closing = open;
            releases.append(&mut state.releases);
            state.releases = releases;
        });
    }

    /// Sends the releases whose time has come, until the node does not answer. Returns those that it has not answered; last those
    /// that it has refused, so that they are in nobody's way.
    fn unanswered(&self, releases: VecDeque<Release>, now: Timestamp) -> VecDeque<Release> {
        // While the breaker is open, its probes ask whether the node is back.
        let mut answers = self.is_closed();
        let end = now.saturating_add(LONGEST_TRY);
        let (mut left, mut refused) = (VecDeque::new(), VecDeque::new());
        for release in releases.into_iter().filter(|it| now < it.until) {
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

    pub(in super::super) fn schedule(&self, probe: Probe) {
        self.later(probe.after, move |node| node.probe(probe));
    }

    /// Sends a real command, because a stopped server still accepts connections.
    fn probe(&self, probe: Probe) {
        if !self.breaker.wants(probe) {
            return;
        }
        let command = command::probe();
        let answer = exchange(self, &Request::new(&command, Verb::Probe));
        if answer.result.is_err()
            && let Some(next) = self.breaker.probe_failed(probe)
        {
            self.schedule(next);
        }
    }
}
