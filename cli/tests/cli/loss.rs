//! A lock that is lost while its command runs: what the command gets, and what the exit code is.

use std::time::Duration;

use redis::Value;
use redlatch_testing::{Server, eventually, now};

use crate::process::{Nodes, Running, assert_dies, end_of, is_alive, pid, told};

/// Renewed every half second, so that a loss is soon noticed.
const TTL: [&str; 2] = ["--ttl", "1500ms"];

/// Gives the lock to another holder on all servers.
#[track_caller]
fn take_away(nodes: &Nodes) {
    for server in &nodes.servers {
        assert_eq!(
            server.command(&["SET", "job", "another", "PX", "60000"]),
            Value::Okay
        );
    }
}

#[test]
fn a_loss_ends_the_command_with_term() {
    let nodes = Nodes::start(3).hasty();
    let script =
        "trap 'echo got term; exit 5' TERM; echo ready; for i in $(seq 1500); do sleep 0.02; done";
    let running = Running::start(&mut nodes.run(&TTL, script));
    running.line();
    take_away(&nodes);
    let ended = running.end();
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(76), "got term\n"),
        "{ended:?}"
    );
    assert!(ended.complaint().contains("lost the lock job"), "{ended:?}");
    assert!(ended.complaint().contains("another holder"), "{ended:?}");
    // That of the other holder is left alone.
    assert_eq!(nodes.servers[0].get("job").as_deref(), Some("another"));
}

#[test]
fn a_command_that_ignores_term_gets_kill_after_the_grace() {
    let nodes = Nodes::start(3).hasty();
    let script =
        "trap '' TERM; sleep 30 & echo $!; echo $$; for i in $(seq 1500); do sleep 0.02; done";
    let options = [&TTL[..], &["--grace", "400ms"]].concat();
    let running = Running::start(&mut nodes.run(&options, script));
    let (grandchild, command) = (pid(&running.line()), pid(&running.line()));
    take_away(&nodes);
    running.error_line();
    let told = now();
    assert!(is_alive(command));
    let ended = running.end();
    assert!(
        now() - told >= Duration::from_millis(350),
        "killed before the grace had passed"
    );
    assert_eq!(ended.code, Some(76), "{ended:?}");
    assert_dies(command);
    assert_dies(grandchild);
}

#[test]
fn what_a_command_leaves_behind_does_not_go_on_without_the_lock() {
    let nodes = Nodes::start(3).hasty();
    let script =
        "sh -c 'trap \"\" TERM; echo $$; for i in $(seq 1500); do sleep 0.02; done' & wait";
    let running = Running::start(&mut nodes.run(&TTL, script));
    let grandchild = pid(&running.line());
    take_away(&nodes);
    assert_eq!(running.end().code, Some(76));
    assert_dies(grandchild);
}

#[test]
fn with_on_loss_kill_the_command_is_killed_at_once() {
    let nodes = Nodes::start(3).hasty();
    let script = "trap 'echo got term' TERM; echo ready; for i in $(seq 1500); do sleep 0.02; done";
    let options = [&TTL[..], &["--on-loss", "kill", "--grace", "1h"]].concat();
    let running = Running::start(&mut nodes.run(&options, script));
    running.line();
    take_away(&nodes);
    let ended = running.end();
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(76), ""),
        "{ended:?}"
    );
    assert!(ended.complaint().contains("KILL"), "{ended:?}");
}

#[test]
fn with_on_loss_ignore_the_command_goes_on() {
    let nodes = Nodes::start(3).hasty();
    let go = nodes.file("go");
    let script = format!(
        "echo ready; while [ ! -e {} ]; do sleep 0.02; done; exit 6",
        go.display()
    );
    let options = [&TTL[..], &["--on-loss", "ignore"]].concat();
    let mut running = Running::start(&mut nodes.run(&options, &script));
    running.line();
    take_away(&nodes);
    assert!(running.error_line().contains("goes on without it"));
    assert!(running.is_running());
    std::fs::write(&go, "").unwrap();
    let ended = running.end();
    assert_eq!(
        (ended.code, ended.stderr.as_str()),
        (Some(6), ""),
        "{ended:?}"
    );
}

