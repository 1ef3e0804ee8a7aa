//! Getting the lock: attempts, and the waiting between them, which a signal ends.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use log::info;
use redlatch::{Error, KeepAlive, LockGuard, LockManager, Vote};
use signal_hook::consts::{SIGCONT, SIGTSTP};

use crate::clock;
use crate::durations;
use crate::event::{Event, code_of_signal};
use crate::failure::{Failure, SYSTEM};
use crate::name::Name;
use crate::progress::Progress;
use crate::run::Lease;
use crate::terminal;

/// The bounds of the random delay between two attempts, in milliseconds: those of the library.
const DELAY_MS: (u32, u32) = (50, 250);

/// Which lock, and how badly it is wanted.
pub(crate) struct Wish<'a> {
    pub(crate) manager: &'a LockManager,
    pub(crate) name: &'a Name,
    pub(crate) lease: Lease,
    /// None is one attempt.
    pub(crate) wait: Option<Duration>,
    pub(crate) held_code: u8,
}

impl Wish<'_> {
    /// One attempt. The guard renews the lock from then on.
    fn try_lock(&self) -> Result<LockGuard, Error> {
        let keep_alive = self
            .lease
            .max_hold
            .map_or(KeepAlive::unbounded(), KeepAlive::max_hold);
        let request = self.manager.request(self.name.as_str()).ttl(self.lease.ttl);
        request.keep_alive(keep_alive).try_lock()
    }
}

/// How the waiting ended.
pub(crate) enum Acquired {
    Held(LockGuard),
    /// By a signal, which has this exit code. No lock is held.
    Interrupted(u8),
}

/// Tries until the lock is ours, the time is over, or a signal comes.
///
/// The waits are here and not in the library, because a signal has to end them at once.
pub(crate) fn acquire(wish: &Wish<'_>, events: &Receiver<Event>) -> Result<Acquired, Failure> {
    let started = clock::now();
    let deadline = wish.wait.and_then(|wait| started.checked_add(wait));
    let mut progress = Progress::new(wish.name, started);
    loop {
        let result = wish.try_lock();
        if let Some(code) = interruption(events, Duration::ZERO) {
            progress.clear();
            // A lock that was got meanwhile is given back: nothing was done under it.
            drop(result);
            return Ok(Acquired::Interrupted(code));
        }
        let error = match result {
            Ok(held) => {
                progress.clear();
                let waited = durations::rough(clock::now().saturating_duration_since(started));
                info!("got the lock {} after {waited}", wish.name);
                return Ok(Acquired::Held(held));
            }
            Err(error) => error,
        };
        let left = deadline.map(|deadline| deadline.saturating_duration_since(clock::now()));
        let left = left.unwrap_or(Duration::ZERO);
        if left.is_zero() || !is_worth_waiting(&error) {
            progress.clear();
            return Err(refusal(wish, error));
        }
        progress.show(wish.manager);
        if let Some(code) = interruption(events, delay()?.min(left)) {
            progress.clear();
            return Ok(Acquired::Interrupted(code));
        }
    }
}

/// Lets time pass. Returns the exit code of a signal that ends the waiting.
fn interruption(events: &Receiver<Event>, span: Duration) -> Option<u8> {
    match events.recv_timeout(span) {
        Ok(Event::Signal(SIGTSTP)) => {
            terminal::stop_here();
            None
        }
        // The rest is for a command, and there is none yet.
        Ok(Event::Signal(SIGCONT) | Event::Stopped(_) | Event::Ended(_) | Event::Lost(_))
        | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        Ok(Event::Signal(signal)) => Some(code_of_signal(signal)),
    }
}

fn is_worth_waiting(error: &Error) -> bool {
    matches!(
        error,
        Error::Held { .. } | Error::Unavailable { .. } | Error::TooSlow { .. }
    )
}

fn refusal(wish: &Wish<'_>, error: Error) -> Failure {
    if let Error::InvalidTtl { reason, .. } = &error
        && wish.lease.max_hold == Some(wish.lease.ttl)
    {
        // The ttl follows from --max-hold here, and is not what was typed.
        return Failure::usage(format!(
            "--max-hold {} can't be used, because the ttl is no longer than that: {reason}",
            durations::exact(wish.lease.ttl)
        ));
    }
    let Error::Held { nodes, .. } = &error else {
        return error.into();
    };
    let is_held = |vote: &Vote| matches!(vote, Vote::Held { .. });
    let count = nodes.iter().filter(|report| is_held(&report.vote)).count();
    let waited = wish.wait.map_or(String::new(), |wait| {
        format!(", after {} of waiting", durations::exact(wait))
    });
    let mend = if wish.wait.is_some() {
        "wait longer with --wait"
    } else {
        "wait with --wait"
    };
    let message = format!(
        "another holder has the lock {} (on {count} of {} nodes, as far as they were asked{waited}); {mend}, or see 'redlatch status'",
        wish.name,
        nodes.len()
    );
    Failure::new(wish.held_code, message)
}

/// A random delay, so that those who wait don't ask in step.
fn delay() -> Result<Duration, Failure> {
    let (min, max) = DELAY_MS;
    let random = getrandom::u32().map_err(|error| Failure::new(SYSTEM, error.to_string()))?;
    let span = random.checked_rem(max.abs_diff(min)).unwrap_or(0);
    Ok(Duration::from_millis(min.saturating_add(span).into()))
}
