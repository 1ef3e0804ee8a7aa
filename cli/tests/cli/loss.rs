//! A lock that is lost while its command runs, or whose `redlatch` is stopped or killed: what the command gets, and what the exit code is.

use std::fs;
use std::time::Duration;

use redlatch::Protocol;
use redlatch_testing::{Server, eventually, now, pause};
use rustix::process::{Pid, Signal, getpgid, kill_process};

use crate::nodes::Nodes;
use crate::process::{LIMIT, Running, assert_dies, assert_stops, is_alive, pid};

/// Renewed every second, so that a loss is soon noticed.
const TTL: &str = "--ttl 3s";

/// Long enough that a busy machine does not lose the lock before it is meant to.
const LONG_TTL: &str = "--ttl 6s";

/// Tells its process, and works.
const WORK: &str = "echo $$; for i in $(seq 3000); do sleep 0.02; done";

/// Waits for a file.
const WAIT: &str = "while [ ! -e go ]; do sleep 0.02; done";

#[test]
fn a_loss_leaves_the_other_holder_alone_and_ends_all_that_the_command_has_started() {
    let nodes = Nodes::hasty();
    // The command ends, and what it leaves behind does not.
    let leaves = format!("sh -c 'trap \"\" TERM; {WORK}' & wait");
    let running = nodes.start_run(TTL, &leaves);
    let grandchild = pid(&running.line());
    nodes.hold("another", 60_000);
    let ended = running.end();
    assert!(
        ended.ends_with(76).stderr.contains("another holder"),
        "{ended:?}"
    );
    assert_dies(grandchild);
    assert_eq!(nodes.servers[0].get("job").as_deref(), Some("another"));

    // Neither ends before it gets KILL, after the grace.
    nodes.command("DEL job");
    let ignores = format!("trap '' TERM; sleep 30 & echo $!; {WORK}");
    let running = nodes.start_run(&format!("{LONG_TTL} --grace 3s"), &ignores);
    let all = [pid(&running.line()), pid(&running.line())];
    nodes.hold("another", 60_000);
    running.error_line();
    let told = now();
    assert!(all.into_iter().all(is_alive));
    running.end().ends_with(76);
    let took = now() - told;
    // The line may have been read late.
    assert!(
        took >= Duration::from_millis(1_500),
        "killed before the grace had passed: {took:?}"
    );
    all.into_iter().for_each(assert_dies);
}

#[test]
fn on_loss_kills_the_command_at_once_or_lets_it_go_on() {
    let nodes = Nodes::hasty();
    let script = format!("trap 'echo got term' TERM; {WORK}");
    let running = nodes.start_ready(&format!("{TTL} --on-loss kill --grace 1h"), &script);
    nodes.hold("another", 60_000);
    running.end().is_refused(76, "KILL");

    nodes.command("DEL job");
    let script = format!("echo ready; {WAIT}; exit 6");
    let mut running = nodes.start_ready(&format!("{TTL} --on-loss ignore"), &script);
    nodes.hold("another", 60_000);
    running.tells("goes on without it");
    assert!(running.is_running());
    nodes.go();
    running.end().is_quiet(6);
}

#[test]
fn servers_that_are_gone_for_longer_than_the_ttl_are_a_loss_and_one_of_them_is_none() {
    let mut nodes = Nodes::hasty();
    nodes.servers[0].kill();
    let running = nodes.start_ready(TTL, WORK);
    pause(Duration::from_secs(4));
    nodes.servers[1].kill();
    let ended = running.end();
    // The holder was told before, while there was time to do something.
    let lines: Vec<&str> = ended.ends_with(76).stderr.lines().collect();
    let [no_vote, fails_too, fails, lost] = lines[..] else {
        panic!("{ended:?}");
    };
    assert!(no_vote.contains(&nodes.names(0..1)), "{ended:?}");
    let second = format!("node {} failed ", nodes.names(1..2));
    assert!(fails_too.contains(&second), "{ended:?}");
    for part in [
        "Z renewals of lock \"job\" fail on ",
        &nodes.servers[1].name(),
    ] {
        assert!(fails.contains(part), "{ended:?}");
    }
    assert!(lost.contains("too few nodes answered"), "{ended:?}");
}

