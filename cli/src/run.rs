//! `redlatch run`: a command under a lock, once or, with `--forever`, in each campaign that is won.

use std::sync::Arc;
use std::time::Duration;

use redlatch::{Error, LockGuard};

use crate::arguments::{OnLoss, Run};
use crate::clock;
use crate::command;
use crate::durations;
use crate::event::{Events, code_of_signal};
use crate::failure::{Failure, LOST, start_thread};
use crate::figures::Figures;
use crate::metrics::Metrics;
use crate::nodes;
use crate::notify::Notifier;
use crate::output;
use crate::permits;
use crate::refusal::refusal;
use crate::request::Request;
use crate::session::Session;
use crate::state::{self, State, short};
use crate::supervise::{self, Outcome};

/// How often a standby looks who leads.
const LOOK: Duration = Duration::from_secs(30);

/// The pauses between a command's end and the next campaign.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);

/// A command that ran for this long was well.
const WELL: Duration = Duration::from_secs(10);

/// What to run under which lock.
struct Job<'a> {
    arguments: &'a Run,
    session: Session<'a>,
    notifier: Notifier,
    metrics: Option<Metrics>,
    /// With `--forever`, who led when that was told last.
    leaders: String,
}

pub(crate) fn run(arguments: &Run) -> Result<u8, Failure> {
    // Before the manager, which describes its figures to the recorder when it is built.
    let name = arguments.lock.name.as_str();
    let figures = Figures::of(name);
    if arguments.metrics.is_some() {
        // It fails only if there is a recorder already, and this is called once.
        metrics::set_global_recorder(Arc::clone(&figures)).ok();
    }
    let (manager, config) = nodes::taking(&arguments.servers, &arguments.lock)?;
    let request = Request::new(&arguments.lock, &config, &manager)?.of(arguments)?;
    if let Some(program) = arguments.command.first() {
        command::check(program)?;
    }
    let file = arguments.metrics.as_ref();
    let metrics = file.map(|file| Metrics::start(file, name, figures));
    let events = Events::listen()?;
    let notifier = arguments.forever.then(Notifier::find);
    let mut job = Job {
        arguments,
        session: Session { request, events },
        notifier: notifier.unwrap_or_default(),
        metrics: metrics.transpose()?,
        leaders: String::new(),
    };
    let result = if arguments.forever {
        job.serve()
    } else {
        let held = job.session.acquire();
        held.and_then(|held| Ok(job.work(held)?.code))
    };
    job.session.flush();
    if let Some(metrics) = job.metrics {
        metrics.finish(*result.as_ref().unwrap_or_else(|failure| &failure.code));
    }
    result
}

