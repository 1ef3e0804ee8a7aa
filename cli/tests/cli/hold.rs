//! `redlatch hold`: a lock without a command, from the line with its token until standard input ends.

use std::io::Write;
use std::process::{ChildStdin, Command, Stdio};
use std::time::Duration;

use redlatch_testing::{eventually, pause};
use rustix::process::Signal;
use serde_json::Value;

use crate::process::{LIMIT, Nodes, Running, end_of, is_alive, open_nodes};

/// `redlatch hold` with these options on the lock `job`, and the other end of its standard input.
#[track_caller]
fn hold(nodes: &Nodes, options: &[&str]) -> (Running, ChildStdin) {
    let arguments = [&["hold"], options, &["job"]].concat();
    Running::start_with_input(&mut nodes.redlatch(&arguments))
}

/// Nothing more than the exit code.
#[track_caller]
fn assert_ends_quietly(running: Running, code: i32) {
    let ended = running.end();
    assert_eq!(
        (ended.code, &*ended.stdout, &*ended.stderr),
        (Some(code), "", "")
    );
}

#[test]
fn the_lock_is_held_from_the_line_with_its_token_until_standard_input_ends() {
    let nodes = Nodes::start(3).hasty();
    let (mut running, mut input) = hold(&nodes, &["--ttl", "1500ms"]);
    let token = running.line();
    assert!(token.len() == 40 && nodes.locked() == 3, "{token}");
    // Twice the ttl: without renewal, the keys would have gone.
    pause(Duration::from_secs(3));
    // What is written to it is no end.
    input.write_all(b"a line\nand a part of one").unwrap();
    assert!(running.is_running());
    for server in &nodes.servers {
        assert!(server.get("job").unwrap().starts_with(&token));
    }
    let other = end_of(&mut nodes.run(&["-n"], "echo ran"));
    assert_eq!((other.code, other.stdout.as_str()), (Some(75), ""));
    drop(input);
    assert_ends_quietly(running, 0);
    assert_eq!(nodes.locked(), 0);
}

#[test]
fn a_signal_gives_the_lock_back() {
    let nodes = Nodes::start(3);
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        let (running, _input) = hold(&nodes, &[]);
        running.line();
        assert_eq!(nodes.locked(), 3);
        running.signal(signal);
        assert_ends_quietly(running, 0);
        assert_eq!(nodes.locked(), 0, "{signal:?}");
    }
}

#[test]
fn a_lock_that_is_lost_is_76_and_told_at_once() {
    let nodes = Nodes::start(3).hasty();
    for options in [&["--ttl", "2s"][..], &["--max-hold", "1s"]] {
        let (running, _input) = hold(&nodes, options);
        running.line();
        if options[0] == "--ttl" {
            for server in &nodes.servers {
                server.command(&["DEL", "job"]);
            }
        }
        let ended = running.end();
        assert_eq!(ended.code, Some(76), "{ended:?}");
        assert!(
            ended.complaint().contains("Z lost the lock job: "),
            "{ended:?}"
        );
    }
    // One that loses it without being able to notice, until the end.
    let (running, input) = hold(&nodes, &[]);
    running.line();
    for server in &nodes.servers {
        server.command(&["DEL", "job"]);
    }
    drop(input);
    let ended = running.end();
    assert_eq!(ended.code, Some(76), "{ended:?}");
    assert!(
        ended.complaint().contains("noticed it when giving it back"),
        "{ended:?}"
    );
}

#[test]
fn one_that_was_stopped_for_longer_than_the_ttl_says_so_when_it_goes_on() {
    let nodes = Nodes::start(3).hasty();
    let (running, _input) = hold(&nodes, &["--ttl", "1s"]);
    running.line();
    running.signal(Signal::STOP);
    assert!(eventually(LIMIT, || nodes.locked() == 0));
    nodes.hold("another", 60_000);
    running.signal(Signal::CONT);
    let ended = running.end();
    assert_eq!(ended.code, Some(76), "{ended:?}");
    assert!(ended.complaint().contains("lost the lock job"), "{ended:?}");
    assert_eq!(nodes.servers[0].get("job").as_deref(), Some("another"));
}

#[test]
fn with_fenced_the_line_has_the_number_and_with_json_it_is_an_object() {
    let nodes = Nodes::start(3);
    open_nodes(&nodes);
    let (running, input) = hold(&nodes, &["--fenced"]);
    let line = running.line();
    let (token, number) = line.split_once(' ').expect(&line);
    assert_eq!(token.len(), 40);
    let number: u64 = number.parse().unwrap();
    drop(input);
    assert_ends_quietly(running, 0);

    let (running, input) = hold(&nodes, &["--fenced", "--json"]);
    let object: Value = serde_json::from_str(&running.line()).unwrap();
    assert_eq!(object["resource"], "job");
    assert_eq!(object["token"].as_str().unwrap().len(), 40);
    assert!(object["fencing_token"].as_u64().unwrap() > number);
    drop(input);
    assert_ends_quietly(running, 0);

    let (running, _input) = hold(&nodes, &["--json"]);
    let object: Value = serde_json::from_str(&running.line()).unwrap();
    assert_eq!(object["fencing_token"], Value::Null);
}

