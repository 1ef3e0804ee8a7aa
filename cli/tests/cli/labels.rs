//! Who has the lock: the host, the process and `--label`, in what others are told.

use rustix::process::Signal;
use serde_json::Value;

use crate::process::{Nodes, Running, end_of};

/// The host as labels have it: what is no part of a plain name is a question mark.
fn host() -> String {
    let name = rustix::system::uname();
    let name = name.nodename().to_string_lossy().into_owned();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    name.replace(|c| !is_plain(c), "?")
}

/// A command that holds the lock, and its token.
#[track_caller]
fn holding(nodes: &Nodes, options: &[&str]) -> (Running, String) {
    let running = Running::start(&mut nodes.run(options, "echo $REDLATCH_TOKEN; sleep 100"));
    let token = running.line();
    (running, token)
}

#[test]
fn others_are_told_host_process_and_label_and_since_when() {
    let nodes = Nodes::start(3);
    let (running, token) = holding(&nodes, &["--label", "nightly report"]);
    let label = format!(
        "{} {} nightly report",
        host(),
        running.pid().as_raw_nonzero()
    );
    let value = nodes.servers[0].get("job").unwrap();
    let since = value.strip_prefix(&format!("{token} {label} since="));
    let since = since.unwrap_or_else(|| panic!("{value}"));
    let for_people = since.replace('T', " ").replace('Z', " UTC");

    let refused = end_of(&mut nodes.run(&["--no-wait"], "true"));
    assert_eq!(refused.code, Some(75));
    let expected = format!("redlatch: {label} since {for_people} has the lock job (on ");
    assert!(refused.complaint().starts_with(&expected), "{refused:?}");
    // Also after a wait.
    let refused = end_of(&mut nodes.run(&["--wait", "500ms"], "true"));
    assert!(refused.complaint().starts_with(&expected), "{refused:?}");

    let status = end_of(&mut nodes.redlatch(&["status", "job"]));
    for expected in [
        format!("\njob: held on 3 of 3 nodes\nholder   {label}\nsince    {for_people} ("),
        format!("\ntoken    {token}\nunlock   redlatch unlock "),
    ] {
        assert!(status.stdout.contains(&expected), "{status:?}");
    }
    let status = end_of(&mut nodes.redlatch(&["status", "job", "--json"]));
    let json: Value = serde_json::from_str(&status.stdout).unwrap();
    let holder = serde_json::json!({ "label": label, "since": since });
    assert_eq!(json["token"], token, "{json}");
    assert_eq!(json["holder"], holder, "{json}");
    assert_eq!(json["nodes"][1]["holder"], holder, "{json}");

    running.signal(Signal::TERM);
    running.end();
    assert_eq!(nodes.locked(), 0);
}

#[test]
fn without_a_label_of_its_own_the_host_and_the_process_are_told() {
    let nodes = Nodes::start(3);
    let mut hold = nodes.redlatch(&["hold", "job"]);
    let (running, input) = Running::start_with_input(&mut hold);
    let token = running.line();
    let process = running.pid().as_raw_nonzero();
    let expected = format!("{token} {} {process} since=2", host());
    let value = nodes.servers[2].get("job").unwrap();
    assert!(value.starts_with(&expected), "{value}");

    // An operator needs the token alone.
    let unlock = ["unlock", "job", "--token", &token];
    let ended = end_of(&mut nodes.redlatch(&unlock));
    assert_eq!((ended.code, nodes.locked()), (Some(0), 0), "{ended:?}");
    drop(input);
    running.end();
}

#[test]
fn nothing_is_told_of_a_holder_that_does_not_want_it() {
    let nodes = Nodes::start(3);
    let (running, token) = holding(&nodes, &["--no-label"]);
    for server in &nodes.servers {
        assert_eq!(server.get("job").as_deref(), Some(&*token));
    }
    let refused = end_of(&mut nodes.run(&["--no-wait"], "true"));
    let expected = "redlatch: another holder has the lock job (on ";
    assert!(refused.complaint().starts_with(expected), "{refused:?}");
    let status = end_of(&mut nodes.redlatch(&["status", "job", "--json"]));
    let json: Value = serde_json::from_str(&status.stdout).unwrap();
    assert!(json["holder"].is_null(), "{json}");
    running.signal(Signal::TERM);
    running.end();
}

#[test]
fn a_label_that_can_not_be_used_is_refused_and_nothing_runs() {
    let nodes = Nodes::start(1);
    let long = "x".repeat(10_000);
    for (label, reason) in [
        ("", "at least one character"),
        ("a\nb", "without control characters"),
        ("a\u{1b}[31mb", "without control characters"),
        ("a\u{202e}b", "the character \\u{202e}"),
        (&long, "at most 100 bytes, this has 10000"),
    ] {
        let ended = end_of(&mut nodes.run(&["--label", label], "echo it runs"));
        assert_eq!((ended.code, &*ended.stdout), (Some(64), ""), "{ended:?}");
        assert!(ended.complaint().contains(reason), "{ended:?}");
    }
    let both = ["--label", "x", "--no-label"];
    let ended = end_of(&mut nodes.run(&both, "true"));
    assert_eq!(ended.code, Some(64), "{ended:?}");
    assert_eq!(nodes.servers[0].keys(), 0);
}
