//! A command that runs under a lock: from the acquisition to the release.

use std::time::Duration;

use redlatch::LockGuard;

use crate::arguments::{OnLoss, Run};
use crate::clock;
use crate::command;
use crate::event;
use crate::failure::{Failure, LOST, no_system};
use crate::give_back::{Ending, GivenBack, give_back};
use crate::metrics::Metrics;
use crate::notify::{self, Notifier};
use crate::plan::LossPolicy;
use crate::session::Session;
use crate::supervise::{End, Supervisor, Task};
use crate::term::Term;
use crate::terminal::Terminal;
use crate::waiting::Acquired;
use crate::watchdog::Watchdog;

/// What to run under which lock.
pub(crate) struct Job<'a> {
    pub(crate) arguments: &'a Run,
    pub(crate) session: Session<'a>,
    pub(crate) notifier: Notifier,
    pub(crate) metrics: Option<Metrics>,
}

impl Job<'_> {
    /// Returns the exit code.
    pub(crate) fn once(&self) -> Result<u8, Failure> {
        match self.session.acquire()? {
            Acquired::Held(held) => Ok(self.work(held)?.0.code),
            Acquired::Not(code) => Ok(code),
        }
    }

    /// Runs the command under this lock, and gives the lock back.
    /// Returns how it ended, and the signal that was to end the command.
    pub(crate) fn work(&self, held: LockGuard) -> Result<(Term, Option<i32>), Failure> {
        self.session.watch(&held);
        if let Some(metrics) = &self.metrics {
            metrics.held();
        }
        let started = clock::now();
        let end = match self.under_lock(&held) {
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
        Ok((term, end.signal))
    }

    /// Runs the command, from its start to its end.
    fn under_lock(&self, held: &LockGuard) -> Result<End, Failure> {
        let (arguments, request) = (self.arguments, &self.session.request);
        let mut group = Watchdog::start().map_err(|error| no_system("process", &error))?;
        let terminal = Terminal::find();
        if let Some(terminal) = &terminal {
            terminal.hand_to(group.group());
        }
        let task = Task {
            wanted: request.wanted,
            held,
            loss_policy: LossPolicy {
                on_loss: arguments.on_loss,
                grace: arguments.grace,
                ttl: request.hold_time.ttl,
            },
            on_wanted: arguments.on_wanted,
            tells_wanted: arguments.forever,
            notifier: &self.notifier,
        };
        // The supervisor starts before the command. Otherwise the command could outlive the lock unwatched.
        let supervisor = Supervisor::new(task, &mut group, terminal);
        // This process may have been stopped up to now.
        let started = held.check().map_err(Failure::from).and_then(|()| {
            command::spawn(
                &arguments.command,
                request.wanted,
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
        event::watch(command, self.session.sender.clone())
            .map_err(|error| no_system("thread", &error))?;
        let end = supervisor.wait(&self.session.events, command);
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
        let is_lost = if end.is_lost {
            // The loss was told when it was found. This removes what the servers still have: a minority, or all of
            // them where this process stood still, and the command was ended in time.
            self.ending(LOST).of(held).ok();
            true
        } else {
            let given_back = give_back(&self.session.request.wanted, held, self.ending(end.code));
            given_back == GivenBack::Lost
        };
        let is_told = is_lost && self.arguments.on_loss != OnLoss::Ignore;
        Term {
            code: if is_told { LOST } else { end.code },
            ran,
            is_lost,
        }
    }
}
