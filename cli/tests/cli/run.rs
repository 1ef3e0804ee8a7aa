//! What `redlatch run` comes to: the exit codes, signals, and what is told of a wait, also to the holder.

use std::time::Duration;

use redlatch_testing::{Server, eventually, now, pause};
use rustix::process::{Pid, Signal, kill_process};

use crate::process::{
    LIMIT, Nodes, REDLATCH, Running, ask, assert_dies, end_of, is_alive, pid, told, try_run,
};

#[test]
fn a_lock_of_another_is_75_or_what_the_caller_says_and_too_few_servers_are_69() {
    let mut nodes = Nodes::start(3);
    nodes.hold("another", 600_000);
    for (options, code) in [
        (&["--no-wait"][..], 75),
        (&["-n", "-E", "3"], 3),
        (&["--wait", "300ms", "--conflict-exit-code", "0"], 0),
        (&["-qn"], 75),
        (&["--quiet", "--wait", "300ms", "-E", "3"], 3),
    ] {
        let ended = try_run(&nodes, options, "echo ran");
        ended.is(code, "");
        // With --quiet the exit code alone tells that, and faults are told.
        if options[0].contains('q') {
            ended.is_quiet(code);
        } else {
            ended.complains("another holder has the lock job");
            ended.complains("--wait");
        }
    }
    assert_eq!(nodes.servers[0].get("job").as_deref(), Some("another"));

    nodes.command(&["DEL", "job"]);
    nodes.servers[..2].iter_mut().for_each(Server::kill);
    let dead = [0, 1].map(|i| nodes.servers[i].name()).join(", ");
    for options in [&["--no-wait"][..], &["-qn"], &["--wait", "200ms"]] {
        let ended = try_run(&nodes, options, "echo ran");
        ended.is(69, "");
        let lines: Vec<&str> = ended.stderr.lines().collect();
        for line in &lines {
            assert!(
                line.contains(&format!("{dead}: no connection: ")),
                "{ended:?}"
            );
        }
        assert!(
            lines.last().unwrap().ends_with("see 'redlatch health'"),
            "{ended:?}"
        );
        // Who waits is told at once what is in the way, and that it goes on.
        let first = "see 'redlatch health'; it goes on trying for 200 ms";
        let is_told = lines.len() == 2 && lines[0].ends_with(first);
        assert_eq!(is_told, options[0] == "--wait", "{ended:?}");
        assert_eq!(nodes.servers[2].get("job"), None);
    }
}

#[test]
fn an_outage_is_told_once_while_it_is_waited_for_and_that_it_is_over() {
    let mut nodes = Nodes::start(3).hasty();
    nodes.servers[..2].iter_mut().for_each(Server::kill);
    // It would wait for forty seconds.
    let running = Running::start(&mut nodes.run(&[], "echo ran"));
    let line = running.error_line();
    let names = [0, 1].map(|i| nodes.servers[i].name()).join(", ");
    assert!(
        line.contains(&format!("{names}: no connection: ")),
        "{line}"
    );
    let end = "; see 'redlatch health'; it goes on trying for 40 s";
    assert!(line.ends_with(end), "{line}");
    // Longer than it takes to tell in a pipe who has a lock.
    pause(Duration::from_millis(1500));
    // Who has it then is told, as ever.
    nodes.servers[2].hold("job", "another", 3_000);
    nodes.servers[0].restart();
    nodes.servers[0].hold("job", "another", 3_000);
    let line = running.error_line();
    assert!(line.contains("waiting: job is held for another "), "{line}");
    let ended = running.end();
    ended.is(0, "ran\n");
    ended.complains("got the lock job after ");
}

#[test]
fn what_the_command_leaves_behind_is_neither_waited_for_nor_killed() {
    let nodes = Nodes::start(1);
    let script = "sleep 30 >/dev/null 2>&1 </dev/null & echo $!";
    let ended = try_run(&nodes, &[], script);
    let left = pid(&ended.stdout);
    ended.ends_with(0);
    assert_eq!(nodes.locked(), 0);
    // The watchdog has gone by now; had it killed the group, this would not live.
    assert!(!eventually(Duration::from_millis(200), || !is_alive(left)));
    kill_process(left, Signal::KILL).unwrap();
}

