//! What a person is told who waits for a lock: on a terminal a line that is written over, elsewhere one line after a second.

use std::time::{Duration, Instant};

use log::info;
use redlatch::{Error, LockStatus};

use crate::clock;
use crate::durations;
use crate::failure::Failure;
use crate::output;
use crate::refusal::in_vain;
use crate::request::Request;
use crate::state::{self, State};

/// How often the nodes are asked for the display, and when a wait is worth a word.
const FRESH: Duration = Duration::from_secs(1);

pub(crate) struct Progress<'a> {
    request: Request<'a>,
    started: Instant,
    /// Whether a line is written over, in place of a message.
    is_live: bool,
    /// What the nodes said, and when.
    last: Option<(String, Instant)>,
    /// That too few nodes answer is told once.
    has_told_outage: bool,
    has_told_holder: bool,
}

impl<'a> Progress<'a> {
    pub(crate) fn new(request: Request<'a>) -> Self {
        Self {
            request,
            started: clock::now(),
            is_live: output::is_watched(),
            last: None,
            has_told_outage: false,
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
            self.has_told_outage = true;
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
            let (text, is_known) = describe(&self.request);
            self.last = Some((text, now));
            self.has_told_holder = self.is_live || is_known || !self.has_told_outage;
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

    pub(crate) fn got(&self) {
        let (lock, waited) = (self.request, durations::rough(self.waited()));
        let message = format!("got the lock {lock} after {waited}");
        if self.has_told_outage || self.has_told_holder {
            output::complain(&message);
        } else {
            info!("{message}");
        }
    }
}

/// Who has what is wanted, and whether that is known.
fn describe(request: &Request<'_>) -> (String, bool) {
    let name = &request.lock.name;
    let (name, told) = if let Some(permits) = request.lock.max {
        let slots = request.manager.semaphore_status(name.as_str(), permits);
        let told = slots.map(|slots| {
            let is_unknown = |slot| matches!(slot, &LockStatus::Unknown { .. });
            let held = format!("has {} of {permits} permits held", state::held(&slots));
            (held, !slots.iter().any(is_unknown))
        });
        (name, told)
    } else {
        let (name, status) = request.status();
        let state = status.map(|status| State::of(&status));
        let told = state.map(|state| (state.sentence(), state.word != "unknown"));
        (name, told)
    };
    let unseen = |error| (format!("can't be looked at: {error}"), false);
    let (state, is_known) = told.unwrap_or_else(unseen);
    (format!("{name} {state}"), is_known)
}