#[test]
fn who_gets_a_lock_is_told_which_server_does_not_have_it_and_a_holder_when_one_fails() {
    let mut nodes = Nodes::hasty();
    nodes.servers[2].kill();
    let told = format!(
        "the lock job has no vote of {}: no connection: Connection refused (os error 111); see 'redlatch health'",
        nodes.names(2..3)
    );
    for options in ["", "-n", "--quiet", "--max 2", "--shared", "--also other"] {
        let ended = nodes.try_run(options, "true");
        ended.is(0, "").complains(&told.replace(
            " job ",
            if options.contains("also") {
                " job, other "
            } else {
                " job "
            },
        ));
    }
    nodes.servers[2].restart();
    let ready = "echo ready; read -r line; exit 0";
    let hold = nodes.redlatch("hold --ttl 6s job");
    for mut command in [
        nodes.run(LONG_TTL, ready),
        hold,
        nodes.run("--forever --ttl 6s", ready),
    ] {
        let running = Running::start(&mut command);
        running.line();
        nodes.servers[2].kill();
        running.tells(&format!("node {} failed (", nodes.names(2..3)));
        nodes.servers[2].restart();
        running.tells(&format!("node {} answers again", nodes.names(2..3)));
        running.end_by(Signal::TERM);
        nodes.command("DEL job");
    }
    // No warning: nothing ran, so there is no lock that a further failure could end.
    nodes.hold("another", 60_000);
    nodes.servers[2].kill();
    nodes
        .try_run("-n", "echo ran")
        .is_refused(75, "another holder has");
}

#[test]
fn a_holder_is_told_once_that_renewals_fail_and_when_they_succeed_again() {
    let nodes = Nodes::hasty();
    let run = nodes.run(LONG_TTL, "echo ready; read -r line; exit 0");
    let hold = nodes.redlatch("hold --ttl 6s job");
    for mut command in [run, hold] {
        let running = Running::start(&mut command);
        running.line();
        nodes.servers[..2].iter().for_each(Server::stop);
        running.tells("renewals of lock \"job\" fail on 2 of 3 nodes");
        nodes.servers[..2].iter().for_each(Server::resume);
        running.tells("lock \"job\" is renewed again");
        let ended = running.finish();
        assert!(!ended.ends_with(0).stderr.contains("renew"), "{ended:?}");
    }
}

#[test]
fn a_loss_that_is_noticed_only_at_the_end_is_told() {
    let nodes = Nodes::start(3);
    for (options, code) in [("", 76), ("--on-loss ignore", 0)] {
        // The first renewal would be seconds away.
        let running = nodes.start_run(options, "echo ready; read -r line; exit 0");
        running.line();
        nodes.hold("another", 60_000);
        let ended = running.finish();
        ended.is_refused(code, "noticed it when releasing it");
        nodes.command("DEL job");
    }
}

#[test]
fn the_command_of_a_stopped_redlatch_is_dead_when_the_next_holder_has_the_lock() {
    let nodes = Nodes::hasty();
    let other = nodes.manager(Protocol::Classic);
    // Of the first one nothing that a signal could do but KILL. The other one gets TERM before.
    for (trap, told) in [
        ("trap '' INT TERM HUP QUIT", None),
        ("trap 'echo term > told; exit 0' TERM", Some("term\n")),
    ] {
        let running = nodes.start_run(LONG_TTL, &format!("{trap}; sh -c '{WORK}' & {WORK}"));
        let pids = [pid(&running.line()), pid(&running.line())];
        // Later than the first renewal, so that it is not the end of the first lease that counts.
        pause(Duration::from_millis(1500));
        assert!(pids.into_iter().all(is_alive));
        running.signal(Signal::STOP);
        let guard = other.lock("job", Duration::from_mins(1)).unwrap();
        let alive = pids.map(is_alive);
        assert_eq!(alive, [false; 2], "they run on beside the next holder");
        let text = fs::read_to_string(nodes.file("told")).ok();
        assert_eq!(text.as_deref(), told);
        running.signal(Signal::CONT);
        // Whatever the command returned.
        running.end().is(76, "").complains("lost the lock job");
        guard.unlock().unwrap();
    }
}

/// A process, its command, and the watchdog between them.
fn all_of(running: &Running, command: Pid) -> [Pid; 3] {
    [running.pid(), getpgid(Some(command)).unwrap(), command]
}

