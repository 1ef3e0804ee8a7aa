//! What `redlatch run` comes to: the exit codes, signals, and what is told of a wait, also to the holder.

use std::time::Duration;

use redlatch_testing::{Server, eventually, pause};
use rustix::process::{Pid, Signal, kill_process};

use crate::nodes::{Nodes, REDLATCH, TOKEN, words};
use crate::process::{LIMIT, Running, assert_dies, end_of, is_alive, pid};

#[test]
fn a_lock_of_another_is_75_or_what_the_caller_says_and_too_few_servers_are_69() {
    let mut nodes = Nodes::start(3);
    nodes.hold("another", 600_000);
    for (options, code) in [
        ("--no-wait", 75),
        ("-n -E 3", 3),
        ("--wait 100ms --conflict-exit-code 0", 0),
        ("-qn", 75),
        ("--quiet --wait 100ms -E 3", 3),
    ] {
        let ended = nodes.try_run(options, "echo ran");
        // With --quiet the exit code alone tells that, and faults are told.
        if options.contains('q') {
            ended.is_silent(code);
        } else {
            ended.is_refused(code, "another holder has the lock job");
            ended.complains("--wait");
        }
    }
    assert_eq!(nodes.servers[0].get("job").as_deref(), Some("another"));

    nodes.command("SET job x");
    let ended = nodes.try_run("--shared -n", "echo ran");
    ended
        .is_refused(64, "in use by something else")
        .complains("never expires");

    nodes.command("DEL job");
    nodes.servers[..2].iter_mut().for_each(Server::kill);
    let dead = format!("{}: no connection: ", nodes.names(0..2));
    for options in ["--no-wait", "-qn", "--wait 200ms"] {
        let ended = nodes.try_run(options, "echo ran");
        let lines: Vec<&str> = ended.is(69, "").stderr.lines().collect();
        assert!(lines.iter().all(|line| line.contains(&dead)), "{ended:?}");
        assert!(
            lines.last().unwrap().ends_with("see 'redlatch health'"),
            "{ended:?}"
        );
        // Who waits is told at once what is in the way, and that it goes on.
        let first = "see 'redlatch health'; it goes on trying for 200 ms";
        let is_told = lines.len() == 2 && lines[0].ends_with(first);
        assert_eq!(is_told, options == "--wait 200ms", "{ended:?}");
        assert_eq!(nodes.servers[2].get("job"), None);
    }
}

#[test]
fn an_outage_is_told_once_while_it_is_waited_for_and_that_it_is_over() {
    let mut nodes = Nodes::hasty();
    nodes.servers[..2].iter_mut().for_each(Server::kill);
    // It would wait for forty seconds.
    let running = nodes.start_run("", "echo ran");
    let line = running.error_line();
    let dead = format!("{}: no connection: ", nodes.names(0..2));
    let end = "; see 'redlatch health'; it goes on trying for 40 s";
    assert!(line.contains(&dead) && line.ends_with(end), "{line}");
    // Longer than it takes to tell in a pipe who has a lock.
    pause(Duration::from_millis(1500));
    // Who has it then is told, as ever.
    nodes.servers[2].hold("job", "another", 3_000);
    nodes.servers[0].restart();
    nodes.servers[0].hold("job", "another", 3_000);
    let line = running.error_line();
    assert!(line.contains("waiting: job is held for another "), "{line}");
    running.tells("got the lock job after ");
    let no_vote = format!("the lock job has no vote of {}: ", nodes.names(1..2));
    running.end().is(0, "ran\n").complains(&no_vote);
}

#[test]
fn what_the_command_leaves_behind_is_neither_waited_for_nor_killed() {
    let nodes = Nodes::start(1);
    let ended = nodes.try_run("", "sleep 30 >/dev/null 2>&1 </dev/null & echo $!");
    let left = pid(&ended.ends_with(0).stdout);
    assert_eq!(nodes.locked(), 0);
    // The watchdog has gone by now; had it killed the group, this would not live.
    assert!(!eventually(Duration::from_millis(200), || !is_alive(left)));
    kill_process(left, Signal::KILL).unwrap();
}

#[test]
fn a_run_within_a_run_of_the_same_name_says_so_whether_it_waits_or_not() {
    let nodes = Nodes::hasty();
    for (outer, inner, is_told) in [
        ("", "--wait 400ms job", true),
        ("", "-n job", true),
        ("--also other", "--wait 400ms other", true),
        ("", "--wait 400ms other", false),
        ("--max 2", "--wait 400ms --max 2 job", false),
    ] {
        let ended = nodes.try_run(outer, &format!("{REDLATCH} run {inner} -- echo ran"));
        ended.is(
            if is_told { 75 } else { 0 },
            if is_told { "" } else { "ran\n" },
        );
        let advice = "leave the inner redlatch out, or give it another name";
        assert_eq!(ended.stderr.contains(advice), is_told, "{ended:?}");
        assert!(!ended.stderr.contains("wait with --wait"), "{ended:?}");
        let waits = ended
            .stderr
            .contains("a parent of this process has the lock ");
        assert_eq!(waits, is_told && inner != "-n job", "{ended:?}");
    }
    // What a run has left behind has its variables, and not its lock.
    nodes.hold("another", 600_000);
    let mut left = nodes.run("-n", "echo ran");
    left.env("REDLATCH_RESOURCE", "job")
        .env("REDLATCH_TOKEN", TOKEN);
    end_of(&mut left).is_refused(75, "another holder has the lock job; wait with --wait");
}

