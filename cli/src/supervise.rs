//! Supervises the command from its start to its end: forwards signals, and ends the command on a loss.

use std::time::{Duration, Instant};

use redlatch::{Error, LockGuard, LossCause};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, test_kill_process};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU};

use crate::arguments::{OnLoss, Run, signal_called};
use crate::clock;
use crate::command;
use crate::durations;
use crate::event::{Event, code_of_signal};
use crate::failure::{Failure, no_system, told_of_loss};
use crate::notify::{self, Notifier};
use crate::output;
use crate::plan::{Notice, Plan};
use crate::session::Session;
use crate::terminal::{self, Terminal};
use crate::watchdog::Watchdog;

/// How a lock was lost where no renewal has failed.
const STOOD_STILL: &str = "redlatch was stopped, or had no processor, for too long to renew it";

/// How one run of the command ended.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Outcome {
    /// The exit code that it has for `redlatch`.
    pub(crate) code: u8,
    pub(crate) ran: Duration,
    /// Whether the lock was lost before the command had ended.
    pub(crate) is_lost: bool,
    /// The first signal that was to end the command. HUP is one if it has: it makes others read their settings again. So is
    /// Ctrl-C.
    pub(crate) signal: Option<i32>,
}

/// Runs the command under this lock, from its start to its end.
pub(crate) fn run(
    arguments: &Run,
    session: &Session<'_>,
    held: &LockGuard,
    notifier: &Notifier,
) -> Result<Outcome, Failure> {
    let watchdog = Watchdog::start().map_err(|error| no_system("process", &error))?;
    let terminal = Terminal::find().inspect(|terminal| terminal.hand_to(watchdog.group()));
    let mut supervisor = Supervisor {
        arguments,
        session,
        held,
        notifier,
        watchdog,
        terminal,
        started: clock::now(),
        deadline: Duration::ZERO,
        tell_at: None,
        kill_at: None,
        outcome: Outcome::default(),
        had_hangup: false,
        stops_too: false,
        wants_terminal: false,
        expects_tstp: false,
    };
    // The first plan is sent before the command starts, which could outlive the lock unwatched otherwise.
    supervisor.put_off(None);
    // The service manager is told by this process.
    let hidden = arguments.forever.then_some(notify::VARIABLE);
    // This process may have been stopped up to now.
    let started = held.check().map_err(Failure::from).and_then(|()| {
        let group = supervisor.watchdog.group();
        command::spawn(&arguments.command, &session.request, held, group, hidden)
    });
    let command = started.inspect_err(|_| supervisor.watchdog.dismiss())?;
    // If no thread can be started for it, the watchdog is dropped without a goodbye, and kills the command.
    session.events.watch(command)?;
    Ok(supervisor.wait(command))
}

/// Waits for the end of the command, and handles events meanwhile.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each has happened, or not, whatever the others are"
)]
struct Supervisor<'a> {
    arguments: &'a Run,
    session: &'a Session<'a>,
    held: &'a LockGuard,
    /// Told when the command is sent a signal that is to end it.
    notifier: &'a Notifier,
    watchdog: Watchdog,
    terminal: Option<Terminal>,
    started: Instant,
    /// When the lock is lost unless a renewal comes, according to the last plan.
    deadline: Duration,
    /// When the next plan is sent to the watchdog.
    tell_at: Option<Instant>,
    /// When the group gets KILL, after a loss.
    kill_at: Option<Instant>,
    /// What is known of it up to now.
    outcome: Outcome,
    /// HUP was passed on: it ends some commands, and makes others read their settings again.
    had_hangup: bool,
    /// TSTP was passed on.
    stops_too: bool,
    wants_terminal: bool,
    /// This process has sent TSTP to its own group, so the next TSTP is its own and not for the command.
    expects_tstp: bool,
}

