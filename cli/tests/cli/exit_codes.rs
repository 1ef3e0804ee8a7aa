//! What `redlatch run` comes to: the exit codes, the environment of the command, who runs when.

use std::time::Duration;

use redlatch_testing::{Server, eventually, now, pause};
use rustix::process::Signal;

use crate::process::{Nodes, Running, end_of, open_nodes};

#[test]
fn the_exit_code_is_that_of_the_command() {
    let nodes = Nodes::start(3);
    for (script, code) in [
        ("exit 0", 0),
        ("exit 3", 3),
        ("exit 255", 255),
        ("kill -TERM $$", 143),
        ("kill -KILL $$", 137),
    ] {
        let ended = end_of(&mut nodes.run(&[], script));
        assert_eq!(ended.code, Some(code), "{script}: {ended:?}");
        assert_eq!(ended.stderr, "", "{script}");
        assert_eq!(nodes.locked(), 0, "{script}");
    }
}

#[test]
fn the_command_runs_under_the_lock_and_knows_it() {
    let nodes = Nodes::start(3);
    let script =
        "echo $REDLATCH_RESOURCE; echo $REDLATCH_TOKEN; echo .$REDLATCH_FENCING_TOKEN; exec cat";
    let mut command = nodes.run(&[], script);
    // Not to be taken for ours.
    command.env("REDLATCH_FENCING_TOKEN", "7");
    let ended = end_of(&mut command);
    assert!(
        ended.stdout.starts_with("job\n") && ended.stdout.ends_with("\n.\n"),
        "{ended:?}"
    );

    let running = Running::start(&mut nodes.run(&[], "echo $REDLATCH_TOKEN; sleep 20"));
    let token = running.line();
    for server in &nodes.servers {
        let value = server.get("job").unwrap();
        assert_eq!(value.split(' ').next(), Some(token.as_str()));
    }
}

#[test]
fn with_fenced_the_command_gets_a_fencing_token_that_grows() {
    let nodes = Nodes::start(3);
    open_nodes(&nodes);
    let mut last = 0_u64;
    for _ in 0..3 {
        let ended = end_of(&mut nodes.run(&["--fenced"], "echo $REDLATCH_FENCING_TOKEN"));
        let token: u64 = ended
            .stdout
            .trim()
            .parse()
            .unwrap_or_else(|_| panic!("{ended:?}"));
        assert!(token > last, "{token} after {last}");
        last = token;
    }
}

#[test]
fn a_lock_of_another_is_75_or_what_the_caller_says() {
    let nodes = Nodes::start(3);
    nodes.hold("another", 60_000);
    for (options, code) in [
        (vec!["--no-wait"], 75),
        (vec!["-n", "-E", "3"], 3),
        (vec!["--wait", "300ms", "--conflict-exit-code", "0"], 0),
    ] {
        let ended = end_of(&mut nodes.run(&options, "echo ran"));
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert_eq!(ended.stdout, "");
        assert!(
            ended
                .complaint()
                .contains("another holder has the lock job"),
            "{ended:?}"
        );
        assert!(ended.complaint().contains("--wait"), "{ended:?}");
    }
    assert_eq!(nodes.servers[0].get("job").as_deref(), Some("another"));
}

#[test]
fn with_quiet_the_lock_of_another_is_told_by_the_exit_code_alone_and_faults_are_told() {
    let mut nodes = Nodes::start(3);
    nodes.hold("another", 60_000);
    for (options, code) in [
        (vec!["-qn"], 75),
        (vec!["--quiet", "--wait", "300ms", "-E", "3"], 3),
    ] {
        let ended = end_of(&mut nodes.run(&options, "echo ran"));
        assert_eq!(
            (ended.code, &*ended.stdout, &*ended.stderr),
            (Some(code), "", "")
        );
    }
    nodes.servers[0].kill();
    nodes.servers[1].kill();
    let ended = end_of(&mut nodes.run(&["-qn"], "echo ran"));
    assert_eq!(ended.code, Some(69), "{ended:?}");
    assert!(ended.complaint().contains("redlatch health"), "{ended:?}");
}

#[test]
fn no_wait_does_not_wait() {
    let nodes = Nodes::start(3);
    nodes.hold("another", 60_000);
    let started = now();
    end_of(&mut nodes.run(&["--no-wait"], "true"));
    // The default is to wait for forty seconds.
    assert!(now() - started < Duration::from_secs(20));
}

#[test]
fn too_few_servers_are_69() {
    let mut nodes = Nodes::start(3);
    nodes.servers[0].kill();
    nodes.servers[1].kill();
    for options in [&["--no-wait"][..], &["--wait", "200ms"]] {
        let ended = end_of(&mut nodes.run(options, "echo ran"));
        assert_eq!(ended.code, Some(69), "{ended:?}");
        assert_eq!(ended.stdout, "");
        let lines: Vec<&str> = ended.stderr.lines().collect();
        let dead = [0, 1].map(|i| nodes.servers[i].name()).join(", ");
        for line in &lines {
            let cause = format!("{dead}: no connection: ");
            assert!(line.contains(&cause), "{ended:?}");
        }
        assert!(
            lines.last().unwrap().ends_with("see 'redlatch health'"),
            "{ended:?}"
        );
        // Who waits is told at once what is in the way, and that it goes on.
        let first = "see 'redlatch health'; it goes on trying for 200 ms";
        let is_told = lines.len() == 2 && lines[0].ends_with(first);
        assert!(is_told == (options[0] == "--wait"), "{ended:?}");
        assert_eq!(nodes.servers[2].get("job"), None);
    }
}

