//! `redlatch run --forever`: one of several processes leads, and another one takes over.

use std::fs;
use std::time::Duration;

use redlatch_testing::{eventually, now};
use rustix::process::Signal;

use crate::process::{LIMIT, Nodes, Running, assert_dies, end_of, is_alive, pid, told};

const FOREVER: [&str; 3] = ["--forever", "--ttl", "1500ms"];

/// Prints its process, and runs until a signal ends it.
const SERVE: &str = "echo $$; exec sleep 60";

#[track_caller]
fn delete_the_lock(nodes: &Nodes) {
    nodes.command(&["DEL", "job"]);
}

#[test]
fn another_takes_over_when_the_leader_is_killed_although_a_server_is_dead() {
    let mut nodes = Nodes::start(3).hasty();
    let first = Running::start(&mut nodes.run(&FOREVER, SERVE));
    let leading = pid(&first.line());
    let token = told(&first, "leads (");
    let second = Running::start(&mut nodes.run(&FOREVER, SERVE));
    let standby = told(&second, "standby");
    // It names the leader as that one names itself.
    let (_, token) = token.split_once('(').unwrap();
    assert!(standby.contains(&token[..8]), "{standby} {token}");
    nodes.servers[0].kill();
    assert!(is_alive(leading));

    let killed = now();
    first.signal(Signal::KILL);
    let taken_over = pid(&second.line());
    let took = now() - killed;
    assert!(took < Duration::from_secs(20), "{took:?}");
    assert_dies(leading);
    told(&second, "leads (");
    assert!(is_alive(taken_over));
    second.terminate();
    assert_dies(taken_over);
}

#[test]
fn a_leader_that_is_told_to_end_gives_way_at_once() {
    let nodes = Nodes::start(3);
    let long = ["--forever", "--ttl", "10m"];
    let first = Running::start(&mut nodes.run(&long, SERVE));
    first.line();
    let second = Running::start(&mut nodes.run(&long, SERVE));
    told(&second, "standby");
    first.signal(Signal::TERM);
    // Long before the ttl ends.
    second.line();
    first.end().ends_with(143);
}

#[test]
fn where_so_many_lead_a_standby_says_how_many() {
    let nodes = Nodes::start(3).hasty();
    let two = [&FOREVER[..], &["--max", "2"]].concat();
    let leaders = [(); 2].map(|()| Running::start(&mut nodes.run(&two, SERVE)));
    for leader in &leaders {
        leader.line();
    }
    let third = Running::start(&mut nodes.run(&two, SERVE));
    told(&third, "standby: 2 of 2 lead");
    leaders[0].signal(Signal::TERM);
    third.line();
}

#[test]
fn after_a_loss_it_campaigns_again_and_runs_the_command_again() {
    let nodes = Nodes::start(3).hasty();
    let script = "trap 'echo got term; exit 0' TERM; echo started; while true; do sleep 0.02; done";
    let running = Running::start(&mut nodes.run(&FOREVER, script));
    assert_eq!(running.line(), "started");
    nodes.command(&["SET", "job", "0another", "PX", "60000"]);
    assert_eq!(running.line(), "got term");
    told(&running, "lost the lock job");
    let line = told(&running, "leads no more");
    assert!(line.contains("campaigns again in 1s"), "{line}");
    told(&running, "standby: 0another leads");
    delete_the_lock(&nodes);
    assert_eq!(running.line(), "started");
    running.signal(Signal::INT);
    let ended = running.end();
    assert_eq!((ended.code, nodes.locked()), (Some(130), 0), "{ended:?}");
}

#[test]
fn a_term_ends_at_max_hold() {
    let nodes = Nodes::start(3).hasty();
    let options = [&FOREVER[..], &["--max-hold", "2s"]].concat();
    let running = Running::start(&mut nodes.run(&options, SERVE));
    let first = pid(&running.line());
    let line = told(&running, "lost the lock job");
    assert!(line.contains("max_hold"), "{line}");
    assert_dies(first);
    running.line();
    running.terminate();
}

#[test]
fn a_command_that_ends_runs_again_after_pauses_that_grow_and_leave_the_lock_free() {
    let nodes = Nodes::start(3).hasty();
    let running = Running::start(&mut nodes.run(&FOREVER, "echo started; exit 3"));
    for pause in ["1s", "2s"] {
        assert_eq!(running.line(), "started");
        let line = told(&running, "resigned");
        assert!(line.contains("the command ended with 3"), "{line}");
        assert!(
            line.ends_with(&format!("campaigns again in {pause}")),
            "{line}"
        );
        assert!(eventually(LIMIT, || nodes.locked() == 0));
    }
    // In a pause there is no command to send it to.
    running.terminate();
}

#[test]
fn a_command_that_can_not_be_started_any_more_is_a_resignation() {
    let nodes = Nodes::start(3).hasty();
    let program = nodes.file("service");
    fs::copy("/bin/true", &program).unwrap();
    let mut command = nodes.redlatch(&["run"]);
    command.args(FOREVER).args(["job", "--"]).arg(&program);
    let running = Running::start(&mut command);
    told(&running, "ended with 0");
    fs::remove_file(&program).unwrap();
    told(&running, "resigned: ");
    // It is back: an update, say.
    fs::copy("/bin/true", &program).unwrap();
    told(&running, "ended with 0");
    running.terminate();
}

