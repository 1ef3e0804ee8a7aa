//! What this process has to react to, in one channel, so that no polling is needed.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use redlatch::LossCause;
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, waitpid};
use signal_hook::consts::{SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;

use crate::clock;
use crate::failure::{Failure, SYSTEM, no_system, start_thread};
use crate::output;
use crate::processes;
use crate::terminal;

#[derive(Debug)]
pub(crate) enum Event {
    /// A signal came for this process.
    Signal(i32),
    /// The command was stopped by this signal, as by Ctrl-Z.
    Stopped(i32),
    /// The command has ended with this exit code, as a shell would show it.
    Ended(u8),
    Lost(LossCause),
    /// Somebody waits for the lock.
    Wanted,
    /// Standard input has ended, which ends `hold`.
    InputEnded,
    /// The call for the lock has ended.
    Answered,
}

impl Event {
    /// A TSTP stops this process. Returns the signal that ends the wait, if it is one. The other events concern a command.
    pub(crate) fn heed_in_wait(&self) -> Option<i32> {
        // At the end of its input, whoever asked for the lock has gone.
        let signal = matches!(self, Self::InputEnded).then_some(SIGHUP);
        let Self::Signal(signal) = self else {
            return signal;
        };
        if *signal == SIGTSTP {
            terminal::stop_here();
        }
        Some(*signal).filter(|signal| ![SIGTSTP, SIGCONT].contains(signal))
    }
}

/// The events of this process, and what threads send them by.
pub(crate) struct Events {
    pub(crate) sender: Sender<Event>,
    receiver: Receiver<Event>,
}

impl Events {
    /// Catches the signals to forward, which are events from now on. Where processes are left to this one, their ends are
    /// dealt with as well.
    pub(crate) fn listen() -> Result<Self, Failure> {
        Self::listen_also(&[])
    }

    /// Listens as [`listen`](Self::listen) does, and for these signals as well.
    pub(crate) fn listen_also(more: &[i32]) -> Result<Self, Failure> {
        let mut signals = signals(more).map_err(|error| no_system("signals", &error))?;
        let (sender, receiver) = channel();
        let events = sender.clone();
        start_thread("signals", move || {
            for signal in signals.forever() {
                if signal == SIGCHLD {
                    processes::reap_orphans();
                } else if events.send(Event::Signal(signal)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { sender, receiver })
    }

    /// The next event, or none if there is none until then.
    pub(crate) fn next(&self, until: Option<Instant>) -> Option<Event> {
        let Some(until) = until else {
            // The sender of the signals lives as long as this process.
            return self.receiver.recv().ok();
        };
        let left = until.saturating_duration_since(clock::now());
        self.receiver.recv_timeout(left).ok()
    }

    /// The stops and the end of the command are events from now on.
    pub(crate) fn watch(&self, command: Pid) -> Result<(), Failure> {
        let events = self.sender.clone();
        start_thread("command", move || watch(command, &events))
    }
}

/// The signals to forward, and CHLD where processes are left to this one.
///
/// Signals that were ignored at the start, as by `nohup`, stay ignored, here and in the command. CHLD is the exception,
/// because a process that ignores it can't learn how its children ended.
fn signals(more: &[i32]) -> io::Result<Signals> {
    signal_hook::flag::register(SIGCHLD, Arc::new(AtomicBool::new(false)))?;
    let ignored = ignored();
    let is_heeded = |signal: &&i32| {
        let place = signal.unsigned_abs().saturating_sub(1);
        ignored.wrapping_shr(place) & 1 == 0
    };
    let forwarded = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP];
    let heeded = forwarded.iter().chain(more).filter(is_heeded);
    // CONT continues even a process that ignores it, so it is always forwarded to the command.
    let signals = Signals::new(heeded.chain(&[SIGCONT]))?;
    if processes::may_be_left_here() {
        signals.add_signal(SIGCHLD)?;
        // Those that ended before CHLD was caught.
        processes::reap_orphans();
    }
    Ok(signals)
}

/// Waits for the command, and sends an event when it is stopped and when it has ended.
fn watch(command: Pid, events: &Sender<Event>) {
    loop {
        let status = match waitpid(Some(command), WaitOptions::UNTRACED) {
            Ok(Some((_, status))) => status,
            Ok(None) | Err(Errno::INTR) => continue,
            // This should not happen: the command is a child of this process, and nobody else waits for it.
            Err(error) => {
                output::complain(&format!(
                    "the system does not tell how the command ended: {error}; please report this"
                ));
                processes::forget(command);
                events.send(Event::Ended(SYSTEM)).ok();
                return;
            }
        };
        let of_signal = status.terminating_signal().map(code_of_signal);
        let code = status.exit_status().and_then(|code| code.try_into().ok());
        if let Some(code) = code.or(of_signal) {
            processes::forget(command);
            events.send(Event::Ended(code)).ok();
            return;
        }
        if let Some(signal) = status.stopping_signal() {
            events.send(Event::Stopped(signal)).ok();
        }
    }
}

/// The exit code by which a shell reports that a signal has ended a process.
pub(crate) fn code_of_signal(signal: i32) -> u8 {
    u8::try_from(signal).unwrap_or(u8::MAX).saturating_add(128)
}

/// The signals that this process ignores, a bit for each, on systems that tell.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    u64::from_str_radix(mask.unwrap_or_default().trim(), 16).unwrap_or(0)
}