#[test]
fn who_waits_runs_when_the_lock_is_free() {
    let nodes = Nodes::start(3);
    nodes.hold("another", 700);
    let ended = end_of(&mut nodes.run(&["--wait", "15s"], "echo ran"));
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(0), "ran\n"),
        "{ended:?}"
    );
}

#[test]
fn of_two_at_once_exactly_one_runs() {
    let nodes = Nodes::start(5);
    let file = nodes.file("inside");
    // Whoever is inside while another one is would find its folder there.
    let script = format!("mkdir {0} || exit 99; sleep 0.3; rmdir {0}", file.display());
    let start = || Running::start(&mut nodes.run(&["--no-wait"], &script));
    for _ in 0..3 {
        let (one, other) = (start(), start());
        let mut codes = [one.end().code, other.end().code];
        codes.sort();
        // In a tie both may be refused, but never both run.
        assert!(
            codes == [Some(0), Some(75)] || codes == [Some(75), Some(75)],
            "{codes:?}"
        );
    }
    let start = || Running::start(&mut nodes.run(&["--wait", "15s"], &script));
    let all = [start(), start(), start()];
    for one in all {
        let ended = one.end();
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
}

#[test]
fn the_lock_is_kept_for_longer_than_its_ttl_and_given_back_when_the_command_has_ended() {
    let nodes = Nodes::start(3).hasty();
    let go = nodes.file("go");
    let script = format!(
        "echo started; while [ ! -e {} ]; do sleep 0.02; done",
        go.display()
    );
    let mut running = Running::start(&mut nodes.run(&["--ttl", "1500ms"], &script));
    running.line();
    let token = nodes.servers[0].get("job");
    // Twice the ttl: without renewal, the keys would have gone.
    pause(Duration::from_secs(3));
    assert!(token.is_some() && nodes.servers[0].get("job") == token);
    assert_eq!(nodes.locked(), 3);
    assert!(running.is_running());
    std::fs::write(&go, "").unwrap();
    assert_eq!(running.end().code, Some(0));
    assert_eq!(nodes.locked(), 0);
}

#[test]
fn what_the_command_leaves_behind_is_neither_waited_for_nor_killed() {
    let nodes = Nodes::start(1);
    let script = "sleep 30 >/dev/null 2>&1 </dev/null & echo $!";
    let ended = end_of(&mut nodes.run(&[], script));
    let left = crate::process::pid(&ended.stdout);
    assert_eq!(ended.code, Some(0));
    assert_eq!(nodes.locked(), 0);
    // The watchdog has gone by now; had it killed the group, this would not live.
    assert!(!eventually(Duration::from_millis(200), || {
        !crate::process::is_alive(left)
    }));
    rustix::process::kill_process(left, Signal::KILL).unwrap();
}

#[test]
fn a_run_within_a_run_of_the_same_name_says_so() {
    let nodes = Nodes::start(3).hasty();
    let redlatch = env!("CARGO_BIN_EXE_redlatch");
    for (outer, inner, is_told) in [
        (&[][..], "job", true),
        (&["--also", "other"], "other", true),
        (&[], "other", false),
        (&["--max", "2"], "--max 2 job", false),
    ] {
        let script = format!("{redlatch} run --wait 400ms {inner} -- echo ran");
        let ended = end_of(&mut nodes.run(outer, &script));
        let told = "a parent of this process has the lock ";
        assert_eq!(ended.stderr.contains(told), is_told, "{ended:?}");
        assert_eq!(ended.code, Some(if is_told { 75 } else { 0 }), "{ended:?}");
        assert_eq!(ended.stdout.is_empty(), is_told, "{ended:?}");
    }
}

#[test]
fn with_no_server_up_the_first_failure_is_told_at_once_and_once() {
    let mut nodes = Nodes::start(3);
    for server in &mut nodes.servers {
        server.kill();
    }
    let names: Vec<String> = nodes.servers.iter().map(Server::name).collect();
    // It would wait for forty seconds.
    let running = Running::start(&mut nodes.run(&[], "echo ran"));
    let line = running.error_line();
    let (first, second) = (&names[0], &names[1]);
    assert!(
        line.contains(&format!("{first}, {second}: no connection: ")),
        "{line}"
    );
    let end = "; see 'redlatch health'; it goes on trying for 40 s";
    assert!(line.ends_with(end), "{line}");
    running.signal(Signal::TERM);
    let ended = running.end();
    assert_eq!((ended.code, &*ended.stdout), (Some(143), ""), "{ended:?}");
}
