//! A command that runs under a lock: from the acquisition to the release.

use std::time::Duration;

use redlatch::LockGuard;

use crate::arguments::{OnLoss, Run};
use crate::clock;
use crate::command;
use crate::event;
use crate::failure::{Failure, LOST, no_system};
use crate::metrics::Metrics;
use crate::notify::{self, Notifier};
use crate::record::Term;
use crate::session::{Ending, Session};
use crate::supervise::{End, Supervisor, Task};
use crate::terminal::Terminal;
use crate::watchdog::Watchdog;

/// What to run under which lock.
pub(crate) struct Job<'a> {
    pub(crate) arguments: &'a Run,
    pub(crate) session: Session<'a>,
    pub(crate) notifier: Notifier,
    pub(crate) metrics: Option<Metrics>,
}

impl Job<'_> {
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
        let (arguments, session) = (self.arguments, &self.session);
        let mut group = Watchdog::start().map_err(|error| no_system("process", &error))?;
        let terminal = Terminal::find();
        if let Some(terminal) = &terminal {
            terminal.hand_to(group.group());
        }
        let task = Task {
            arguments,
            request: &session.request,
            held,
            notifier: &self.notifier,
        };
        // The supervisor starts before the command. Otherwise the command could outlive the lock unwatched.
        let supervisor = Supervisor::new(task, &mut group, terminal);
        // The service manager is told by this process.
        let hidden = arguments.forever.then_some(notify::VARIABLE);
        // This process may have been stopped up to now.
        let started = held.check().map_err(Failure::from).and_then(|()| {
            let group = supervisor.group();
            command::spawn(
                &arguments.command,
                session.request.claim,
                held,
                group,
                hidden,
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
        event::watch(command, session.sender.clone())
            .map_err(|error| no_system("thread", &error))?;
        let end = supervisor.wait(&session.events, command);
        group.dismiss();
        Ok(end)
    }

    /// Whether the lock of a run with this exit code rests.
    fn ending(&self, code: u8) -> Ending {
        let is_done = code == 0 || self.arguments.at_least_on_failure;
        if self.arguments.at_least.is_some() && is_done {
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
            !self.session.give_back(held, self.ending(end.code))
        };
        let is_told = is_lost && self.arguments.on_loss != OnLoss::Ignore;
        Term {
            code: if is_told { LOST } else { end.code },
            ran,
            is_lost,
        }
    }
}
