//! A lock that is held for this process: what `run`, `run --forever` and `hold` share, from the request to the loss.

use std::sync::mpsc::{Receiver, Sender, channel};

use redlatch::LockGuard;

use crate::event::{self, Event};
use crate::failure::{Failure, no_system};
use crate::output;
use crate::request::Request;
use crate::waiting::{self, Acquired};

/// What is wanted, and what happens meanwhile.
pub(crate) struct Session<'a> {
    pub(crate) request: Request<'a>,
    pub(crate) events: Receiver<Event>,
    pub(crate) sender: Sender<Event>,
}

impl<'a> Session<'a> {
    /// Signals are events from now on.
    pub(crate) fn new(request: Request<'a>) -> Result<Self, Failure> {
        let (sender, events) = channel();
        event::listen(sender.clone()).map_err(|error| no_system("signals", &error))?;
        Ok(Self {
            request,
            events,
            sender,
        })
    }

    /// Waits for the lock.
    pub(crate) fn acquire(&self) -> Result<Acquired, Failure> {
        waiting::acquire(&self.request, &self.events, &self.sender)
    }

    /// The loss of this lock is an event from now on, and that somebody waits for it; what is told has the time.
    pub(crate) fn watch(&self, held: &LockGuard) {
        output::tell_times();
        let sender = self.sender.clone();
        held.on_lost(move |cause| {
            // Once the lock is given back, nobody receives events.
            sender.send(Event::Lost(cause)).ok();
        });
        let sender = self.sender.clone();
        held.on_wanted(move || {
            sender.send(Event::Wanted).ok();
        });
    }

    /// Says that somebody waits for the lock.
    pub(crate) fn tell_wanted(&self) {
        output::complain(&format!(
            "somebody waits for the lock {}",
            self.request.wanted
        ));
    }
}
