//! `redlatch list`: the locks that are held, for people and as JSON.

use std::io::Read;
use std::process::Stdio;

use redlatch_testing::eventually;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::ended::Ended;
use crate::process::{LIMIT, Nodes, Running, TOKEN, end_of, let_children_heed_signals};

fn hold(nodes: &Nodes, key: &str, value: &str) {
    nodes.command(&["SET", key, value, "PX", "600000"]);
}

fn list(nodes: &Nodes, more: &[&str]) -> Ended {
    end_of(&mut nodes.redlatch(&[&["list"], more].concat()))
}

#[test]
fn each_lock_is_a_line_and_with_json_an_object() {
    let nodes = Nodes::start(3);
    list(&nodes, &[]).is(0, "");
    let labelled = format!("{TOKEN} web-3 4711 nightly since=2026-11-22T05:52:53Z");
    for (key, value) in [
        ("job", labelled.as_str()),
        ("my job", TOKEN),
        ("line\nbreak", TOKEN),
        ("--json", TOKEN),
        ("rests", &format!("rest:{TOKEN}")),
        ("exports:redlatch:slot:2", TOKEN),
        ("job:fence", TOKEN),
    ] {
        hold(&nodes, key, value);
    }
    nodes.servers[0].command(&["SET", "for ever", TOKEN]);
    // Sorted by name, below a head.
    let expected = "\
NAME            STATE  LEFT  NODES  HOLDER
--json          held   9m    3/3    01234567…
exports slot 2  held   9m    3/3    01234567…
job             held   9m    3/3    web-3 4711 nightly, since 2026-11-22
                                    05:52:53 UTC
\"line\\nbreak\"   held   9m    3/3    01234567…
\"my job\"        held   9m    3/3    01234567…
rests           rests  9m    3/3
";
    let ended = list(&nodes, &[]);
    ended.is(0, expected);
    ended.is_quiet(0);
    let ended = list(&nodes, &["--prefix", "--"]);
    ended.shows("\n--json  held");
    assert_eq!(ended.stdout.lines().count(), 2, "{ended:?}");
    // With a key prefix, the name is what is behind it.
    let ended = list(&nodes, &["--key-prefix", "jo", "--prefix", "b"]);
    ended.shows("\nb     held ");

    for (prefix, resource, slot, state) in [
        ("exp", "exports", Value::from(2), "held"),
        ("line\n", "line\nbreak", Value::Null, "held"),
        ("rest", "rests", Value::Null, "resting"),
        ("job", "job", Value::Null, "held"),
    ] {
        let object = list(&nodes, &["--json", "--prefix", prefix]).json();
        assert_eq!(
            (&object["resource"], &object["slot"]),
            (&resource.into(), &slot)
        );
        assert_eq!(object["state"], state);
        let token = object["token"].as_str().unwrap();
        assert_eq!(token.trim_start_matches("rest:"), TOKEN);
        assert!((300_000..607_000).contains(&object["remaining_ms"].as_u64().unwrap()));
        assert_eq!(object["nodes"][2]["view"], state);
        let is_labelled = object.to_string().contains("web-3 4711 nightly");
        assert_eq!(is_labelled, prefix == "job", "{object}");
    }
    assert_eq!(list(&nodes, &["--json"]).stdout.lines().count(), 6);
}

#[test]
fn the_list_is_complete_without_one_server_and_is_none_without_two_or_without_the_right_to_scan() {
    let mut nodes = Nodes::start(3).hasty();
    hold(&nodes, "job", TOKEN);
    nodes.servers[0].kill();
    let ended = list(&nodes, &["--prefix", "job"]);
    ended.shows("  2/3  ");
    ended.ends_with(0);
    let user = "ACL SETUSER default on nopass ~* +@all -scan";
    let user: Vec<&str> = user.split(' ').collect();
    for server in &nodes.servers[1..] {
        server.command(&user);
    }
    list(&nodes, &[]).is_refused(69, "to list locks, allow SCAN and STRLEN");
    nodes.servers[1].stop();
    list(&nodes, &[]).is_refused(69, "the list of locks is incomplete");
}