impl Supervisor<'_> {
    fn wait(mut self, command: Pid) -> Outcome {
        loop {
            let event = self
                .session
                .events
                .next(self.tell_at.into_iter().chain(self.kill_at).min());
            self.look(command);
            match event {
                Some(Event::Ended(code)) => return self.end(code),
                Some(Event::Signal(signal)) => self.forward(signal),
                Some(Event::Stopped(signal)) => self.stop(signal, command),
                Some(Event::Wanted) => self.make_room(),
                None if self.kill_at.is_some_and(|time| time <= clock::now()) => {
                    self.kill_at = None;
                    self.watchdog.kill(self.terminal.as_ref());
                }
                Some(Event::Answered | Event::InputEnded | Event::Lost(_)) | None => {}
            }
            if self.tell_at.is_some_and(|time| time <= clock::now()) {
                self.put_off(None);
            }
        }
    }

    /// Looks whether the lock is lost. If the time of the last plan has passed, the watchdog has begun to end the command. That
    /// counts as a loss, even if the lock is still held.
    fn look(&mut self, command: Pid) {
        if self.outcome.is_lost {
            return;
        }
        let is_late = clock::since_boot() >= self.watchdog.plan.term_at;
        let lost = if let Err(Error::Lost { cause, .. }) = self.held.check() {
            Some(cause)
        } else {
            None
        };
        match lost {
            None | Some(LossCause::Expired { .. }) if is_late => self.lose(None),
            Some(cause) => self.lose(Some(&cause)),
            None => return,
        }
        self.tell_if_out_of_reach(command);
    }

    fn notice(&self) -> Notice {
        self.session.request.notice
    }

    /// Tells the watchdog until when the command may run. While the process `unless_stopped` is stopped, the command is left alone
    /// after that as well.
    fn put_off(&mut self, unless_stopped: Option<Pid>) {
        self.tell_at = None;
        // The clock is read before the remaining time, so that the sum of both is never too late.
        let now = clock::since_boot();
        let remaining = self.held.remaining();
        // Keep the last plan if the lock is lost.
        if self.arguments.on_loss == OnLoss::Ignore || remaining.is_zero() {
            return;
        }
        self.deadline = now.saturating_add(remaining);
        self.watchdog.tell(Plan {
            unless_stopped,
            ..Plan::of(self.notice(), self.deadline)
        });
        self.tell_at = clock::now().checked_add(Plan::lasts(remaining));
    }

    fn is_ending(&self) -> bool {
        self.outcome.is_lost && self.arguments.on_loss != OnLoss::Ignore
    }

    fn end(mut self, code: u8) -> Outcome {
        if self.is_ending() {
            // Processes that the command has left behind would run without a lock.
            self.watchdog.kill(self.terminal.as_ref());
        }
        self.watchdog.dismiss();
        // Ctrl-C, and the end of the terminal, are signals for the command alone, which has the terminal.
        let has_come = |signal| self.terminal.is_some() || self.had_hangup && signal == SIGHUP;
        let mut signals = [SIGHUP, SIGINT, SIGQUIT].into_iter();
        let by = signals.find(|signal| code == code_of_signal(*signal) && has_come(*signal));
        let signal = self.outcome.signal.or(by);
        let ran = clock::now().saturating_duration_since(self.started);
        Outcome {
            code,
            ran,
            signal,
            ..self.outcome
        }
    }

    fn forward(&mut self, signal: i32) {
        match signal {
            SIGCONT => {
                // With `fg`, this process is in the foreground.
                if self.wants_terminal && self.terminal.is_none() {
                    self.terminal = Terminal::find_anyhow();
                }
                if let Some(terminal) = &self.terminal {
                    terminal.hand_to(self.watchdog.group());
                }
                self.watchdog.signal(Signal::CONT);
            }
            SIGTSTP if self.expects_tstp => self.expects_tstp = false,
            _ => {
                if let Some(signal) = Signal::from_named_raw(signal) {
                    self.watchdog.signal(signal);
                }
                self.stops_too |= signal == SIGTSTP;
                self.had_hangup |= signal == SIGHUP;
                if self.outcome.signal.is_none() && ![SIGTSTP, SIGHUP].contains(&signal) {
                    self.outcome.signal = Some(signal);
                    let lock = self.session.request;
                    let state = format!("{lock}: stopping: the command was sent the signal");
                    self.notifier.tell(Some("STOPPING=1"), &state);
                }
            }
        }
    }

    /// The command was stopped.
    fn stop(&mut self, signal: i32, command: Pid) {
        match signal {
            SIGTTIN | SIGTTOU if self.terminal.is_none() => {
                // The command needs the terminal. It was left to the other programs of a pipeline, or this process was
                // started in the background and does not have it.
                self.wants_terminal = true;
                self.terminal = Terminal::find_anyhow();
                if let Some(terminal) = &self.terminal {
                    terminal.hand_to(self.watchdog.group());
                    self.watchdog.signal(Signal::CONT);
                } else if !self.is_ending() {
                    self.stand_still(command, terminal::stop_in_background);
                }
            }
            // The shell shows its prompt when this process stops as well, and `fg` sends a CONT. If the lock is lost by
            // then, the loss is the next event.
            _ if self.is_ending() => {}
            _ if self.terminal.is_some() => {
                self.expects_tstp = true;
                self.stand_still(command, terminal::stop_job);
            }
            _ if self.stops_too => self.stand_still(command, terminal::stop_here),
            _ => {}
        }
    }

    /// Stops this process because the command is stopped, and all that the command has started. A stopped command does nothing, so
    /// the watchdog must not end the command, unless somebody continues it alone. The command goes on together with this process,
    /// which then checks the lock.
    fn stand_still(&mut self, command: Pid, stop: impl FnOnce()) {
        // The watchdog keeps this plan until the next one is due.
        self.put_off(Some(command));
        self.watchdog.stop_command();
        stop();
    }

    /// Acts on the loss of the lock. Without a cause, this process stood still.
    fn lose(&mut self, cause: Option<&LossCause>) {
        self.outcome.is_lost = true;
        self.tell_at = None;
        let lock = self.session.request;
        let why = cause.map_or_else(|| STOOD_STILL.to_owned(), told_of_loss);
        let tell = |what: &str| output::complain(&format!("lost the lock {lock}: {why}; {what}"));
        match self.arguments.on_loss {
            OnLoss::Term => {
                self.watchdog.signal(Signal::TERM);
                // A command that is stopped gets its signals when it goes on.
                self.watchdog.signal(Signal::CONT);
                let now = clock::since_boot();
                let (kill_at, told) = self.last_moment(cause, now);
                // The watchdog sends KILL if this process is stopped meanwhile.
                self.watchdog.tell(Plan::kill_at(kill_at));
                self.kill_at = clock::now().checked_add(kill_at.saturating_sub(now));
                tell(&format!("the command gets TERM, and KILL after {told}"));
            }
            OnLoss::Kill => {
                self.watchdog.kill(self.terminal.as_ref());
                tell("the command gets KILL");
            }
            OnLoss::Ignore => tell("the command goes on without it (--on-loss ignore)"),
        }
    }

    /// Returns when the command gets KILL if it gets TERM now, and the message about that.
    fn last_moment(&self, cause: Option<&LossCause>, now: Duration) -> (Duration, String) {
        let notice = self.notice();
        if let Some(LossCause::Taken { .. } | LossCause::Vanished { .. }) = cause {
            // Give the whole grace after this loss, because nobody could foresee it.
            let grace = durations::exact(notice.grace);
            return (now.saturating_add(notice.grace), grace);
        }
        let kill_at = notice.kill_at(self.deadline, now);
        let end = self.deadline.saturating_add(notice.margin);
        let [grace, left] = [kill_at, end].map(|at| at.saturating_sub(now));
        let others = if left.is_zero() {
            "others may have the lock".to_owned()
        } else {
            format!("others can get the lock in {left:.1?}")
        };
        (kill_at, format!("{grace:.1?}; {others}"))
    }

    /// Somebody waits for the lock. The signal asks the command to end, and not this process, so `signal` stays empty.
    fn make_room(&self) {
        if self.outcome.is_lost {
            return;
        }
        let told = format!("somebody waits for the lock {}", self.session.request);
        if let Some(name) = &self.arguments.on_wanted {
            output::complain(&format!("{told}; the command gets {}", name.to_uppercase()));
            if let Some(signal) = signal_called(name) {
                self.watchdog.signal(signal);
            }
        } else if self.arguments.forever {
            output::complain(&told);
        }
    }

    /// A command that runs as another user, as `sudo` does, can't be sent signals. Sending to the group does not fail,
    /// because it has other members, so this is checked for the command alone.
    fn tell_if_out_of_reach(&self, command: Pid) {
        let is_to_end = self.arguments.on_loss != OnLoss::Ignore;
        if is_to_end && test_kill_process(command) == Err(Errno::PERM) {
            output::complain(&format!(
                "the command may not be sent signals and runs on without the lock {}; end it as its user (process {})",
                self.session.request,
                command.as_raw_nonzero()
            ));
        }
    }
}
