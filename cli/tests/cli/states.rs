//! What others learn of a lock: that readers share it, that it rests, and who has it.

use redlatch_testing::eventually;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::nodes::Nodes;
use crate::process::{LIMIT, assert_dies, pid};

/// Says its token and process, and ends with its standard input.
const READ: &str = "echo $REDLATCH_TOKEN; echo $$; read -r line; exit 0";

#[test]
fn those_who_share_run_at_a_time_and_one_who_does_not_waits() {
    let nodes = Nodes::open();
    for protocol in ["", "--fenced"] {
        let shared = format!("{protocol} --shared");
        let readers = [(); 3].map(|()| nodes.start_run(&shared, READ));
        let tokens = readers.each_ref().map(|reader| reader.line());
        assert!(tokens[0] != tokens[1] && tokens[1] != tokens[2]);
        let ended = nodes.ask("status job");
        ended.ends_with(0);
        ended.shows("\njob: read on 3 of 3 nodes\nreaders  3 readers\nfor      another ");
        ended.shows("\nmargin   1 more server may fail before the lock is lost\n");
        for line in ["status --json job", "list --json"] {
            let object = nodes.ask(line).json();
            let told = ["state", "readers", "token"].map(|field| object[field].clone());
            assert_eq!(told, ["read".into(), 3.into(), Value::Null], "{object}");
            let [remaining, last] = ["remaining_ms", "last_ms"].map(|field| object[field].as_u64());
            assert!(remaining.is_some() && remaining <= last, "{object}");
            assert_eq!(object["nodes"][0]["view"], "read", "{object}");
            assert_eq!(object["margin"], 1, "{object}");
        }
        let ended = nodes.ask("list");
        let line = ended.stdout.lines().last().unwrap();
        let (begin, end) = ("job   read ", " 3/3    3 readers");
        assert!(line.starts_with(begin) && line.ends_with(end), "{ended:?}");

        let ended = nodes.try_run(&format!("{protocol} -n"), "echo ran");
        ended.is_refused(75, "3 readers have the lock job");
        let writer = nodes.start_run(protocol, "echo ran; read -r line");
        for running in readers {
            running.finish().ends_with(0);
        }
        assert_eq!(writer.line(), "ran");
        // It waited before it had the lock. So for a moment a reader is told of a writer that waits, and then of a holder.
        let ended = nodes.try_run(&format!("{shared} -n"), "echo ran");
        ended.is_refused(75, " the lock job");
        writer.finish();
    }
}

#[test]
fn one_who_waits_to_have_it_alone_is_not_passed_and_a_reader_whose_entry_is_gone_is_lost_alone() {
    let nodes = Nodes::hasty();
    let first = nodes.start_ready("--shared", READ);
    let writer = nodes.start_run("--wait 5m --verbose", "echo ran; read -r line");
    writer.tells("waiting: job is read for another ");
    let intent = || nodes.servers[0].get("job:redlatch:intent").is_some();
    assert!(eventually(LIMIT, intent));
    let ended = nodes.try_run("--shared -n", "echo ran");
    ended.is_refused(75, "a writer waits for the lock job, and comes first; ");
    // It would not show who waits.
    assert!(!ended.stderr.contains("redlatch status"), "{ended:?}");
    let later = nodes.start_run("--shared --wait 5m --ttl 1500ms", READ);
    first.finish();
    assert_eq!(writer.line(), "ran");
    writer.finish();

    let (token, command) = (later.line(), pid(&later.line()));
    let other = nodes.start_ready("--shared --ttl 1m", READ);
    let unlock = || nodes.ask(&format!("unlock job --token {token}"));
    unlock().is(0, "job: released\n");
    // It is told, and its command with it.
    later.end().ends_with(76);
    assert_dies(command);
    unlock().is_refused(76, "a reader's token is its REDLATCH_TOKEN");
    nodes.ask("status job").shows("\nreaders  1 reader\n");
    other.finish().ends_with(0);
    nodes.ask("status job").ends_with(1);
}

