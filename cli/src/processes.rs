//! The children of this process: those that it started, and those that others have left to it; and its process group.
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

/// Waits for all that have ended and were not started here. A wait for any child would take those that were started here
/// as well, so each process is tried: the system refuses those that are no children, and none is waited for that runs.
pub(crate) fn reap_orphans() {
    let own = OWN.lock();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
    for pid in pids.filter(|pid| !own.contains(pid)) {
        waitpid(Some(pid), WaitOptions::NOHANG).ok();
    }
}

/// Returns whether a process is stopped, as by Ctrl-Z. Returns false if the system does not say.
pub(crate) fn is_stopped(process: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()));
    stat.is_ok_and(|stat| after_name(&stat).is_some_and(|rest| rest.starts_with('T')))
}

/// Returns the fields after the name: the state, the parent and the group. The name is in parentheses, and may have any characters.
fn after_name(stat: &str) -> Option<&str> {
    let (_, rest) = stat.rsplit_once(") ")?;
    Some(rest)
}

/// The process group of this process, if it has a number in this PID namespace. Where it has none, `getpgrp` returns
/// zero, which is no `Pid`.
pub(crate) fn own_group() -> Option<Pid> {
    #[cfg(target_os = "linux")]
    return group_of(&fs::read_to_string("/proc/self/stat").ok()?);
    #[cfg(not(target_os = "linux"))]
    return Some(rustix::process::getpgrp());
}

#[cfg(target_os = "linux")]
fn group_of(stat: &str) -> Option<Pid> {
    let group: i32 = after_name(stat)?
        .split_ascii_whitespace()
        .nth(2)?
        .parse()
        .ok()?;
    Pid::from_raw(group)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::Stdio;

    use super::*;

    /// If children were not forgotten, a service would remember one more process for each command. An orphan that gets the number
    /// of such a process would not be waited for.
    #[test]
    fn a_child_is_known_from_its_start_until_it_was_waited_for() {
        let mut command = Command::new("cat");
        let mut child = spawn(command.stdin(Stdio::piped())).unwrap();
        let pid = Pid::from_child(&child);
        assert!(OWN.lock().contains(&pid));
        child.wait().unwrap();
        forget(pid);
        assert!(!OWN.lock().contains(&pid));
    }

    #[test]
    fn a_process_is_stopped_from_its_stop_until_it_goes_on() {
        use rustix::process::{Signal, kill_process};

        let is_soon = |expected, pid| {
            let mut looks = (0..2_000).map(|_| {
                std::thread::yield_now();
                is_stopped(pid)
            });
            looks.any(|is_stopped| is_stopped == expected)
        };
        let mut command = Command::new("cat");
        let mut child = spawn(command.stdin(Stdio::piped())).unwrap();
        let pid = Pid::from_child(&child);
        assert!(!is_stopped(pid));
        kill_process(pid, Signal::STOP).unwrap();
        assert!(is_soon(true, pid));
        kill_process(pid, Signal::CONT).unwrap();
        assert!(is_soon(false, pid));
        child.kill().unwrap();
        child.wait().unwrap();
        forget(pid);
        assert!(!is_stopped(pid));
    }

    #[test]
    fn the_group_is_read_whatever_the_name_is() {
        assert_eq!(own_group(), Some(rustix::process::getpgrp()));
        assert_eq!(group_of("7 (a) Z 9 (b) S 5 6 7 0 -1"), Pid::from_raw(6));
        // The first process of a container has a group outside.
        for stat in ["1 (x) Z 0 0 0", "", "7 (a) Z", "7 (a) Z 5", "7 (a) Z x y"] {
            assert_eq!(group_of(stat), None, "{stat}");
        }
    }
}
