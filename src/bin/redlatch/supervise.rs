//! The time from the start of the command to its end: signals are forwarded, and a loss ends the command.

use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use redlatch::LossCause;
use rustix::process::Signal;
use signal_hook::consts::{SIGTSTP, SIGTTIN, SIGTTOU};

use crate::arguments::OnLoss;
use crate::clock;
use crate::durations;
use crate::event::Event;
use crate::output;
use crate::terminal::{self, Terminal};
use crate::watchdog::Watchdog;

/// What is done on a loss.
pub(crate) struct Policy<'a> {
    pub(crate) name: &'a str,
    pub(crate) on_loss: OnLoss,
    pub(crate) grace: Duration,
}

/// How the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// With this exit code.
    Guarded(u8),
    /// With this exit code, after the lock was lost.
    Unguarded(u8),
}

/// Returns when the command has ended. All it does is to wait for events.
pub(crate) fn supervise(
    events: &Receiver<Event>,
    group: &mut Watchdog,
    terminal: Option<&Terminal>,
    policy: &Policy<'_>,
) -> End {
    let mut kill_at: Option<Instant> = None;
    let mut is_lost = false;
    let mut stops_too = terminal.is_some();
    loop {
        match next(events, kill_at) {
            Some(Event::Ended(code)) => {
                if is_lost && policy.on_loss != OnLoss::Ignore {
                    // What the command has left behind would go on without a lock.
                    group.kill(terminal);
                }
                return if is_lost {
                    End::Unguarded(code)
                } else {
                    End::Guarded(code)
                };
            }
            Some(Event::Signal(signal)) => {
                stops_too |= signal == SIGTSTP;
                if let Some(signal) = Signal::from_named_raw(signal) {
                    group.signal(signal);
                }
            }
            Some(Event::Stopped(SIGTTIN | SIGTTOU)) if terminal.is_none() => {
                // It wants the terminal after all, which was left to those behind it in a pipeline.
                if let Some(terminal) = Terminal::find_anyhow() {
                    terminal.hand_to(group.group());
                    group.signal(Signal::CONT);
                }
            }
            Some(Event::Stopped(_)) if stops_too && !is_lost => {
                // The shell gets its prompt when this process stops as well, and with `fg` it goes on here. Should the lock
                // be lost by then, the event of that is next.
                terminal::stop_here();
                if let Some(terminal) = terminal {
                    terminal.hand_to(group.group());
                }
                group.signal(Signal::CONT);
            }
            Some(Event::Stopped(_)) => {}
            Some(Event::Lost(cause)) => {
                is_lost = true;
                kill_at = lose(group, terminal, policy, &cause);
            }
            None => {
                kill_at = None;
                group.kill(terminal);
            }
        }
    }
}

/// The next event, or none when the time is over.
fn next(events: &Receiver<Event>, deadline: Option<Instant>) -> Option<Event> {
    let Some(deadline) = deadline else {
        // The sender of the signals lives as long as this process.
        return events.recv().ok();
    };
    let left = deadline.saturating_duration_since(clock::now());
    events.recv_timeout(left).ok()
}

/// Returns when to kill what is left.
fn lose(
    group: &mut Watchdog,
    terminal: Option<&Terminal>,
    policy: &Policy<'_>,
    cause: &LossCause,
) -> Option<Instant> {
    let Policy {
        name,
        on_loss,
        grace,
    } = policy;
    match on_loss {
        OnLoss::Term => {
            group.signal(Signal::TERM);
            // A command that is stopped gets its signals when it goes on.
            group.signal(Signal::CONT);
            let grace_text = durations::exact(*grace);
            output::complain(&format!(
                "lost the lock {name}: {cause}; the command gets TERM, and KILL after {grace_text}"
            ));
            clock::now().checked_add(*grace)
        }
        OnLoss::Kill => {
            group.kill(terminal);
            output::complain(&format!(
                "lost the lock {name}: {cause}; the command gets KILL"
            ));
            None
        }
        OnLoss::Ignore => {
            output::complain(&format!(
                "lost the lock {name}: {cause}; the command goes on without it (--on-loss ignore)"
            ));
            None
        }
    }
}