#[test]
fn a_command_that_is_stopped_as_well_does_not_go_on_beside_the_next_holder() {
    let nodes = Nodes::hasty();
    let running = nodes.start_run(LONG_TTL, WORK);
    let command = pid(&running.line());
    // All three, as a debugger or a freezer would.
    let all = all_of(&running, command);
    for pid in all {
        kill_process(pid, Signal::STOP).unwrap();
        assert_stops(pid);
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
fn of_a_stopped_redlatch_the_command_goes_on_with_on_loss_ignore_and_is_killed_after_the_grace() {
    let nodes = Nodes::hasty();
    let other = nodes.manager(Protocol::Classic);
    let running = nodes.start_run(&format!("{TTL} --on-loss ignore"), WORK);
    let command = pid(&running.line());
    running.signal(Signal::STOP);
    drop(other.lock("job", Duration::from_mins(1)).unwrap());
    assert!(is_alive(command));
    drop(running);

    let script = format!("trap '' TERM; {WORK}");
    let running = nodes.start_run(&format!("{TTL} --grace 1s"), &script);
    let command = pid(&running.line());
    nodes.hold("another", 60_000);
    running.tells("KILL after 1s");
    running.signal(Signal::STOP);
    assert_dies(command);
    running.end_by(Signal::CONT).ends_with(76);
}

#[test]
fn who_kills_redlatch_kills_the_command_and_its_grandchildren() {
    let nodes = Nodes::hasty();
    // Nothing that a signal could do but KILL. Signals to the group, as of scripts that clean up with `kill 0`, and those
    // that end who does not expect them, are not for the watchdog.
    let signals = "INT TERM HUP QUIT USR1 USR2 ALRM PIPE TSTP TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS 16 \
                   TRAP ABRT 34 40 64";
    let script = format!(
        "trap '' {signals}; for s in {signals}; do kill -$s 0; done; sh -c '{WORK}' & {WORK}"
    );
    let running = nodes.start_run("--ttl 1s", &script);
    let pids = [pid(&running.line()), pid(&running.line())];
    assert!(pids.into_iter().all(is_alive));
    assert!(nodes.locked() >= 2);
    // A `killall -9 redlatch` is not to find the watchdog, which leads the group.
    let watchdog = all_of(&running, pids[1])[1].as_raw_nonzero();
    let name = fs::read_to_string(format!("/proc/{watchdog}/comm")).unwrap();
    assert_eq!(name, "lock-watchdog\n");
    running.signal(Signal::TERM);
    running.signal(Signal::KILL);
    pids.into_iter().for_each(assert_dies);
    assert!(eventually(LIMIT, || nodes.locked() == 0), "the lock stays");
}

#[test]
fn a_run_that_begins_when_a_holder_was_killed_gets_its_turn_unless_it_says_how_long_it_waits() {
    let nodes = Nodes::hasty();
    // A holder that was killed leaves its keys for longer than ten seconds.
    let killed = nodes.start_ready("--ttl 12s", WORK);
    killed.signal(Signal::KILL);
    drop(killed);
    assert!(nodes.locked() >= 2);
    nodes.try_run("--ttl 12s", "echo ran").is(0, "ran\n");
}

#[test]
fn killed_again_and_again_while_it_starts_it_leaves_nothing_running() {
    let nodes = Nodes::start(1);
    let script = format!("echo $$ >> pids; {WORK}");
    // A short time to live, so that the next one need not wait for long.
    let brief = "--node-timeout 50ms --ttl 300ms --wait 5s";
    // Over the whole time of its start: before the lock, with it, before the command, after it.
    for step in 0..24 {
        let running = nodes.start_run(brief, &script);
        pause(Duration::from_millis(step));
        running.signal(Signal::KILL);
    }
    let last = nodes.start_run("--node-timeout 300ms --ttl 1s", &script);
    let written = || fs::read_to_string(nodes.file("pids")).unwrap_or_default();
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
    let running = nodes.start_run("", "echo $$; kill -STOP 0");
    let [_, watchdog, command] = all_of(&running, pid(&running.line()));
    assert_stops(command);
    assert_stops(watchdog);
    kill_process(command, Signal::KILL).unwrap();
    running.end().ends_with(137);
    assert_eq!(nodes.locked(), 0);
    assert_dies(watchdog);
}
