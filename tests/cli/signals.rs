//! Signals: forwarded to the command and to what it has started; while waiting, the end of the waiting.

use std::time::Duration;

use rustix::process::Signal;

use crate::process::{Nodes, Running, assert_dies, is_alive, pid};
use crate::server::{eventually, now};

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
        let running = Running::start(&mut nodes.run(&[], "echo ready; sleep 20; echo on"));
        running.line();
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
        assert!(running.error_line().contains("waiting"));
        let sent = now();
        running.signal(signal);
        let ended = running.end();
        assert!(now() - sent < Duration::from_secs(5), "{name}");
        assert_eq!(ended.code, Some(128 + number), "{name}: {ended:?}");
        assert_eq!(ended.stdout, "");
    }
    for server in &nodes.servers {
        assert_eq!(server.get("job").as_deref(), Some("another"));
        assert_eq!(server.keys(), 1);
    }
}

#[test]
fn what_was_ignored_at_the_start_as_by_nohup_stays_ignored() {
    let nodes = Nodes::start(1);
    let mut shell = std::process::Command::new("sh");
    let script = format!(
        "trap '' HUP; exec {} run job -- sh -c 'echo $$; sleep 20'",
        env!("CARGO_BIN_EXE_redlatch")
    );
    shell
        .args(["-c", &script])
        .env("REDLATCH_NODES", nodes.urls());
    let mut running = Running::start(&mut shell);
    let command = pid(&running.line());
    running.signal(Signal::HUP);
    assert!(!eventually(Duration::from_millis(300), || !running.is_running()));
    assert!(is_alive(command));
    running.signal(Signal::TERM);
    assert_eq!(running.end().code, Some(143));
    assert_dies(command);
}
