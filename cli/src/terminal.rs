//! The terminal: who may read from it and gets its Ctrl-C, so that interactive commands work under a lock.

use std::fs::File;
use std::io::{IsTerminal, stdin, stdout};

use rustix::fs::{FileType, fstat};
use rustix::process::{Pid, Signal, getpgrp, getpid, kill_current_process_group, kill_process};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

/// The terminal that this process was in the foreground of.
#[derive(Debug)]
pub(crate) struct Terminal {
    tty: File,
}

impl Terminal {
    /// Finds the terminal, if this process is in its foreground and there is nobody behind it in a pipeline
    /// (`redlatch run … | less`) who needs the terminal more.
    pub(crate) fn find() -> Option<Self> {
        let is_interactive = stdin().is_terminal() || stdout().is_terminal();
        if !is_interactive || is_pipe() {
            return None;
        }
        Self::find_anyhow()
    }

    /// Finds the terminal whoever else is in its foreground beside this process.
    pub(crate) fn find_anyhow() -> Option<Self> {
        let tty = open()?;
        is_in_front(&tty, getpgrp()).then_some(Self { tty })
    }

    /// Puts a process group into the foreground in place of this one, if this one is there.
    pub(crate) fn hand_to(&self, group: Pid) {
        if is_in_front(&self.tty, getpgrp()) {
            tcsetpgrp(&self.tty, group).ok();
        }
    }
}

/// Puts another process group into the foreground in place of this one. Only a process that is in the foreground may do
/// so without being stopped for it, which is why the watchdog gives back what `redlatch` has handed over.
pub(crate) fn give_back(group: Pid) {
    if let Some(tty) = open()
        && is_in_front(&tty, getpgrp())
    {
        tcsetpgrp(&tty, group).ok();
    }
}

/// Stops this process, as Ctrl-Z does, and returns when it is continued.
pub(crate) fn stop_here() {
    kill_process(getpid(), Signal::STOP).ok();
}

/// Stops the process group of this process as Ctrl-Z would have done, had the group of the command not been in the
/// foreground in its place: the script or the pipeline that this process is a part of. This one catches TSTP.
pub(crate) fn stop_job() {
    kill_current_process_group(Signal::TSTP).ok();
    stop_here();
}

/// Stops the process group of this process as the system does with who reads from a terminal in the background. A group
/// that no shell could continue goes on.
pub(crate) fn stop_in_background() {
    kill_current_process_group(Signal::TTIN).ok();
}

fn open() -> Option<File> {
    File::options().read(true).write(true).open("/dev/tty").ok()
}

fn is_in_front(tty: &File, group: Pid) -> bool {
    tcgetpgrp(tty) == Ok(group)
}

fn is_pipe() -> bool {
    let kind = fstat(stdout()).map(|stat| FileType::from_raw_mode(stat.st_mode));
    matches!(kind, Ok(FileType::Fifo | FileType::Socket))
}
