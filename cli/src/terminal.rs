//! The foreground of the terminal: the process group that may read and gets Ctrl-C. So interactive commands work under
//! a lock.

use std::fs::File;
use std::io::{IsTerminal, stdin, stdout};

use rustix::fs::{FileType, fstat};
use rustix::process::{Pid, Signal, getpid, kill_current_process_group, kill_process};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

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
        if !is_interactive || is_pipe() {
            return None;
        }
        Self::find_anyhow()
    }

    /// Finds the terminal if this process is in its foreground, also within a pipeline.
    pub(crate) fn find_anyhow() -> Option<Self> {
        let tty = open()?;
        is_in_front(&tty, own_group()).then_some(Self { tty })
    }

    /// Puts a process group into the foreground, if this process's group is there.
    pub(crate) fn hand_to(&self, group: Pid) {
        if is_in_front(&self.tty, own_group()) {
            tcsetpgrp(&self.tty, group).ok();
        }
    }
}

/// Whether this process may read from standard input, which is a terminal, without being stopped. One that is not the
/// terminal of this process's session has no foreground.
pub(crate) fn has_input() -> bool {
    !matches!(tcgetpgrp(stdin()), Ok(group) if Some(group) != own_group())
}

/// Puts another process group into the foreground in place of this one. Only a process in the foreground may do so
/// without being stopped, so the watchdog has to return the terminal that `redlatch` handed over.
pub(crate) fn give_back(group: Pid) {
    if let Some(tty) = open()
        && is_in_front(&tty, own_group())
    {
        tcsetpgrp(&tty, group).ok();
    }
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

fn open() -> Option<File> {
    File::options().read(true).write(true).open("/dev/tty").ok()
}

fn is_in_front(tty: &File, group: Option<Pid>) -> bool {
    group.is_some() && tcgetpgrp(tty).ok() == group
}

fn is_pipe() -> bool {
    let kind = fstat(stdout()).map(|stat| FileType::from_raw_mode(stat.st_mode));
    matches!(kind, Ok(FileType::Fifo | FileType::Socket))
}
