//! `redlatch list`: the locks that are held, for people and as JSON.

use std::io::Read;
use std::process::Stdio;

use redlatch_testing::eventually;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::process::{Ended, LIMIT, Nodes, Running, end_of, let_children_heed_signals};

const TOKEN: &str = "0123456789abcdef0123456789abcdef01234567";

fn hold(nodes: &Nodes, key: &str) {
    for server in &nodes.servers {
        server.hold(key, TOKEN, 600_000);
    }
}

fn list(nodes: &Nodes, more: &[&str]) -> Ended {
    let arguments = [&["list"], more].concat();
    end_of(&mut nodes.redlatch(&arguments))
}

/// Sets a million keys of another program on each server, of which none may be a lock.
fn fill(nodes: &Nodes) {
    for server in &nodes.servers {
        let script = "for i = 1, 1000000 do redis.call('SET', 'user:' .. i, 'x') end";
        server.command(&["EVAL", script, "0"]);
    }
}

#[test]
fn each_lock_is_a_line_and_each_line_one_lock() {
    let nodes = Nodes::start(3);
    let ended = list(&nodes, &[]);
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(0), ""),
        "{ended:?}"
    );
    for key in [
        "job",
        "my job",
        "line\nbreak",
        "--json",
        "exports:redlatch:slot:2",
    ] {
        hold(&nodes, key);
    }
    hold(&nodes, "job:fence");
    nodes.servers[0].command(&["SET", "for ever", TOKEN]);
    let ended = list(&nodes, &[]);
    assert_eq!(
        (ended.code, ended.stderr.as_str()),
        (Some(0), ""),
        "{ended:?}"
    );
    // Sorted by name, below a head.
    let expected = "\
NAME            STATE  LEFT  NODES  HOLDER
--json          held   9m    3/3    01234567…
exports slot 2  held   9m    3/3    01234567…
job             held   9m    3/3    01234567…
\"line\\nbreak\"   held   9m    3/3    01234567…
\"my job\"        held   9m    3/3    01234567…
";
    assert_eq!(ended.stdout, expected);
    let ended = list(&nodes, &["--prefix", "--"]);
    assert!(ended.stdout.contains("\n--json  held"), "{ended:?}");
    assert_eq!(ended.stdout.lines().count(), 2, "{ended:?}");
}

#[test]
fn with_json_each_lock_is_an_object() {
    let nodes = Nodes::start(3);
    hold(&nodes, "line\nbreak");
    hold(&nodes, "exports:redlatch:slot:2");
    let ended = list(&nodes, &["--json", "--prefix", "exp"]);
    let object: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(object["resource"], "exports");
    assert_eq!(object["slot"], 2);
    assert_eq!(
        (&object["state"], &object["token"]),
        (&"held".into(), &TOKEN.into())
    );
    assert!((300_000..600_000).contains(&object["remaining_ms"].as_u64().unwrap()));
    assert_eq!(object["nodes"][2]["view"], "held");
    let ended = list(&nodes, &["--json", "--prefix", "line\n"]);
    let object: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(
        (&object["resource"], &object["slot"]),
        (&"line\nbreak".into(), &Value::Null)
    );

    let ended = list(&nodes, &["--json"]);
    assert_eq!(ended.stdout.lines().count(), 2, "{ended:?}");
}

#[test]
fn the_holder_is_told_with_its_label() {
    let nodes = Nodes::start(3);
    let label = "web-3 4711 nightly";
    let value = format!("{TOKEN} {label} since=2026-11-22T05:52:53Z");
    nodes.hold(&value, 600_000);
    let ended = list(&nodes, &[]);
    let row = format!("job   held   9m    3/3    {label}, since 2026-11-22 05:52:53 UTC\n");
    assert!(ended.stdout.ends_with(&row), "{ended:?}");
    let object: Value = serde_json::from_str(&list(&nodes, &["--json"]).stdout).unwrap();
    assert_eq!(
        (&object["token"], &object["resource"]),
        (&TOKEN.into(), &"job".into())
    );
    assert!(object.to_string().contains(label), "{object}");
}

#[test]
fn a_lock_that_rests_is_told_as_such() {
    let nodes = Nodes::start(3);
    nodes.hold(&format!("rest:{TOKEN}"), 600_000);
    let ended = list(&nodes, &[]);
    assert!(
        ended.stdout.ends_with("\njob   rests  9m    3/3\n"),
        "{ended:?}"
    );
    let object: Value = serde_json::from_str(&list(&nodes, &["--json"]).stdout).unwrap();
    assert_eq!(object["state"], "resting");
}

