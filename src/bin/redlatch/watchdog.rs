//! The process that kills the command should `redlatch` itself be killed, so that it does not go on without a lock.
//!
//! It leads the process group that the command then joins. So it never has to be told whom to watch, there is no moment
//! at which the command runs unwatched, and while it lives no other group can get its number. Its standard input is a pipe
//! whose other end only `redlatch` has: a byte dismisses it, and the end of the input without one means that `redlatch` is
//! gone.
//!
//! What it can't do: kill processes that have left the group (`setsid`), or anything after having been killed itself. So
//! it is not called `redlatch` among the processes, lest a `killall -9 redlatch` find both.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::process::{
    Pid, Signal, getpgrp, getpid, kill_current_process_group, kill_process_group,
};
use signal_hook::consts::signal;

use crate::terminal::{self, Terminal};

/// Calls for the watchdog. It is no subcommand: nobody is meant to type it.
pub(crate) const ARGUMENT: &str = "__watchdog";

/// What it says when it is ready, and what dismisses it.
const READY: u8 = b'r';
const GOODBYE: u8 = b'g';

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
        let read = output.map(|mut output| output.read_exact(&mut ready));
        if !matches!(read, Some(Ok(()))) || ready != [READY] {
            drop(input);
            process.wait()?;
            return Err(io::Error::other("the watchdog does not start"));
        }
        Ok(Self { process, input })
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

    /// Kills the command, what it has started, and the watchdog.
    pub(crate) fn kill(&mut self, terminal: Option<&Terminal>) {
        if terminal.is_some() && self.input.take().is_some() {
            // It gives the terminal back first. It may have been stopped.
            self.signal(Signal::CONT);
        } else {
            self.signal(Signal::KILL);
        }
    }

    /// Sends it away; what is left of the group is left alone. It gives the terminal back, if the group has it.
    pub(crate) fn dismiss(&mut self) {
        if let Some(mut input) = self.input.take() {
            // It is gone if someone has killed it.
            input.write_all(&[GOODBYE]).ok();
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // Closed before it is waited for: without a goodbye, this is what makes it kill its group.
        drop(self.input.take());
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
    let is_dismissed = is_dismissed();
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

/// Waits for the goodbye, or for the end of the input without one.
fn is_dismissed() -> bool {
    let mut byte = [0];
    loop {
        match io::stdin().read(&mut byte) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(count) => return count == 1 && byte == [GOODBYE],
            Err(_) => return false,
        }
    }
}

/// On Linux the file that this process runs, even if it was replaced meanwhile.
fn own_program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") {
        return Ok("/proc/self/exe".into());
    }
    std::env::current_exe()
}
