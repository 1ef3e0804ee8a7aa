//! Signals: forwarded to the command and to what it has started; while waiting, the end of the waiting.

use std::time::Duration;

use redlatch_testing::{eventually, now};
use rustix::process::{Signal, kill_process};

use crate::process::{Nodes, Running, assert_becomes, assert_dies, end_of, is_alive, pid, told};

const ALL: [(Signal, &str, i32); 4] = [
    (Signal::INT, "INT", 2),
    (Signal::TERM, "TERM", 15),
    (Signal::HUP, "HUP", 1),
    (Signal::QUIT, "QUIT", 3),
];

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
        running.signal(signal);
        let ended = running.end();
        ended.ends_with(9);
        let mut lines: Vec<&str> = ended.stdout.lines().collect();
        lines.sort_unstable();
        // Once each.
        let expected = [format!("inner got {name}"), format!("outer got {name}")];
        assert_eq!(lines, expected, "{ended:?}");

        let running = Running::start(&mut nodes.run(&[], "echo $$; exec sleep 20"));
        // A shell may put off an interrupt that comes while it starts something, until that has ended.
        assert_becomes(pid(&running.line()), "sleep");
        running.signal(signal);
        running.end().is(128 + number, "");
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
        running.signal(signal);
        running.end().is(128 + number, "");
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
    let redlatch = env!("CARGO_BIN_EXE_redlatch");
    let ignoring = |signals: &str, rest: &str| {
        let script = format!("trap '' {signals}; exec {redlatch} run {rest}");
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
    let redlatch = env!("CARGO_BIN_EXE_redlatch");
    let words = [
        "--ignore-signal=CHLD",
        redlatch,
        "run",
        "job",
        "--",
        "sh",
        "-c",
        "exit 3",
    ];
    end_of(&mut nodes.program("env", &words)).is_quiet(3);
}
