//! `redlatch run`: takes the lock, runs the command, releases the lock.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use redlatch::{LockGuard, Protocol};

use crate::arguments::{OnLoss, Run};
use crate::clock;
use crate::command;
use crate::config::{self, Config};
use crate::event::{self, Event};
use crate::failure::{Failure, LOST, no_system};
use crate::forever;
use crate::give_back::{GivenBack, give_back};
use crate::log_lines;
use crate::metrics::Metrics;
use crate::nodes;
use crate::notify;
use crate::plan::LossPolicy;
use crate::supervise::{End, Supervisor, Task};
use crate::terminal::Terminal;
use crate::waiting::{self, Acquired, Request};
use crate::watchdog::Watchdog;

/// Returns the exit code.
pub(crate) fn run(arguments: &Run) -> Result<u8, Failure> {
    log_lines::start(&arguments.servers);
    let config = config::load(arguments.servers.config.as_deref())?;
    let manager = nodes::manager(
        &arguments.servers,
        &config,
        protocol(arguments.lock.fenced, &config),
    )?;
    let request = Request::new(&arguments.lock, &config, &manager)?;
    if let Some(program) = arguments.command.first() {
        command::check(program)?;
    }
    let start = |file: &PathBuf| Metrics::start(file, &arguments.lock.name, &manager);
    let metrics = arguments.metrics.as_ref().map(start).transpose()?;
    let (sender, events) = channel();
    event::listen(sender.clone()).map_err(|error| no_system("signals", &error))?;
    let job = Job {
        arguments,
        request,
        events,
        sender,
        metrics,
    };
    let result = if arguments.forever {
        forever::run(&job)
    } else {
        job.once()
    };
    if let Some(metrics) = &job.metrics {
        metrics.finish(*result.as_ref().unwrap_or_else(|failure| &failure.code));
    }
    result
}

/// What to run under which lock.
pub(crate) struct Job<'a> {
    pub(crate) arguments: &'a Run,
    pub(crate) request: Request<'a>,
    pub(crate) events: Receiver<Event>,
    pub(crate) sender: Sender<Event>,
    metrics: Option<Metrics>,
}

/// How one run of the command ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Term {
    /// The exit code that it has for `redlatch`.
    pub(crate) code: u8,
    pub(crate) ran: Duration,
    /// Whether the lock was lost before the command had ended.
    pub(crate) is_lost: bool,
}

impl Job<'_> {
    /// Returns the exit code.
    fn once(&self) -> Result<u8, Failure> {
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
                // The command did not run, so its failure matters more than one of the release.
                held.unlock().ok();
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
            name: &arguments.lock.name,
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
                arguments.lock.name.as_str(),
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

    fn give_back(&self, held: LockGuard, end: End, ran: Duration) -> Term {
        let (code, is_lost) = match end {
            End::Guarded(code) => {
                let given_back = give_back(&self.arguments.lock.name, held);
                (code, given_back == GivenBack::Lost)
            }
            End::Unguarded(code) => {
                // The loss was told when it was found. This removes what a minority of the servers still has.
                held.unlock().ok();
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

/// The fenced protocol if the flag or the configuration asks for it.
pub(crate) fn protocol(is_fenced: bool, config: &Config) -> Protocol {
    if is_fenced {
        return Protocol::Fenced;
    }
    config.protocol.unwrap_or(Protocol::Classic)
}
