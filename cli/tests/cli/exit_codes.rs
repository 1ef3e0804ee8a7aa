//! What `redlatch run` comes to: the exit codes, who runs when, and what is told of a wait.

use std::time::Duration;

use redlatch_testing::{Server, eventually};
use rustix::process::Signal;

use crate::process::{Nodes, Running, end_of, is_alive, pid};

#[test]
fn a_lock_of_another_is_75_or_what_the_caller_says_and_too_few_servers_are_69() {
    let mut nodes = Nodes::start(3);
    nodes.hold("another", 600_000);
    for (options, code) in [
        (&["--no-wait"][..], 75),
        (&["-n", "-E", "3"], 3),
        (&["--wait", "300ms", "--conflict-exit-code", "0"], 0),
    ] {
        let ended = end_of(&mut nodes.run(options, "echo ran"));
        ended.is_refused(code, "another holder has the lock job");
        ended.complains("--wait");
    }
    // With --quiet the exit code alone tells that, and faults are told.
    for (options, code) in [
        (&["-qn"][..], 75),
        (&["--quiet", "--wait", "300ms", "-E", "3"], 3),
    ] {
        let ended = end_of(&mut nodes.run(options, "echo ran"));
        ended.is(code, "");
        ended.is_quiet(code);
    }
    assert_eq!(nodes.servers[0].get("job").as_deref(), Some("another"));

    nodes.command(&["DEL", "job"]);
    nodes.servers[..2].iter_mut().for_each(Server::kill);
    let dead = [0, 1].map(|i| nodes.servers[i].name()).join(", ");
    for options in [&["--no-wait"][..], &["-qn"], &["--wait", "200ms"]] {
        let ended = end_of(&mut nodes.run(options, "echo ran"));
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
    redlatch_testing::pause(Duration::from_millis(1500));
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
    let ended = end_of(&mut nodes.run(&[], script));
    let left = pid(&ended.stdout);
    ended.ends_with(0);
    assert_eq!(nodes.locked(), 0);
    // The watchdog has gone by now; had it killed the group, this would not live.
    assert!(!eventually(Duration::from_millis(200), || !is_alive(left)));
    rustix::process::kill_process(left, Signal::KILL).unwrap();
}

#[test]
fn a_run_within_a_run_of_the_same_name_says_so_whether_it_waits_or_not() {
    let nodes = Nodes::start(3).hasty();
    let redlatch = env!("CARGO_BIN_EXE_redlatch");
    for (outer, inner, is_told) in [
        (&[][..], "--wait 400ms job", true),
        (&[], "-n job", true),
        (&["--also", "other"], "--wait 400ms other", true),
        (&[], "--wait 400ms other", false),
        (&["--max", "2"], "--wait 400ms --max 2 job", false),
    ] {
        let script = format!("{redlatch} run {inner} -- echo ran");
        let ended = end_of(&mut nodes.run(outer, &script));
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
    let ended = end_of(&mut nodes.run(&["--shared", "-n"], "echo ran"));
    ended.is_refused(64, "in use by something else");
    ended.complains("never expires");
}
