//! A command that runs under a lock: from the acquisition to the release.

use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use redlatch::LockGuard;

use crate::arguments::{OnLoss, Run};
use crate::clock;
use crate::command;
use crate::event::{self, Event};
use crate::failure::{Failure, LOST, no_system};
use crate::give_back::{Ending, GivenBack, give_back};
use crate::metrics::Metrics;
use crate::notify;
use crate::plan::LossPolicy;
use crate::request::Request;
use crate::supervise::{End, Supervisor, Task};
use crate::term::Term;
use crate::terminal::Terminal;
use crate::waiting::{self, Acquired};
use crate::watchdog::Watchdog;

/// What to run under which lock.
pub(crate) struct Job<'a> {
    pub(crate) arguments: &'a Run,
    pub(crate) request: Request<'a>,
    pub(crate) events: Receiver<Event>,
    pub(crate) sender: Sender<Event>,
    pub(crate) metrics: Option<Metrics>,
}

impl Job<'_> {
    /// Returns the exit code.
    pub(crate) fn once(&self) -> Result<u8, Failure> {
        match waiting::acquire(&self.request, &self.events, self.sender.clone())? {
            Acquired::Held(held) => Ok(self.work(held, &|_| ())?.code),
            Acquired::Not(code) => Ok(code),
        }
    }

    /// Runs the command under this lock, and gives the lock back.
    pub(crate) fn work(&self, held: LockGuard, on_signal: &dyn Fn(i32)) -> Result<Term, Failure> {
        let lost = self.sender.clone();
        held.on_lost(move |cause| {
            // Once the program ends, nobody receives events.
            lost.send(Event::Lost(cause)).ok();
        });
        if let Some(metrics) = &self.metrics {
            metrics.held();
        }
        let started = clock::now();
        let end = match self.under_lock(&held, on_signal) {
            Ok(end) => end,
            Err(failure) => {
                // The command did not run, so its failure matters more than one of the release, and another may try.
                held.unlock_now().ok();
                return Err(failure);
            }
        };
        let ran = clock::now().saturating_duration_since(started);
        let term = self.give_back(held, end, ran);
        if let Some(metrics) = &self.metrics {
            metrics.ended(term);
        }
        Ok(term)
    }

    /// Runs the command, from its start to its end.
    fn under_lock(&self, held: &LockGuard, on_signal: &dyn Fn(i32)) -> Result<End, Failure> {
        let arguments = self.arguments;
        let mut group = Watchdog::start().map_err(|error| no_system("process", &error))?;
        let terminal = Terminal::find();
        if let Some(terminal) = &terminal {
            terminal.hand_to(group.group());
        }
        let task = Task {
            wanted: self.request.wanted,
            held,
            loss_policy: LossPolicy {
                on_loss: arguments.on_loss,
                grace: arguments.grace,
                ttl: self.request.hold_time.ttl,
            },
            on_signal,
        };
        // The supervisor starts before the command. Otherwise the command could outlive the lock unwatched.
        let supervisor = Supervisor::new(task, &mut group, terminal);
        // This process may have been stopped up to now.
        let started = held.check().map_err(Failure::from).and_then(|()| {
            command::spawn(
                &arguments.command,
                self.request.wanted,
                held,
                supervisor.group(),
                if arguments.forever {
                    &[notify::VARIABLE]
                } else {
                    &[]
                },
            )
        });
        let command = match started {
            Ok(command) => command,
            Err(failure) => {
                group.dismiss();
                return Err(failure);
            }
        };
        // If no thread can be started for it, the watchdog is dropped without a goodbye, and kills the command.
        event::watch(command, self.sender.clone()).map_err(|error| no_system("thread", &error))?;
        let end = supervisor.wait(&self.events, command);
        group.dismiss();
        Ok(end)
    }

    /// Whether the lock of a run with this exit code rests.
    fn ending(&self, code: u8) -> Ending {
        let arguments = self.arguments;
        let is_done = code == 0 || arguments.at_least_on_failure;
        if arguments.at_least.is_some() && is_done {
            Ending::Rest
        } else {
            Ending::AtOnce
        }
    }

    fn give_back(&self, held: LockGuard, end: End, ran: Duration) -> Term {
        let (code, is_lost) = match end {
            End::Guarded(code) => {
                let ending = self.ending(code);
                let given_back = give_back(&self.request.wanted, held, ending);
                (code, given_back == GivenBack::Lost)
            }
            End::Unguarded(code) => {
                // The loss was told when it was found. This removes what the servers still have: a minority, or all of
                // them where this process stood still, and the command was ended in time.
                self.ending(LOST).of(held).ok();
                (code, true)
            }
        };
        let is_told = is_lost && self.arguments.on_loss != OnLoss::Ignore;
        Term {
            code: if is_told { LOST } else { code },
            ran,
            is_lost,
        }
    }
}
