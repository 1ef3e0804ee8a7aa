//! The foreground of the terminal: the process group that may read and gets Ctrl-C. So interactive commands work under
//! a lock.

use std::fs::File;
use std::io::{IsTerminal, stdin, stdout};
use std::os::fd::AsFd;

use rustix::fs::{FileType, fstat};
use rustix::process::{Pid, Signal, getpid, kill_current_process_group, kill_process};
use rustix::termios::{LocalModes, tcgetattr, tcgetpgrp, tcsetpgrp};

use crate::processes::own_group;

/// The terminal in whose foreground this process was.
#[derive(Debug)]
pub(crate) struct Terminal {
    tty: File,
}

impl Terminal {
    /// Finds the terminal, if this process is in its foreground. In a pipeline (`redlatch run … | less`), the last
    /// program needs the terminal more, so there is none.
    pub(crate) fn find() -> Option<Self> {
        let is_interactive = stdin().is_terminal() || stdout().is_terminal();
        let output = fstat(stdout()).map(|stat| FileType::from_raw_mode(stat.st_mode));
        let is_pipe = matches!(output, Ok(FileType::Fifo | FileType::Socket));
        Self::find_anyhow().filter(|_| is_interactive && !is_pipe)
    }

    /// Finds the terminal if this process is in its foreground, also within a pipeline.
    pub(crate) fn find_anyhow() -> Option<Self> {
        let tty = File::options().read(true).write(true).open("/dev/tty");
        let terminal = Self { tty: tty.ok()? };
        terminal.is_ours().then_some(terminal)
    }

    /// Puts a process group into the foreground in place of this one. Only a process in the foreground may do so without
    /// being stopped, so the watchdog has to return the terminal that `redlatch` handed over.
    pub(crate) fn hand_to(&self, group: Pid) {
        if self.is_ours() {
            tcsetpgrp(&self.tty, group).ok();
        }
    }

    /// Whether this process is in its foreground.
    fn is_ours(&self) -> bool {
        let group = own_group();
        group.is_some() && tcgetpgrp(&self.tty).ok() == group
    }
}

/// Whether this process would be stopped if it read from this stream. One that is not the terminal of this process's session
/// has no foreground.
pub(crate) fn stops_readers(stream: impl AsFd) -> bool {
    matches!(tcgetpgrp(stream), Ok(group) if Some(group) != own_group())
}

/// Whether this process would be stopped if it wrote to this stream (`stty tostop`).
pub(crate) fn stops_writers(stream: impl AsFd) -> bool {
    let modes = tcgetattr(&stream).map(|modes| modes.local_modes);
    modes.is_ok_and(|modes| modes.contains(LocalModes::TOSTOP)) && stops_readers(stream)
}

/// Stops this process, as Ctrl-Z does, and returns when it is continued.
pub(crate) fn stop_here() {
    kill_process(getpid(), Signal::STOP).ok();
}

/// Stops the process group of this process, which may be a script or a pipeline, as Ctrl-Z would if it were in the
/// foreground. This process catches TSTP, so it stops itself.
pub(crate) fn stop_job() {
    kill_current_process_group(Signal::TSTP).ok();
    stop_here();
}

/// Stops the process group of this process, as the system stops a background process that reads from the terminal. A
/// group that no shell could continue is not stopped.
pub(crate) fn stop_in_background() {
    kill_current_process_group(Signal::TTIN).ok();
}
