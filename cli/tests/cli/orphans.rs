//! `redlatch` as the first process of a container, to which every process is left whose parent has ended.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::process::{getpid, set_child_subreaper};

use crate::process::{Nodes, REDLATCH, end_of};

/// Tells the process that becomes `redlatch` its arguments, one a line.
const ARGUMENTS: &str = "REDLATCH_TEST_ARGUMENTS";

/// No test but a process that the tests start: processes are left to it as to the first of a container. It becomes
/// `redlatch`.
#[test]
fn a_process_to_which_others_are_left() {
    let Ok(arguments) = std::env::var(ARGUMENTS) else {
        return;
    };
    set_child_subreaper(Some(getpid())).unwrap();
    let mut redlatch = Command::new(REDLATCH);
    redlatch.args(arguments.lines()).env_remove(ARGUMENTS);
    panic!("{}", redlatch.exec());
}

/// `redlatch run` of a script, as a process to which others are left. It needs no privileges.
fn as_a_subreaper(nodes: &Nodes, script: &str) -> Command {
    let run = nodes.run(&[], script);
    let arguments: Vec<&str> = run.get_args().map(|word| word.to_str().unwrap()).collect();
    let mut command = nodes.test("orphans::a_process_to_which_others_are_left");
    command.env(ARGUMENTS, arguments.join("\n"));
    command
}

/// `redlatch run` of a script as process 1 of a namespace, or none where the system gives none to its users.
fn as_process_1(nodes: &Nodes, script: &str) -> Option<Command> {
    let words = "--user --map-root-user --pid --fork --mount-proc --kill-child";
    let words: Vec<&str> = words.split(' ').collect();
    let mut check = Command::new("unshare");
    let check = check
        .args(&words)
        .arg("true")
        .stderr(Stdio::null())
        .status();
    if !check.is_ok_and(|status| status.success()) {
        return None;
    }
    let run = nodes.run(&[], script);
    let mut command = nodes.program("unshare", &words);
    command.arg(run.get_program()).args(run.get_args());
    Some(command)
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
fn processes_that_are_left_to_redlatch_are_waited_for_when_they_end_also_as_process_1() {
    let nodes = Nodes::start(1);
    // Arguments are lines here.
    let script = nodes.file("script");
    std::fs::write(&script, LEAVE_SIX).unwrap();
    let script = format!("exec sh {}", script.display());
    end_of(&mut as_a_subreaper(&nodes, &script)).is_quiet(7);
    std::fs::remove_file(nodes.file("go")).unwrap();
    // Where there are no namespaces, a subreaper stands for the first process.
    if let Some(mut command) = as_process_1(&nodes, &format!("[ $PPID = 1 ] || exit 97; {script}"))
    {
        end_of(&mut command).is_quiet(7);
    }
    assert_eq!(nodes.locked(), 0);
}

#[test]
fn the_exit_code_is_that_of_the_command_however_many_end_with_it() {
    let nodes = Nodes::start(1);
    for _ in 0..20 {
        let script = "for i in 1 2 3 4 5 6 7 8; do (true & true); done; exit 7";
        end_of(&mut as_a_subreaper(&nodes, script)).is_quiet(7);
    }
    if let Some(mut command) = as_process_1(&nodes, "kill -KILL $$") {
        assert_eq!(end_of(&mut command).code, Some(137));
    }
}
