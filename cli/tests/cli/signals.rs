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
fn signals_reach_the_command_and_its_grandchildren() {
    let nodes = Nodes::start(3);
    for (signal, name, _) in ALL {
        let inner = format!(
            "trap \"echo inner got {name}; exit 5\" {name}; echo ready; for i in $(seq 1500); do sleep 0.02; done"
        );
        let outer = format!("trap 'echo outer got {name}' {name}; sh -c '{inner}'; exit 9");
        let running = Running::start(&mut nodes.run(&[], &outer));
        assert_eq!(running.line(), "ready");
        running.signal(signal);
        let ended = running.end();
        assert_eq!(ended.code, Some(9), "{name}: {ended:?}");
        let mut lines: Vec<&str> = ended.stdout.lines().collect();
        lines.sort_unstable();
        // Once each.
        assert_eq!(
            lines,
            [format!("inner got {name}"), format!("outer got {name}")],
            "{ended:?}"
        );
        assert_eq!(nodes.locked(), 0);
    }
}

#[test]
fn a_signal_that_ends_the_command_is_its_exit_code() {
    let nodes = Nodes::start(3);
    for (signal, name, number) in ALL {
        let running = Running::start(&mut nodes.run(&[], "echo $$; exec sleep 20"));
        // A shell may put off an interrupt that comes while it starts something, until that has ended.
        assert_becomes(pid(&running.line()), "sleep");
        running.signal(signal);
        let ended = running.end();
        assert_eq!(ended.code, Some(128 + number), "{name}: {ended:?}");
        assert_eq!(ended.stdout, "", "{name}");
        assert_eq!(nodes.locked(), 0);
    }
}

#[test]
fn a_command_that_ignores_a_signal_goes_on_under_the_lock() {
    let nodes = Nodes::start(3);
    let go = nodes.file("go");
    let script = format!(
        "trap '' TERM; echo ready; while [ ! -e {} ]; do sleep 0.02; done; exit 4",
        go.display()
    );
    let mut running = Running::start(&mut nodes.run(&[], &script));
    running.line();
    for _ in 0..3 {
        running.signal(Signal::TERM);
    }
    assert!(!eventually(Duration::from_millis(300), || !running.is_running()));
    assert_eq!(nodes.locked(), 3);
    std::fs::write(&go, "").unwrap();
    assert_eq!(running.end().code, Some(4));
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
        let ended = running.end();
        assert!(now() - sent < Duration::from_secs(5), "{name}");
        assert_eq!(ended.code, Some(128 + number), "{name}: {ended:?}");
        assert_eq!(ended.stdout, "");
    }
    for server in &nodes.servers {
        assert_eq!(server.get("job").as_deref(), Some("another"));
        // That somebody waits is announced for the time between two looks.
        assert!(eventually(Duration::from_secs(30), || server.keys() == 1));
    }
}

/// The command as a script starts it that ignores these signals.
fn ignoring(nodes: &Nodes, signals: &str, rest: &str) -> std::process::Command {
    let mut shell = std::process::Command::new("sh");
    let program = env!("CARGO_BIN_EXE_redlatch");
    shell
        .args(["-c", &format!("trap '' {signals}; exec {program} {rest}")])
        .env("REDLATCH_NODES", nodes.urls())
        .env("REDLATCH_CONFIG", nodes.file("redlatch.toml"))
        .current_dir(nodes.servers[0].dir());
    shell
}

#[test]
fn what_was_ignored_at_the_start_stays_ignored_in_redlatch_and_in_the_command() {
    let nodes = Nodes::start(1);
    // `nohup`; the `&` of a script; both.
    for signals in ["HUP", "INT QUIT", "INT QUIT HUP"] {
        let rest = "run job -- sh -c 'echo $$; exec sleep 20'";
        let mut running = Running::start(&mut ignoring(&nodes, signals, rest));
        let command = pid(&running.line());
        assert_becomes(command, "sleep");
        for (signal, ..) in ALL.iter().filter(|(_, name, _)| signals.contains(name)) {
            running.signal(*signal);
            kill_process(command, *signal).unwrap();
        }
        assert!(!eventually(Duration::from_millis(300), || !running.is_running()));
        assert!(is_alive(command), "{signals}");
        running.signal(Signal::TERM);
        assert_eq!(running.end().code, Some(143), "{signals}");
        assert_dies(command);
    }
}

#[test]
fn what_was_ignored_at_the_start_does_not_end_the_waiting() {
    let nodes = Nodes::start(1);
    nodes.hold("another", 60_000);
    let rest = "run --verbose --wait 1h job -- echo ran";
    let mut running = Running::start(&mut ignoring(&nodes, "INT QUIT HUP", rest));
    told(&running, "waiting");
    for signal in [Signal::INT, Signal::QUIT, Signal::HUP] {
        running.signal(signal);
    }
    assert!(!eventually(Duration::from_millis(300), || !running.is_running()));
    running.signal(Signal::TERM);
    assert_eq!(running.end().code, Some(143));
}

#[test]
fn a_caller_that_ignores_the_end_of_its_children_gets_the_exit_code() {
    let nodes = Nodes::start(1);
    // Of coreutils. A shell that is told to ignore CHLD need not do so in what it starts.
    let mut caller = std::process::Command::new("env");
    caller
        .args(["--ignore-signal=CHLD", env!("CARGO_BIN_EXE_redlatch")])
        .args(["run", "job", "--", "sh", "-c", "exit 3"])
        .env("REDLATCH_NODES", nodes.urls())
        .env("REDLATCH_CONFIG", nodes.file("redlatch.toml"))
        .current_dir(nodes.servers[0].dir());
    let ended = end_of(&mut caller);
    assert_eq!(
        (ended.code, ended.stderr.as_str()),
        (Some(3), ""),
        "{ended:?}"
    );
}
