//! `redlatch run --at-least`, and what `redlatch status` says of a lock that rests.

use rustix::process::Signal;

use crate::process::{Nodes, Running, end_of, open_nodes};

/// The exit code of the status of a lock: 3 if it rests.
#[track_caller]
fn status(nodes: &Nodes, name: &str) -> Option<i32> {
    end_of(&mut nodes.redlatch(&["status", "-q", name])).code
}

#[test]
fn a_job_that_is_done_is_not_done_again_before_its_time_is_over() {
    let nodes = Nodes::start(3);
    open_nodes(&nodes);
    for (kind, names) in [
        (&[][..], &["job"][..]),
        (&["--fenced"], &["job"]),
        (&["--also", "other"], &["job", "other"]),
    ] {
        let options = [kind, &["--no-wait", "--at-least", "10m"]].concat();
        end_of(&mut nodes.run(&options, "echo ran")).is(0, "ran\n");
        for name in names {
            assert_eq!(status(&nodes, name), Some(3));
        }
        // On another machine, a second later.
        let ended = end_of(&mut nodes.run(&options, "echo ran"));
        ended.is_refused(75, "the lock job rests: the work was done");
        // Who waits would do the work again.
        assert!(!ended.complaint().contains("--wait"), "{ended:?}");

        let ended = end_of(&mut nodes.redlatch(&["status", "job"]));
        ended.ends_with(3);
        ended.shows("\njob: rests on 3 of 3 nodes\ndone by  ");
        ended.shows("\nfor      another 10m\ntoken    rest:");
        let object = end_of(&mut nodes.redlatch(&["status", "--json", "job"])).json();
        assert_eq!(object["state"], "resting", "{object}");
        let left = object["remaining_ms"].as_u64().unwrap();
        assert!((500_000..=607_000).contains(&left), "{object}");
        assert_eq!(object["nodes"][0]["view"], "resting", "{object}");

        // An operator ends it.
        for name in names {
            let token = object["token"].as_str().unwrap();
            let unlock = ["unlock", name, "--token", token, "--fenced"];
            let unlock = &unlock[..if kind == ["--fenced"] { 5 } else { 4 }];
            end_of(&mut nodes.redlatch(unlock)).ends_with(0);
            assert_eq!(status(&nodes, name), Some(1));
        }
    }
}

#[test]
fn a_job_that_fails_is_free_at_once_unless_the_user_says_otherwise() {
    let nodes = Nodes::start(3);
    for (options, script, code, rests) in [
        (&[][..], "exit 3", 3, false),
        (&[], "kill -TERM $$", 143, false),
        (&["--also", "other"], "exit 3", 3, false),
        // A job that takes longer than its minimum is given back as ever.
        (&["--at-least", "1ms"], "sleep 0.1", 0, false),
        (&["--at-least-on-failure"], "exit 3", 3, true),
    ] {
        let is_short = options.contains(&"1ms");
        let minimum: &[&str] = if is_short {
            &[]
        } else {
            &["--at-least", "10m"]
        };
        end_of(&mut nodes.run(&[minimum, options].concat(), script)).ends_with(code);
        assert_eq!(
            status(&nodes, "job"),
            Some(if rests { 3 } else { 1 }),
            "{script}"
        );
    }
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
    running.end().ends_with(76);
    assert_eq!(nodes.locked(), 0);
}

#[test]
fn a_rest_that_reached_too_few_servers_is_told_with_how_long_it_may_last() {
    let nodes = Nodes::start(3);
    let pids = [0, 1].map(|i| nodes.servers[i].pid().to_string());
    let script = format!("kill -STOP {}", pids.join(" "));
    let ended = end_of(&mut nodes.run(&["--at-least", "10m"], &script));
    ended.complains("--at-least");
}
