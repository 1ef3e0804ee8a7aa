//! A lock that is held for this process: what `run`, `run --forever` and `hold` share, from the request to the release.
//!
//! The library waits for the lock on a thread, while this thread waits for signals, which end the wait.

use std::iter;
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

/// What is wanted, and what happens meanwhile.
pub(crate) struct Session<'a> {
    pub(crate) request: Request<'a>,
    pub(crate) events: Events,
}

/// Why one call for the lock got none.
pub(crate) enum NoLock {
    Refused(Error),
    /// The program ends.
    End(Failure),
}

/// What becomes of a lock that is given back before its minimum is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It rests, so that nobody gets it before.
    Rest,
    /// It is free.
    AtOnce,
}

impl Ending {
    /// Ends this guard so.
    pub(crate) fn of(self, held: LockGuard) -> Result<(), Error> {
        match self {
            Self::Rest => held.unlock(),
            Self::AtOnce => held.unlock_now(),
        }
    }
}

impl Session<'_> {
    /// Waits until the lock is acquired, the time is over, or a signal comes.
    pub(crate) fn acquire(&self) -> Result<LockGuard, Failure> {
        let mut progress = Progress::new(self.request);
        // The first attempt does not wait, so that what is in the way is told at once.
        let mut result = self.call(None, None);
        if let (Err(NoLock::Refused(error)), Some(wait)) = (&result, self.request.wait)
            && error.is_transient()
        {
            progress.begin(error);
            let left = wait.saturating_sub(progress.waited());
            result = self.call(Some(left), Some(&mut progress));
        }
        match result {
            Ok(held) => {
                progress.got();
                Ok(held)
            }
            Err(NoLock::Refused(error)) => Err(refusal(&self.request, error)),
            Err(NoLock::End(failure)) => Err(failure),
        }
    }

    /// Calls the library once, which waits for so long, and shows meanwhile how it goes.
    pub(crate) fn call(
        &self,
        wait: Option<Duration>,
        mut progress: Option<&mut Progress<'_>>,
    ) -> Result<LockGuard, NoLock> {
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
                .map_err(|error| NoLock::End(no_system("thread", &error)))?;
            let mut is_over = false;
            loop {
                match self.events.next(clock::now().checked_add(TICK)) {
                    Some(Event::Answered) => break,
                    // After a panic, nothing is sent. What was sent before the thread ended comes first.
                    None if is_over => break,
                    None if caller.is_finished() => is_over = true,
                    None => {
                        if let (Some(progress), None) = (&mut progress, interrupted) {
                            progress.show();
                        }
                    }
                    Some(event) => {
                        if let Some(signal) = event.ends_wait() {
                            interrupted.get_or_insert(code_of_signal(signal));
                            cancel.cancel();
                        }
                    }
                }
            }
            output::clear_line();
            let result = caller.join();
            let result = result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            result.map_err(NoLock::Refused)
        });
        match interrupted {
            // A lock that was acquired meanwhile is released by the drop.
            Some(code) => Err(NoLock::End(Failure::quiet(code))),
            None => result,
        }
    }

    /// Waits for so long without asking for the lock. Returns the exit code of a signal that ends it.
    pub(crate) fn pause(&self, span: Duration) -> Option<u8> {
        let end = clock::now().checked_add(span);
        let signal = iter::from_fn(|| self.events.next(end)).find_map(|event| event.ends_wait());
        signal.map(code_of_signal)
    }

    /// The loss of this lock is an event from now on, and that somebody waits for it; what is told has the time.
    pub(crate) fn watch(&self, held: &LockGuard) {
        output::tell_times();
        let sender = self.events.sender.clone();
        held.on_lost(move |cause| {
            // Once the lock is given back, nobody receives events.
            sender.send(Event::Lost(cause)).ok();
        });
        let sender = self.events.sender.clone();
        held.on_wanted(move || {
            sender.send(Event::Wanted).ok();
        });
    }

    /// Gives the lock back, and tells people how that went. Returns whether it was ours up to now, as far as is known.
    pub(crate) fn give_back(&self, held: LockGuard, ending: Ending) -> bool {
        let claim = self.request.claim;
        match ending.of(held) {
            Ok(()) => info!("gave the lock {claim} back"),
            Err(Error::Lost { cause, .. }) => {
                output::complain(&format!(
                    "lost the lock {claim}, and noticed it when giving it back: {}; look whether another one has run beside \
                     it",
                    told_of_loss(&cause)
                ));
                return false;
            }
            Err(error) => {
                let end = match ending {
                    Ending::Rest => "its time to live or its --at-least",
                    Ending::AtOnce => "its time to live",
                };
                output::complain(&format!(
                    "the lock {claim} may stay until {end} is over, and no longer: {error}; see 'redlatch health'"
                ));
            }
        }
        true
    }
}