#[test]
fn it_ends_when_nobody_reads_it_and_at_a_signal() {
    let_children_heed_signals();
    let nodes = Nodes::start(1);
    // A million keys of another program, of which none may be a lock.
    let script = "for i = 1, 1000000 do redis.call('SET', 'user:' .. i, 'x') end \
                  for i = 1, 2000 do redis.call('SET', 'job-' .. i, ARGV[1], 'PX', 600000) end";
    nodes.command(&["EVAL", script, "0", TOKEN]);
    // The first line shows that it is under way; its end would be a second later.
    for is_closed in [true, false] {
        let mut list = nodes.redlatch(&["list", "--json"]);
        let mut child = list.stdout(Stdio::piped()).spawn().unwrap();
        let mut reader = child.stdout.take().unwrap();
        reader.read_exact(&mut [0; 40]).unwrap();
        let before = nodes.servers[0].count("scan");
        if is_closed {
            drop(reader);
        } else {
            kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        }
        let ended = || child.try_wait().unwrap().is_some();
        assert!(eventually(LIMIT, ended));
        let code = child.wait().unwrap().code();
        assert_eq!(code, is_closed.then_some(0));
        let more = nodes.servers[0].count("scan") - before;
        assert!(more < 2_000, "{more} steps of 4,000 after its end was due");
    }
}

#[test]
fn keys_of_other_programs_are_listed_with_all_and_deleted_with_foreign() {
    let nodes = Nodes::start(3);
    hold(&nodes, "job", TOKEN);
    hold(&nodes, "session:1", "foo");
    let left_out = "left out: 1 key with a value that is not one of redlatch; --all lists";
    for (options, job) in [
        (&[][..], "job   held "),
        (&["--json"], "\"resource\":\"job\""),
    ] {
        let ended = list(&nodes, options);
        ended.ends_with(0);
        ended.shows(job);
        assert!(!ended.stdout.contains("session"), "{ended:?}");
        ended.complains(left_out);
        let ended = list(&nodes, &[options, &["--all"]].concat());
        ended.shows("session:1");
        ended.shows("job");
        ended.is_quiet(0);
    }
    let unlock = ["unlock", "session:1", "--token", "foo", "--foreign"];
    end_of(&mut nodes.redlatch(&unlock[..4])).is_refused(64, "say --foreign");
    assert_eq!(nodes.servers[0].get("session:1").as_deref(), Some("foo"));
    end_of(&mut nodes.redlatch(&unlock)).ends_with(0);
    assert_eq!(nodes.servers[0].get("session:1"), None);
}

/// The servers fail while it is made.
#[test]
fn what_was_found_is_told_before_what_is_missing() {
    for (options, line) in [(&[][..], "\njob-"), (&["--json"], "\"resource\":\"job-")] {
        let mut nodes = Nodes::start(3).hasty();
        let script = "for i = 1, 2000 do redis.call('SET', 'job-' .. i, ARGV[1], 'PX', 600000) end \
                      for i = 1, 300000 do redis.call('SET', 'user:' .. i, 'x') end";
        nodes.command(&["EVAL", script, "0", TOKEN]);
        let running = Running::start(&mut nodes.redlatch(&[&["list"], options].concat()));
        let steps = || -> u64 {
            nodes
                .servers
                .iter()
                .map(|server| server.count("scan"))
                .sum()
        };
        // Of more than a thousand for each server.
        assert!(eventually(LIMIT, || steps() > 100));
        nodes.servers[0].kill();
        nodes.servers[1].kill();
        let ended = running.end();
        ended.ends_with(69);
        ended.shows(line);
        ended.complains("the list of locks is incomplete");
    }
}
