//! `redlatch run`: takes the lock, runs the command, releases the lock.

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use log::info;
use redlatch::{Error, LockGuard, Protocol};

use crate::arguments::{OnLoss, Run};
use crate::command;
use crate::config::{self, Config};
use crate::event::{self, Event};
use crate::failure::{Failure, LOST, no_system};
use crate::log_lines;
use crate::nodes;
use crate::output;
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
    let (sender, events) = channel();
    event::listen(sender.clone()).map_err(|error| no_system("signals", &error))?;
    let held = match waiting::acquire(&request, &events, sender.clone())? {
        Acquired::Held(held) => held,
        Acquired::Not(code) => return Ok(code),
    };
    let lost = sender.clone();
    held.on_lost(move |cause| {
        // Once the command has ended, nobody receives events.
        lost.send(Event::Lost(cause)).ok();
    });
    match under_lock(arguments, &held, &events, request.hold_time.ttl, |pid| {
        event::watch(pid, sender)
    }) {
        Ok(end) => Ok(give_back(arguments, held, end)),
        Err(failure) => {
            // The command did not run, so its failure matters more than one of the release.
            held.unlock().ok();
            Err(failure)
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

/// Runs the command, from its start to its end.
fn under_lock(
    arguments: &Run,
    held: &LockGuard,
    events: &Receiver<Event>,
    ttl: Duration,
    watch: impl FnOnce(rustix::process::Pid) -> std::io::Result<()>,
) -> Result<End, Failure> {
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
            ttl,
        },
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
    watch(command).map_err(|error| no_system("thread", &error))?;
    let end = supervisor.wait(events, command);
    group.dismiss();
    Ok(end)
}

/// Returns the exit code.
fn give_back(arguments: &Run, held: LockGuard, end: End) -> u8 {
    let name = &arguments.lock.name;
    let released = held.unlock();
    match (end, released) {
        (End::Guarded(code), Ok(())) => {
            info!("gave the lock {name} back");
            code
        }
        (End::Guarded(code), Err(Error::Lost { cause, .. })) => {
            output::complain(&format!(
                "lost the lock {name}, and noticed it when the command had ended: {cause}; look whether another one \
                 has run beside it"
            ));
            if arguments.on_loss == OnLoss::Ignore {
                code
            } else {
                LOST
            }
        }
        (End::Guarded(code), Err(error)) => {
            output::complain(&format!(
                "the lock {name} may stay until its time to live ends: {error}; see 'redlatch health'"
            ));
            code
        }
        (End::Unguarded(code), _) if arguments.on_loss == OnLoss::Ignore => code,
        (End::Unguarded(_), _) => LOST,
    }
}
