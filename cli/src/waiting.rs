//! Getting the lock: the library waits for it on a thread, and this one for signals, which end the waiting.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use log::info;
use redlatch::{Cancel, Error, KeepAlive, LockGuard, LockManager, Vote};
use signal_hook::consts::{SIGCONT, SIGTSTP};

use crate::clock;
use crate::durations;
use crate::event::{Event, code_of_signal};
use crate::failure::{Failure, no_system};
use crate::name::Name;
use crate::progress::Progress;
use crate::terminal;
use crate::times::Times;

/// How often a person who waits sees how much time has passed.
const TICK: Duration = Duration::from_millis(100);

/// Which lock, and how badly it is wanted.
pub(crate) struct Wish<'a> {
    pub(crate) manager: &'a LockManager,
    pub(crate) name: &'a Name,
    pub(crate) times: Times,
    /// None is one attempt.
    pub(crate) wait: Option<Duration>,
    pub(crate) held_code: u8,
}

/// How the waiting ended.
pub(crate) enum Acquired {
    Held(LockGuard),
    /// By a signal, which has this exit code. No lock is held.
    Interrupted(u8),
}

/// Waits until the lock is ours, the time is over, or a signal comes.
pub(crate) fn acquire(
    wish: &Wish<'_>,
    events: &Receiver<Event>,
    sender: Sender<Event>,
) -> Result<Acquired, Failure> {
    let started = clock::now();
    let cancel = Cancel::new();
    let caller = wish.call(&cancel, sender)?;
    let mut progress = Progress::new(wish.name, started);
    let mut interrupted = None;
    loop {
        match events.recv_timeout(TICK) {
            Ok(Event::Answered) | Err(RecvTimeoutError::Disconnected) => break,
            Ok(Event::Signal(SIGTSTP)) => terminal::stop_here(),
            // These are for a command, and there is none yet.
            Ok(Event::Signal(SIGCONT) | Event::Stopped(_) | Event::Ended(_) | Event::Lost(_)) => {}
            Ok(Event::Signal(signal)) => {
                interrupted.get_or_insert(code_of_signal(signal));
                cancel.cancel();
            }
            Err(RecvTimeoutError::Timeout) => {
                if interrupted.is_none() && wish.manager.stats().attempts > 0 {
                    progress.show(wish.manager);
                }
            }
        }
    }
    progress.clear();
    let result = caller
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    if let Some(code) = interrupted {
        // A lock that was got meanwhile is given back: nothing was done under it.
        drop(result);
        return Ok(Acquired::Interrupted(code));
    }
    let held = result.map_err(|error| refusal(wish, error))?;
    let waited = durations::rough(clock::now().saturating_duration_since(started));
    info!("got the lock {} after {waited}", wish.name);
    Ok(Acquired::Held(held))
}

/// What the thread that waits has got.
type Caller = JoinHandle<Result<LockGuard, Error>>;

/// Tells that the call has ended, also by a panic.
struct Announced(Sender<Event>);

impl Drop for Announced {
    fn drop(&mut self) {
        // Somebody listens for as long as this process runs.
        self.0.send(Event::Answered).ok();
    }
}

impl Wish<'_> {
    /// Has the library wait for the lock on a thread, which tells when it has ended. The guard renews the lock from then on.
    fn call(&self, cancel: &Cancel, events: Sender<Event>) -> Result<Caller, Failure> {
        let (manager, name) = (self.manager.clone(), self.name.clone());
        let (Times { ttl, max_hold }, wait) = (self.times, self.wait);
        let cancel = cancel.clone();
        let keep_alive = max_hold.map_or(KeepAlive::unbounded(), KeepAlive::max_hold);
        let call = move || {
            let request = manager.request(name.as_str()).ttl(ttl);
            let request = request.keep_alive(keep_alive).cancelled_by(&cancel);
            let _end = Announced(events);
            match wait {
                Some(wait) => request.try_lock_for(wait),
                None => request.try_lock(),
            }
        };
        let thread = thread::Builder::new().name("waiting".into());
        thread
            .spawn(call)
            .map_err(|error| no_system("thread", &error))
    }
}

fn refusal(wish: &Wish<'_>, error: Error) -> Failure {
    if let Error::InvalidTtl { reason, .. } = &error
        && wish.times.max_hold == Some(wish.times.ttl)
    {
        // The ttl follows from --max-hold here, and is not what was typed.
        return Failure::usage(format!(
            "--max-hold {} can't be used, because the ttl is no longer than that: {reason}",
            durations::exact(wish.times.ttl)
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
    let advice = if wish.wait.is_some() {
        "wait longer with --wait"
    } else {
        "wait with --wait"
    };
    let message = format!(
        "another holder has the lock {} (on {count} of {} nodes, as far as they were asked{waited}); {advice}, or see 'redlatch status'",
        wish.name,
        nodes.len()
    );
    Failure::new(wish.held_code, message)
}
