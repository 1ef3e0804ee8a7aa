//! `redlatch` itself is killed: the command does not go on without a lock, and the lock is free when its ttl ends.

use std::time::Duration;

use redlatch_testing::{eventually, pause};
use rustix::process::{Signal, getpgid, kill_process};

use crate::process::{LIMIT, Nodes, Running, assert_dies, end_of, is_alive, pid, state};

#[test]
fn who_kills_redlatch_kills_the_command_and_its_grandchildren() {
    let nodes = Nodes::start(3).hasty();
    // Nothing that a signal could do but KILL. Signals to the group, as of scripts that clean up with `kill 0`, and those
    // that end who does not expect them, are not for the watchdog.
    let script = "trap '' INT TERM HUP QUIT USR1 USR2 ALRM; for s in INT TERM HUP QUIT USR1 USR2 ALRM; do kill -$s 0; done; \
                  sh -c 'echo $$; for i in $(seq 1500); do sleep 0.02; done' & echo $$; wait";
    let running = Running::start(&mut nodes.run(&["--ttl", "1s"], script));
    let pids = [pid(&running.line()), pid(&running.line())];
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    assert!(nodes.locked() >= 2);
    // A `killall -9 redlatch` is not to find the watchdog, which leads the group.
    let watchdog = getpgid(Some(pids[1])).unwrap().as_raw_nonzero();
    let name = std::fs::read_to_string(format!("/proc/{watchdog}/comm")).unwrap();
    assert_eq!(name, "lock-watchdog\n");
    running.signal(Signal::TERM);
    running.signal(Signal::KILL);
    for pid in pids {
        assert_dies(pid);
    }
    assert!(eventually(LIMIT, || nodes.locked() == 0), "the lock stays");
}

#[test]
fn a_run_that_begins_when_a_holder_was_killed_gets_its_turn_unless_it_says_how_long_it_waits() {
    let nodes = Nodes::start(3).hasty();
    // A holder that was killed leaves its keys for longer than ten seconds.
    let ttl = ["--ttl", "12s"];
    let killed = Running::start(&mut nodes.run(&ttl, "echo started; exec sleep 60"));
    killed.line();
    killed.signal(Signal::KILL);
    drop(killed);
    assert!(nodes.locked() >= 2);
    let ended = end_of(&mut nodes.run(&ttl, "echo ran"));
    ended.is(0, "ran\n");
}

#[test]
fn killed_again_and_again_while_it_starts_it_leaves_nothing_running() {
    let nodes = Nodes::start(1).hasty();
    let file = nodes.file("pids");
    let script = format!(
        "echo $$ >> {}; for i in $(seq 1500); do sleep 0.02; done",
        file.display()
    );
    // A short time to live, so that the next one need not wait for long.
    let brief = ["--node-timeout", "50ms", "--ttl", "300ms", "--wait", "5s"];
    // Over the whole time of its start: before the lock, with it, before the command, after it.
    for step in 0..24 {
        let running = Running::start(&mut nodes.run(&brief, &script));
        pause(Duration::from_millis(step));
        running.signal(Signal::KILL);
    }
    let last = Running::start(&mut nodes.run(&["--ttl", "1s"], &script));
    let written = || std::fs::read_to_string(&file).unwrap_or_default();
    assert!(eventually(LIMIT, || !written().is_empty()));
    last.signal(Signal::KILL);
    drop(last);
    let all_dead = || written().lines().all(|line| !is_alive(pid(line)));
    assert!(eventually(LIMIT, all_dead), "{}", written());
    assert!(eventually(LIMIT, || nodes.locked() == 0));
}

#[test]
fn a_group_that_is_stopped_with_its_watchdog_does_not_hold_redlatch_up() {
    let nodes = Nodes::start(1);
    let running = Running::start(&mut nodes.run(&[], "echo $$; kill -STOP 0"));
    let command = pid(&running.line());
    let watchdog = getpgid(Some(command)).unwrap();
    for pid in [command, watchdog] {
        assert!(eventually(LIMIT, || state(pid) == Some('T')));
    }
    kill_process(command, Signal::KILL).unwrap();
    let ended = running.end();
    ended.ends_with(137);
    assert_eq!(nodes.locked(), 0);
    assert_dies(watchdog);
}
