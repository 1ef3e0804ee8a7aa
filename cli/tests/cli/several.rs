//! `redlatch run --also`: one command under several locks.

use redis::Value;
use redlatch_testing::eventually;
use rustix::process::Signal;

use crate::process::{Ended, LIMIT, Nodes, Running, assert_dies, end_of, open_nodes, pid, told};

/// The locks of `job`, which `Nodes::run` takes, and of these, in another order than that of their names.
const ALSO: [&str; 4] = ["--also", "zebra", "--also", "account:2"];
const NAMES: [&str; 3] = ["account:2", "job", "zebra"];

/// How many keys of the three names the servers have.
#[track_caller]
fn locked(nodes: &Nodes) -> usize {
    let keys = |name: &&str| {
        let servers = nodes.servers.iter();
        servers.filter(|server| server.get(name).is_some()).count()
    };
    NAMES.iter().map(keys).sum()
}

#[track_caller]
fn status(nodes: &Nodes, name: &str) -> Ended {
    end_of(&mut nodes.redlatch(&["status", name]))
}

/// A run of one name alone, which does not wait.
#[track_caller]
fn alone(nodes: &Nodes, name: &str) -> Ended {
    let arguments = ["run", "-n", name, "--", "echo", "ran"];
    end_of(&mut nodes.redlatch(&arguments))
}

#[track_caller]
fn assert_refused(ended: &Ended, words: &[&str]) {
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(75), ""),
        "{ended:?}"
    );
    let complaint = ended.complaint();
    for word in words {
        assert!(complaint.contains(word), "{word}: {complaint}");
    }
}

#[test]
fn a_command_runs_under_all_locks_and_knows_their_names() {
    for protocol in [&[][..], &["--fenced"]] {
        let nodes = Nodes::start(3);
        open_nodes(&nodes);
        let options = [protocol, &ALSO].concat();
        let script = "echo $REDLATCH_RESOURCE; echo \"$REDLATCH_RESOURCES\"; echo $REDLATCH_TOKEN; \
                      echo .$REDLATCH_FENCING_TOKEN; read -r line; exit 7";
        let (running, input) = Running::start_with_input(&mut nodes.run(&options, script));
        assert_eq!(running.line(), "job");
        assert_eq!([(); 3].map(|()| running.line()), NAMES);
        let token = running.line();
        assert_eq!(running.line() == ".", protocol.is_empty());
        for name in NAMES {
            let ended = status(&nodes, name);
            assert_eq!(ended.code, Some(0), "{ended:?}");
            let held = format!("\n{name}: held on 3 of 3 nodes\n");
            assert!(
                ended.stdout.contains(&held) && ended.stdout.contains(&token),
                "{ended:?}"
            );
            // Each is an ordinary lock to others, who are told who has it.
            let ended = alone(&nodes, name);
            assert_refused(&ended, &["has the lock ", &format!(" {name} (on ")]);
        }
        drop(input);
        assert_eq!(running.end().code, Some(7));
        assert_eq!(locked(&nodes), 0);
        assert_eq!(alone(&nodes, "zebra").code, Some(0));
    }
}

#[test]
fn the_lock_that_is_in_the_way_is_named_and_none_of_the_others_is_taken() {
    let nodes = Nodes::start(3);
    for server in &nodes.servers {
        server.hold("zebra", "another", 60_000);
    }
    let options = [&ALSO[..], &["-n"]].concat();
    let ended = end_of(&mut nodes.run(&options, "echo ran"));
    assert_refused(
        &ended,
        &[
            "another holder has the lock zebra (on ",
            "see 'redlatch status zebra'",
        ],
    );
    assert_eq!(locked(&nodes), 3);
    let code = [&options[..], &["-E", "9", "-q"]].concat();
    let ended = end_of(&mut nodes.run(&code, "echo ran"));
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(9), ""));
}

#[test]
fn who_waits_for_several_gets_them_when_the_last_one_is_free() {
    let nodes = Nodes::start(3);
    let hold = |name: &str| {
        let arguments = ["run", name, "--", "sh", "-c", "echo has; read -r line"];
        Running::start_with_input(&mut nodes.redlatch(&arguments))
    };
    let (first, first_input) = hold("zebra");
    let (second, second_input) = hold("account:2");
    assert_eq!([first.line(), second.line()], ["has", "has"]);
    let options = [&ALSO[..], &["--wait", "5m", "--verbose"]].concat();
    let waits = Running::start(&mut nodes.run(&options, "echo ran"));
    told(&waits, "waiting: zebra is held for another ");
    drop(first_input);
    first.end();
    drop(second_input);
    second.end();
    let ended = waits.end();
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(0), "ran\n"),
        "{ended:?}"
    );
    let got = "got the lock job, zebra, account:2 after ";
    assert!(ended.stderr.contains(got), "{ended:?}");
    assert_eq!(locked(&nodes), 0);
}

