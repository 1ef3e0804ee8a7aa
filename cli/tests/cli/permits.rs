//! `--max`: so many commands at a time, each in a slot of its own.

use std::collections::BTreeSet;
use std::process::ChildStdin;

use rustix::process::Signal;

use crate::ended::Ended;
use crate::process::{Nodes, Running, end_of};

/// A command that runs under a permit of the semaphore `job`, says which, and ends with its standard input.
#[track_caller]
fn run(nodes: &Nodes, options: &[&str]) -> (Running, ChildStdin) {
    Running::start_with_input(&mut nodes.run(options, "echo $REDLATCH_SLOT; read -r line; exit 0"))
}

#[track_caller]
fn status(nodes: &Nodes, options: &[&str]) -> Ended {
    end_of(&mut nodes.redlatch(&[&["status", "job"], options].concat()))
}

#[test]
fn so_many_run_at_a_time_each_in_a_slot_and_the_next_one_waits_for_its_turn() {
    let nodes = Nodes::start(3);
    status(&nodes, &["--max", "2"]).ends_with(1);
    let (first, first_input) = run(&nodes, &["--max", "2"]);
    let mut hold = nodes.redlatch(&["hold", "--max", "2", "--json", "job"]);
    let (second, second_input) = Running::start_with_input(&mut hold);
    let object: serde_json::Value = serde_json::from_str(&second.line()).unwrap();
    let slots = BTreeSet::from([first.line(), object["slot"].to_string()]);
    assert_eq!(slots, BTreeSet::from(["0".to_owned(), "1".to_owned()]));

    let refused = end_of(&mut nodes.run(&["--max", "2", "-n"], "echo ran"));
    refused.is_refused(75, "the permits of job, 2 in all");
    // A lock of that name is another thing.
    end_of(&mut nodes.run(&["-n"], "echo .$REDLATCH_SLOT")).is(0, ".\n");

    let ended = status(&nodes, &["--max", "2"]);
    ended.ends_with(0);
    ended.shows("\njob: 2 of 2 held\nunlock   redlatch unlock --slot 0 ");
    let object = status(&nodes, &["--max", "2", "--json"]).json();
    assert_eq!(
        (&object["resource"], &object["held"]),
        (&"job".into(), &2.into())
    );
    assert_eq!(object["slots"][1]["state"], "held", "{object}");
    status(&nodes, &["--max", "2", "-q"]).is(0, "");

    let (third, input) = run(&nodes, &["--max", "2"]);
    drop(first_input);
    first.end().ends_with(0);
    assert!(slots.contains(&third.line()));
    drop((second_input, input));
    for running in [second, third] {
        running.end().ends_with(0);
    }
    status(&nodes, &["--max", "2"]).ends_with(1);
}

#[test]
fn unlock_gives_back_the_permit_in_a_slot() {
    let nodes = Nodes::start(3);
    let (killed, _input) = run(&nodes, &["--max", "1", "--ttl", "10m"]);
    assert_eq!(killed.line(), "0");
    killed.signal(Signal::KILL);
    let object = status(&nodes, &["--max", "1", "--json"]).json();
    let token = object["slots"][0]["token"].as_str().unwrap();
    for (slot, code) in [
        (&[][..], 76),
        (&["--slot", "256"], 64),
        (&["--slot", "0"], 0),
    ] {
        let unlock = [&["unlock", "job", "--token", token], slot].concat();
        end_of(&mut nodes.redlatch(&unlock)).ends_with(code);
    }
    status(&nodes, &["--max", "1"]).ends_with(1);
}
