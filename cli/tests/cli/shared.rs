//! `redlatch run --shared`: many commands at a time, unless one has the lock alone.

use std::process::ChildStdin;

use redlatch_testing::eventually;
use serde_json::Value;

use crate::ended::Ended;
use crate::process::{LIMIT, Nodes, Running, assert_dies, end_of, open_nodes, pid, told};

/// A command that shares the lock `job`, says its token and process, and ends with its standard input.
#[track_caller]
fn reader(nodes: &Nodes, options: &[&str]) -> (Running, ChildStdin) {
    let options = [&["--shared"], options].concat();
    let mut command = nodes.run(
        &options,
        "echo $REDLATCH_TOKEN; echo $$; read -r line; exit 0",
    );
    Running::start_with_input(&mut command)
}

#[track_caller]
fn ask(nodes: &Nodes, words: &[&str]) -> Ended {
    end_of(&mut nodes.redlatch(words))
}

#[test]
fn those_who_share_run_at_a_time_and_one_who_does_not_waits() {
    let nodes = Nodes::start(3);
    open_nodes(&nodes);
    for protocol in [&[][..], &["--fenced"]] {
        let readers = [(); 3].map(|()| reader(&nodes, protocol));
        let tokens = readers.each_ref().map(|(running, _)| running.line());
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

        let ended = end_of(&mut nodes.run(&[protocol, &["-n"]].concat(), "echo ran"));
        ended.is_refused(75, "3 readers have the lock job (on ");
        let mut alone = nodes.run(protocol, "echo ran; read -r line");
        let (writer, writer_input) = Running::start_with_input(&mut alone);
        for (running, input) in readers {
            drop(input);
            running.end().ends_with(0);
        }
        assert_eq!(writer.line(), "ran");
        let shared = [protocol, &["--shared", "-n"]].concat();
        // It waited before it had the lock. So for a moment a reader is told of one who wants it alone, and then of a holder.
        end_of(&mut nodes.run(&shared, "echo ran")).is_refused(75, " the lock job (on ");
        drop(writer_input);
        writer.end();
        end_of(&mut nodes.run(&shared, "echo .$REDLATCH_FENCING_TOKEN")).is(0, ".\n");
    }
}

#[test]
fn one_who_waits_to_have_it_alone_is_not_passed_by_those_who_come_later_to_share() {
    let nodes = Nodes::start(3);
    let (first, input) = reader(&nodes, &[]);
    first.line();
    let wait = ["--wait", "5m", "--verbose"];
    let mut alone = nodes.run(&wait, "echo ran; read -r line");
    let (writer, writer_input) = Running::start_with_input(&mut alone);
    told(&writer, "waiting: job is read for another ");
    let intent = || nodes.servers[0].get("job:redlatch:intent").is_some();
    assert!(eventually(LIMIT, intent));
    let ended = end_of(&mut nodes.run(&["--shared", "-n"], "echo ran"));
    ended.is_refused(
        75,
        "one who wants it alone comes first at the lock job (on ",
    );
    // It would not show who waits.
    assert!(!ended.complaint().contains("redlatch status"), "{ended:?}");
    let (later, later_input) = reader(&nodes, &wait);
    drop(input);
    first.end();
    assert_eq!(writer.line(), "ran");
    drop(writer_input);
    writer.end();
    later.line();
    drop(later_input);
    later.end().ends_with(0);
}

#[test]
fn a_reader_whose_entry_is_gone_is_lost_and_the_others_run_on() {
    let nodes = Nodes::start(3).hasty();
    let (running, _input) = reader(&nodes, &["--ttl", "1500ms"]);
    let (token, command) = (running.line(), pid(&running.line()));
    let (other, input) = reader(&nodes, &["--ttl", "1m"]);
    other.line();
    let unlock = ["unlock", "job", "--token", &token];
    ask(&nodes, &unlock).is(0, "job: released\n");
    // It is told, and its command with it.
    running.end().ends_with(76);
    assert_dies(command);
    ask(&nodes, &unlock).is_refused(76, "a reader's token is its REDLATCH_TOKEN");
    ask(&nodes, &["status", "job"]).shows("\nreaders  1 reader\n");
    drop(input);
    other.end().ends_with(0);
    ask(&nodes, &["status", "job"]).ends_with(1);
}
