//! The process that kills the command if `redlatch` itself is killed, so that the command does not run without a lock.
//!
//! It leads the process group that the command then joins. So it needs no process id of the command, the command never
//! runs unwatched, and no other group can get the same number while it lives. Its standard input is a pipe whose other
//! end only `redlatch` has. A goodbye dismisses it; the end of the input without a goodbye means that `redlatch` is
//! gone. A `redlatch` that is stopped renews no lock either. So `redlatch` regularly sends a plan that says until when
//! the command may run (`plan.rs`). If that time comes without a new plan, the watchdog ends the group.
//!
//! It can't kill processes that have left the group (`setsid`), and can do nothing after it was killed itself. So its
//! process name is not `redlatch`, because `killall -9 redlatch` would kill both.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::{
    Pid, Signal, getpid, kill_current_process_group, kill_process, kill_process_group,
};
use signal_hook::consts::{FORBIDDEN, SIGBUS, SIGCHLD, SIGCONT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::clock;
use crate::plan::{Course, GOODBYE, Plan, Step};
use crate::processes::{self, own_group};
use crate::terminal::Terminal;

/// The argument that starts the watchdog. It is no subcommand, because users should not call it.
pub(crate) const ARGUMENT: &str = "__watchdog";

/// What the watchdog says when it catches the signals of the group.
const READY: [u8; 5] = *b"ready";

/// How long `redlatch` waits for the watchdog to end, which takes milliseconds unless the watchdog was stopped or
/// killed.
const PATIENCE: Duration = Duration::from_millis(500);

/// How late the end of a suspension is noticed: a wait does not count the time of the suspension.
const LONGEST_NAP: Duration = Duration::from_millis(50);

/// The largest number of a signal. The whole group, and so the watchdog, may get a signal that ends or stops each process that does
/// not catch it. A system with fewer signals refuses the other numbers.
const LAST_SIGNAL: i32 = 64;

/// The watchdog as `redlatch` sees it. A drop without [`dismiss`](Self::dismiss) kills the group.
pub(crate) struct Watchdog {
    /// Of its output only the end matters, which comes when the watchdog has ended.
    process: Child,
    /// The last plan that it was sent.
    pub(crate) plan: Plan,
    is_dismissed: bool,
}

impl Watchdog {
    /// Starts the watchdog, and returns when it catches the signals of the group.
    pub(crate) fn start() -> io::Result<Self> {
        // Without a number for the group, the terminal is not handed over, and need not be returned to it.
        let own_group = own_group().map_or_else(String::new, |group| group.to_string());
        let mut command = Command::new(own_program()?);
        command
            .arg0("lock-watchdog")
            .args([ARGUMENT, &own_group])
            // A password may be in the environment.
            .env_clear()
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut watchdog = Self {
            process: processes::spawn(&mut command)?,
            plan: Plan::NEVER,
            is_dismissed: false,
        };
        let mut ready = [0; READY.len()];
        let Child { stdin, stdout, .. } = &mut watchdog.process;
        if let (Some(input), Some(output)) = (stdin, stdout)
            && output.read_exact(&mut ready).is_ok()
            && ready == READY
            // Writes don't block, so that a stopped watchdog delays nothing.
            && ioctl_fionbio(input, true).is_ok()
        {
            return Ok(watchdog);
        }
        Err(io::Error::other("the watchdog does not start"))
    }

    pub(crate) fn group(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    /// Sends a signal to the command and to what it has started. The watchdog is a member until it is waited for, so no
    /// other group has the number.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process_group(self.group(), signal).ok();
    }

    /// Stops the command and what it has started, whatever they make of Ctrl-Z. The watchdog goes on.
    pub(crate) fn stop_command(&self) {
        self.signal(Signal::STOP);
        kill_process(self.group(), Signal::CONT).ok();
    }

    pub(crate) fn tell(&mut self, plan: Plan) {
        self.plan = plan;
        if let Some(input) = &mut self.process.stdin {
            // A failed write means that the watchdog is gone, or was stopped until the pipe was full. Then it can do
            // nothing anyway.
            input.write_all(plan.message().as_bytes()).ok();
        }
    }

    /// Kills the command, what it has started, and the watchdog.
    pub(crate) fn kill(&mut self, terminal: Option<&Terminal>) {
        if terminal.is_some() && self.process.stdin.take().is_some() {
            // The watchdog returns the terminal, and then kills the group.
            self.let_end();
        }
        // Even if the watchdog could not act, the command must end.
        self.signal(Signal::KILL);
    }

    /// Dismisses the watchdog. It returns the terminal, if the group has it, and leaves the rest of the group alone.
    pub(crate) fn dismiss(&mut self) {
        if let Some(mut input) = self.process.stdin.take() {
            if input.write_all(GOODBYE.as_bytes()).is_err() {
                // The watchdog is gone, or the pipe is full. Without a goodbye it would kill the rest of the group, so
                // it is killed.
                kill_process(self.group(), Signal::KILL).ok();
            }
            self.is_dismissed = true;
        }
    }

    /// Waits for the end of the watchdog, whose input is closed.
    fn let_end(&self) {
        // The watchdog is stopped if its group is. It has not been waited for, so no other process has its number.
        kill_process(self.group(), Signal::CONT).ok();
        let deadline = clock::now().checked_add(PATIENCE);
        // The other end of the pipe is closed when the watchdog has ended.
        while let (Some(output), Some(deadline)) = (&self.process.stdout, deadline) {
            let left = deadline.saturating_duration_since(clock::now());
            let mut outputs = [PollFd::new(output, PollFlags::empty())];
            if poll(&mut outputs, Timespec::try_from(left).ok().as_ref()) != Err(Errno::INTR) {
                return;
            }
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // The input is closed before the wait: without a goodbye, that makes the watchdog kill its group.
        drop(self.process.stdin.take());
        self.let_end();
        if self.is_dismissed {
            // Only the watchdog: the rest of the group is left alone on purpose.
            kill_process(self.group(), Signal::KILL).ok();
        } else {
            self.signal(Signal::KILL);
        }
        self.process.wait().ok();
        processes::forget(self.group());
    }
}

/// The watchdog itself.
pub(crate) fn main() -> ExitCode {
    let caller = std::env::args().nth(2).and_then(|group| group.parse().ok());
    // Otherwise it was called by hand, and the group is another pipeline.
    if own_group() != Some(getpid()) {
        return ExitCode::from(crate::failure::USAGE);
    }
    #[cfg(target_os = "linux")]
    rustix::thread::set_name(c"lock-watchdog").ok();
    // The signals are caught and not read, which has the same effect here as ignoring them.
    let (Ok(_heard), Ok(mut orders)) = (caught_signals(), Orders::new()) else {
        return ExitCode::from(crate::failure::SYSTEM);
    };
    let mut out = io::stdout();
    if out.write_all(&READY).and_then(|()| out.flush()).is_err() {
        return ExitCode::from(crate::failure::SYSTEM);
    }
    let is_dismissed = orders.are_over();
    if let (Some(caller), Some(terminal)) =
        (caller.and_then(Pid::from_raw), Terminal::find_anyhow())
    {
        terminal.hand_to(caller);
    }
    if is_dismissed {
        return ExitCode::SUCCESS;
    }
    // The watchdog is a member itself, so this ends it too.
    kill_current_process_group(Signal::KILL).ok();
    ExitCode::from(crate::failure::SYSTEM)
}

/// Catches the signals that are sent to the group and are meant for the command. Does not catch signals of faults and signals
/// without an effect.
fn caught_signals() -> io::Result<Signals> {
    let signals = Signals::new([SIGTERM])?;
    let is_caught =
        |signal: &i32| !FORBIDDEN.contains(signal) && ![SIGBUS, SIGCHLD, SIGCONT].contains(signal);
    for signal in (1..=LAST_SIGNAL).filter(is_caught) {
        // The C library keeps some signals for itself, and refuses them here.
        signals.add_signal(signal).ok();
    }
    Ok(signals)
}

/// The messages up to now.
struct Orders {
    input: BufReader<File>,
    course: Course,
}

impl Orders {
    fn new() -> io::Result<Self> {
        let input = io::stdin().as_fd().try_clone_to_owned()?;
        Ok(Self {
            input: BufReader::new(input.into()),
            course: Course::new(Plan::NEVER),
        })
    }

    /// Waits for the goodbye, and returns false when the group is to be killed instead.
    fn are_over(&mut self) -> bool {
        loop {
            // Messages are read first, because a new plan may replace one whose time has come.
            if self.input.buffer().is_empty() {
                let left = self.course.left(clock::since_boot());
                let timeout = left.map(|left| left.min(LONGEST_NAP));
                let timeout = timeout.and_then(|left| Timespec::try_from(left).ok());
                let mut inputs = [PollFd::new(self.input.get_ref(), PollFlags::IN)];
                match poll(&mut inputs, timeout.as_ref()) {
                    Ok(0) if self.are_to_kill() => return false,
                    Ok(0) | Err(Errno::INTR) => continue,
                    Ok(_) => {}
                    Err(_) => return false,
                }
            }
            let mut message = String::new();
            self.input.read_line(&mut message).ok();
            if message == GOODBYE {
                return true;
            }
            // At the end of the input, the message is empty.
            let Some(plan) = Plan::read(&message) else {
                return false;
            };
            self.course = Course::new(plan);
        }
    }

    /// Sends TERM if it is due. Returns whether KILL is due.
    fn are_to_kill(&mut self) -> bool {
        let command = self.course.plan.unless_stopped;
        if command.is_some_and(processes::is_stopped) {
            return false;
        }
        match self.course.step(clock::since_boot()) {
            Step::Nothing => {}
            Step::Term => {
                // The watchdog is a member itself, and catches TERM. A stopped command gets its signals when it goes on.
                kill_current_process_group(Signal::TERM).ok();
                kill_current_process_group(Signal::CONT).ok();
            }
            Step::Kill => return true,
        }
        false
    }
}

/// The program of this process; on Linux even if its file was replaced meanwhile.
fn own_program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") {
        return Ok("/proc/self/exe".into());
    }
    std::env::current_exe()
}
