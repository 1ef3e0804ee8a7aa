//! What others learn of a lock: that readers share it, that it rests, and who has it.

use redlatch_testing::eventually;
use rustix::process::Signal;
use serde_json::Value;

use crate::process::{LIMIT, Nodes, Running, ask, assert_dies, open_nodes, pid, told, try_run};

/// A command that shares the lock `job`, says its token and process, and ends with its standard input.
#[track_caller]
fn reader(nodes: &Nodes, options: &[&str]) -> Running {
    let options = [&["--shared"], options].concat();
    let mut command = nodes.run(
        &options,
        "echo $REDLATCH_TOKEN; echo $$; read -r line; exit 0",
    );
    Running::start_with_input(&mut command)
}

#[test]
fn those_who_share_run_at_a_time_and_one_who_does_not_waits() {
    let nodes = Nodes::start(3);
    open_nodes(&nodes);
    for protocol in [&[][..], &["--fenced"]] {
        let readers = [(); 3].map(|()| reader(&nodes, protocol));
        let tokens = readers.each_ref().map(Running::line);
        assert!(tokens[0] != tokens[1] && tokens[1] != tokens[2]);
        let ended = ask(&nodes, &["status", "job"]);
        ended.ends_with(0);
        ended.shows("\njob: read on 3 of 3 nodes\nreaders  3 readers\nfor      another ");
        for object in [
            ask(&nodes, &["status", "--json", "job"]).json(),
            ask(&nodes, &["list", "--json"]).json(),
        ] {
            assert_eq!(
                (&object["state"], &object["readers"], &object["token"]),
                (&"read".into(), &3.into(), &Value::Null),
                "{object}"
            );
            let last = object["last_ms"].as_u64().unwrap();
            assert!(object["remaining_ms"].as_u64().unwrap() <= last, "{object}");
            assert_eq!(object["nodes"][0]["view"], "read", "{object}");
        }
        let ended = ask(&nodes, &["list"]);
        let line = ended.stdout.lines().last().unwrap();
        let (begin, end) = ("job   read ", " 3/3    3 readers");
        assert!(line.starts_with(begin) && line.ends_with(end), "{ended:?}");

        try_run(&nodes, &[protocol, &["-n"]].concat(), "echo ran")
            .is_refused(75, "3 readers have the lock job (on ");
        let mut alone = nodes.run(protocol, "echo ran; read -r line");
        let writer = Running::start_with_input(&mut alone);
        for running in readers {
            running.finish().ends_with(0);
        }
        assert_eq!(writer.line(), "ran");
        let shared = [protocol, &["--shared", "-n"]].concat();
        // It waited before it had the lock. So for a moment a reader is told of a writer that waits, and then of a holder.
        try_run(&nodes, &shared, "echo ran").is_refused(75, " the lock job (on ");
        writer.finish();
        try_run(&nodes, &shared, "echo .$REDLATCH_FENCING_TOKEN").is(0, ".\n");
    }
}

#[test]
fn one_who_waits_to_have_it_alone_is_not_passed_by_those_who_come_later_to_share() {
    let nodes = Nodes::start(3);
    let first = reader(&nodes, &[]);
    first.line();
    let wait = ["--wait", "5m", "--verbose"];
    let mut alone = nodes.run(&wait, "echo ran; read -r line");
    let writer = Running::start_with_input(&mut alone);
    told(&writer, "waiting: job is read for another ");
    let intent = || nodes.servers[0].get("job:redlatch:intent").is_some();
    assert!(eventually(LIMIT, intent));
    let ended = try_run(&nodes, &["--shared", "-n"], "echo ran");
    ended.is_refused(75, "a writer waits for the lock job (on ");
    // It would not show who waits.
    assert!(!ended.complaint().contains("redlatch status"), "{ended:?}");
    let later = reader(&nodes, &wait);
    first.finish();
    assert_eq!(writer.line(), "ran");
    writer.finish();
    later.line();
    later.finish().ends_with(0);
}

