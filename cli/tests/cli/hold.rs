//! `redlatch hold`: a lock without a command, from the line with its token until standard input ends.

use std::fs::File;
use std::process::{Command, Stdio};
use std::time::Duration;

use redlatch_testing::{eventually, pause};
use rustix::process::Signal;

use crate::nodes::{Nodes, REDLATCH};
use crate::process::{LIMIT, Running, end_of};

/// `redlatch hold` with these options on the lock `job`, with an input that stays open.
#[track_caller]
fn hold(nodes: &Nodes, options: &str) -> Running {
    Running::start(&mut nodes.redlatch(&format!("hold {options} job")))
}

#[test]
fn the_lock_is_held_from_the_line_with_its_token_until_standard_input_ends_or_a_signal_comes() {
    let nodes = Nodes::hasty();
    let mut running = hold(&nodes, "--ttl 3s");
    let token = running.line();
    assert!(token.len() == 40 && nodes.locked() >= 2, "{token}");
    // More than the ttl: without renewal, the keys would have gone.
    pause(Duration::from_secs(4));
    // What is written to it is no end.
    running.write("a line\nand a part of one");
    assert!(running.is_running());
    for server in &nodes.servers {
        assert!(server.get("job").unwrap().starts_with(&token));
    }
    // Who waits ends when its input does, and has nothing.
    hold(&nodes, "-qn -E 9").end().is_silent(9);
    let waits = hold(&nodes, "--wait 5m --verbose");
    waits.tells("waiting: job ");
    waits.finish().is(129, "");
    // It may have been told that somebody waited.
    running.finish().is(0, "");
    assert_eq!(nodes.locked(), 0);
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        let running = hold(&nodes, "");
        running.line();
        assert!(nodes.locked() >= 2);
        running.end_by(signal).is_silent(0);
        assert_eq!(nodes.locked(), 0, "{signal:?}");
    }
}

#[test]
fn a_lock_that_is_lost_is_76_and_told_at_once_or_at_the_end() {
    let nodes = Nodes::hasty();
    for (options, by) in [
        ("--ttl 2s", "deletion"),
        ("--max-hold 3s", "max_hold"),
        ("--ttl 2s", "unlock"),
        ("--ttl 2s", "stop"),
    ] {
        let running = hold(&nodes, options);
        let token = running.line();
        match by {
            "deletion" => nodes.command("DEL job"),
            "unlock" => {
                let unlock = format!("unlock job --token {token}");
                nodes.ask(&unlock).ends_with(0);
            }
            "stop" => {
                running.signal(Signal::STOP);
                assert!(eventually(LIMIT, || nodes.locked() == 0));
                nodes.hold("another", 60_000);
                running.signal(Signal::CONT);
            }
            _ => {}
        }
        running.end().is_refused(76, "Z lost the lock job: ");
        // The keys stay, so nobody else gets the lock before its end.
        if by == "max_hold" {
            assert!(nodes.locked() >= 2);
            nodes.command("DEL job");
        }
    }
    assert_eq!(nodes.servers[0].get("job").as_deref(), Some("another"));
    nodes.command("DEL job");
    // One that can't notice it until the end.
    let running = hold(&nodes, "");
    running.line();
    nodes.command("DEL job");
    running
        .finish()
        .is_refused(76, "noticed it when releasing it");
}

#[test]
fn without_an_output_nothing_is_kept() {
    let nodes = Nodes::start(1);
    // A full disk.
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut hold = nodes.redlatch("hold job");
    hold.stdin(Stdio::piped())
        .stdout(full)
        .stderr(Stdio::piped());
    let ended = Running::spawn(&mut hold).end();
    ended
        .ends_with(74)
        .complains("Z standard output can't be written");
    assert_eq!(nodes.locked(), 0);
}

/// The script of docs/command.md, which is the example of the manual page with all that can go wrong.
fn example(nodes: &Nodes) -> Command {
    let page = include_str!("../../../docs/command.md");
    let (_, rest) = page.split_once("```bash\ncoproc ").unwrap();
    let (script, _) = rest.split_once("```").unwrap();
    let script = script
        .replacen("redlatch", REDLATCH, 1)
        .replace("./push", "echo pushed")
        .replace("./announce", "echo announced");
    nodes.program("bash", &["-c", &format!("coproc {script}")])
}

#[test]
fn the_example_in_bash_works_under_the_lock_or_not_at_all() {
    let nodes = Nodes::open();
    let ended = end_of(&mut example(&nodes));
    let number = ended.ends_with(0).stdout.strip_prefix("pushed ");
    let number = number.and_then(|text| text.strip_suffix("\nannounced\n"));
    assert!(number.unwrap().parse::<u64>().is_ok(), "{ended:?}");

    let holder = Running::start(&mut nodes.redlatch("hold --json --fenced deploy"));
    let object: serde_json::Value = serde_json::from_str(&holder.line()).unwrap();
    assert!(object["fencing_token"].is_u64(), "{object}");
    nodes.configure("node_timeout = '300ms'\nwait = '300ms'\n");
    end_of(&mut example(&nodes)).is(75, "");
}