#[test]
fn a_signal_ends_the_wait_and_goes_to_the_command_once_it_runs() {
    let nodes = Nodes::start(3);
    for server in &nodes.servers {
        server.hold("account:2", "another", 600_000);
    }
    let options = [&ALSO[..], &["--wait", "5m", "--verbose"]].concat();
    let waits = Running::start(&mut nodes.run(&options, "echo ran"));
    told(&waits, "waiting: ");
    waits.signal(Signal::TERM);
    let ended = waits.end();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(143), ""));
    assert_eq!(locked(&nodes), 3);
    for server in &nodes.servers {
        server.command(&["DEL", "account:2"]);
    }
    let script = "trap 'echo term; exit 5' TERM; echo ready; while :; do sleep 0.02; done";
    let running = Running::start(&mut nodes.run(&ALSO, script));
    assert_eq!(running.line(), "ready");
    running.signal(Signal::TERM);
    let ended = running.end();
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(5), "term\n"),
        "{ended:?}"
    );
    assert_eq!(locked(&nodes), 0);
}

#[test]
fn the_loss_of_one_lock_is_the_loss_of_all() {
    let nodes = Nodes::start(3).hasty();
    let options = [&ALSO[..], &["--ttl", "1500ms"]].concat();
    let running = Running::start(&mut nodes.run(&options, "echo $$; exec sleep 60"));
    let command = pid(&running.line());
    for server in &nodes.servers {
        let taken = server.command(&["SET", "account:2", "another", "PX", "60000"]);
        assert_eq!(taken, Value::Okay);
    }
    let ended = running.end();
    assert_eq!(ended.code, Some(76), "{ended:?}");
    assert_dies(command);
    let complaint = ended.complaint();
    assert!(
        complaint.contains("lost the lock job, zebra, account:2: ")
            && complaint.contains("\"account:2\""),
        "{complaint}"
    );
    // What was left of it is given back, and that of the other holder is not.
    assert_eq!(locked(&nodes), 3);
    assert_eq!(alone(&nodes, "zebra").code, Some(0));
}

#[test]
fn all_locks_of_a_run_that_is_killed_are_free_after_the_ttl_and_those_of_one_that_runs_are_kept() {
    let nodes = Nodes::start(3).hasty();
    let options = [&ALSO[..], &["--ttl", "1500ms"]].concat();
    let running = Running::start(&mut nodes.run(&options, "echo $$; exec sleep 60"));
    let command = pid(&running.line());
    // Longer than the ttl.
    redlatch_testing::pause(std::time::Duration::from_secs(3));
    assert_eq!(locked(&nodes), 9);
    running.signal(Signal::KILL);
    assert_dies(command);
    assert!(eventually(LIMIT, || locked(&nodes) == 0));
}

#[test]
fn all_locks_rest_until_their_minimum_is_over() {
    let nodes = Nodes::start(3);
    let options = [&ALSO[..], &["--at-least", "10m"]].concat();
    assert_eq!(end_of(&mut nodes.run(&options, "true")).code, Some(0));
    for name in NAMES {
        assert_eq!(status(&nodes, name).code, Some(3));
    }
    // A failure gives them back at once.
    let options = ["--also", "other", "--at-least", "10m"];
    let arguments = [&["run", "new"][..], &options, &["--", "false"]].concat();
    assert_eq!(end_of(&mut nodes.redlatch(&arguments)).code, Some(1));
    for name in ["new", "other"] {
        assert_eq!(status(&nodes, name).code, Some(1));
    }
}

#[test]
fn names_that_can_not_be_locked_together_are_refused_in_one_line() {
    let nodes = Nodes::start(1);
    let many: Vec<String> = (0..64).map(|n| format!("--also=name-{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for (options, words) in [
        (&["--also", "job"][..], "\"job\" is given twice"),
        (&["--also", "a", "--also", "a"], "\"a\" is given twice"),
        (&many, "64 resources at most"),
        (&["--also", ""], "at least one character"),
        (&["--also", "a\nb"], "\"a\\nb\""),
        (&["--also", "a:fence"], "a:fence"),
        (&["--also", "a", "--max", "3"], "--max"),
        (&["--also", "a", "--shared"], "--shared"),
    ] {
        let ended = end_of(&mut nodes.run(options, "echo ran"));
        assert_eq!(
            (ended.code, ended.stdout.as_str()),
            (Some(64), ""),
            "{ended:?}"
        );
        assert!(ended.complaint().contains(words), "{ended:?}");
    }
    let most = &many[..63];
    assert_eq!(end_of(&mut nodes.run(most, "true")).code, Some(0));
    let run = nodes.run(&[], "echo .$REDLATCH_RESOURCES");
    let mut run = run;
    // Not to be taken for ours.
    run.env("REDLATCH_RESOURCES", "x");
    assert_eq!(end_of(&mut run).stdout, ".\n");
}

#[test]
fn a_service_leads_under_several_locks() {
    let nodes = Nodes::start(3);
    for server in &nodes.servers {
        server.hold("zebra", "another", 600_000);
    }
    let options = [&ALSO[..], &["--forever"]].concat();
    let running = Running::start(&mut nodes.run(&options, "echo ran; exec sleep 60"));
    let told = running.error_line();
    assert!(
        told.contains("job, zebra, account:2: standby: another leads"),
        "{told}"
    );
    for server in &nodes.servers {
        server.command(&["DEL", "zebra"]);
    }
    assert_eq!(running.line(), "ran");
    // It may have begun before the last server was free.
    assert!(locked(&nodes) >= 6);
    running.signal(Signal::TERM);
    assert_eq!(running.end().code, Some(143));
    assert_eq!(locked(&nodes), 0);
}
