//! What `/proc` says of processes, on systems that have it.

use std::fs;

use rustix::process::Pid;

/// One process, as `/proc/…/stat` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process {
    /// Whether it has ended, and its parent has not waited for it yet.
    pub(crate) has_ended: bool,
    /// None where the parent is outside of this PID namespace.
    pub(crate) parent: Option<Pid>,
    /// Its process group; none where the leader of that is outside of this PID namespace.
    pub(crate) group: Option<Pid>,
}

/// Looks up a process by its number, or this one as `self`.
pub(crate) fn look_up(process: &str) -> Option<Process> {
    of_stat(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

/// The numbers of all processes.
pub(crate) fn pids() -> Vec<Pid> {
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
        assert!(pids().contains(&rustix::process::getpid()));
    }
}
