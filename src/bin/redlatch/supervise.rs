//! The time from the start of the command to its end: signals are forwarded, and a loss ends the command.

use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use redlatch::LossCause;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, test_kill_process};
use signal_hook::consts::{SIGCONT, SIGTSTP, SIGTTIN, SIGTTOU};

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
    pub(crate) command: Pid,
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
    mut terminal: Option<Terminal>,
    policy: &Policy<'_>,
) -> End {
    let mut kill_at: Option<Instant> = None;
    let mut is_lost = false;
    let is_ending = |is_lost: bool| is_lost && policy.on_loss != OnLoss::Ignore;
    let mut stops_too = false;
    let mut wants_terminal = false;
    // With TSTP to its own group, this process gets one itself, which is not for the command.
    let mut expects_tstp = false;
    loop {
        match next(events, kill_at) {
            Some(Event::Ended(code)) => {
                if is_ending(is_lost) {
                    // What the command has left behind would go on without a lock.
                    group.kill(terminal.as_ref());
                }
                return if is_lost {
                    End::Unguarded(code)
                } else {
                    End::Guarded(code)
                };
            }
            Some(Event::Signal(SIGCONT)) => {
                // With `fg`, this process is in the foreground.
                if wants_terminal && terminal.is_none() {
                    terminal = Terminal::find_anyhow();
                }
                if let Some(terminal) = &terminal {
                    terminal.hand_to(group.group());
                }
                group.signal(Signal::CONT);
            }
            Some(Event::Signal(SIGTSTP)) if expects_tstp => expects_tstp = false,
            Some(Event::Signal(signal)) => {
                stops_too |= signal == SIGTSTP;
                if let Some(signal) = Signal::from_named_raw(signal) {
                    group.signal(signal);
                }
            }
            Some(Event::Stopped(SIGTTIN | SIGTTOU)) if terminal.is_none() => {
                // It wants the terminal after all, which was left to those behind it in a pipeline, or which this process
                // has not got, as it was started in the background.
                wants_terminal = true;
                terminal = Terminal::find_anyhow();
                if let Some(terminal) = &terminal {
                    terminal.hand_to(group.group());
                    group.signal(Signal::CONT);
                } else if !is_ending(is_lost) {
                    terminal::stop_in_background();
                }
            }
            // The shell gets its prompt when this process stops as well, and with `fg` comes a CONT. Should the lock be lost
            // by then, that is told next.
            Some(Event::Stopped(_)) if is_ending(is_lost) => {}
            Some(Event::Stopped(_)) if terminal.is_some() => {
                expects_tstp = true;
                terminal::stop_job();
            }
            Some(Event::Stopped(_)) if stops_too => terminal::stop_here(),
            Some(Event::Stopped(_)) => {}
            Some(Event::Lost(cause)) => {
                is_lost = true;
                kill_at = lose(group, terminal.as_ref(), policy, &cause);
                tell_if_out_of_reach(policy);
            }
            None => {
                kill_at = None;
                group.kill(terminal.as_ref());
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
        command: _,
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

/// The command may have become another user's, as `sudo` does. The group always has a member that gets signals, so nothing
/// else tells.
fn tell_if_out_of_reach(policy: &Policy<'_>) {
    if policy.on_loss != OnLoss::Ignore && test_kill_process(policy.command) == Err(Errno::PERM) {
        output::complain(&format!(
            "the command may not be sent signals and runs on without the lock {}; end it as its user (process {})",
            policy.name,
            policy.command.as_raw_nonzero()
        ));
    }
}