#[test]
fn a_run_within_a_run_of_the_same_name_says_so_whether_it_waits_or_not() {
    let nodes = Nodes::start(3).hasty();
    for (outer, inner, is_told) in [
        (&[][..], "--wait 400ms job", true),
        (&[], "-n job", true),
        (&["--also", "other"], "--wait 400ms other", true),
        (&[], "--wait 400ms other", false),
        (&["--max", "2"], "--wait 400ms --max 2 job", false),
    ] {
        let script = format!("{REDLATCH} run {inner} -- echo ran");
        let ended = try_run(&nodes, outer, &script);
        ended.ends_with(if is_told { 75 } else { 0 });
        let advice = "leave the inner redlatch out, or give it another name";
        assert_eq!(ended.stderr.contains(advice), is_told, "{ended:?}");
        assert!(!ended.stderr.contains("wait with --wait"), "{ended:?}");
        let waits = "a parent of this process has the lock ";
        assert_eq!(
            ended.stderr.contains(waits),
            is_told && inner != "-n job",
            "{ended:?}"
        );
        assert_eq!(ended.stdout.is_empty(), is_told, "{ended:?}");
    }
}

#[test]
fn a_key_that_is_no_lock_is_told_for_what_it_is() {
    let nodes = Nodes::start(1);
    nodes.command(&["SET", "job", "x"]);
    let ended = try_run(&nodes, &["--shared", "-n"], "echo ran");
    ended.is_refused(64, "in use by something else");
    ended.complains("never expires");
}

const ALL: [(Signal, &str, i32); 4] = [
    (Signal::INT, "INT", 2),
    (Signal::TERM, "TERM", 15),
    (Signal::HUP, "HUP", 1),
    (Signal::QUIT, "QUIT", 3),
];

/// Waits until a process runs the program of this name.
#[track_caller]
fn assert_becomes(pid: Pid, name: &str) {
    let comm = format!("/proc/{}/comm", pid.as_raw_nonzero());
    let is_it = || std::fs::read_to_string(&comm).is_ok_and(|text| text.trim() == name);
    assert!(eventually(LIMIT, is_it), "{pid:?} does not become {name}");
}

#[test]
fn signals_reach_the_command_and_its_grandchildren_and_are_its_exit_code_if_they_end_it() {
    let nodes = Nodes::start(3);
    for (signal, name, number) in ALL {
        let inner = format!(
            "trap \"echo inner got {name}; exit 5\" {name}; echo ready; for i in $(seq 1500); do sleep 0.02; done"
        );
        let outer = format!("trap 'echo outer got {name}' {name}; sh -c '{inner}'; exit 9");
        let running = Running::start(&mut nodes.run(&[], &outer));
        assert_eq!(running.line(), "ready");
        let ended = running.end_by(signal);
        ended.ends_with(9);
        let mut lines: Vec<&str> = ended.stdout.lines().collect();
        lines.sort_unstable();
        // Once each.
        let expected = [format!("inner got {name}"), format!("outer got {name}")];
        assert_eq!(lines, expected, "{ended:?}");

        let running = Running::start(&mut nodes.run(&[], "echo $$; exec sleep 20"));
        // A shell may put off an interrupt that comes while it starts something, until that has ended.
        assert_becomes(pid(&running.line()), "sleep");
        running.end_by(signal).is(128 + number, "");
        assert_eq!(nodes.locked(), 0);
    }
}

#[test]
fn a_command_that_ignores_a_signal_goes_on_under_the_lock() {
    let nodes = Nodes::start(3);
    let script = "trap '' TERM; echo ready; while [ ! -e go ]; do sleep 0.02; done; exit 4";
    let mut running = Running::start(&mut nodes.run(&[], script));
    running.line();
    for _ in 0..3 {
        running.signal(Signal::TERM);
    }
    assert!(!eventually(Duration::from_millis(300), || !running.is_running()));
    assert_eq!(nodes.locked(), 3);
    std::fs::write(nodes.file("go"), "").unwrap();
    running.end().ends_with(4);
}

