//! Acquires the lock: the library waits for it on a thread, while this thread waits for signals, which end the wait.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use redlatch::{Cancel, Error, LockGuard};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGTSTP};

use crate::clock;
use crate::durations;
use crate::event::{Event, code_of_signal};
use crate::failure::{Failure, no_system};
use crate::nested;
use crate::output;
use crate::progress::Progress;
use crate::refusal::refusal;
use crate::request::Request;
use crate::terminal;

/// How often it is looked whether there is something to show.
const TICK: Duration = Duration::from_millis(100);

/// How one call for the lock ended.
pub(crate) enum Attempt {
    Held(LockGuard),
    /// By a signal, which has this exit code.
    Interrupted(u8),
    /// With this error of the library.
    Refused(Error),
}

/// How the wait ended.
pub(crate) enum Acquired {
    Held(LockGuard),
    /// Without a lock, and with nothing to say: by a signal, or because another holder has the lock and the request is
    /// quiet. The program ends with this exit code.
    Not(u8),
}

/// Waits until the lock is acquired, the time is over, or a signal comes.
pub(crate) fn acquire(
    request: &Request<'_>,
    events: &Receiver<Event>,
    sender: &Sender<Event>,
) -> Result<Acquired, Failure> {
    let started = clock::now();
    let mut progress = Progress::new(request, started);
    // The first attempt does not wait, so that what is in the way is told at once.
    let mut attempt = call(request, None, (events, sender), None)?;
    if let (Some(error), Some(wait)) = (attempt.passing_refusal(), request.wait) {
        tell_first(request, error, wait);
        let left = wait.saturating_sub(clock::now().saturating_duration_since(started));
        attempt = call(request, Some(left), (events, sender), Some(&mut progress))?;
    }
    match attempt {
        Attempt::Held(held) => {
            progress.got();
            Ok(Acquired::Held(held))
        }
        Attempt::Interrupted(code) => Ok(Acquired::Not(code)),
        Attempt::Refused(Error::Held { .. }) if request.is_quiet => {
            Ok(Acquired::Not(request.held_code))
        }
        Attempt::Refused(error) => Err(refusal(request, error)),
    }
}

impl Attempt {
    /// Why the lock was refused, if the next attempt may succeed.
    pub(crate) fn passing_refusal(&self) -> Option<&Error> {
        let Self::Refused(error) = self else {
            return None;
        };
        error.is_transient().then_some(error)
    }
}

/// What is told at once of the first attempt of a wait.
fn tell_first(request: &Request<'_>, error: &Error, wait: Duration) {
    let wanted = request.wanted;
    if !matches!(error, Error::Held { .. }) {
        let advice = Failure::from(error.clone()).message;
        let wait = durations::rough(wait);
        output::complain(&format!("{advice}; it goes on trying for {wait}"));
    } else if let Some(name) = nested::held_by_parent(&wanted).filter(|_| !request.is_quiet) {
        output::complain(&format!(
            "a parent of this process has the lock {name} (redlatch run), and gives it back when this one has ended: to wait \
             is in vain; leave the inner redlatch out, or give it another name"
        ));
    }
}

/// Calls the library once, which waits for so long, and shows meanwhile how it goes.
pub(crate) fn call(
    request: &Request<'_>,
    wait: Option<Duration>,
    (events, sender): (&Receiver<Event>, &Sender<Event>),
    mut progress: Option<&mut Progress<'_>>,
) -> Result<Attempt, Failure> {
    let cancel = Cancel::new();
    let mut interrupted = None;
    let result = thread::scope(|scope| {
        let asks = || {
            let _end = Announced(sender.clone());
            request.call(wait, &cancel)
        };
        let caller = thread::Builder::new()
            .name("waiting".into())
            .spawn_scoped(scope, asks)
            .map_err(|error| no_system("thread", &error))?;
        loop {
            match events.recv_timeout(TICK) {
                Ok(Event::Answered) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(Event::Signal(SIGTSTP)) => terminal::stop_here(),
                // These concern the command, which does not run yet.
                Ok(
                    Event::Signal(SIGCONT)
                    | Event::Stopped(_)
                    | Event::Ended(_)
                    | Event::Lost(_)
                    | Event::Wanted,
                ) => {}
                // At the end of its input, whoever asked for the lock has gone.
                Ok(event) => {
                    let signal = if let Event::Signal(signal) = event {
                        signal
                    } else {
                        SIGHUP
                    };
                    interrupted.get_or_insert(code_of_signal(signal));
                    cancel.cancel();
                }
                Err(RecvTimeoutError::Timeout) => {
                    if let Some(progress) = &mut progress
                        && interrupted.is_none()
                        && !request.is_quiet
                    {
                        progress.show(request.manager);
                    }
                }
            }
        }
        output::clear_line();
        let result = caller.join();
        let result = result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok::<_, Failure>(result.map_or_else(Attempt::Refused, Attempt::Held))
    })?;
    // A lock that was acquired meanwhile is released by the drop.
    Ok(interrupted.map_or(result, Attempt::Interrupted))
}

/// Sends an event when the call has ended, also after a panic.
struct Announced(Sender<Event>);

impl Drop for Announced {
    fn drop(&mut self) {
        // The receiver lives as long as this process.
        self.0.send(Event::Answered).ok();
    }
}

/// Waits for so long without asking for the lock. Returns the exit code of a signal that ends it.
pub(crate) fn pause(events: &Receiver<Event>, span: Duration) -> Option<u8> {
    let end = clock::now().checked_add(span);
    loop {
        let left = end.map(|end| end.saturating_duration_since(clock::now()));
        match events.recv_timeout(left.unwrap_or_default()) {
            Ok(Event::Signal(SIGTSTP)) => terminal::stop_here(),
            Ok(Event::Signal(signal)) if signal != SIGCONT => {
                return Some(code_of_signal(signal));
            }
            // These concern the command, which has ended.
            Ok(_) => {}
            Err(_) => return None,
        }
    }
}
