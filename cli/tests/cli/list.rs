//! `redlatch list` and `redlatch watch`: the locks that are held, once or live, for people and programs.

use std::process::Command;

use redlatch_testing::{Server, eventually};
use rustix::process::Signal;
use rustix::termios::tcgetattr;
use serde_json::Value;

use crate::ended::Ended;
use crate::process::{LIMIT, Nodes, Running, TOKEN, ask};
use crate::terminal::Terminal;

fn hold(nodes: &Nodes, key: &str, value: &str) {
    nodes.command(&["SET", key, value, "PX", "600000"]);
}

fn list(nodes: &Nodes, more: &[&str]) -> Ended {
    ask(nodes, &[&["list"], more].concat())
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
    list(&nodes, &["--key-prefix", "jo", "--prefix", "b"]).shows("\nb     held ");

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
fn a_list_ends_when_nobody_reads_it_and_at_a_signal() {
    let nodes = Nodes::start(1);
    // A million keys of another program, of which none may be a lock.
    let script = "for i = 1, 1000000 do redis.call('SET', 'user:' .. i, 'x') end \
                  for i = 1, 2000 do redis.call('SET', 'job-' .. i, ARGV[1], 'PX', 600000) end";
    nodes.command(&["EVAL", script, "0", TOKEN]);
    // The first line shows that it is under way; its end would be a second later.
    for is_closed in [true, false] {
        let mut running = Running::start(&mut nodes.redlatch(&["list", "--json"]));
        running.line();
        let before = nodes.servers[0].count("scan");
        if is_closed {
            running.stop_reading();
        } else {
            running.signal(Signal::INT);
        }
        assert_eq!(running.end().code, is_closed.then_some(0));
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
    ask(&nodes, &unlock[..4]).is_refused(64, "say --foreign");
    assert_eq!(nodes.servers[0].get("session:1").as_deref(), Some("foo"));
    ask(&nodes, &unlock).ends_with(0);
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
        let steps = |server: &Server| server.count("scan");
        // Of more than a thousand for each server.
        let is_under_way = || nodes.servers.iter().map(steps).sum::<u64>() > 100;
        assert!(eventually(LIMIT, is_under_way));
        nodes.servers[0].kill();
        nodes.servers[1].kill();
        let ended = running.end();
        ended.ends_with(69);
        ended.shows(line);
        ended.complains("the list of locks is incomplete");
    }
}

fn watch(nodes: &Nodes, more: &[&str]) -> Command {
    nodes.redlatch(&[&["watch", "--every", "50ms"], more].concat())
}

/// Lines of standard output up to one with this text.
#[track_caller]
fn wait_for(running: &Running, text: &str) -> String {
    loop {
        let line = running.line();
        if line.contains(text) {
            return line;
        }
    }
}

#[test]
fn without_a_terminal_each_change_is_a_line_with_the_time() {
    let mut nodes = Nodes::start(3).hasty();
    for names in [&["job"][..], &[]] {
        let running = Running::start(&mut watch(&nodes, names));
        wait_for(&running, &format!("{} is up", nodes.servers[2].name()));
        if !names.is_empty() {
            wait_for(&running, "Z job is free on 3 of 3 nodes");
        }
        nodes.hold(&format!("{TOKEN} web-3 4711 nightly"), 60_000);
        let line = wait_for(&running, "Z job is held for another ");
        assert!(line.contains(" by web-3 4711 nightly, on "), "{line}");
        // A time to live that shrinks is no change, and another holder is one.
        nodes.hold(&format!("rest:{TOKEN} web-4 1 nightly"), 60_000);
        wait_for(&running, "Z job rests for another ");
        nodes.command(&["DEL", "job"]);
        wait_for(&running, "Z job is free");
        nodes.servers[0].kill();
        let name = nodes.servers[0].name();
        wait_for(&running, &format!("{name} is FAILED: "));
        nodes.servers[0].restart();
        wait_for(&running, &format!("{name} is up"));
        running.end_by(Signal::INT).is_quiet(0);
    }
}

#[test]
fn a_watch_ends_when_nobody_reads_it() {
    let nodes = Nodes::start(1);
    let mut running = Running::start(&mut watch(&nodes, &["job"]));
    running.line();
    running.stop_reading();
    let mut is_held = false;
    // Each change is a line, which nobody reads.
    let ended = || {
        is_held = !is_held;
        let words: &[&str] = if is_held {
            &["SET", "job", TOKEN, "PX", "60000"]
        } else {
            &["DEL", "job"]
        };
        nodes.servers[0].command(words);
        !running.is_running()
    };
    assert!(eventually(LIMIT, ended));
    running.end().ends_with(0);
}

#[test]
fn on_a_terminal_it_shows_locks_and_servers_until_q_and_leaves_the_terminal_as_it_was() {
    let mut nodes = Nodes::start(3).hasty();
    nodes.hold(&format!("{TOKEN} web-3 \u{1b}[31m"), 600_000);
    nodes.servers[2].kill();
    // It is not the terminal of the session of the child, so Ctrl-C is no signal there.
    for end in ["q", "INT"] {
        let terminal = Terminal::sized(80, 24);
        let tty = terminal.other_end();
        let before = tcgetattr(&tty).unwrap().local_modes;
        let mut command = watch(&nodes, &["job", "other"]);
        command.env("NO_COLOR", "1");
        let running = Running::spawn(terminal.take(&mut command));
        let failed = format!("{}  FAILED ", nodes.servers[2].name());
        let why = terminal.wait_for(&failed);
        assert!(why.starts_with("no connection: "), "{why}");
        terminal.wait_for("job    held   9m    2/3    ");
        terminal.wait_for("other  free         2/3");
        assert_ne!(tcgetattr(&tty).unwrap().local_modes, before);
        match end {
            "INT" => running.signal(Signal::INT),
            key => terminal.press(key),
        }
        running.end().ends_with(0);
        assert_eq!(tcgetattr(&tty).unwrap().local_modes, before);
        let is_left = || terminal.shown().ends_with("\u{1b}[?25h\u{1b}[?1049l");
        assert!(eventually(LIMIT, is_left), "{:?}", terminal.shown());
        assert!(!terminal.shown().contains("\u{1b}[31m"));
    }
}

#[test]
fn ten_thousand_locks_and_twenty_columns_are_shown_as_far_as_there_is_room() {
    let nodes = Nodes::start(1);
    let script = "for i = 1, 10000 do redis.call('SET', 'job-' .. i, ARGV[1], 'PX', 600000) end";
    nodes.servers[0].command(&["EVAL", script, "0", TOKEN]);
    let terminal = Terminal::sized(20, 12);
    let running = Running::spawn(terminal.take(&mut watch(&nodes, &[])));
    assert!(eventually(LIMIT, || terminal.shown().contains(" more")));
    terminal.press("q");
    running.end().ends_with(0);
    assert!(
        terminal.shown().contains("job-1 "),
        "{:?}",
        terminal.shown()
    );

    let ended = ask(&nodes, &["list"]);
    assert_eq!(ended.stdout.lines().count(), 10_001, "{}", ended.stderr);
}