#[test]
fn a_job_that_is_done_is_not_done_again_before_its_time_is_over() {
    let nodes = Nodes::open();
    for (kind, names) in [
        ("", &["job"][..]),
        ("--fenced", &["job"]),
        ("--also other", &["job", "other"]),
    ] {
        let again = || nodes.try_run(&format!("{kind} -n --at-least 10m"), "echo ran");
        again().is(0, "ran\n");
        // On another machine, a second later.
        let ended = again();
        ended.is_refused(75, "the lock job rests after the run of ");
        // Who waits would do the work again.
        assert!(!ended.stderr.contains("--wait"), "{ended:?}");

        let ended = nodes.ask("status job");
        ended
            .ends_with(3)
            .shows("\njob: rests on 3 of 3 nodes\ndone by  ");
        ended.shows("\nfor      another 10m\ntoken    rest:");
        let object = nodes.ask("status --json job").json();
        assert_eq!(object["state"], "resting", "{object}");
        let left = object["remaining_ms"].as_u64().unwrap();
        assert!((500_000..=607_000).contains(&left), "{object}");
        assert_eq!(object["nodes"][0]["view"], "resting", "{object}");

        // An operator ends it.
        let protocol = if kind == "--fenced" { kind } else { "" };
        let token = object["token"].as_str().unwrap();
        for name in names {
            nodes.ask(&format!("status -q {name}")).ends_with(3);
            let unlock = |token| nodes.ask(&format!("unlock {name} --token {token} {protocol}"));
            // Its digits alone are those of the holder, which is gone.
            let ended = unlock(token.trim_start_matches("rest:"));
            ended.is_refused(76, &format!("say --token={token}"));
            unlock(token).ends_with(0);
            nodes.ask(&format!("status -q {name}")).ends_with(1);
        }
    }
}

#[test]
fn a_job_that_fails_is_free_at_once_unless_the_user_says_otherwise() {
    let nodes = Nodes::hasty();
    // The lock is still ours when `redlatch` goes on, but the work was not done, and another may try.
    let script =
        "trap 'echo ended; exit 0' TERM; echo started; for i in $(seq 3000); do sleep 0.02; done";
    let stands_still = nodes.start_run("--ttl 8s --at-least 10m", script);
    assert_eq!(stands_still.line(), "started");
    stands_still.signal(Signal::STOP);
    // By the watchdog, a while before the end of the lock.
    assert_eq!(stands_still.line(), "ended");
    stands_still.end_by(Signal::CONT).ends_with(76);
    assert_eq!(nodes.locked(), 0);

    for (options, script, code, status) in [
        ("--at-least 10m", "exit 3", 3, 1),
        ("--at-least 10m", "kill -TERM $$", 143, 1),
        ("--at-least 10m --also other", "exit 3", 3, 1),
        // A job that takes longer than its minimum is released as ever.
        ("--at-least 1ms", "sleep 0.1", 0, 1),
        ("--at-least 10m --at-least-on-failure", "exit 3", 3, 3),
    ] {
        nodes.try_run(options, script).ends_with(code);
        nodes.ask("status -q job").ends_with(status);
    }
    nodes.command("DEL job");
    // Nothing runs where a signal comes while the last server is waited for.
    let last = nodes.servers.iter().max_by_key(|server| server.port());
    let last = last.unwrap();
    last.stop();
    let waits = nodes.start_run("--at-least 10m --node-timeout 2s", "echo ran");
    let others = || nodes.servers.iter().filter(|it| it.port() != last.port());
    assert!(eventually(LIMIT, || others().all(|it| it.get("job").is_some())));
    waits.end_by(Signal::TERM).is(143, "");
    last.resume();
    nodes.ask("status -q job").ends_with(1);
    // A release that reached too few servers is told with how long the lock may stay: after a failure, without the rest.
    for (end, rests) in [("exit 0", true), ("exit 3", false)] {
        let [first, second] = [0, 1].map(|i| nodes.servers[i].pid());
        let script = format!("kill -STOP {first} {second}; {end}");
        let ended = nodes.try_run("--at-least 10m", &script);
        let told = ended.stderr.contains("may stay until its time to live");
        assert!(told, "{ended:?}");
        assert_eq!(ended.stderr.contains("--at-least"), rests, "{ended:?}");
        nodes.servers[..2]
            .iter()
            .for_each(redlatch_testing::Server::resume);
        nodes.command("DEL job");
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
        ("--label nightly", Some(" nightly")),
        ("", Some("")),
        ("--no-label", None),
    ] {
        let running = nodes.start_run(options, "echo $REDLATCH_TOKEN; sleep 100");
        let token = running.line();
        let value = nodes.servers[2].get("job").unwrap();
        let object = nodes.ask("status job --json").json();
        assert_eq!(object["token"], token, "{object}");
        let mut who = "another holder".to_owned();
        if let Some(own) = own {
            let label = format!("{host} {}{own}", running.pid().as_raw_nonzero());
            let since = value.strip_prefix(&format!("{token} {label} since="));
            let since = since.expect(&value);
            let holder = json!({ "label": label, "since": since });
            assert_eq!(object["holder"], holder, "{object}");
            assert_eq!(object["nodes"][1]["holder"], holder, "{object}");
            who = format!("{label} since {} {} UTC", &since[..10], &since[11..19]);
        } else {
            assert_eq!((&value, &object["holder"]), (&token, &Value::Null));
        }
        let ended = nodes.try_run("-n", "true");
        ended.is_refused(75, &format!("redlatch: {who} has the lock job"));
        running.terminate();
        assert_eq!(nodes.locked(), 0);
    }
}
