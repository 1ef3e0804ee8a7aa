//! `redlatch run --shared`: many commands at a time, unless one has the lock alone.

use std::process::ChildStdin;

use redlatch_testing::{Server, eventually, pause};
use rustix::process::Signal;
use serde_json::Value;

use crate::process::{Ended, LIMIT, Nodes, Running, assert_dies, end_of, open_nodes, pid, told};

/// A command that shares the lock `job`, says its token, and ends with its standard input.
#[track_caller]
fn reader(nodes: &Nodes, options: &[&str]) -> (Running, ChildStdin) {
    let options = [&["--shared"], options].concat();
    let mut command = nodes.run(&options, "echo $REDLATCH_TOKEN; read -r line; exit 0");
    Running::start_with_input(&mut command)
}

#[track_caller]
fn status(nodes: &Nodes, options: &[&str]) -> Ended {
    end_of(&mut nodes.redlatch(&[&["status", "job"], options].concat()))
}

/// How many servers have readers of the lock.
#[track_caller]
fn read_on(nodes: &Nodes) -> usize {
    let is_read = |server: &&Server| {
        server.command(&["TYPE", "job"]) == redis::Value::SimpleString("zset".into())
    };
    nodes.servers.iter().filter(is_read).count()
}

#[test]
fn those_who_share_run_at_a_time_and_one_who_does_not_waits() {
    for protocol in [&[][..], &["--fenced"]] {
        let nodes = Nodes::start(3);
        open_nodes(&nodes);
        let readers = [(); 3].map(|()| reader(&nodes, protocol));
        let tokens = readers.each_ref().map(|(running, _)| running.line());
        assert!(tokens[0] != tokens[1] && tokens[1] != tokens[2]);
        let ended = status(&nodes, &[]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let text = "\njob: read on 3 of 3 nodes\nreaders  3 readers\nfor      another ";
        assert!(ended.stdout.contains(text), "{ended:?}");
        let object: Value = serde_json::from_str(&status(&nodes, &["--json"]).stdout).unwrap();
        assert_eq!(
            (&object["state"], &object["readers"], &object["token"]),
            (&"read".into(), &3.into(), &Value::Null),
            "{object}"
        );
        let last = object["last_ms"].as_u64().unwrap();
        assert!(object["remaining_ms"].as_u64().unwrap() <= last, "{object}");
        assert_eq!(object["nodes"][0]["view"], "read", "{object}");

        let alone = [protocol, &["-n"]].concat();
        let ended = end_of(&mut nodes.run(&alone, "echo ran"));
        assert_eq!((ended.code, &*ended.stdout), (Some(75), ""), "{ended:?}");
        let complaint = ended.complaint();
        assert!(
            complaint.contains("3 readers have the lock job (on "),
            "{complaint}"
        );

        let mut alone = nodes.run(protocol, "echo ran; read -r line");
        let (writer, writer_input) = Running::start_with_input(&mut alone);
        for (running, input) in readers {
            drop(input);
            assert_eq!(running.end().code, Some(0));
        }
        assert_eq!(writer.line(), "ran");
        let shared = [protocol, &["--shared", "-n"]].concat();
        let ended = end_of(&mut nodes.run(&shared, "echo ran"));
        assert_eq!((ended.code, &*ended.stdout), (Some(75), ""), "{ended:?}");
        // It waited before it had the lock. So for a moment a reader is told of one who wants it alone, and then of a holder.
        let complaint = ended.complaint();
        assert!(complaint.contains(" the lock job (on "), "{complaint}");
        drop(writer_input);
        writer.end();
        let ended = end_of(&mut nodes.run(&shared, "echo .$REDLATCH_FENCING_TOKEN"));
        assert_eq!((ended.code, &*ended.stdout), (Some(0), ".\n"), "{ended:?}");
    }
}

#[test]
fn one_who_waits_to_have_it_alone_is_not_passed_by_those_who_come_later_to_share() {
    let nodes = Nodes::start(3);
    let (first, input) = reader(&nodes, &[]);
    first.line();
    let alone = ["--wait", "5m", "--verbose"];
    let mut alone = nodes.run(&alone, "echo ran; read -r line");
    let (writer, writer_input) = Running::start_with_input(&mut alone);
    told(&writer, "waiting: job is read for another ");
    let intent = || nodes.servers[0].get("job:redlatch:intent").is_some();
    assert!(eventually(LIMIT, intent));
    let ended = end_of(&mut nodes.run(&["--shared", "-n"], "echo ran"));
    assert_eq!((ended.code, &*ended.stdout), (Some(75), ""), "{ended:?}");
    let words = "one who wants it alone comes first at the lock job (on ";
    assert!(ended.complaint().contains(words), "{ended:?}");
    // It would not show who waits.
    assert!(!ended.complaint().contains("redlatch status"), "{ended:?}");
    let (later, later_input) = reader(&nodes, &["--wait", "5m", "--verbose"]);
    drop(input);
    first.end();
    assert_eq!(writer.line(), "ran");
    drop(writer_input);
    writer.end();
    later.line();
    drop(later_input);
    let ended = later.end();
    assert_eq!(ended.code, Some(0));
    assert!(
        ended.stderr.contains("got the lock job after "),
        "{ended:?}"
    );
}

#[test]
fn a_shared_lock_is_kept_while_its_command_runs_and_ends_with_one_that_is_killed() {
    let nodes = Nodes::start(3).hasty();
    let options = ["--shared", "--ttl", "1500ms"];
    let running = Running::start(&mut nodes.run(&options, "echo $$; exec sleep 60"));
    let command = pid(&running.line());
    let (other, input) = reader(&nodes, &["--ttl", "10m"]);
    other.line();
    // Longer than the ttl.
    pause(std::time::Duration::from_secs(3));
    assert!(
        status(&nodes, &[])
            .stdout
            .contains("\nreaders  2 readers\n")
    );
    running.signal(Signal::KILL);
    assert_dies(command);
    let is_alone = || status(&nodes, &[]).stdout.contains("\nreaders  1 reader\n");
    assert!(eventually(LIMIT, is_alone));
    drop(input);
    assert_eq!(other.end().code, Some(0));
    assert_eq!(status(&nodes, &[]).code, Some(1));
}

#[test]
fn a_reader_whose_entry_is_gone_is_lost_and_the_others_run_on() {
    let nodes = Nodes::start(3).hasty();
    let options = ["--shared", "--ttl", "1500ms"];
    let script = "echo $REDLATCH_TOKEN; echo $$; exec sleep 60";
    let running = Running::start(&mut nodes.run(&options, script));
    let (token, command) = (running.line(), pid(&running.line()));
    let (other, input) = reader(&nodes, &["--ttl", "1500ms"]);
    other.line();
    let unlock = ["unlock", "job", "--token", &token];
    let ended = end_of(&mut nodes.redlatch(&unlock));
    assert_eq!(
        (ended.code, &*ended.stdout),
        (Some(0), "job: given back\n"),
        "{ended:?}"
    );
    // It is told, and its command with it.
    let ended = running.end();
    assert_eq!(ended.code, Some(76), "{ended:?}");
    assert!(ended.complaint().contains("lost the lock job"), "{ended:?}");
    assert_dies(command);
    let again = end_of(&mut nodes.redlatch(&unlock));
    assert_eq!(again.code, Some(76), "{again:?}");
    let advice = "a reader's token is its REDLATCH_TOKEN";
    assert!(again.complaint().contains(advice), "{again:?}");
    assert_eq!(read_on(&nodes), 3);
    drop(input);
    assert_eq!(other.end().code, Some(0));
}

#[test]
fn a_signal_ends_the_wait_of_a_reader_and_goes_to_the_command_once_it_runs() {
    let nodes = Nodes::start(3);
    nodes.hold("another", 600_000);
    let options = ["--shared", "--wait", "5m", "--verbose"];
    let waits = Running::start(&mut nodes.run(&options, "echo ran"));
    told(&waits, "waiting: ");
    waits.signal(Signal::TERM);
    assert_eq!(waits.end().code, Some(143));
    for server in &nodes.servers {
        server.command(&["DEL", "job"]);
    }
    let script = "trap 'echo term; exit 5' TERM; echo ready; while :; do sleep 0.02; done";
    let running = Running::start(&mut nodes.run(&["--shared"], script));
    assert_eq!(running.line(), "ready");
    running.signal(Signal::TERM);
    let ended = running.end();
    assert_eq!(
        (ended.code, &*ended.stdout),
        (Some(5), "term\n"),
        "{ended:?}"
    );
    assert_eq!(read_on(&nodes), 0);
}

#[test]
fn the_list_has_a_lock_that_is_shared() {
    let nodes = Nodes::start(3);
    let (running, _input) = reader(&nodes, &[]);
    running.line();
    let ended = end_of(&mut nodes.redlatch(&["list"]));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let line = ended.stdout.lines().last().unwrap();
    let (begin, end) = ("job   read ", " 3/3    1 reader");
    assert!(line.starts_with(begin) && line.ends_with(end), "{ended:?}");
    let ended = end_of(&mut nodes.redlatch(&["list", "--json"]));
    let object: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(
        (&object["state"], &object["readers"], &object["resource"]),
        (&"read".into(), &1.into(), &"job".into())
    );
}

#[test]
fn what_no_reader_can_have_is_a_usage_error() {
    let nodes = Nodes::start(1);
    for (options, other) in [
        (&["--shared", "--also", "other"][..], "--also"),
        (&["--shared", "--max", "3"], "--max"),
        (&["--shared", "--at-least", "1m"], "--at-least"),
        (&["--shared", "--forever"], "--forever"),
    ] {
        let ended = end_of(&mut nodes.run(options, "echo ran"));
        assert_eq!((ended.code, &*ended.stdout), (Some(64), ""), "{ended:?}");
        let complaint = ended.complaint();
        assert!(
            complaint.contains(other) && complaint.contains("--shared"),
            "{complaint}"
        );
    }
    // A key that is no lock is told for what it is.
    nodes.servers[0].command(&["SET", "job", "x"]);
    let ended = end_of(&mut nodes.run(&["--shared", "-n"], "echo ran"));
    assert_eq!(ended.code, Some(64), "{ended:?}");
    let complaint = ended.complaint();
    assert!(
        complaint.contains("in use by something else"),
        "{complaint}"
    );
    assert!(complaint.contains("never expires"), "{complaint}");
}
