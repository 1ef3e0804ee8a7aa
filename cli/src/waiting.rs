//! Acquires the lock: the library waits for it on a thread, while this thread waits for signals, which end the wait.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use log::info;
use redlatch::{Cancel, Error, LockGuard};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGTSTP};

use crate::clock;
use crate::durations;
use crate::event::{Event, code_of_signal};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::refusal::refusal;
use crate::request::Request;
use crate::terminal;

/// How often the progress line is updated.
const TICK: Duration = Duration::from_millis(100);

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
    sender: Sender<Event>,
) -> Result<Acquired, Failure> {
    match attempt(request, events, sender)? {
        Attempt::Held(held) => Ok(Acquired::Held(held)),
        Attempt::Interrupted(code) => Ok(Acquired::Not(code)),
        Attempt::Refused(Error::Held { .. }) if request.is_quiet => {
            Ok(Acquired::Not(request.held_code))
        }
        Attempt::Refused(error) => Err(refusal(request, error)),
    }
}

/// How one call for the lock ended.
pub(crate) enum Attempt {
    Held(LockGuard),
    /// By a signal, which has this exit code.
    Interrupted(u8),
    /// With this error of the library.
    Refused(Error),
}

/// Waits as [`acquire`] does, and leaves it to the caller what a refusal means.
pub(crate) fn attempt(
    request: &Request<'_>,
    events: &Receiver<Event>,
    sender: Sender<Event>,
) -> Result<Attempt, Failure> {
    let started = clock::now();
    let cancel = Cancel::new();
    let caller = request.call(&cancel, sender)?;
    let mut progress = Progress::new(request.wanted, started);
    let mut interrupted = None;
    loop {
        match events.recv_timeout(TICK) {
            Ok(Event::Answered) | Err(RecvTimeoutError::Disconnected) => break,
            Ok(Event::Signal(SIGTSTP)) => terminal::stop_here(),
            // These concern the command, which does not run yet.
            Ok(Event::Signal(SIGCONT) | Event::Stopped(_) | Event::Ended(_) | Event::Lost(_)) => {}
            // Whoever asked for the lock has gone.
            Ok(Event::InputEnded) => {
                interrupted.get_or_insert(code_of_signal(SIGHUP));
                cancel.cancel();
            }
            Ok(Event::Signal(signal)) => {
                interrupted.get_or_insert(code_of_signal(signal));
                cancel.cancel();
            }
            Err(RecvTimeoutError::Timeout) => {
                let is_shown = interrupted.is_none() && !request.is_quiet;
                if is_shown && request.manager.stats().attempts > 0 {
                    progress.show(request.manager);
                }
            }
        }
    }
    progress.clear();
    let result = caller
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    if let Some(code) = interrupted {
        // A lock that was acquired meanwhile is released by the drop.
        drop(result);
        return Ok(Attempt::Interrupted(code));
    }
    let held = match result {
        Ok(held) => held,
        Err(error) => return Ok(Attempt::Refused(error)),
    };
    let waited = durations::rough(clock::now().saturating_duration_since(started));
    let (lock, purpose) = (request.wanted, request.wanted.purpose());
    info!("got the lock {lock}{purpose} after {waited}");
    Ok(Attempt::Held(held))
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