const ALL: [(Signal, &str, i32); 4] = [
    (Signal::INT, "INT", 2),
    (Signal::TERM, "TERM", 15),
    (Signal::HUP, "HUP", 1),
    (Signal::QUIT, "QUIT", 3),
];

/// Runs this program in place of the shell, which may put off an interrupt that comes while it starts something until that has
/// ended.
const SLEEP: &str = "echo $$; exec sleep 20";

/// The command of a run of `SLEEP`.
#[track_caller]
fn sleeping(running: &Running) -> Pid {
    let command = pid(&running.line());
    let comm = format!("/proc/{}/comm", command.as_raw_nonzero());
    let sleeps = || std::fs::read_to_string(&comm).is_ok_and(|text| text == "sleep\n");
    assert!(eventually(LIMIT, sleeps), "{command:?} is no sleep");
    command
}

#[test]
fn signals_reach_the_command_and_its_grandchildren() {
    let nodes = Nodes::start(3);
    for (signal, name, number) in ALL {
        let inner = format!(
            "trap \"echo inner got {name}; exit 5\" {name}; echo ready; for i in $(seq 1500); do sleep 0.02; done"
        );
        let outer = format!("trap 'echo outer got {name}' {name}; sh -c '{inner}'; exit 9");
        let running = nodes.start_run("", &outer);
        assert_eq!(running.line(), "ready");
        let ended = running.end_by(signal);
        let mut lines: Vec<&str> = ended.ends_with(9).stdout.lines().collect();
        lines.sort_unstable();
        // Once each.
        let expected = [format!("inner got {name}"), format!("outer got {name}")];
        assert_eq!(lines, expected, "{ended:?}");

        let running = nodes.start_run("", SLEEP);
        sleeping(&running);
        running.end_by(signal).is(128 + number, "");
        assert_eq!(nodes.locked(), 0);
    }
    // A command that ignores them goes on under the lock.
    let script = "trap '' TERM; echo ready; while [ ! -e go ]; do sleep 0.02; done; exit 4";
    let mut running = nodes.start_ready("", script);
    for _ in 0..3 {
        running.signal(Signal::TERM);
    }
    assert!(!eventually(Duration::from_millis(300), || !running.is_running()));
    assert_eq!(nodes.locked(), 3);
    nodes.go();
    running.end().ends_with(4);
}

#[test]
fn what_was_ignored_at_the_start_stays_ignored_in_redlatch_and_in_the_command_and_ends_no_wait() {
    let nodes = Nodes::start(1);
    // `nohup`; the `&` of a script; both.
    for signals in ["HUP", "INT QUIT", "INT QUIT HUP"] {
        let ignoring = |rest: &str| {
            let script = format!("trap '' {signals}; exec {REDLATCH} run {rest}");
            Running::start(&mut nodes.program("sh", &["-c", &script]))
        };
        let mut running = ignoring(&format!("job -- sh -c '{SLEEP}'"));
        let command = sleeping(&running);
        let mut waits = ignoring("--verbose --wait 1h job -- echo ran");
        waits.tells("waiting");
        for (signal, ..) in ALL.iter().filter(|(_, name, _)| signals.contains(name)) {
            waits.signal(*signal);
            running.signal(*signal);
            kill_process(command, *signal).unwrap();
        }
        let ends = || !running.is_running() || !waits.is_running();
        assert!(!eventually(Duration::from_millis(300), ends));
        assert!(is_alive(command), "{signals}");
        waits.terminate();
        running.terminate();
        assert_dies(command);
    }
    // Of coreutils. A shell that is told to ignore CHLD need not do so in what it starts. The exit code is known anyhow.
    let line = format!("--ignore-signal=CHLD {REDLATCH} run job -- sh -c");
    let mut env = nodes.program("env", &words(&line));
    end_of(env.arg("exit 3")).is_quiet(3);
}

#[test]
fn a_holder_is_told_that_somebody_waits_and_its_command_gets_the_signal_that_it_wants() {
    let nodes = Nodes::hasty();
    // Renewed every second, so that it is soon known who waits.
    let ttl = "--ttl 3s";
    let wanted = "somebody waits for the lock job";
    let script = "trap 'echo makes room; exit 7' USR1; echo ready; for i in $(seq 3000); do sleep 0.02; done";
    let first = nodes.start_ready(&format!("{ttl} --on-wanted usr1"), script);
    let second = nodes.start_run(ttl, "echo ran");
    first.tells(&format!("{wanted}; the command gets USR1"));
    first.end().is(7, "makes room\n");
    second.end().is(0, "ran\n");

    // A leader does not give way to those who stand by.
    let forever = format!("{ttl} --forever");
    let first = nodes.start_ready(&forever, SLEEP);
    let second = nodes.start_run(&forever, SLEEP);
    first.tells(wanted);
    first.terminate();
    second.line();
    second.terminate();

    let holder = Running::start(&mut nodes.redlatch(&format!("hold {ttl} job")));
    holder.line();
    let second = nodes.start_run(ttl, "echo ran");
    holder.tells(wanted);
    nodes.ask("status job").shows("\nwaiting  somebody");
    holder.finish().ends_with(0);
    second.end().is(0, "ran\n");
}