#[test]
fn a_signal_ends_it_with_its_code_whatever_the_command_makes_of_it() {
    let nodes = Nodes::start(3).hasty();
    let script = "trap 'exit 0' INT TERM QUIT; echo started; while true; do sleep 0.02; done";
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::QUIT, 131)] {
        let leader = Running::start(&mut nodes.run(&FOREVER, script));
        leader.line();
        let standby = Running::start(&mut nodes.run(&FOREVER, script));
        told(&standby, "standby");
        for running in [standby, leader] {
            running.signal(signal);
            let ended = running.end();
            ended.ends_with(code);
        }
        assert_eq!(nodes.locked(), 0);
    }
}

#[test]
fn a_hangup_ends_it_unless_the_command_survives_it() {
    let nodes = Nodes::start(3).hasty();
    let script = "if [ -e go ]; then echo again; kill -HUP $$; fi; \
        trap 'echo reloaded' HUP; echo started; while [ ! -e go ]; do sleep 0.02; done; exit 0";
    let running = Running::start(&mut nodes.run(&FOREVER, script));
    running.line();
    running.signal(Signal::HUP);
    assert_eq!(running.line(), "reloaded");
    fs::write(nodes.file("go"), "").unwrap();
    // What ends later, ends by itself.
    told(&running, "ended with 0");
    // In the next term, nobody has sent a signal to it.
    assert_eq!(running.line(), "again");
    told(&running, "ended with 129");
    running.terminate();

    let running = Running::start(&mut nodes.run(&FOREVER, SERVE));
    running.line();
    running.signal(Signal::HUP);
    let ended = running.end();
    ended.ends_with(129);
}

#[test]
fn it_waits_without_end_unless_told_and_whatever_the_configuration_says() {
    let nodes = Nodes::start(3).hasty();
    let config = fs::read_to_string(nodes.file("redlatch.toml")).unwrap();
    nodes.write_config("redlatch.toml", &(config + "wait = \"50ms\"\n"));
    // Who says who it is, is named.
    let token = "0123456789abcdef0123456789abcdef01234567";
    let value = format!("{token} web-3 nightly since=2026-11-22T05:52:53Z");
    nodes.hold(&value, 60_000);
    let mut waiting = Running::start(&mut nodes.run(&FOREVER, SERVE));
    let leader = "01234567 (web-3 nightly since 2026-11-22 05:52:53 UTC)";
    told(&waiting, &format!("standby: {leader} leads"));
    // That one waits for far longer than the configuration says.
    let ended = end_of(&mut nodes.run(&["--forever", "--wait", "300ms"], SERVE));
    ended.ends_with(75);
    assert!(ended.stderr.contains("after 300ms of waiting"), "{ended:?}");
    assert!(waiting.is_running());
    delete_the_lock(&nodes);
    waiting.line();
    waiting.terminate();
}

#[test]
fn servers_that_are_all_away_are_waited_for() {
    let mut nodes = Nodes::start(3).hasty();
    nodes
        .servers
        .iter_mut()
        .for_each(redlatch_testing::Server::kill);
    let running = Running::start(&mut nodes.run(&FOREVER, SERVE));
    let line = told(&running, "redlatch health");
    assert!(line.contains("it goes on trying"), "{line}");
    let ended = end_of(&mut nodes.run(&["--forever", "--wait", "300ms"], SERVE));
    ended.ends_with(69);
    nodes
        .servers
        .iter_mut()
        .for_each(redlatch_testing::Server::restart);
    running.line();
    running.terminate();
}

#[test]
fn what_can_not_begin_is_an_error_at_once() {
    let nodes = Nodes::start(1);
    let no_wait = end_of(&mut nodes.run(&["--forever", "--no-wait"], SERVE));
    no_wait.ends_with(64);
    let missing = nodes
        .redlatch(&["run", "--forever", "job", "--", "no-such-program"])
        .output();
    assert_eq!(missing.unwrap().status.code(), Some(127));
    let brief = end_of(&mut nodes.run(&["--forever", "--ttl", "1ms"], SERVE));
    brief.ends_with(64);
}

#[test]
fn the_metrics_go_on_from_term_to_term() {
    let nodes = Nodes::start(3).hasty();
    let path = nodes.file("job.prom");
    let options = [&FOREVER[..], &["--metrics", path.to_str().unwrap()]].concat();
    let running = Running::start(&mut nodes.run(&options, "echo started; exit 0"));
    running.line();
    running.line();
    told(&running, "campaigns again in 2s");
    let two_terms = || {
        let text = fs::read_to_string(&path).unwrap();
        let exposition = redlatch_testing::open_metrics::parse(&text).unwrap();
        let value = exposition.value("redlatch_acquired_total", &[("resource", "job")]);
        value.map(f64::to_bits) == Some(2.0_f64.to_bits())
    };
    assert!(eventually(LIMIT, two_terms));
    running.terminate();
}