#[test]
fn the_list_is_complete_without_one_server_and_is_none_without_two() {
    let mut nodes = Nodes::start(3).hasty();
    hold(&nodes, "job");
    // With a key prefix, the name is what is behind it.
    let ended = list(&nodes, &["--key-prefix", "jo", "--prefix", "b"]);
    assert!(ended.stdout.contains("\nb     held "), "{ended:?}");
    nodes.servers[0].kill();
    let ended = list(&nodes, &["--prefix", "job"]);
    assert!(ended.stdout.contains("  2/3  "), "{ended:?}");
    assert_eq!(ended.code, Some(0));
    nodes.servers[1].stop();
    // What was found before is told as well.
    let ended = list(&nodes, &[]);
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(69), ""),
        "{ended:?}"
    );
    assert!(
        ended
            .complaint()
            .contains("the list of locks is incomplete"),
        "{ended:?}"
    );
}

#[test]
fn a_user_who_may_not_scan_is_told_so() {
    let nodes = Nodes::start(1);
    let user = [
        "ACL", "SETUSER", "default", "on", "nopass", "~*", "+@all", "-scan",
    ];
    nodes.servers[0].command(&user);
    let ended = end_of(&mut nodes.redlatch(&["list"]));
    assert_eq!(ended.code, Some(69), "{ended:?}");
    let complaint = ended.complaint();
    assert!(
        complaint.contains("to list locks, allow SCAN and STRLEN"),
        "{ended:?}"
    );
}

#[test]
fn a_prefix_that_is_too_long_is_refused() {
    let nodes = Nodes::start(1);
    let ended = end_of(&mut nodes.redlatch(&["list", "--prefix", &"x".repeat(64 * 1024 + 1)]));
    assert_eq!(ended.code, Some(64), "{ended:?}");
    assert!(
        ended.complaint().contains("at most 65536 bytes"),
        "{ended:?}"
    );
}

#[test]
fn it_ends_when_nobody_reads_it_and_at_a_signal() {
    let_children_heed_signals();
    let nodes = Nodes::start(1);
    fill(&nodes);
    for i in 0..2_000 {
        nodes.servers[0].hold(&format!("job-{i}"), TOKEN, 600_000);
    }
    // The first line shows that it is under way; its end would be a second later.
    for is_closed in [true, false] {
        let mut child = nodes
            .redlatch(&["list", "--json"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
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
    hold(&nodes, "job");
    for server in &nodes.servers {
        server.command(&["SET", "session:1", "foo", "EX", "1000"]);
    }
    let left_out = "left out: 1 key with a value that is not one of redlatch; --all lists";
    for (options, job) in [
        (&[][..], "job   held "),
        (&["--json"], "\"resource\":\"job\""),
    ] {
        let ended = list(&nodes, options);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(ended.stdout.contains(job), "{ended:?}");
        assert!(!ended.stdout.contains("session"), "{ended:?}");
        assert!(ended.complaint().contains(left_out), "{ended:?}");
        let ended = list(&nodes, &[options, &["--all"]].concat());
        assert!(ended.stdout.contains("session:1"), "{ended:?}");
        assert!(ended.stdout.contains("job"), "{ended:?}");
        assert_eq!(ended.stderr, "");
    }
    let unlock = |more: &[&str]| {
        let words = ["unlock", "session:1", "--token", "foo"];
        end_of(&mut nodes.redlatch(&[&words[..], more].concat()))
    };
    let ended = unlock(&[]);
    assert_eq!((ended.code, &*ended.stdout), (Some(64), ""), "{ended:?}");
    assert!(ended.complaint().contains("say --foreign"), "{ended:?}");
    assert_eq!(nodes.servers[0].get("session:1").as_deref(), Some("foo"));
    let ended = unlock(&["--foreign"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(nodes.servers[0].get("session:1"), None);
}

/// The servers fail while it is made.
#[test]
fn what_was_found_is_told_before_what_is_missing() {
    for (options, line) in [(&[][..], "\njob-"), (&["--json"], "\"resource\":\"job-")] {
        let mut nodes = Nodes::start(3).hasty();
        for server in &nodes.servers {
            let script = "for i = 1, 2000 do redis.call('SET', 'job-' .. i, ARGV[1], 'PX', 600000) end \
                          for i = 1, 300000 do redis.call('SET', 'user:' .. i, 'x') end";
            server.command(&["EVAL", script, "0", TOKEN]);
        }
        let running = Running::start(&mut nodes.redlatch(&[&["list"], options].concat()));
        let steps = || {
            nodes
                .servers
                .iter()
                .map(|server| server.count("scan"))
                .sum::<u64>()
        };
        // Of more than a thousand for each server.
        assert!(eventually(LIMIT, || steps() > 100));
        nodes.servers[0].kill();
        nodes.servers[1].kill();
        let ended = running.end();
        assert_eq!(ended.code, Some(69), "{}", ended.stderr);
        assert!(ended.stdout.contains(line), "{}", ended.stdout);
        let complaint = ended.complaint();
        assert!(
            complaint.contains("the list of locks is incomplete"),
            "{complaint}"
        );
    }
}
