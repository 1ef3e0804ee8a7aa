//! A command that runs under a lock: from the acquisition to the release.

use redlatch::LockGuard;

use crate::arguments::{OnLoss, Run};
use crate::command;
use crate::failure::{Failure, LOST, no_system};
use crate::metrics::Metrics;
use crate::notify::{self, Notifier};
use crate::record::Term;
use crate::session::{Ending, Session};
use crate::supervise::{Supervisor, Task};
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
    pub(crate) fn work(&self, held: LockGuard) -> Result<Term, Failure> {
        self.session.watch(&held);
        if let Some(metrics) = &self.metrics {
            metrics.held();
        }
        let term = match self.under_lock(&held) {
            Ok(term) => term,
            Err(failure) => {
                // The command did not run, so its failure matters more than one of the release, and another may try.
                held.unlock_now().ok();
                return Err(failure);
            }
        };
        let term = self.give_back(held, term);
        if let Some(metrics) = &self.metrics {
            metrics.ended(term);
        }
        Ok(term)
    }

    /// Runs the command, from its start to its end.
    fn under_lock(&self, held: &LockGuard) -> Result<Term, Failure> {
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
        session.events.watch(command)?;
        let term = supervisor.wait(&session.events, command);
        group.dismiss();
        Ok(term)
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

    fn give_back(&self, held: LockGuard, term: Term) -> Term {
        let is_lost = if term.is_lost {
            // The loss was told when it was found. This removes what the servers still have: a minority, or all of
            // them where this process stood still, and the command was ended in time.
            self.ending(LOST).of(held).ok();
            true
        } else {
            !self.session.give_back(held, self.ending(term.code))
        };
        let is_told = is_lost && self.arguments.on_loss != OnLoss::Ignore;
        let code = if is_told { LOST } else { term.code };
        Term {
            code,
            is_lost,
            ..term
        }
    }
}
