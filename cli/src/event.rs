//! The events while a command runs under a lock, in one channel, so that no polling is needed.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;
use std::thread;

use redlatch::LossCause;
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, WaitStatus, waitpid};
use signal_hook::consts::{SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;

use crate::output;
use crate::processes;

/// An event that this process has to react to.
#[derive(Debug)]
pub(crate) enum Event {
    /// A signal came for this process.
    Signal(i32),
    /// The command was stopped by this signal, as by Ctrl-Z.
    Stopped(i32),
    /// The command has ended with this exit code, as a shell would show it.
    Ended(u8),
    /// The lock was lost.
    Lost(LossCause),
    /// Somebody waits for the lock.
    Wanted,
    /// Standard input has ended, which ends `hold`.
    InputEnded,
    /// The call for the lock has ended.
    Answered,
}

/// Catches the signals to forward, and sends them as events. Where processes are left to this one, their ends are dealt
/// with as well.
///
/// Signals that were ignored at the start, as by `nohup`, stay ignored, here and in the command. CHLD is the exception,
/// because a process that ignores it can't learn how its children ended.
pub(crate) fn listen(events: Sender<Event>) -> io::Result<()> {
    signal_hook::flag::register(SIGCHLD, Arc::new(AtomicBool::new(false)))?;
    let ignored = ignored();
    let is_heeded = |signal: &i32| {
        ignored
            .checked_shr(signal.unsigned_abs().saturating_sub(1))
            .unwrap_or(0)
            & 1
            == 0
    };
    let forwarded = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP];
    let heeded = forwarded.iter().filter(|signal| is_heeded(signal));
    // CONT continues even a process that ignores it, so it is always forwarded to the command.
    let mut signals = Signals::new(heeded.chain(&[SIGCONT]))?;
    let reaps = processes::may_be_left_here();
    if reaps {
        signals.add_signal(SIGCHLD)?;
    }
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            if reaps {
                // Those that ended before CHLD was caught.
                processes::reap_orphans();
            }
            for signal in signals.forever() {
                if signal == SIGCHLD {
                    processes::reap_orphans();
                } else if events.send(Event::Signal(signal)).is_err() {
                    return;
                }
            }
        })?;
    Ok(())
}

/// Waits for the command, and sends an event when it is stopped and when it has ended.
pub(crate) fn watch(command: Pid, events: Sender<Event>) -> io::Result<()> {
    thread::Builder::new()
        .name("command".into())
        .spawn(move || {
            loop {
                let event = match waitpid(Some(command), WaitOptions::UNTRACED) {
                    Ok(Some((_, status))) => of_status(status),
                    Ok(None) | Err(Errno::INTR) => continue,
                    // This should not happen: the command is a child of this process, and nobody else waits for it.
                    Err(error) => {
                        output::complain(&format!(
                            "the system does not tell how the command ended: {error}; please report this"
                        ));
                        Some(Event::Ended(crate::failure::SYSTEM))
                    }
                };
                let is_end = matches!(event, Some(Event::Ended(_)));
                if is_end {
                    processes::forget(command);
                }
                if event.is_some_and(|event| events.send(event).is_err()) || is_end {
                    return;
                }
            }
        })?;
    Ok(())
}

fn of_status(status: WaitStatus) -> Option<Event> {
    let as_code = |code: i32| u8::try_from(code).unwrap_or(u8::MAX);
    if let Some(signal) = status.stopping_signal() {
        return Some(Event::Stopped(signal));
    }
    let of_signal = status.terminating_signal().map(code_of_signal);
    let code = status.exit_status().map(as_code).or(of_signal);
    code.map(Event::Ended)
}

/// The exit code by which a shell reports that a signal has ended a process.
pub(crate) fn code_of_signal(signal: i32) -> u8 {
    u8::try_from(signal).unwrap_or(u8::MAX).saturating_add(128)
}

/// The signals that this process ignores, a bit for each, on systems that tell.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}
