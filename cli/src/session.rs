//! A lock that is held for this process: what `run`, `run --forever` and `hold` share, from the request to the release.
//!
//! The library waits for the lock on a thread, while this thread waits for signals, which end the wait.

use std::iter;
use std::panic;
use std::thread;
use std::time::Duration;

use log::info;
use redlatch::{Cancel, Error, LockGuard};

use crate::clock;
use crate::event::{Event, Events, code_of_signal};
use crate::failure::{Failure, no_system, told_of_loss};
use crate::output;
use crate::progress::Progress;
use crate::refusal::refusal;
use crate::request::Request;

/// How often it is looked whether there is something to show.
const TICK: Duration = Duration::from_millis(100);

/// For how long the end of this process waits for servers that have not answered a release.
const FLUSH: Duration = Duration::from_secs(1);

/// What is wanted, and what happens meanwhile.
pub(crate) struct Session<'a> {
    pub(crate) request: Request<'a>,
    pub(crate) events: Events,
}

impl Session<'_> {
    /// Waits until the lock is acquired, the time is over, or a signal comes.
    pub(crate) fn acquire(&self) -> Result<LockGuard, Failure> {
        let mut progress = Progress::new(self.request);
        // The first attempt does not wait, so that what is in the way is told at once.
        let mut result = self.call(None, || ())?;
        if let (Err(error), Some(wait)) = (&result, self.request.wait)
            && error.is_transient()
        {
            progress.begin(error);
            let left = wait.saturating_sub(progress.waited());
            result = self.call(Some(left), || progress.show())?;
        }
        let held = result.map_err(|error| refusal(&self.request, error))?;
        progress.got(&held);
        Ok(held)
    }

    /// Calls the library once, which waits for so long, and ticks meanwhile. It is a failure if the program is to end.
    pub(crate) fn call(
        &self,
        wait: Option<Duration>,
        mut tick: impl FnMut(),
    ) -> Result<Result<LockGuard, Error>, Failure> {
        let cancel = Cancel::new();
        let mut interrupted = None;
        let result = thread::scope(|scope| {
            let (request, sender, cancel) = (self.request, self.events.sender.clone(), &cancel);
            let asks = move || {
                let result = request.call(wait, cancel);
                sender.send(Event::Answered).ok();
                result
            };
            let caller = thread::Builder::new()
                .name("waiting".into())
                .spawn_scoped(scope, asks)
                .map_err(|error| no_system("thread", &error))?;
            let mut is_over = false;
            loop {
                match self.events.next(clock::now().checked_add(TICK)) {
                    Some(Event::Answered) => break,
                    // After a panic, nothing is sent. What was sent before the thread ended comes first.
                    None if is_over => break,
                    None if caller.is_finished() => is_over = true,
                    None if interrupted.is_none() => tick(),
                    event => {
                        if let Some(signal) = event.and_then(|event| event.heed_in_wait()) {
                            interrupted.get_or_insert(code_of_signal(signal));
                            cancel.cancel();
                        }
                    }
                }
            }
            output::clear_line();
            let result = caller.join();
            Ok(result.unwrap_or_else(|panic| panic::resume_unwind(panic)))
        });
        let Some(code) = interrupted else {
            return result;
        };
        if let Ok(Ok(held)) = result {
            // A majority granted it although a signal came. Nothing runs, so it must not rest.
            held.unlock_now().ok();
        }
        Err(Failure::new(code, ""))
    }

    /// Waits for so long without asking for the lock. Returns the exit code of a signal that ends it.
    pub(crate) fn pause(&self, span: Duration) -> Option<u8> {
        let end = clock::now().checked_add(span);
        let signal = iter::from_fn(|| self.events.next(end)).find_map(|event| event.heed_in_wait());
        signal.map(code_of_signal)
    }

    /// The loss of this lock is an event from now on, and that somebody waits for it; what is told has the time.
    pub(crate) fn watch(&self, held: &LockGuard) -> Result<(), Error> {
        output::tell_times();
        let sender = self.events.sender.clone();
        held.on_lost(move |cause| {
            // Once the lock is released, nobody receives events.
            sender.send(Event::Lost(cause)).ok();
        })?;
        let sender = self.events.sender.clone();
        held.on_wanted(move || {
            sender.send(Event::Wanted).ok();
        })
    }

    /// Waits a moment until all servers have answered what was released. A signal ends the wait.
    pub(crate) fn flush(&self) {
        let end = clock::now().checked_add(FLUSH);
        loop {
            let left = end.map_or(Duration::ZERO, |end| {
                end.saturating_duration_since(clock::now())
            });
            let step = left.min(TICK);
            let Err(error) = self.request.manager.flush(step) else {
                return;
            };
            let mut events = iter::from_fn(|| self.events.next(Some(clock::now())));
            let is_signal =
                |event: Event| matches!(event, Event::Signal(_)) && event.heed_in_wait().is_some();
            // Do not wait for a lock that rests.
            let waits = matches!(error, Error::Unanswered { waited, .. } if waited >= step);
            if !waits || left.is_zero() || events.any(is_signal) {
                info!("{error}");
                return;
            }
        }
    }

    /// Tells people how the release of the lock went, after which it rests if it has a minimum. Returns whether it was ours up to now, as far as is known.
    pub(crate) fn tell_release(
        &self,
        released: Result<(), Error>,
        at_least: Option<Duration>,
    ) -> bool {
        let lock = self.request;
        match released {
            Ok(()) => info!("released the lock {lock}"),
            Err(Error::Lost { cause, .. }) => {
                output::complain(&format!(
                    "lost the lock {lock}, and noticed it when releasing it: {}; look whether another one has run beside it",
                    told_of_loss(&cause)
                ));
                return false;
            }
            Err(error) => {
                let rest = at_least.map_or("", |_| " or its --at-least");
                output::complain(&format!(
                    "the lock {lock} may stay until its time to live{rest} is over, and no longer: {error}; see 'redlatch health'"
                ));
            }
        }
        true
    }
}
