//! `--max`: so many commands at a time, each in a slot of its own.

use std::collections::BTreeSet;
use std::process::ChildStdin;

use redlatch_testing::eventually;
use rustix::process::Signal;
use serde_json::Value;

use crate::process::{Ended, LIMIT, Nodes, Running, end_of};

/// A command that runs under a permit of the semaphore `job`, says which, and ends with its standard input.
#[track_caller]
fn run(nodes: &Nodes, options: &[&str]) -> (Running, ChildStdin) {
    Running::start_with_input(&mut nodes.run(options, "echo $REDLATCH_SLOT; read -r line"))
}

#[track_caller]
fn status(nodes: &Nodes, options: &[&str]) -> Ended {
    end_of(&mut nodes.redlatch(&[&["status", "job"], options].concat()))
}

#[test]
fn so_many_run_at_a_time_each_in_a_slot_and_the_next_one_waits_for_its_turn() {
    let nodes = Nodes::start(3);
    assert_eq!(status(&nodes, &["--max", "2"]).code, Some(1));
    let two = [(); 2].map(|()| run(&nodes, &["--max", "2"]));
    let slots: BTreeSet<String> = two.iter().map(|(running, _)| running.line()).collect();
    assert_eq!(slots, BTreeSet::from(["0".to_owned(), "1".to_owned()]));

    let refused = end_of(&mut nodes.run(&["--max", "2", "-n"], "echo ran"));
    assert_eq!(
        (refused.code, refused.stdout.as_str()),
        (Some(75), ""),
        "{refused:?}"
    );
    let complaint = refused.complaint();
    assert!(
        complaint.contains("the permits of job, 2 in all"),
        "{complaint}"
    );
    // A lock of that name is another thing.
    let lock = end_of(&mut nodes.run(&["-n"], "echo .$REDLATCH_SLOT"));
    assert_eq!(lock.stdout, ".\n", "{lock:?}");

    let ended = status(&nodes, &["--max", "2"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(
        ended
            .stdout
            .contains("\njob: 2 of 2 held\nunlock   redlatch unlock --slot 0 "),
        "{ended:?}"
    );
    let object: Value =
        serde_json::from_str(&status(&nodes, &["--max", "2", "--json"]).stdout).unwrap();
    assert_eq!(
        (&object["resource"], &object["held"]),
        (&"job".into(), &2.into())
    );
    assert_eq!(object["slots"][1]["state"], "held", "{object}");
    assert_eq!(status(&nodes, &["--max", "2", "-q"]).stdout, "");

    let (third, input) = run(&nodes, &["--max", "2"]);
    let [(first, first_input), (second, second_input)] = two;
    drop(first_input);
    assert_eq!(
        first.end().code,
        Some(1),
        "the end of input, as read says it"
    );
    assert!(slots.contains(&third.line()));
    drop((second_input, input));
    for running in [second, third] {
        running.end();
    }
    assert_eq!(status(&nodes, &["--max", "2"]).code, Some(1));
}

#[test]
fn the_permit_of_a_command_that_is_killed_is_free_after_its_ttl() {
    let nodes = Nodes::start(3).hasty();
    let (killed, _input) = run(&nodes, &["--max", "1", "--ttl", "2s"]);
    assert_eq!(killed.line(), "0");
    killed.signal(Signal::KILL);
    let (next, input) = run(&nodes, &["--max", "1", "--ttl", "2s"]);
    assert_eq!(next.line(), "0");
    drop(input);
    next.end();
    let is_free = || status(&nodes, &["--max", "1"]).code == Some(1);
    assert!(eventually(LIMIT, is_free));
}

#[test]
fn unlock_gives_back_the_permit_in_a_slot() {
    let nodes = Nodes::start(3);
    let (killed, _input) = run(&nodes, &["--max", "1", "--ttl", "10m"]);
    assert_eq!(killed.line(), "0");
    killed.signal(Signal::KILL);
    let shown = status(&nodes, &["--max", "1", "--json"]).stdout;
    let object: Value = serde_json::from_str(&shown).unwrap();
    let token = object["slots"][0]["token"].as_str().unwrap();
    let unlock = ["unlock", "job", "--token", token];
    assert_eq!(end_of(&mut nodes.redlatch(&unlock)).code, Some(76));
    let unlock = [&unlock[..], &["--slot", "0"]].concat();
    assert_eq!(end_of(&mut nodes.redlatch(&unlock)).code, Some(0));
    assert_eq!(status(&nodes, &["--max", "1"]).code, Some(1));
    let beyond = ["unlock", "job", "--token", token, "--slot", "256"];
    let ended = end_of(&mut nodes.redlatch(&beyond));
    assert_eq!(ended.code, Some(64), "{ended:?}");
}

#[test]
fn hold_takes_a_permit_too() {
    let nodes = Nodes::start(3);
    let hold = |nodes: &Nodes| {
        let arguments = ["hold", "--max", "2", "--json", "job"];
        Running::start_with_input(&mut nodes.redlatch(&arguments))
    };
    let both = [(); 2].map(|()| hold(&nodes));
    let slots: BTreeSet<u64> = both
        .iter()
        .map(|(running, _)| {
            let object: Value = serde_json::from_str(&running.line()).unwrap();
            object["slot"].as_u64().unwrap()
        })
        .collect();
    assert_eq!(slots, BTreeSet::from([0, 1]));
    assert_eq!(status(&nodes, &["--max", "2"]).code, Some(0));
}

#[test]
fn a_number_that_no_semaphore_has_is_refused_in_one_line() {
    let nodes = Nodes::start(1);
    for number in ["0", "257", "-1", "x", "99999999999"] {
        let max = format!("--max={number}");
        let ended = [
            end_of(&mut nodes.run(&[&max], "echo ran")),
            status(&nodes, &[&max]),
        ];
        for ended in ended {
            assert_eq!(
                (ended.code, ended.stdout.as_str()),
                (Some(64), ""),
                "{ended:?}"
            );
            assert!(ended.complaint().contains("--max"), "{ended:?}");
        }
    }
}
