//! `redlatch run --forever`: campaigns for the lock, runs the command while it leads, and campaigns again.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use redlatch::{Error, LockGuard, LockStatus};
use signal_hook::consts::SIGHUP;

use crate::clock;
use crate::durations;
use crate::event::code_of_signal;
use crate::failure::Failure;
use crate::job::Job;
use crate::notify::Notifier;
use crate::output;
use crate::pauses::Pauses;
use crate::refusal::refusal;
use crate::request::Request;
use crate::term::Term;
use crate::waiting::{self, Attempt};

/// How often a standby looks who leads.
const LOOK: Duration = Duration::from_secs(30);

/// Campaigns until a signal comes, and returns its exit code.
pub(crate) fn run(job: &Job<'_>) -> Result<u8, Failure> {
    let service = Service {
        job,
        notifier: Notifier::find(),
        shown: RefCell::default(),
        ends_by: Cell::new(None),
        had_hangup: Cell::new(false),
    };
    service.show(Some("READY=1"), "campaigns");
    let mut pauses = Pauses::default();
    loop {
        let held = match service.campaign()? {
            Campaign::Won(held) => held,
            Campaign::Interrupted(code) => return Ok(service.stop(code)),
        };
        service.lead(&held);
        let result = job.work(held, &|signal| service.hear(signal));
        if let Some(signal) = service.ends_by(&result) {
            return Ok(service.stop(code_of_signal(signal)));
        }
        let pause = pauses.after(result.as_ref().map_or(Duration::ZERO, |term| term.ran));
        service.resign(&result, pause);
        if let Some(code) = waiting::pause(&job.events, pause) {
            return Ok(service.stop(code));
        }
    }
}

enum Campaign {
    Won(LockGuard),
    /// By a signal, which has this exit code.
    Interrupted(u8),
}

struct Service<'a> {
    job: &'a Job<'a>,
    notifier: Notifier,
    /// The state that was shown last.
    shown: RefCell<String>,
    /// The signal that ends the service. The command has got it as well.
    ends_by: Cell<Option<i32>>,
    /// Whether the present command was sent HUP, which ends some commands, and makes others read their settings again.
    had_hangup: Cell<bool>,
}

