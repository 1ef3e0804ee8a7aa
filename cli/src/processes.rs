//! The processes around this one, as `/proc` shows them on systems that have it, and the children: those that it started, and those that others have left to it.
//!
//! As the first process of a container, or as a subreaper, `redlatch` becomes the parent of every process whose parent
//! has ended. A process that ends stays in the process table until its parent waits for it. So this process waits for
//! what it did not start, and for nothing else: who started a child waits for it, and learns its exit code.

use std::fs;
use std::io;
use std::process::{Child, Command};

use parking_lot::Mutex;
use rustix::process::{Pid, WaitOptions, getpid, waitpid};

/// The children that this process has started and not yet waited for. It is locked while one is started, so that none is
/// ever taken for an orphan.
static OWN: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// Starts a process, for which the caller waits and then calls [`forget`].
pub(crate) fn spawn(command: &mut Command) -> io::Result<Child> {
    let mut own = OWN.lock();
    let child = command.spawn()?;
    own.push(Pid::from_child(&child));
    Ok(child)
}

/// Notes that a child was waited for. From then on, another process may have its number.
pub(crate) fn forget(child: Pid) {
    let mut own = OWN.lock();
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
    let own = OWN.lock();
    for child in pids() {
        if !own.contains(&child) && is_left_here(child) {
            // It has ended, so this does not wait. A wait for any child would take those that were started here as well.
            waitpid(Some(child), WaitOptions::NOHANG).ok();
        }
    }
}

/// Whether it is a child of this process that has ended.
fn is_left_here(pid: Pid) -> bool {
    let process = look_up(&pid.as_raw_nonzero().to_string());
    process.is_some_and(|process| process.has_ended && process.parent == Some(getpid()))
}

/// One process, as `/proc/…/stat` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    /// Whether it has ended, and its parent has not waited for it yet.
    has_ended: bool,
    /// None where the parent is outside of this PID namespace.
    parent: Option<Pid>,
    /// Its process group; none where the leader of that is outside of this PID namespace.
    group: Option<Pid>,
}

/// Looks up a process by its number, or this one as `self`.
fn look_up(process: &str) -> Option<Process> {
    of_stat(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

/// The numbers of all processes.
fn pids() -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = entries.filter_map(|entry| {
        let name = entry.ok()?.file_name();
        Pid::from_raw(name.to_str()?.parse().ok()?)
    });
    pids.collect()
}

/// The process group of this process, if it has a number in this PID namespace. Where it has none, `getpgrp` returns
/// zero, which is no `Pid`.
pub(crate) fn own_group() -> Option<Pid> {
    #[cfg(target_os = "linux")]
    return look_up("self")?.group;
    #[cfg(not(target_os = "linux"))]
    return Some(rustix::process::getpgrp());
}

fn of_stat(stat: &str) -> Option<Process> {
    // The name, in parentheses, may hold anything. Behind it are the state, the parent and the group.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let mut pid = || {
        let number: i32 = fields.next()?.parse().ok()?;
        // A process that was waited for a moment ago has -1.
        Some(Pid::from_raw(number.max(0)))
    };
    Some(Process {
        has_ended: state == "Z",
        parent: pid()?,
        group: pid()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name_is() {
        let pid = Pid::from_raw;
        assert_eq!(
            of_stat("7 (a) Z 9 (b) S 5 6 7 0 -1"),
            Some(Process {
                has_ended: false,
                parent: pid(5),
                group: pid(6),
            })
        );
        assert_eq!(
            of_stat("7 (x) X -1 -1 -1"),
            Some(Process {
                has_ended: false,
                parent: None,
                group: None,
            })
        );
        // The first process of a container, whose group is outside.
        assert_eq!(
            of_stat("1 (x) Z 0 0 0"),
            Some(Process {
                has_ended: true,
                parent: None,
                group: None,
            })
        );
        for stat in ["", "7 (a) Z", "7 (a) Z 5", "7 (a) Z x y"] {
            assert_eq!(of_stat(stat), None, "{stat}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_in_its_group_and_among_all() {
        assert_eq!(own_group(), Some(rustix::process::getpgrp()));
        assert!(pids().contains(&getpid()));
    }
}
