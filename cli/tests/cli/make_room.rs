//! A holder is told that somebody waits, and may make room.

use rustix::process::Signal;

use crate::process::{Nodes, Running, end_of, told};

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
    let ended = first.end();
    ended.is(7, "makes room\n");
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
    let both = [&forever[..], &["--on-wanted", "TERM"]].concat();
    let refused = end_of(&mut nodes.run(&both, serve));
    refused.ends_with(64);
    first.signal(Signal::TERM);
    second.line();
    second.signal(Signal::TERM);
    for running in [first, second] {
        running.end().ends_with(143);
    }
}

#[test]
fn a_holder_without_a_command_says_so_and_holds_on() {
    let nodes = Nodes::start(3).hasty();
    let arguments = [&["hold"], &TTL[..], &["job"]].concat();
    let (holder, input) = Running::start_with_input(&mut nodes.redlatch(&arguments));
    holder.line();
    let second = Running::start(&mut nodes.run(&TTL, "echo ran"));
    told(&holder, "somebody waits for the lock job");
    let status = end_of(&mut nodes.redlatch(&["status", "job"]));
    status.shows("\nwaiting  somebody");
    drop(input);
    holder.end().ends_with(0);
    assert_eq!(second.end().stdout, "ran\n");
}