impl Service<'_> {
    /// Waits for the lock: without end, unless `--wait` was given.
    fn campaign(&self) -> Result<Campaign, Failure> {
        let request = &self.job.request;
        let started = clock::now();
        // The first attempt does not wait, so that it is soon known who leads.
        let mut wait = None;
        loop {
            let request = Request { wait, ..*request };
            let error = match waiting::attempt(&request, &self.job.events, self.job.sender.clone())?
            {
                Attempt::Held(held) => return Ok(Campaign::Won(held)),
                Attempt::Interrupted(code) => return Ok(Campaign::Interrupted(code)),
                Attempt::Refused(error) => error,
            };
            let left = self.job.arguments.lock.wait.map(|longest| {
                longest.saturating_sub(clock::now().saturating_duration_since(started))
            });
            if left.is_some_and(|left| left.is_zero()) || !is_passing(&error) {
                let wait = self.job.arguments.lock.wait;
                return Err(refusal(&Request { wait, ..request }, error));
            }
            self.stand_by(&error);
            wait = Some(left.map_or(LOOK, |left| left.min(LOOK)));
        }
    }

    /// Shows who leads, when that has changed.
    fn stand_by(&self, error: &Error) {
        let name = self.job.request.wanted;
        let state = match (error, self.leaders()) {
            (Error::Held { .. }, Ok(Some(leaders))) => format!("standby: {leaders}"),
            // Given back meanwhile, so the next attempt tells more.
            (Error::Held { .. }, Ok(None)) => return,
            _ => "standby: too few servers answer".to_owned(),
        };
        if *self.shown.borrow() == state {
            return;
        }
        self.show(None, &state);
        if !matches!(error, Error::Held { .. }) {
            output::complain(&format!(
                "{name}: {error}; it goes on trying, see 'redlatch health'"
            ));
        } else if !self.job.request.is_quiet {
            output::complain(&format!("{name}: {state}"));
        }
    }

    /// Who leads; none if there is room for another.
    fn leaders(&self) -> Result<Option<String>, Error> {
        let Request {
            manager, wanted, ..
        } = self.job.request;
        let is_free = |status: &LockStatus| matches!(status, LockStatus::Free { .. });
        let Some(permits) = wanted.permits() else {
            let (_, status) = wanted.status(manager);
            let status = status?;
            return Ok((!is_free(&status)).then(|| leader(&status)));
        };
        let status = manager.semaphore_status(wanted.name.as_str(), permits)?;
        let is_full = !status.slots.iter().any(is_free);
        Ok(is_full.then(|| format!("{} of {permits} lead", status.held())))
    }

    fn lead(&self, held: &LockGuard) {
        let token = match held.fencing_token() {
            Some(token) => format!("fencing token {token}"),
            None => short(held.token()),
        };
        self.show(None, &format!("leads ({token})"));
        output::complain(&format!("{}: leads ({token})", self.job.request.wanted));
        self.had_hangup.set(false);
    }

    /// Says why it does not lead any more.
    fn resign(&self, result: &Result<Term, Failure>, pause: Duration) {
        let why = match result {
            Ok(term) if term.is_lost => "leads no more".to_owned(),
            Ok(term) => format!("resigned: the command ended with {}", term.code),
            Err(failure) => format!("resigned: {}", failure.message),
        };
        let next = format!("campaigns again in {}", durations::exact(pause));
        self.show(None, &format!("{why}; {next}"));
        output::complain(&format!("{}: {why}; {next}", self.job.request.wanted));
    }

    /// A signal was forwarded to the command.
    fn hear(&self, signal: i32) {
        if signal == SIGHUP {
            self.had_hangup.set(true);
        } else if self.ends_by.replace(Some(signal)).is_none() {
            self.show(
                Some("STOPPING=1"),
                "stopping: the command was sent the signal",
            );
        }
    }

    /// The signal that has ended the service, now that the command has ended.
    fn ends_by(&self, result: &Result<Term, Failure>) -> Option<i32> {
        let by_hangup = |term: &Term| self.had_hangup.get() && term.code == code_of_signal(SIGHUP);
        let hangup = result.as_ref().is_ok_and(by_hangup).then_some(SIGHUP);
        self.ends_by.get().or(hangup)
    }

    /// Returns the exit code.
    fn stop(&self, code: u8) -> u8 {
        if self.ends_by.get().is_none() {
            self.show(Some("STOPPING=1"), "stopping");
        }
        code
    }

    fn show(&self, assignment: Option<&str>, state: &str) {
        state.clone_into(&mut self.shown.borrow_mut());
        self.notifier
            .tell(assignment, &format!("{}: {state}", self.job.request.wanted));
    }
}

/// Whether the next attempt may succeed.
fn is_passing(error: &Error) -> bool {
    matches!(
        error,
        Error::Held { .. } | Error::Unavailable { .. } | Error::TooSlow { .. }
    )
}

fn leader(status: &LockStatus) -> String {
    match status {
        LockStatus::Held { token, holder, .. } => {
            let holder = holder.as_ref().map(|holder| format!(" ({holder})"));
            format!("{}{} leads", short(token), holder.unwrap_or_default())
        }
        LockStatus::Resting { remaining, .. } => {
            format!("nobody leads for another {}", durations::rough(*remaining))
        }
        LockStatus::Read { readers, .. } => {
            format!("nobody leads, and {readers} read what the leader would lock")
        }
        LockStatus::Free { .. } => "nobody leads".to_owned(),
        LockStatus::Blocked { .. } => "nobody leads, and keys are left over".to_owned(),
        LockStatus::Unknown { .. } => "too few servers say who leads".to_owned(),
    }
}

/// As much of a token as people need to tell it from others.
fn short(token: &str) -> String {
    token.chars().take(8).collect()
}