#[test]
fn whoever_has_the_token_can_end_the_lock_and_hold_notices() {
    let nodes = Nodes::start(3).hasty();
    let (running, _input) = hold(&nodes, &["--ttl", "2s"]);
    let token = running.line();
    let ended = end_of(&mut nodes.redlatch(&["unlock", "job", "--token", &token]));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(running.end().code, Some(76));
}

#[test]
fn without_an_input_that_stays_open_nothing_is_taken() {
    let nodes = Nodes::start(3);
    // Which is /dev/null.
    let ended = end_of(&mut nodes.redlatch(&["hold", "job"]));
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(64), ""),
        "{ended:?}"
    );
    assert!(
        ended.complaint().contains("standard input is at its end"),
        "{ended:?}"
    );
    assert!(nodes.servers.iter().all(|server| server.keys() == 0));
}

#[test]
fn who_waits_ends_when_its_input_does_and_has_nothing() {
    let nodes = Nodes::start(3);
    nodes.hold("another", 60_000);
    let (running, input) = hold(&nodes, &["--wait", "10s"]);
    // Most of the time it waits by then.
    pause(Duration::from_millis(300));
    drop(input);
    assert_ends_quietly(running, 129);
    assert_eq!(nodes.servers[0].get("job").as_deref(), Some("another"));

    let (running, _input) = hold(&nodes, &["-qn", "-E", "9"]);
    assert_ends_quietly(running, 9);
    let (running, _input) = hold(&nodes, &["-n"]);
    let ended = running.end();
    assert_eq!(ended.code, Some(75), "{ended:?}");
    assert!(
        ended
            .complaint()
            .contains("another holder has the lock job"),
        "{ended:?}"
    );
}

#[test]
fn a_line_that_can_not_be_written_gives_the_lock_back() {
    let nodes = Nodes::start(3);
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut child = nodes
        .redlatch(&["hold", "job"])
        .stdin(Stdio::piped())
        .stdout(full)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let input = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(74));
    assert_eq!(nodes.locked(), 0);
    drop(input);
}

/// The script of docs/command.md, which is the example of the manual page with all that can go wrong.
fn example(nodes: &Nodes) -> Command {
    let page = include_str!("../../../docs/command.md");
    let (_, rest) = page.split_once("```bash\ncoproc ").unwrap();
    let (script, _) = rest.split_once("```").unwrap();
    let script = script
        .replacen("redlatch", env!("CARGO_BIN_EXE_redlatch"), 1)
        .replace("./push", "echo pushed")
        .replace("./announce", "echo announced");
    let mut bash = Command::new("bash");
    bash.args(["-c", &format!("coproc {script}")])
        .env("REDLATCH_NODES", nodes.urls())
        .env("REDLATCH_CONFIG", nodes.file("redlatch.toml"))
        .current_dir(nodes.file("."));
    bash
}

#[test]
fn the_example_in_bash_works_under_the_lock_or_not_at_all() {
    let nodes = Nodes::start(3);
    open_nodes(&nodes);
    let ended = end_of(&mut example(&nodes));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let (pushed, announced) = ended.stdout.split_once('\n').unwrap();
    let number = pushed.strip_prefix("pushed ").unwrap();
    assert!(
        number.parse::<u64>().is_ok() && announced == "announced\n",
        "{ended:?}"
    );
    let status = end_of(&mut nodes.redlatch(&["status", "-q", "deploy"]));
    assert_eq!(status.code, Some(1));

    let (holder, _input) =
        Running::start_with_input(&mut nodes.redlatch(&["hold", "--fenced", "deploy"]));
    holder.line();
    let mut waiting = example(&nodes);
    let brief = "node_timeout = \"300ms\"\nwait = \"300ms\"\n";
    nodes.write_config("redlatch.toml", brief);
    let ended = end_of(&mut waiting);
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(75), ""),
        "{ended:?}"
    );
}

#[test]
fn one_that_is_killed_leaves_the_lock_for_its_ttl_and_its_output_ends() {
    let nodes = Nodes::start(3).hasty();
    let (running, _input) = hold(&nodes, &["--ttl", "1s"]);
    running.line();
    let pid = running.pid();
    running.signal(Signal::KILL);
    let ended = running.end();
    assert_eq!((ended.code, ended.stdout.as_str()), (None, ""));
    assert!(!is_alive(pid));
    assert!(eventually(LIMIT, || nodes.locked() == 0), "the lock stays");
}