#[test]
fn a_reader_whose_entry_is_gone_is_lost_and_the_others_run_on() {
    let nodes = Nodes::start(3).hasty();
    let running = reader(&nodes, &["--ttl", "1500ms"]);
    let (token, command) = (running.line(), pid(&running.line()));
    let other = reader(&nodes, &["--ttl", "1m"]);
    other.line();
    let unlock = ["unlock", "job", "--token", &token];
    ask(&nodes, &unlock).is(0, "job: released\n");
    // It is told, and its command with it.
    running.end().ends_with(76);
    assert_dies(command);
    ask(&nodes, &unlock).is_refused(76, "a reader's token is its REDLATCH_TOKEN");
    ask(&nodes, &["status", "job"]).shows("\nreaders  1 reader\n");
    other.finish().ends_with(0);
    ask(&nodes, &["status", "job"]).ends_with(1);
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
        try_run(&nodes, &options, "echo ran").is(0, "ran\n");
        for name in names {
            ask(&nodes, &["status", "-q", name]).ends_with(3);
        }
        // On another machine, a second later.
        let ended = try_run(&nodes, &options, "echo ran");
        ended.is_refused(75, "the lock job rests: the work was done");
        // Who waits would do the work again.
        assert!(!ended.complaint().contains("--wait"), "{ended:?}");

        let ended = ask(&nodes, &["status", "job"]);
        ended.ends_with(3);
        ended.shows("\njob: rests on 3 of 3 nodes\ndone by  ");
        ended.shows("\nfor      another 10m\ntoken    rest:");
        let object = ask(&nodes, &["status", "--json", "job"]).json();
        assert_eq!(object["state"], "resting", "{object}");
        let left = object["remaining_ms"].as_u64().unwrap();
        assert!((500_000..=607_000).contains(&left), "{object}");
        assert_eq!(object["nodes"][0]["view"], "resting", "{object}");

        // An operator ends it.
        for name in names {
            let token = object["token"].as_str().unwrap();
            let unlock = ["unlock", name, "--token", token, "--fenced"];
            let unlock = &unlock[..if kind == ["--fenced"] { 5 } else { 4 }];
            ask(&nodes, unlock).ends_with(0);
            ask(&nodes, &["status", "-q", name]).ends_with(1);
        }
    }
}

#[test]
fn a_job_that_fails_is_free_at_once_unless_the_user_says_otherwise() {
    let nodes = Nodes::start(3);
    for (options, script, code, status) in [
        ("--at-least 10m", "exit 3", 3, 1),
        ("--at-least 10m", "kill -TERM $$", 143, 1),
        ("--at-least 10m --also other", "exit 3", 3, 1),
        // A job that takes longer than its minimum is released as ever.
        ("--at-least 1ms", "sleep 0.1", 0, 1),
        ("--at-least 10m --at-least-on-failure", "exit 3", 3, 3),
    ] {
        let options: Vec<&str> = options.split(' ').collect();
        try_run(&nodes, &options, script).ends_with(code);
        ask(&nodes, &["status", "-q", "job"]).ends_with(status);
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
    running.end_by(Signal::CONT).ends_with(76);
    assert_eq!(nodes.locked(), 0);
}

#[test]
fn a_rest_that_reached_too_few_servers_is_told_with_how_long_it_may_last() {
    // After a failure, the lock does not rest.
    for (end, rests) in [("exit 0", true), ("exit 3", false)] {
        let nodes = Nodes::start(3);
        let pids = [0, 1].map(|i| nodes.servers[i].pid().to_string());
        let script = format!("kill -STOP {}; {end}", pids.join(" "));
        let ended = try_run(&nodes, &["--at-least", "10m"], &script);
        ended.complains("may stay until its time to live");
        assert_eq!(ended.stderr.contains("--at-least"), rests, "{ended:?}");
    }
}

#[test]
fn others_are_told_host_process_and_label_and_since_when_unless_the_holder_does_not_want_it() {
    let nodes = Nodes::start(3);
    // What is no part of a plain name is a question mark in labels.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    let host = host.replace(|c| !is_plain(c), "?");
    for (options, own) in [
        (&["--label", "nightly report"][..], Some(" nightly report")),
        (&[], Some("")),
        (&["--no-label"], None),
    ] {
        let script = "echo $REDLATCH_TOKEN; sleep 100";
        let running = Running::start(&mut nodes.run(options, script));
        let token = running.line();
        let value = nodes.servers[2].get("job").unwrap();
        let process = running.pid().as_raw_nonzero();
        let label = own.map(|own| format!("{host} {process}{own}"));
        let since = label.as_ref().map(|label| {
            let since = value.strip_prefix(&format!("{token} {label} since="));
            since.unwrap_or_else(|| panic!("{value}"))
        });
        let refused = [
            try_run(&nodes, &["--no-wait"], "true"),
            try_run(&nodes, &["--wait", "500ms"], "true"),
        ];
        let status = ask(&nodes, &["status", "job"]);
        let json = ask(&nodes, &["status", "job", "--json"]).json();
        status.shows(&format!("\ntoken    {token}\nunlock   redlatch unlock "));
        assert_eq!(json["token"], token, "{json}");
        let who = if let (Some(label), Some(since)) = (label, since) {
            let for_people = since.replace('T', " ").replace('Z', " UTC");
            status.shows(&format!(
                "\njob: held on 3 of 3 nodes\nholder   {label}\nsince    {for_people} ("
            ));
            let holder = serde_json::json!({ "label": label, "since": since });
            assert_eq!(json["holder"], holder, "{json}");
            assert_eq!(json["nodes"][1]["holder"], holder, "{json}");
            format!("{label} since {for_people}")
        } else {
            assert_eq!(value, token);
            assert!(json["holder"].is_null(), "{json}");
            "another holder".to_owned()
        };
        let expected = format!("redlatch: {who} has the lock job (on ");
        for refused in refused {
            refused.ends_with(75);
            assert!(refused.stderr.contains(&expected), "{refused:?}");
        }
        running.terminate();
        assert_eq!(nodes.locked(), 0);
    }
}