#[test]
fn servers_that_are_gone_for_longer_than_the_ttl_are_a_loss() {
    let mut nodes = Nodes::start(3).hasty();
    let running = Running::start(&mut nodes.run(&TTL, "echo ready; sleep 30"));
    running.line();
    nodes.servers[0].kill();
    nodes.servers[1].kill();
    let ended = running.end();
    assert_eq!(ended.code, Some(76), "{ended:?}");
    // The holder was told before, while there was time to do something.
    let lines: Vec<&str> = ended.stderr.lines().collect();
    let [fails, lost] = lines[..] else {
        panic!("{ended:?}");
    };
    let names = [0, 1].map(|i| nodes.servers[i].name()).join(", ");
    for part in [
        "Z renewals of lock \"job\" fail on 2 of 3 nodes, and it ends in ",
        &format!(": {names}: "),
    ] {
        assert!(fails.contains(part), "{ended:?}");
    }
    assert!(lost.contains("too few nodes answered"), "{ended:?}");
}

#[test]
fn a_holder_is_told_once_that_renewals_fail_and_when_they_succeed_again() {
    let nodes = Nodes::start(3).hasty();
    let run = nodes.run(&["--ttl", "6s"], "echo ready; read -r line; exit 3");
    let hold = nodes.redlatch(&["hold", "--ttl", "6s", "job"]);
    for mut command in [run, hold] {
        let (running, input) = Running::start_with_input(&mut command);
        running.line();
        nodes.servers[..2].iter().for_each(Server::stop);
        told(&running, "renewals of lock \"job\" fail on 2 of 3 nodes");
        nodes.servers[..2].iter().for_each(Server::resume);
        let next = running.error_line();
        assert!(next.contains("lock \"job\" is renewed again"), "{next}");
        drop(input);
        let ended = running.end();
        assert!(matches!(ended.code, Some(0 | 3)), "{ended:?}");
        assert_eq!(ended.stderr, "");
    }
}

#[test]
fn one_server_that_is_gone_is_no_loss() {
    let mut nodes = Nodes::start(3).hasty();
    let mut running = Running::start(&mut nodes.run(&TTL, "echo ready; sleep 4; exit 3"));
    running.line();
    nodes.servers[0].kill();
    assert!(!eventually(Duration::from_secs(3), || !running.is_running()));
    let ended = running.end();
    assert_eq!(
        (ended.code, ended.stderr.as_str()),
        (Some(3), ""),
        "{ended:?}"
    );
}

#[test]
fn a_loss_that_is_noticed_only_at_the_end_is_told() {
    let nodes = Nodes::start(3);
    for (options, code) in [(&[][..], 76), (&["--on-loss", "ignore"], 0)] {
        let go = nodes.file("go");
        let script = format!(
            "echo ready; while [ ! -e {} ]; do sleep 0.02; done",
            go.display()
        );
        // The first renewal would be seconds away.
        let running = Running::start(&mut nodes.run(options, &script));
        running.line();
        take_away(&nodes);
        std::fs::write(&go, "").unwrap();
        let ended = running.end();
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert!(
            ended.complaint().contains("noticed it when giving it back"),
            "{ended:?}"
        );
        std::fs::remove_file(&go).unwrap();
        for server in &nodes.servers {
            server.command(&["DEL", "job"]);
        }
    }
}

#[test]
fn max_hold_ends_a_command_that_takes_longer() {
    let nodes = Nodes::start(3).hasty();
    let ended = end_of(&mut nodes.run(&["--max-hold", "1s"], "sleep 30"));
    assert_eq!(ended.code, Some(76), "{ended:?}");
    assert!(ended.complaint().contains("max_hold"), "{ended:?}");
    assert!(eventually(Duration::from_secs(5), || nodes.locked() == 0));

    let ended = end_of(&mut nodes.run(&["--max-hold", "15s"], "exit 2"));
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(2), ""));
}
