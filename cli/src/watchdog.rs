//! The process that kills the command should `redlatch` itself be killed, so that it does not go on without a lock.
//!
//! It leads the process group that the command then joins. So it never has to be told whom to watch, there is no moment
//! at which the command runs unwatched, and while it lives no other group can get its number. Its standard input is a pipe
//! whose other end only `redlatch` has: a goodbye dismisses it, and the end of the input without one means that `redlatch` is
//! gone. And should `redlatch` be there and stand still, it does not renew the lock, so it tells every now and then until
//! when the command may go on (`plan.rs`): when that time comes and nothing else was told, the group is ended.
//!
//! What it can't do: kill processes that have left the group (`setsid`), or anything after having been killed itself. So
//! it is not called `redlatch` among the processes, lest a `killall -9 redlatch` find both.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::{
    Pid, Signal, getpgrp, getpid, kill_current_process_group, kill_process, kill_process_group,
};
use signal_hook::consts::signal;

use crate::clock;
use crate::plan::{LENGTH, Plan, Word};
use crate::terminal::{self, Terminal};

/// Calls for the watchdog. It is no subcommand: nobody is meant to type it.
pub(crate) const ARGUMENT: &str = "__watchdog";

/// What it says when it is ready.
const READY: u8 = b'r';

/// How long it has to do what it was told to do, which takes it milliseconds. If it is stopped, or gone, nothing waits for
/// it any longer.
const PATIENCE: Duration = Duration::from_millis(500);

/// How late it may notice that the machine was suspended: a wait does not count that time.
const LONGEST_NAP: Duration = Duration::from_millis(50);

/// How long a group has from TERM to KILL when the time for both has passed, since the machine was suspended or the watchdog
/// stopped. It is also the time in which `redlatch`, if it is well, says how to go on.
const LATE_GRACE: Duration = Duration::from_millis(100);

/// Signals that are meant for the command and come to its whole group.
const NOT_FOR_IT: [i32; 14] = [
    signal::SIGHUP,
    signal::SIGINT,
    signal::SIGQUIT,
    signal::SIGTERM,
    signal::SIGUSR1,
    signal::SIGUSR2,
    signal::SIGALRM,
    signal::SIGVTALRM,
    signal::SIGPROF,
    signal::SIGXCPU,
    signal::SIGIO,
    signal::SIGTSTP,
    signal::SIGTTIN,
    signal::SIGTTOU,
];

/// The watchdog as `redlatch` sees it. When this goes away without [`dismiss`](Self::dismiss), so does the group.
pub(crate) struct Watchdog {
    process: Child,
    input: Option<ChildStdin>,
    /// Nothing more comes from it but its end, when this process ends.
    output: ChildStdout,
    is_dismissed: bool,
}

impl Watchdog {
    /// Starts it, and returns when it withstands what is sent to the group.
    pub(crate) fn start() -> io::Result<Self> {
        let mut command = Command::new(own_program()?);
        command
            .arg0("lock-watchdog")
            .args([ARGUMENT, &getpgrp().as_raw_nonzero().to_string()])
            // A password may be in the environment.
            .env_clear()
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut process = command.spawn()?;
        let (input, output) = (process.stdin.take(), process.stdout.take());
        let mut ready = [0];
        if let Some(mut output) = output
            && output.read_exact(&mut ready).is_ok()
            && ready == [READY]
            // If it is stopped, nothing waits until it reads.
            && input.as_ref().is_some_and(|input| ioctl_fionbio(input, true).is_ok())
        {
            return Ok(Self {
                process,
                input,
                output,
                is_dismissed: false,
            });
        }
        drop(input);
        process.wait()?;
        Err(io::Error::other("the watchdog does not start"))
    }

    /// The process group that it leads.
    pub(crate) fn group(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    /// Sends a signal to the command and to what it has started. The group has a member until it is waited for, so its
    /// number is of no other.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process_group(self.group(), signal).ok();
    }

    /// Tells it what to do unless it is told something else in time.
    pub(crate) fn tell(&mut self, plan: Plan) {
        if let Some(input) = &mut self.input {
            // It may be gone, or have been stopped for so long that the pipe is full. Then it can do nothing anyway.
            input.write_all(&plan.to_bytes()).ok();
        }
    }

    /// Kills the command, what it has started, and the watchdog.
    pub(crate) fn kill(&mut self, terminal: Option<&Terminal>) {
        if terminal.is_some() && self.input.take().is_some() {
            // It gives the terminal back, and then it kills the group.
            self.let_end();
        }
        // Whatever has become of it, the command must not go on.
        self.signal(Signal::KILL);
    }

    /// Sends it away; what is left of the group is left alone. It gives the terminal back, if the group has it.
    pub(crate) fn dismiss(&mut self) {
        if let Some(mut input) = self.input.take() {
            if input.write_all(&Word::GOODBYE).is_err() {
                // It is gone, or the pipe is full: without a goodbye it would end what is to be left alone.
                kill_process(self.group(), Signal::KILL).ok();
            }
            self.is_dismissed = true;
        }
    }