impl Job<'_> {
    fn work(&self, held: LockGuard) -> Result<Outcome, Failure> {
        self.metrics.iter().for_each(Metrics::held);
        self.look_at_permits();
        let watched = self.session.watch(&held).map_err(Failure::from);
        let ended = watched
            .and_then(|()| supervise::run(self.arguments, &self.session, &held, &self.notifier));
        let mut term = match ended {
            Ok(term) => term,
            Err(failure) => {
                // The command did not run, so its failure matters more than one of the release, and another may try.
                held.unlock_now().ok();
                return Err(failure);
            }
        };
        let is_done = term.code == 0 && !term.is_lost;
        let rests = is_done || self.arguments.at_least_on_failure;
        let at_least = self.arguments.at_least.filter(|_| rests);
        let released = match at_least {
            Some(_) => held.unlock(),
            None => held.unlock_now(),
        };
        // A loss was told when it was found. The release removes what the servers still have: a minority, or all of them
        // where this process stood still, and the command was ended in time.
        term.is_lost = term.is_lost || !self.session.tell_release(released, at_least);
        if term.is_lost && self.arguments.on_loss != OnLoss::Ignore {
            term.code = LOST;
        }
        self.metrics.iter().for_each(|metrics| metrics.ended(term));
        Ok(term)
    }

    /// Prints a warning if another client gives a larger number of permits. The command does not wait for this look.
    fn look_at_permits(&self) {
        let lock = &self.arguments.lock;
        if lock.max.is_some() {
            let (manager, name, max) = (
                self.session.request.manager.clone(),
                lock.name.clone(),
                lock.max,
            );
            // Ignore a missing thread, because the lock does not depend on this look.
            start_thread("permits", move || {
                drop(permits::slots(&manager, &name, max));
            })
            .ok();
        }
    }

    /// Campaigns until a signal comes, and returns its exit code.
    fn serve(&mut self) -> Result<u8, Failure> {
        output::tell_times();
        output::tell_of_nodes();
        self.show(Some("READY=1"), "campaigns");
        let mut pause = Duration::ZERO;
        loop {
            let campaign = self.campaign().inspect_err(|_| self.stop())?;
            let held = campaign.map_err(|error| refusal(&self.session.request, error))?;
            let token = match held.fencing_token() {
                Some(token) => format!("fencing token {token}"),
                None => short(held.token()),
            };
            self.tell(&format!("leads ({token})"));
            let result = self.work(held);
            if let Some(signal) = result.as_ref().ok().and_then(|term| term.signal) {
                return Ok(code_of_signal(signal));
            }
            let ran = result.as_ref().map_or(Duration::ZERO, |term| term.ran);
            pause = pause_after(pause, ran);
            // Why it does not lead any more.
            let why = match result {
                Ok(term) if term.is_lost => "leads no more".to_owned(),
                Ok(term) => format!("resigned: the command ended with {}", term.code),
                Err(failure) => format!("resigned: {}", failure.message),
            };
            let next = durations::exact(pause);
            self.tell(&format!("{why}; campaigns again in {next}"));
            if let Some(code) = self.session.pause(pause) {
                self.stop();
                return Ok(code);
            }
        }
    }

    /// Waits for the lock: without end, unless `--wait` was given.
    fn campaign(&mut self) -> Result<Result<LockGuard, Error>, Failure> {
        let started = clock::now();
        // The first attempt does not wait, so that it is soon known who leads.
        let mut wait = None;
        loop {
            let result = self.session.call(wait, || ())?;
            let waited = clock::now().saturating_duration_since(started);
            let left = self.arguments.lock.wait;
            let left = left.map_or(LOOK, |longest| longest.saturating_sub(waited).min(LOOK));
            match &result {
                Err(error) if error.is_transient() && !left.is_zero() => self.stand_by(error),
                _ => return Ok(result),
            }
            wait = Some(left);
        }
    }

    /// Shows who leads, when that has changed.
    fn stand_by(&mut self, error: &Error) {
        let is_held = matches!(error, Error::Held { .. });
        let leaders = match (error, self.leaders()) {
            (Error::Held { .. }, Ok(Some(leaders))) => leaders,
            // Released meanwhile, so the next attempt tells more.
            (Error::Held { .. }, Ok(None)) => return,
            (Error::NotALock { .. }, _) => "something else has the key".to_owned(),
            _ => "too few servers vote".to_owned(),
        };
        if self.leaders == leaders {
            return;
        }
        let state = format!("standby: {leaders}");
        self.leaders = leaders;
        self.show(None, &state);
        let request = self.session.request;
        if !is_held {
            output::complain(&format!(
                "{request}: {error}; it goes on trying, see 'redlatch health'"
            ));
        } else if !request.lock.quiet {
            output::complain(&format!("{request}: {state}"));
        }
    }

    /// Who leads; none if there is room for another.
    fn leaders(&self) -> Result<Option<String>, Error> {
        let Request { manager, lock, .. } = self.session.request;
        let Some(permits) = lock.max else {
            let state = State::of(&self.session.request.status().1?);
            return Ok((state.word != "free").then(|| leader(&state)));
        };
        let status = manager.semaphore_status(lock.name.as_str(), permits)?;
        let is_full = status.iter().all(|slot| State::of(slot).word != "free");
        Ok(is_full.then(|| format!("{} of {permits} lead", state::held(&status))))
    }

    fn tell(&mut self, state: &str) {
        self.leaders.clear();
        self.show(None, state);
        output::complain(&format!("{}: {state}", self.session.request));
    }

    fn stop(&self) {
        self.show(Some("STOPPING=1"), "stopping");
    }

    fn show(&self, assignment: Option<&str>, state: &str) {
        let status = format!("{}: {state}", self.session.request);
        self.notifier.tell(assignment, &status);
    }
}

/// The pause after a command that ran for this long: twice the last one where the command ended soon. A command that ends
/// at once must not take the lock all the time, and leave no turn to others.
fn pause_after(last: Duration, ran: Duration) -> Duration {
    if ran < WELL {
        last.saturating_mul(2).clamp(SHORTEST, LONGEST)
    } else {
        SHORTEST
    }
}

/// Who leads, in words that stay the same while nothing changes.
fn leader(state: &State) -> String {
    let nobody = match (state.word, &state.token) {
        ("held", Some(token)) => {
            let token = short(token);
            if state.who.starts_with(&token) {
                return format!("{token} leads");
            }
            return format!("{token} ({}{}) leads", state.who, state.since(" since "));
        }
        ("rests", _) => "nobody leads, the lock rests",
        ("read", _) => "nobody leads, readers have what the leader would lock",
        ("blocked", _) => "nobody leads, and keys of others are in the way",
        _ => "too few servers say who leads",
    };
    nobody.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_end_at_once_pause_for_longer_and_longer_up_to_a_bound() {
        let mut pause = Duration::ZERO;
        let mut seconds = |ran| {
            pause = pause_after(pause, ran);
            pause.as_secs()
        };
        let at_once = [(); 8].map(|()| seconds(Duration::ZERO));
        assert_eq!(at_once, [1, 2, 4, 8, 16, 30, 30, 30]);
        assert_eq!([WELL, WELL, Duration::ZERO].map(&mut seconds), [1, 1, 2]);
        // Also before they have come to the bound.
        assert_eq!(seconds(WELL), 1);
    }
}
