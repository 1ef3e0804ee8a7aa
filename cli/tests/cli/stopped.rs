//! `redlatch` alone is stopped, and so renews nothing: the command does not run on beside the next holder.

use std::time::Duration;

use redlatch::Protocol;
use redlatch_testing::{eventually, pause};
use rustix::process::{Signal, getpgid, kill_process};

use crate::process::{LIMIT, Nodes, Running, assert_dies, is_alive, pid, state};

/// Long enough that a busy machine does not lose the lock before it is meant to.
const TTL: [&str; 2] = ["--ttl", "6s"];

/// Tells its process, and works.
const WORK: &str = "echo $$; for i in $(seq 3000); do sleep 0.02; done";

#[test]
fn the_command_of_a_stopped_redlatch_is_dead_when_the_next_holder_has_the_lock() {
    let nodes = Nodes::start(3).hasty();
    let other = nodes.manager(Protocol::Classic);
    // Of the first one nothing that a signal could do but KILL. The other one gets TERM before.
    for (trap, told) in [
        ("trap '' INT TERM HUP QUIT", None),
        ("trap 'echo term > told; exit 0' TERM", Some("term\n")),
    ] {
        let script = format!("{trap}; sh -c '{WORK}' & {WORK}");
        let running = Running::start(&mut nodes.run(&TTL, &script));
        let pids = [pid(&running.line()), pid(&running.line())];
        // Later than the first renewal, so that it is not the end of the first lease that counts.
        pause(Duration::from_millis(1500));
        assert!(pids.iter().all(|pid| is_alive(*pid)));
        running.signal(Signal::STOP);
        let guard = other.lock("job", Duration::from_mins(1)).unwrap();
        let alive = pids.map(is_alive);
        assert_eq!(alive, [false; 2], "they run on beside the next holder");
        let text = std::fs::read_to_string(nodes.file("told")).ok();
        assert_eq!(text.as_deref(), told);
        running.signal(Signal::CONT);
        // Whatever the command returned.
        running.end().is_refused(76, "lost the lock job");
        guard.unlock().unwrap();
    }
}

#[test]
fn a_command_that_is_stopped_as_well_does_not_go_on_beside_the_next_holder() {
    let nodes = Nodes::start(3).hasty();
    let running = Running::start(&mut nodes.run(&TTL, WORK));
    let command = pid(&running.line());
    let watchdog = getpgid(Some(command)).unwrap();
    // All three, as a debugger or a freezer would.
    let all = [running.pid(), watchdog, command];
    for pid in all {
        kill_process(pid, Signal::STOP).unwrap();
        assert!(eventually(LIMIT, || state(pid) == Some('T')));
    }
    assert!(eventually(LIMIT, || nodes.locked() == 0));
    for pid in all {
        // The watchdog may have ended the command by then.
        kill_process(pid, Signal::CONT).ok();
    }
    assert_dies(command);
    running.end().ends_with(76);
}

#[test]
fn a_redlatch_that_goes_on_in_time_keeps_its_lock_and_its_command() {
    let nodes = Nodes::start(3);
    let script = "echo $$; while [ ! -e go ]; do sleep 0.02; done; exit 3";
    let running = Running::start(&mut nodes.run(&["--ttl", "1m"], script));
    let command = pid(&running.line());
    running.signal(Signal::STOP);
    assert!(eventually(LIMIT, || state(running.pid()) == Some('T')));
    pause(Duration::from_secs(1));
    running.signal(Signal::CONT);
    assert!(is_alive(command));
    std::fs::write(nodes.file("go"), "").unwrap();
    running.end().is_quiet(3);
}

#[test]
fn with_on_loss_ignore_the_command_of_a_stopped_redlatch_goes_on() {
    let nodes = Nodes::start(3).hasty();
    let other = nodes.manager(Protocol::Classic);
    let options = ["--ttl", "1500ms", "--on-loss", "ignore"];
    let running = Running::start(&mut nodes.run(&options, WORK));
    let command = pid(&running.line());
    running.signal(Signal::STOP);
    drop(other.lock("job", Duration::from_mins(1)).unwrap());
    assert!(is_alive(command));
}

#[test]
fn a_redlatch_that_is_stopped_in_the_grace_leaves_the_kill_to_the_watchdog() {
    let nodes = Nodes::start(3).hasty();
    let options = ["--ttl", "1500ms", "--grace", "1s"];
    let script = format!("trap '' TERM; {WORK}");
    let running = Running::start(&mut nodes.run(&options, &script));
    let command = pid(&running.line());
    nodes.command(&["SET", "job", "another", "PX", "60000"]);
    assert!(running.error_line().contains("KILL after 1s"));
    running.signal(Signal::STOP);
    assert_dies(command);
    running.signal(Signal::CONT);
    running.end().ends_with(76);
}