    /// Gives it the time to end, now that its input is closed.
    fn let_end(&self) {
        // It is stopped if its group is. It has not been waited for, so its number is of no other.
        kill_process(self.group(), Signal::CONT).ok();
        let deadline = clock::now().checked_add(PATIENCE);
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(clock::now()));
            let timeout = Timespec::try_from(left.unwrap_or_default()).ok();
            // The other end is closed when it has ended.
            let mut output = [PollFd::new(&self.output, PollFlags::empty())];
            if poll(&mut output, timeout.as_ref()) != Err(Errno::INTR) {
                return;
            }
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // Closed before it is waited for: without a goodbye, this is what makes it kill its group.
        drop(self.input.take());
        self.let_end();
        if self.is_dismissed {
            // Not the group: what is left of it was left alone on purpose.
            kill_process(self.group(), Signal::KILL).ok();
        } else {
            self.signal(Signal::KILL);
        }
        self.process.wait().ok();
    }
}

/// The watchdog itself.
pub(crate) fn main() -> ExitCode {
    let caller = std::env::args().nth(2).and_then(|group| group.parse().ok());
    // Else it was called by hand, and the group is someone's pipeline.
    if getpgrp() != getpid() {
        return ExitCode::from(crate::failure::USAGE);
    }
    #[cfg(target_os = "linux")]
    rustix::thread::set_name(c"lock-watchdog").ok();
    let heard = Arc::new(AtomicBool::new(false));
    for signal in NOT_FOR_IT {
        // Caught, and not ignored, which is the same for it.
        if signal_hook::flag::register(signal, Arc::clone(&heard)).is_err() {
            return ExitCode::from(crate::failure::SYSTEM);
        }
    }
    let mut out = io::stdout();
    if out.write_all(&[READY]).and_then(|()| out.flush()).is_err() {
        return ExitCode::from(crate::failure::SYSTEM);
    }
    let is_dismissed = is_dismissed(&mut Orders::default());
    if let Some(caller) = caller.and_then(Pid::from_raw) {
        terminal::give_back(caller);
    }
    if is_dismissed {
        return ExitCode::SUCCESS;
    }
    // It is a member itself, so nothing comes after this.
    kill_current_process_group(Signal::KILL).ok();
    ExitCode::from(crate::failure::SYSTEM)
}

/// What it was told up to now.
struct Orders {
    plan: Plan,
    /// Of the present plan.
    has_sent_term: bool,
    /// What has come of the next word.
    part: Vec<u8>,
}

impl Default for Orders {
    fn default() -> Self {
        Self {
            plan: Plan::NEVER,
            has_sent_term: false,
            part: Vec::with_capacity(LENGTH),
        }
    }
}

/// How a look at the input came out.
enum Heard {
    Goodbye,
    /// Nobody can say anything any more.
    End,
    /// Nothing, or a plan.
    More,
}

/// Waits for the goodbye, and returns false when the group is to be killed instead.
fn is_dismissed(orders: &mut Orders) -> bool {
    loop {
        // First what has been said, as it may put off what is due.
        match orders.listen() {
            Heard::Goodbye => return true,
            Heard::End => return false,
            Heard::More if orders.is_kill_due() => return false,
            Heard::More => {}
        }
    }
}

impl Orders {
    /// Waits until something comes, or is to be done.
    fn listen(&mut self) -> Heard {
        let input = io::stdin();
        let timeout = Timespec::try_from(self.left()).ok();
        let timeout = timeout.filter(|_| self.plan != Plan::NEVER);
        let mut inputs = [PollFd::new(&input, PollFlags::IN)];
        match poll(&mut inputs, timeout.as_ref()) {
            Ok(0) | Err(Errno::INTR) => return Heard::More,
            Ok(_) => {}
            Err(_) => return Heard::End,
        }
        let mut bytes = [0; 256];
        match rustix::io::read(&input, &mut bytes) {
            Err(Errno::INTR) => return Heard::More,
            Ok(0) | Err(_) => return Heard::End,
            Ok(count) => self.part.extend(bytes.iter().take(count)),
        }
        while let Some(word) = Word::take(&mut self.part) {
            match word {
                Word::Plan(plan) => (self.plan, self.has_sent_term) = (plan, false),
                Word::Goodbye => return Heard::Goodbye,
                Word::Gibberish => return Heard::End,
            }
        }
        Heard::More
    }

    /// For how long to wait.
    fn left(&self) -> Duration {
        let next = if self.has_sent_term {
            self.plan.kill_at
        } else {
            self.plan.first()
        };
        next.saturating_sub(clock::since_boot()).min(LONGEST_NAP)
    }

    /// Sends TERM when it is due, and tells when KILL is.
    fn is_kill_due(&mut self) -> bool {
        let now = clock::since_boot();
        let has_term = self.plan.term_at < self.plan.kill_at;
        if has_term && !self.has_sent_term && now >= self.plan.term_at {
            self.has_sent_term = true;
            // It is a member itself, and takes no notice. A command that is stopped gets its signals when it goes on.
            kill_current_process_group(Signal::TERM).ok();
            kill_current_process_group(Signal::CONT).ok();
            if now >= self.plan.kill_at {
                self.plan.kill_at = now.saturating_add(LATE_GRACE);
            }
        }
        now >= self.plan.kill_at
    }
}

/// On Linux the file that this process runs, even if it was replaced meanwhile.
fn own_program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") {
        return Ok("/proc/self/exe".into());
    }
    std::env::current_exe()
}
