//! `redlatch run --at-least`, and what `redlatch status` says of a lock that rests.

use std::time::Duration;

use redlatch_testing::{Server, now};
use rustix::process::Signal;

use crate::process::{Nodes, Running, end_of, open_nodes};

/// How many servers have a key by which the lock rests.
#[track_caller]
fn resting(nodes: &Nodes) -> usize {
    let value = |server: &Server| server.get("job").unwrap_or_default();
    let values = nodes.servers.iter().map(value);
    values.filter(|value| value.starts_with("rest:")).count()
}

#[test]
fn a_job_that_is_done_is_not_done_again_before_its_time_is_over() {
    for protocol in [&[][..], &["--fenced"]] {
        let nodes = Nodes::start(3);
        open_nodes(&nodes);
        let options = [protocol, &["--no-wait", "--at-least", "10m"]].concat();
        let ended = end_of(&mut nodes.run(&options, "echo ran"));
        assert_eq!(
            (ended.code, &*ended.stdout),
            (Some(0), "ran\n"),
            "{ended:?}"
        );
        assert_eq!(resting(&nodes), 3);
        // On another machine, a second later.
        let ended = end_of(&mut nodes.run(&options, "echo ran"));
        assert_eq!((ended.code, &*ended.stdout), (Some(75), ""), "{ended:?}");
        let complaint = ended.complaint();
        assert!(
            complaint.contains("the lock job rests: the work was done"),
            "{complaint}"
        );
        // Who waits would do the work again.
        assert!(!complaint.contains("--wait"), "{complaint}");

        let ended = end_of(&mut nodes.redlatch(&["status", "job"]));
        assert_eq!(ended.code, Some(3), "{ended:?}");
        let told = "\njob: rests on 3 of 3 nodes\ndone by  ";
        assert!(ended.stdout.contains(told), "{ended:?}");
        assert!(
            ended
                .stdout
                .contains("\nfor      another 10m\ntoken    rest:"),
            "{ended:?}"
        );
        let quiet = end_of(&mut nodes.redlatch(&["status", "-q", "job"]));
        assert_eq!((quiet.code, &*quiet.stdout), (Some(3), ""));
        let ended = end_of(&mut nodes.redlatch(&["status", "--json", "job"]));
        assert_eq!(ended.code, Some(3), "{ended:?}");
        let object: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!(object["state"], "resting", "{object}");
        let left = object["remaining_ms"].as_u64().unwrap();
        assert!((500_000..=607_000).contains(&left), "{object}");
        assert_eq!(object["nodes"][0]["view"], "resting", "{object}");

        // An operator ends it.
        let token = object["token"].as_str().unwrap();
        let unlock = [&["unlock"], protocol, &["job", "--token", token]].concat();
        let ended = end_of(&mut nodes.redlatch(&unlock));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert_eq!(nodes.locked(), 0);
    }
}

#[test]
fn a_job_that_fails_is_free_at_once_unless_the_user_says_otherwise() {
    let nodes = Nodes::start(3);
    let minimum = ["--at-least", "10m"];
    for (script, code) in [("exit 3", 3), ("kill -TERM $$", 143)] {
        let ended = end_of(&mut nodes.run(&minimum, script));
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert_eq!(nodes.locked(), 0, "{script}");
    }
    let missing = ["run", "--at-least", "10m", "job", "--", "/no/such/program"];
    let ended = end_of(&mut nodes.redlatch(&missing));
    assert_eq!(ended.code, Some(127), "{ended:?}");
    assert_eq!(nodes.locked(), 0);

    let options = [&minimum[..], &["--at-least-on-failure"]].concat();
    let ended = end_of(&mut nodes.run(&options, "exit 3"));
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert_eq!(resting(&nodes), 3);
}

#[test]
fn who_waits_gets_the_lock_when_the_rest_is_over() {
    let nodes = Nodes::start(3);
    let began = now();
    let first = end_of(&mut nodes.run(&["--at-least", "1500ms"], "true"));
    assert_eq!(first.code, Some(0), "{first:?}");
    let second = end_of(&mut nodes.run(&["--wait", "1m"], "echo ran"));
    assert_eq!(
        (second.code, &*second.stdout),
        (Some(0), "ran\n"),
        "{second:?}"
    );
    assert!(began.elapsed() >= Duration::from_millis(1500));
    // A job that takes longer than its minimum is given back as ever.
    let third = end_of(&mut nodes.run(&["--at-least", "1ms"], "sleep 0.1"));
    assert_eq!(third.code, Some(0), "{third:?}");
    assert_eq!(nodes.locked(), 0);
}

/// The lock is still ours when `redlatch` goes on, but the work was not done, and another may try.
#[test]
fn a_command_that_was_ended_because_redlatch_stood_still_leaves_no_rest() {
    let nodes = Nodes::start(3).hasty();
    let options = ["--ttl", "8s", "--at-least", "10m"];
    let script =
        "trap 'echo ended; exit 0' TERM; echo started; for i in $(seq 3000); do sleep 0.02; done";
    let running = Running::start(&mut nodes.run(&options, script));
    assert_eq!(running.line(), "started");
    running.signal(Signal::STOP);
    // By the watchdog, a while before the end of the lock.
    assert_eq!(running.line(), "ended");
    running.signal(Signal::CONT);
    let ended = running.end();
    assert_eq!(ended.code, Some(76), "{ended:?}");
    assert_eq!(nodes.locked(), 0);
}

#[test]
fn a_rest_that_reached_too_few_servers_is_told_with_how_long_it_may_last() {
    let nodes = Nodes::start(3);
    let script = format!(
        "kill -STOP {} {}",
        nodes.servers[0].pid(),
        nodes.servers[1].pid()
    );
    let ended = end_of(&mut nodes.run(&["--at-least", "10m"], &script));
    assert!(ended.complaint().contains("--at-least"), "{ended:?}");
}

#[test]
fn a_minimum_that_can_not_be_kept_is_refused_and_nothing_runs() {
    let nodes = Nodes::start(3);
    for (options, what) in [
        (&["--at-least", "0s"][..], "more than zero"),
        (
            &["--at-least", "2h"],
            "--at-least can't be used: 7200s is too long: the longest is max_ttl",
        ),
        (&["--at-least", "soon"], "a duration is a number and a unit"),
        (&["--at-least-on-failure"], "--at-least"),
    ] {
        let ended = end_of(&mut nodes.run(options, "echo ran"));
        assert_eq!((ended.code, &*ended.stdout), (Some(64), ""), "{ended:?}");
        assert!(ended.stderr.contains(what), "{ended:?}");
        assert_eq!(nodes.locked(), 0);
    }
}
