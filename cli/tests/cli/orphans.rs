//! `redlatch` as the first process of a container, to which every process is left whose parent has ended.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::process::{getpid, set_child_subreaper};

use crate::nodes::{Nodes, REDLATCH, words};
use crate::process::end_of;

/// Tells the process that becomes `redlatch` the script to run.
const SCRIPT: &str = "REDLATCH_TEST_SCRIPT";

/// No test but a process that the tests start: processes are left to it as to the first of a container. It becomes
/// `redlatch`.
#[test]
fn a_process_to_which_others_are_left() {
    let Ok(script) = std::env::var(SCRIPT) else {
        return;
    };
    set_child_subreaper(Some(getpid())).unwrap();
    let mut redlatch = Command::new(REDLATCH);
    redlatch.args(["run", "job", "--", "sh", "-c", &script]);
    panic!("{}", redlatch.env_remove(SCRIPT).exec());
}

/// `redlatch run` of a script, as a process to which others are left. It needs no privileges.
fn as_a_subreaper(nodes: &Nodes, script: &str) -> Command {
    let tests = std::env::current_exe().unwrap();
    let name = "orphans::a_process_to_which_others_are_left";
    let mut command = nodes.program(tests.to_str().unwrap(), &["--exact", name, "--nocapture"]);
    command.env(SCRIPT, script);
    command
}

/// `redlatch run` of a script as process 1 of a namespace, or as a subreaper where the system gives none to its users.
fn as_process_1(nodes: &Nodes, script: &str) -> Command {
    let options = words("--user --map-root-user --pid --fork --mount-proc --kill-child");
    let mut check = Command::new("unshare");
    let check = check.args(&options).arg("true").stderr(Stdio::null());
    if !check.status().is_ok_and(|status| status.success()) {
        return as_a_subreaper(nodes, script);
    }
    let run = nodes.run("", &format!("[ $PPID = 1 ] || exit 97; {script}"));
    let mut command = nodes.program("unshare", &options);
    command.arg(run.get_program()).args(run.get_args());
    command
}

/// Leaves six processes to `redlatch`, three of them outside of the command's process group, lets them end, and waits
/// until they are gone. Without somebody who waits for them, they would stay in /proc.
const LEAVE_SIX: &str = r#"
    leave() { "$@" sh -c 'while [ ! -e go ]; do sleep 0.02; done' >/dev/null 2>&1 & echo $!; }
    all=$(for i in 1 2 3; do (leave env); (leave setsid); done)
    for pid in $all; do
        read -r _ _ _ parent _ </proc/$pid/stat
        [ "$parent" = "$PPID" ] || { echo "$pid is left to $parent, not to $PPID"; exit 98; }
    done
    : >go
    for i in $(seq 500); do
        left=; for pid in $all; do [ -e /proc/$pid ] && left="$left $pid"; done
        [ -n "$left" ] || exit 7
        sleep 0.02
    done
    echo "nobody waits for $left"; exit 99
"#;

#[test]
fn processes_that_are_left_to_redlatch_are_waited_for_and_the_exit_code_is_that_of_the_command() {
    let nodes = Nodes::start(1);
    end_of(&mut as_a_subreaper(&nodes, LEAVE_SIX)).is_quiet(7);
    std::fs::remove_file(nodes.file("go")).unwrap();
    end_of(&mut as_process_1(&nodes, LEAVE_SIX)).is_quiet(7);
    assert_eq!(nodes.locked(), 0);

    // However many end with it.
    for _ in 0..20 {
        let script = "for i in 1 2 3 4 5 6 7 8; do (true & true); done; exit 7";
        end_of(&mut as_a_subreaper(&nodes, script)).is_quiet(7);
    }
    end_of(&mut as_process_1(&nodes, "kill -KILL $$")).ends_with(137);
}
