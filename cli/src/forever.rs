//! `redlatch run --forever`: campaigns for the lock, runs the command while it leads, and campaigns again.

use std::time::Duration;

use redlatch::{Error, LockGuard};

use crate::clock;
use crate::durations;
use crate::event::code_of_signal;
use crate::failure::Failure;
use crate::job::Job;
use crate::output;
use crate::record::Term;
use crate::refusal::refusal;
use crate::session::NoLock;
use crate::state::{self, State, short};

/// How often a standby looks who leads.
const LOOK: Duration = Duration::from_secs(30);

/// Campaigns until a signal comes, and returns its exit code.
pub(crate) fn run(job: &Job<'_>) -> Result<u8, Failure> {
    output::tell_times();
    let mut service = Service {
        job,
        leaders: String::new(),
    };
    service.show(Some("READY=1"), "campaigns");
    let mut pauses = Pauses::default();
    loop {
        let held = match service.campaign() {
            Ok(held) => held,
            Err(NoLock::Refused(error)) => return Err(refusal(&job.session.request, error)),
            Err(NoLock::End(failure)) => {
                service.show(Some("STOPPING=1"), "stopping");
                return Err(failure);
            }
        };
        let token = match held.fencing_token() {
            Some(token) => format!("fencing token {token}"),
            None => short(held.token()),
        };
        service.tell(&format!("leads ({token})"));
        let result = job.work(held);
        if let Some(signal) = result.as_ref().ok().and_then(|term| term.signal) {
            return Ok(code_of_signal(signal));
        }
        let pause = pauses.after(result.as_ref().map_or(Duration::ZERO, |term| term.ran));
        service.resign(&result, pause);
        if let Some(code) = job.session.pause(pause) {
            service.show(Some("STOPPING=1"), "stopping");
            return Ok(code);
        }
    }
}

struct Service<'a> {
    job: &'a Job<'a>,
    /// Who led when that was told last.
    leaders: String,
}

impl Service<'_> {
    /// Waits for the lock: without end, unless `--wait` was given.
    fn campaign(&mut self) -> Result<LockGuard, NoLock> {
        let started = clock::now();
        let longest = self.job.arguments.lock.wait;
        // The first attempt does not wait, so that it is soon known who leads.
        let mut wait = None;
        loop {
            let result = self.job.session.call(wait, None);
            let Err(NoLock::Refused(error)) = &result else {
                return result;
            };
            let waited = clock::now().saturating_duration_since(started);
            let left = longest.map(|longest| longest.saturating_sub(waited));
            if left.is_some_and(|left| left.is_zero()) || !error.is_transient() {
                return result;
            }
            self.stand_by(error);
            wait = Some(left.map_or(LOOK, |left| left.min(LOOK)));
        }
    }

    /// Shows who leads, when that has changed.
    fn stand_by(&mut self, error: &Error) {
        let is_held = matches!(error, Error::Held { .. });
        let state = match (error, self.leaders()) {
            (Error::Held { .. }, Ok(Some(leaders))) => leaders,
            // Given back meanwhile, so the next attempt tells more.
            (Error::Held { .. }, Ok(None)) => return,
            (Error::NotALock { .. }, _) => "something else has the key".to_owned(),
            _ => "too few servers answer".to_owned(),
        };
        if self.leaders == state {
            return;
        }
        let state_shown = format!("standby: {state}");
        self.leaders = state;
        self.show(None, &state_shown);
        let request = &self.job.session.request;
        let claim = request.claim;
        if !is_held {
            output::complain(&format!(
                "{claim}: {error}; it goes on trying, see 'redlatch health'"
            ));
        } else if !request.is_quiet {
            output::complain(&format!("{claim}: {state_shown}"));
        }
    }

    /// Who leads; none if there is room for another.
    fn leaders(&self) -> Result<Option<String>, Error> {
        let request = &self.job.session.request;
        let (manager, claim) = (request.manager, request.claim);
        let Some(permits) = claim.permits() else {
            let state = State::of(&claim.status(manager).1?);
            return Ok((state.word != "free").then(|| leader(&state)));
        };
        let status = manager.semaphore_status(claim.name.as_str(), permits)?;
        let is_full = status.iter().all(|slot| State::of(slot).word != "free");
        Ok(is_full.then(|| format!("{} of {permits} lead", state::held(&status))))
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

    fn tell(&mut self, state: &str) {
        self.leaders.clear();
        self.show(None, state);
        output::complain(&format!("{}: {state}", self.job.session.request.claim));
    }

    fn show(&self, assignment: Option<&str>, state: &str) {
        let claim = self.job.session.request.claim;
        let status = format!("{claim}: {state}");
        self.job.notifier.tell(assignment, &status);
    }
}

/// Who leads, in words that stay the same while nothing changes.
fn leader(state: &State) -> String {
    match (state.word, &state.token) {
        ("held", Some(token)) => {
            let token = short(token);
            if state.who.starts_with(&token) {
                return format!("{token} leads");
            }
            format!("{token} ({}{}) leads", state.who, state.since(" since "))
        }
        ("rests", _) => "nobody leads, the lock rests".to_owned(),
        ("read", _) => "nobody leads, readers have what the leader would lock".to_owned(),
        ("blocked", _) => "nobody leads, and keys of others are in the way".to_owned(),
        _ => "too few servers say who leads".to_owned(),
    }
}

/// The pauses between a command's end and the next campaign.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);

/// A command that ran for this long was well.
const WELL: Duration = Duration::from_secs(10);

/// The pauses of one service. A command that ends at once must not take the lock all the time, and leave no turn to
/// others.
#[derive(Debug, Default)]
struct Pauses {
    last: Option<Duration>,
}

impl Pauses {
    /// The pause after a command that ran for this long. It is twice the last one where the command ended soon.
    fn after(&mut self, ran: Duration) -> Duration {
        let pause = match self.last {
            Some(last) if ran < WELL => last.saturating_mul(2).min(LONGEST),
            Some(_) | None => SHORTEST,
        };
        self.last = Some(pause);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_end_at_once_pause_for_longer_and_longer_up_to_a_bound() {
        let mut pauses = Pauses::default();
        let seconds: Vec<u64> = (0..8)
            .map(|_| pauses.after(Duration::ZERO).as_secs())
            .collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(pauses.after(WELL), SHORTEST);
        assert_eq!(pauses.after(WELL), SHORTEST);
        assert_eq!(pauses.after(Duration::ZERO).as_secs(), 2);
        // Also before they have come to the bound.
        assert_eq!(pauses.after(WELL), SHORTEST);
    }
}
