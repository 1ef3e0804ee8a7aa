//! `redlatch run --forever`: campaigns for the lock, runs the command while it leads, and campaigns again.

use std::time::Duration;

use redlatch::{Error, LockGuard};

use crate::clock;
use crate::durations;
use crate::event::code_of_signal;
use crate::failure::{Failure, told};
use crate::job::Job;
use crate::output;
use crate::pauses::Pauses;
use crate::refusal::refusal;
use crate::request::Request;
use crate::state::{self, State, short, since};
use crate::term::Term;
use crate::waiting::{self, Attempt};

/// How often a standby looks who leads.
const LOOK: Duration = Duration::from_secs(30);

/// Campaigns until a signal comes, and returns its exit code.
pub(crate) fn run(job: &Job<'_>) -> Result<u8, Failure> {
    output::tell_times();
    let shown = String::new();
    let mut service = Service { job, shown };
    service.show(Some("READY=1"), "campaigns");
    let mut pauses = Pauses::default();
    loop {
        let held = match service.campaign()? {
            Attempt::Held(held) => held,
            Attempt::Interrupted(code) => return Ok(service.stop(code)),
            Attempt::Refused(error) => return Err(refusal(&job.session.request, error)),
        };
        service.lead(&held);
        let result = match job.work(held) {
            Ok((_, Some(signal))) => return Ok(code_of_signal(signal)),
            result => result.map(|(term, _)| term),
        };
        let pause = pauses.after(result.as_ref().map_or(Duration::ZERO, |term| term.ran));
        service.resign(&result, pause);
        if let Some(code) = waiting::pause(&job.session.events, pause) {
            return Ok(service.stop(code));
        }
    }
}

struct Service<'a> {
    job: &'a Job<'a>,
    /// The state that was shown last.
    shown: String,
}

impl Service<'_> {
    /// Waits for the lock: without end, unless `--wait` was given.
    fn campaign(&mut self) -> Result<Attempt, Failure> {
        let session = &self.job.session;
        let started = clock::now();
        let longest = self.job.arguments.lock.wait;
        // The first attempt does not wait, so that it is soon known who leads.
        let mut wait = None;
        loop {
            let channel = (&session.events, &session.sender);
            let attempt = waiting::call(&session.request, wait, channel, None)?;
            let Some(error) = attempt.passing_refusal() else {
                return Ok(attempt);
            };
            let waited = clock::now().saturating_duration_since(started);
            let left = longest.map(|longest| longest.saturating_sub(waited));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(attempt);
            }
            self.stand_by(error);
            wait = Some(left.map_or(LOOK, |left| left.min(LOOK)));
        }
    }

    /// Shows who leads, when that has changed.
    fn stand_by(&mut self, error: &Error) {
        let Request {
            wanted, is_quiet, ..
        } = self.job.session.request;
        let is_held = matches!(error, Error::Held { .. });
        let state = match (is_held, self.leaders()) {
            (true, Ok(Some(leaders))) => format!("standby: {leaders}"),
            // Given back meanwhile, so the next attempt tells more.
            (true, Ok(None)) => return,
            _ if matches!(error, Error::NotALock { .. }) => {
                "standby: something else has the key".to_owned()
            }
            _ => "standby: too few servers answer".to_owned(),
        };
        if self.shown == state {
            return;
        }
        self.show(None, &state);
        if !is_held {
            let error = told(error);
            output::complain(&format!(
                "{wanted}: {error}; it goes on trying, see 'redlatch health'"
            ));
        } else if !is_quiet {
            output::complain(&format!("{wanted}: {state}"));
        }
    }

    /// Who leads; none if there is room for another.
    fn leaders(&self) -> Result<Option<String>, Error> {
        let Request {
            manager, wanted, ..
        } = self.job.session.request;
        let Some(permits) = wanted.permits() else {
            let (_, status) = wanted.status(manager);
            let state = State::of(&status?);
            return Ok((state.word != "free").then(|| leader(&state)));
        };
        let status = manager.semaphore_status(wanted.name.as_str(), permits)?;
        let is_full = status.iter().all(|slot| State::of(slot).word != "free");
        Ok(is_full.then(|| format!("{} of {permits} lead", state::held(&status))))
    }

    fn lead(&mut self, held: &LockGuard) {
        let token = match held.fencing_token() {
            Some(token) => format!("fencing token {token}"),
            None => short(held.token()),
        };
        self.tell(&format!("leads ({token})"));
    }

    /// Says why it does not lead any more.
    fn resign(&mut self, result: &Result<Term, Failure>, pause: Duration) {
        let why = match result {
            Ok(term) if term.is_lost => "leads no more".to_owned(),
            Ok(term) => format!("resigned: the command ended with {}", term.code),
            Err(failure) => format!("resigned: {}", failure.message),
        };
        let next = durations::exact(pause);
        self.tell(&format!("{why}; campaigns again in {next}"));
    }

    /// Returns the exit code.
    fn stop(&mut self, code: u8) -> u8 {
        self.show(Some("STOPPING=1"), "stopping");
        code
    }

    fn tell(&mut self, state: &str) {
        self.show(None, state);
        output::complain(&format!("{}: {state}", self.job.session.request.wanted));
    }

    fn show(&mut self, assignment: Option<&str>, state: &str) {
        state.clone_into(&mut self.shown);
        let name = self.job.session.request.wanted;
        self.job
            .notifier
            .tell(assignment, &format!("{name}: {state}"));
    }
}

fn leader(state: &State) -> String {
    match state.word {
        "held" => {
            let token = state.token.as_deref().map(short).unwrap_or_default();
            let since = state.since.map(since).unwrap_or_default();
            if state.who.starts_with(&token) {
                format!("{token} leads")
            } else {
                format!("{token} ({} {since}) leads", state.who)
            }
        }
        "rests" => {
            let left = state.left.map(durations::rough).unwrap_or_default();
            format!("nobody leads for another {left}")
        }
        "read" => format!(
            "nobody leads, and {} read what the leader would lock",
            state.who
        ),
        "blocked" => "nobody leads, and keys are left over".to_owned(),
        _ => "too few servers say who leads".to_owned(),
    }
}
