//! A lock that is lost while its command runs: what the command gets, and what the exit code is.

use std::time::Duration;

use redlatch_testing::{Server, now};

use crate::process::{Nodes, Running, assert_dies, is_alive, pid, told};

/// Renewed every half second, so that a loss is soon noticed.
const TTL: [&str; 2] = ["--ttl", "1500ms"];

/// Gives the lock to another holder on all servers.
#[track_caller]
fn take_away(nodes: &Nodes) {
    nodes.command(&["SET", "job", "another", "PX", "60000"]);
}

/// A command that has started, and has told its processes.
#[track_caller]
fn run(nodes: &Nodes, options: &[&str], script: &str) -> Running {
    Running::start(&mut nodes.run(&[&TTL[..], options].concat(), script))
}

#[test]
fn a_loss_to_another_holder_leaves_that_one_alone_and_what_the_command_leaves_behind_ends() {
    let nodes = Nodes::start(3).hasty();
    let script =
        "sh -c 'trap \"\" TERM; echo $$; for i in $(seq 1500); do sleep 0.02; done' & wait";
    let running = run(&nodes, &[], script);
    let grandchild = pid(&running.line());
    take_away(&nodes);
    let ended = running.end();
    ended.ends_with(76);
    ended.complains("another holder");
    assert_dies(grandchild);
    assert_eq!(nodes.servers[0].get("job").as_deref(), Some("another"));
}

#[test]
fn a_command_that_ignores_term_gets_kill_after_the_grace() {
    let nodes = Nodes::start(3).hasty();
    let script =
        "trap '' TERM; sleep 30 & echo $!; echo $$; for i in $(seq 1500); do sleep 0.02; done";
    let running = run(&nodes, &["--grace", "400ms"], script);
    let (grandchild, command) = (pid(&running.line()), pid(&running.line()));
    take_away(&nodes);
    running.error_line();
    let told = now();
    assert!(is_alive(command));
    running.end().ends_with(76);
    let took = now() - told;
    assert!(
        took >= Duration::from_millis(350),
        "killed before the grace had passed"
    );
    assert_dies(command);
    assert_dies(grandchild);
}

#[test]
fn on_loss_kills_the_command_at_once_or_lets_it_go_on() {
    let nodes = Nodes::start(3).hasty();
    let script = "trap 'echo got term' TERM; echo ready; for i in $(seq 1500); do sleep 0.02; done";
    let running = run(&nodes, &["--on-loss", "kill", "--grace", "1h"], script);
    running.line();
    take_away(&nodes);
    running.end().is_refused(76, "KILL");

    nodes.command(&["DEL", "job"]);
    let script = "echo ready; while [ ! -e go ]; do sleep 0.02; done; exit 6";
    let mut running = run(&nodes, &["--on-loss", "ignore"], script);
    running.line();
    take_away(&nodes);
    told(&running, "goes on without it");
    assert!(running.is_running());
    std::fs::write(nodes.file("go"), "").unwrap();
    running.end().is_quiet(6);
}

#[test]
fn servers_that_are_gone_for_longer_than_the_ttl_are_a_loss_and_one_of_them_is_none() {
    let mut nodes = Nodes::start(3).hasty();
    nodes.servers[0].kill();
    let running = run(&nodes, &[], "echo ready; sleep 30");
    running.line();
    redlatch_testing::pause(Duration::from_secs(3));
    nodes.servers[1].kill();
    let ended = running.end();
    ended.ends_with(76);
    // The holder was told before, while there was time to do something.
    let lines: Vec<&str> = ended.stderr.lines().collect();
    let [fails, lost] = lines[..] else {
        panic!("{ended:?}");
    };
    let renewals = "Z renewals of lock \"job\" fail on ";
    for part in [renewals, &nodes.servers[1].name()] {
        assert!(fails.contains(part), "{ended:?}");
    }
    assert!(lost.contains("too few nodes answered"), "{ended:?}");
}

#[test]
fn a_holder_is_told_once_that_renewals_fail_and_when_they_succeed_again() {
    let nodes = Nodes::start(3).hasty();
    let run = nodes.run(&["--ttl", "6s"], "echo ready; read -r line; exit 0");
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
        running.end().is_quiet(0);
    }
}

#[test]
fn a_loss_that_is_noticed_only_at_the_end_is_told() {
    let nodes = Nodes::start(3);
    for (options, code) in [(&[][..], 76), (&["--on-loss", "ignore"], 0)] {
        // The first renewal would be seconds away.
        let mut run = nodes.run(options, "echo ready; read -r line; exit 0");
        let (running, input) = Running::start_with_input(&mut run);
        running.line();
        take_away(&nodes);
        drop(input);
        let ended = running.end();
        ended.is_refused(code, "noticed it when releasing it");
        nodes.command(&["DEL", "job"]);
    }
}