#[test]
fn a_signal_ends_the_waiting_at_once_and_leaves_nothing() {
    let nodes = Nodes::start(3);
    nodes.hold("another", 60_000);
    for (signal, name, number) in ALL {
        let options = ["--verbose", "--wait", "1h"];
        let running = Running::start(&mut nodes.run(&options, "echo ran"));
        told(&running, "waiting");
        // It listens for a release, as every other client of the library does.
        let listens = || nodes.servers.iter().any(|server| server.blocked() == 1);
        assert!(eventually(Duration::from_secs(30), listens));
        let sent = now();
        running.end_by(signal).is(128 + number, "");
        assert!(now() - sent < Duration::from_secs(5), "{name}");
    }
    for server in &nodes.servers {
        assert_eq!(server.get("job").as_deref(), Some("another"));
        // That somebody waits is announced for the time between two looks.
        assert!(eventually(Duration::from_secs(30), || server.keys() == 1));
    }
}

#[test]
fn what_was_ignored_at_the_start_stays_ignored_in_redlatch_and_in_the_command_and_ends_no_wait() {
    let nodes = Nodes::start(1);
    let ignoring = |signals: &str, rest: &str| {
        let script = format!("trap '' {signals}; exec {REDLATCH} run {rest}");
        Running::start(&mut nodes.program("sh", &["-c", &script]))
    };
    // `nohup`; the `&` of a script; both.
    for signals in ["HUP", "INT QUIT", "INT QUIT HUP"] {
        let mut running = ignoring(signals, "job -- sh -c 'echo $$; exec sleep 20'");
        let command = pid(&running.line());
        assert_becomes(command, "sleep");
        let mut waits = ignoring(signals, "--verbose --wait 1h job -- echo ran");
        told(&waits, "waiting");
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
}

#[test]
fn a_caller_that_ignores_the_end_of_its_children_gets_the_exit_code() {
    let nodes = Nodes::start(1);
    // Of coreutils. A shell that is told to ignore CHLD need not do so in what it starts.
    let words = format!("--ignore-signal=CHLD {REDLATCH} run job -- sh -c");
    let words: Vec<&str> = words.split(' ').chain(["exit 3"]).collect();
    end_of(&mut nodes.program("env", &words)).is_quiet(3);
}

/// Renewed every half second, so that it is soon known who waits.
const TTL: [&str; 2] = ["--ttl", "1500ms"];

#[test]
fn the_command_gets_the_signal_once_and_the_one_who_waits_comes_next() {
    let nodes = Nodes::start(3).hasty();
    let options = [&TTL[..], &["--on-wanted", "usr1"]].concat();
    let script = "trap 'echo makes room; exit 7' USR1; echo ready; for i in $(seq 3000); do sleep 0.02; done";
    let first = Running::start(&mut nodes.run(&options, script));
    first.line();
    let second = Running::start(&mut nodes.run(&TTL, "echo ran"));
    told(
        &first,
        "somebody waits for the lock job; the command gets USR1",
    );
    first.end().is(7, "makes room\n");
    assert_eq!(second.end().stdout, "ran\n");
}

#[test]
fn a_leader_says_who_stands_by_and_does_not_give_way_to_that() {
    let nodes = Nodes::start(3).hasty();
    let serve = "echo leads; exec sleep 60";
    let forever = [&TTL[..], &["--forever"]].concat();
    let first = Running::start(&mut nodes.run(&forever, serve));
    first.line();
    let second = Running::start(&mut nodes.run(&forever, serve));
    told(&first, "somebody waits for the lock job");
    first.terminate();
    second.line();
    second.terminate();
}

#[test]
fn a_holder_without_a_command_says_so_and_holds_on() {
    let nodes = Nodes::start(3).hasty();
    let arguments = [&["hold"], &TTL[..], &["job"]].concat();
    let holder = Running::start_with_input(&mut nodes.redlatch(&arguments));
    holder.line();
    let second = Running::start(&mut nodes.run(&TTL, "echo ran"));
    told(&holder, "somebody waits for the lock job");
    let status = ask(&nodes, &["status", "job"]);
    status.shows("\nwaiting  somebody");
    holder.finish().ends_with(0);
    assert_eq!(second.end().stdout, "ran\n");
}
