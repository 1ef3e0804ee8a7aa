//! The children of this process: those that it started, and those that others have left to it.
//!
//! As the first process of a container, or as a subreaper, `redlatch` becomes the parent of every process whose parent
//! has ended. A process that ends stays in the process table until its parent waits for it. So this process waits for
//! what it did not start, and for nothing else: who started a child waits for it, and learns its exit code.

use std::io;
use std::process::{Child, Command};
use std::sync::{Mutex, PoisonError};

use rustix::process::{Pid, WaitOptions, getpid, waitpid};

use crate::process_table;

/// The children that this process has started and not yet waited for. It is locked while one is started, so that none is
/// ever taken for an orphan.
static OWN: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// Starts a process, for which the caller waits and then calls [`forget`].
pub(crate) fn spawn(command: &mut Command) -> io::Result<Child> {
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    let child = command.spawn()?;
    own.push(Pid::from_child(&child));
    Ok(child)
}

/// Notes that a child was waited for. From then on, another process may have its number.
pub(crate) fn forget(child: Pid) {
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(place) = own.iter().position(|other| *other == child) {
        own.swap_remove(place);
    }
}

/// Whether processes are left to this one.
pub(crate) fn may_be_left_here() -> bool {
    #[cfg(target_os = "linux")]
    let is_subreaper = matches!(rustix::process::child_subreaper(), Ok(Some(_)));
    #[cfg(not(target_os = "linux"))]
    let is_subreaper = false;
    getpid() == Pid::INIT || is_subreaper
}

/// Waits for all that have ended and were not started here.
pub(crate) fn reap_orphans() {
    let own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    for child in process_table::pids() {
        if !own.contains(&child) && is_left_here(child) {
            // It has ended, so this does not wait. A wait for any child would take those that were started here as well.
            waitpid(Some(child), WaitOptions::NOHANG).ok();
        }
    }
}

/// Whether it is a child of this process that has ended.
fn is_left_here(pid: Pid) -> bool {
    let process = process_table::look_up(&pid.as_raw_nonzero().to_string());
    process.is_some_and(|process| process.has_ended && process.parent == Some(getpid()))
}
