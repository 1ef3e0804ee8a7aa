//! What a person is told who waits for a lock: on a terminal a line that is written over, elsewhere one line after a second.

use std::time::{Duration, Instant};

use log::info;
use redlatch::{Error, LockGuard, LockStatus, NodeReport, Vote};

use crate::clock;
use crate::durations;
use crate::failure::Failure;
use crate::output;
use crate::refusal::in_vain;
use crate::request::Request;
use crate::state::{self, State};
use crate::text;

/// How often the nodes are asked for the display, and when a wait is worth a word.
const FRESH: Duration = Duration::from_secs(1);

pub(crate) struct Progress<'a> {
    request: Request<'a>,
    started: Instant,
    /// Whether a line is written over, in place of a message.
    is_live: bool,
    /// What the nodes said, and when.
    last: Option<(String, Instant)>,
    /// Why the first attempt had no majority, if it failed. The text is printed once.
    outage: Option<String>,
    has_told_holder: bool,
}

impl<'a> Progress<'a> {
    pub(crate) fn new(request: Request<'a>) -> Self {
        Self {
            request,
            started: clock::now(),
            is_live: output::is_watched(),
            last: None,
            outage: None,
            has_told_holder: false,
        }
    }

    pub(crate) fn waited(&self) -> Duration {
        clock::now().saturating_duration_since(self.started)
    }

    /// Tells at once what of the first attempt does not change by waiting alone.
    pub(crate) fn begin(&mut self, error: &Error) {
        if !matches!(error, Error::Held { .. }) {
            let advice = Failure::from(error.clone()).message;
            let wait = durations::rough(self.request.wait.unwrap_or_default());
            output::complain(&format!("{advice}; it goes on trying for {wait}"));
            self.outage = Some(error.to_string());
        } else if let Some(advice) = in_vain(&self.request)
            && !self.request.lock.quiet
        {
            output::complain(&advice);
        }
    }

    pub(crate) fn show(&mut self) {
        let (now, waited) = (clock::now(), self.waited());
        let is_due = self.is_live || waited >= FRESH || log::log_enabled!(log::Level::Info);
        let is_told = self.has_told_holder && !self.is_live;
        if !is_due || is_told || self.request.lock.quiet {
            return;
        }
        let is_fresh = |since: &Instant| now.saturating_duration_since(*since) < FRESH;
        if !self.last.as_ref().is_some_and(|(_, since)| is_fresh(since)) {
            let (mut text, mut seen) = describe(&self.request);
            // Do not say that the lock is free, because nodes that abstain or refuse to write have no keys either.
            if let (Seen::Free, Some(outage)) = (seen, &self.outage) {
                (text, seen) = (outage.clone(), Seen::Nothing);
            }
            self.last = Some((text, now));
            let is_told = seen != Seen::Nothing || self.outage.is_none();
            self.has_told_holder = self.is_live || is_told;
        }
        let text = self.last.as_ref().map_or("", |(text, _)| text);
        let wait = durations::rough(self.request.wait.unwrap_or_default());
        if self.is_live {
            let waited = durations::rough(waited);
            output::show_line(&format!("waited {waited} of {wait}: {text}"));
        } else if self.has_told_holder {
            output::tell_times();
            output::complain(&format!("waiting: {text}; for up to {wait}"));
        }
    }

    /// Prints that the lock is held, and which nodes did not vote. From now on, log lines about nodes are shown, so that further
    /// failures are seen.
    pub(crate) fn got(&self, held: &LockGuard) {
        let (lock, waited) = (self.request, durations::rough(self.waited()));
        let message = format!("got the lock {lock} after {waited}");
        if self.outage.is_some() || self.has_told_holder {
            output::complain(&message);
        } else {
            info!("{message}");
        }
        tell_failures(&lock, &held.votes());
        output::tell_of_nodes();
    }
}

/// Prints which nodes did not vote, and why, because the lock survives fewer failures than people expect.
fn tell_failures(lock: &Request<'_>, votes: &[NodeReport]) {
    let failed = votes
        .iter()
        .filter(|node| matches!(node.vote, Vote::Failed(_)));
    let told = failed.map(|node| (state::cause(&node.vote), vec![&*node.node]));
    let told: Vec<String> = text::once_each(told)
        .into_iter()
        .map(|(why, nodes)| format!("{}: {why}", nodes.join(", ")))
        .collect();
    if !told.is_empty() {
        output::complain(&format!(
            "the lock {lock} has no vote of {}; see 'redlatch health'",
            told.join("; ")
        ));
    }
}

/// What the nodes were seen to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// Too few nodes answer.
    Nothing,
    /// No key is in the way.
    Free,
    Holders,
}

/// Asks the nodes, and says which holder has the lock or the permits.
fn describe(request: &Request<'_>) -> (String, Seen) {
    let name = &request.lock.name;
    let (name, told) = if let Some(permits) = request.lock.max {
        let slots = request.manager.semaphore_status(name.as_str(), permits);
        let told = slots.map(|slots| {
            let has = |is: fn(&LockStatus) -> bool| slots.iter().any(is);
            let seen = if has(|slot| matches!(slot, LockStatus::Unknown { .. })) {
                Seen::Nothing
            } else if has(|slot| matches!(slot, LockStatus::Free { .. })) {
                Seen::Free
            } else {
                Seen::Holders
            };
            (
                format!("has {} of {permits} permits held", state::held(&slots)),
                seen,
            )
        });
        (name, told)
    } else {
        let (name, status) = request.status();
        let state = status.map(|status| State::of(&status));
        let told = state.map(|state| {
            let seen = match state.word {
                "unknown" => Seen::Nothing,
                "free" => Seen::Free,
                _ => Seen::Holders,
            };
            (state.sentence(), seen)
        });
        (name, told)
    };
    let unseen = |error| (format!("can't be looked at: {error}"), Seen::Nothing);
    let (state, seen) = told.unwrap_or_else(unseen);
    (format!("{name} {state}"), seen)
}
