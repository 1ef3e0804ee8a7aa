//! `redlatch list` and `redlatch watch`: the locks that are held, once or live, for people and programs.

use redlatch_testing::{Server, eventually};
use rustix::process::Signal;
use rustix::termios::tcgetattr;
use serde_json::Value;

use crate::nodes::{Nodes, TOKEN};
use crate::process::{LIMIT, Running};
use crate::terminal::Terminal;

/// What `list` shows of the locks below: sorted by name, below a head.
const LIST: &str = "\
NAME            STATE  LEFT  NODES  HOLDER
--json          held   9m    3/3    01234567…
exports slot 2  held   9m    3/3    01234567…
job             held   9m    3/3    web-3 4711 nightly, since 2026-11-22 05:52:53 UTC
\"line\\nbreak\"   held   9m    3/3    01234567…
\"my job\"        held   9m    3/3    01234567…
rests           rests  9m    3/3
";

#[test]
fn each_lock_is_a_line_and_with_json_an_object_and_keys_of_other_programs_are_told() {
    let nodes = Nodes::start(3);
    nodes.ask("list").is_silent(0);
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
        nodes
            .servers
            .iter()
            .for_each(|server| server.hold(key, value, 600_000));
    }
    nodes.servers[0].command(&["SET", "for ever", TOKEN]);
    nodes.ask("list").is(0, LIST).is_quiet(0);
    let ended = nodes.ask("list --prefix --");
    assert_eq!(ended.shows("\n--json  held").stdout.lines().count(), 2);
    // With a key prefix, the name is what is behind it.
    nodes
        .ask("list --key-prefix jo --prefix b")
        .shows("\nb     held ");

    assert_eq!(nodes.ask("list --json").stdout.lines().count(), 6);
    for (prefix, resource, slot, state) in [
        ("exp", "exports", Value::from(2), "held"),
        ("line\n", "line\nbreak", Value::Null, "held"),
        ("rest", "rests", Value::Null, "resting"),
        ("job", "job", Value::Null, "held"),
    ] {
        let object = nodes.ask(&format!("list --json --prefix {prefix}")).json();
        let told = ["resource", "slot", "state"].map(|field| object[field].clone());
        assert_eq!(told, [resource.into(), slot, state.into()]);
        let token = object["token"].as_str().unwrap();
        assert_eq!(token.trim_start_matches("rest:"), TOKEN);
        assert!((300_000..607_000).contains(&object["remaining_ms"].as_u64().unwrap()));
        assert_eq!(object["nodes"][2]["view"], state);
        let is_labelled = object.to_string().contains("web-3 4711 nightly");
        assert_eq!(is_labelled, prefix == "job", "{object}");
    }

    nodes.command("SET session:1 foo PX 600000");
    for (options, job) in [("", "\njob  "), ("--json", "\"resource\":\"job\"")] {
        let ended = nodes.ask(&format!("list {options}"));
        ended.ends_with(0).shows(job);
        assert!(!ended.stdout.contains("session"), "{ended:?}");
        ended.complains("left out: 1 key with a value that is not one of redlatch; --all lists");
        let ended = nodes.ask(&format!("list --all {options}"));
        ended.is_quiet(0).shows("session:1").shows(job);
    }
    let unlock = "unlock session:1 --token foo";
    nodes.ask(unlock).is_refused(64, "say --foreign");
    assert_eq!(nodes.servers[0].get("session:1").as_deref(), Some("foo"));
    nodes.ask(&format!("{unlock} --foreign")).ends_with(0);
    assert_eq!(nodes.servers[0].get("session:1"), None);
}

#[test]
fn a_list_ends_when_nobody_reads_it_and_at_a_signal_and_tells_what_it_found_if_it_is_incomplete() {
    for (line, end) in [
        ("list --json", "no reader"),
        ("list --json", "a signal"),
        ("list --json", "no server"),
        ("list", "no server"),
    ] {
        let mut nodes = Nodes::start(1);
        // A million keys of another program, of which none may be a lock.
        nodes.fill("user:", 1_000_000, false);
        nodes.fill("job-", 2000, true);
        let mut running = Running::start(&mut nodes.redlatch(line));
        // Of four thousand.
        assert!(eventually(LIMIT, || nodes.servers[0].count("scan") > 100));
        match end {
            "no reader" => running.stop_reading(),
            "a signal" => running.signal(Signal::INT),
            _ => nodes.servers[0].kill(),
        }
        let ended = running.end();
        match end {
            "no server" => {
                ended.ends_with(69).shows("job-");
                ended.complains("the list of locks is incomplete");
                continue;
            }
            end => assert_eq!(ended.code, (end == "no reader").then_some(0)),
        }
        let steps = nodes.servers[0].count("scan");
        assert!(steps < 2_000, "{steps} steps, after its end was due");
    }
}

#[test]
fn without_a_terminal_each_change_is_a_line_with_the_time_until_nobody_reads_it() {
    let mut nodes = Nodes::hasty();
    for names in ["job", ""] {
        let watch = format!("watch --every 50ms {names}");
        let mut running = Running::start(&mut nodes.redlatch(&watch));
        running.shows(&format!("{} is up", nodes.servers[2].name()));
        if !names.is_empty() {
            running.shows("Z job is free on 3 of 3 nodes");
        }
        nodes.hold(&format!("{TOKEN} web-3 4711 nightly"), 60_000);
        let line = running.shows("Z job is held for another ");
        assert!(line.contains(" by web-3 4711 nightly, on "), "{line}");
        // A time to live that shrinks is no change, and another holder is one.
        nodes.hold(&format!("rest:{TOKEN} web-4 1 nightly"), 60_000);
        running.shows("Z job rests for another ");
        for (server, token) in nodes.servers.iter().zip(["a", "b", "c"]) {
            server.hold("job", token, 60_000);
        }
        if !names.is_empty() {
            running.shows("Z job is nobody's, and keys of it are on 3 of 3 nodes");
        }
        nodes.command("DEL job");
        running.shows("Z job is free");
        let name = nodes.servers[0].name();
        nodes.servers[0].kill();
        running.shows(&format!("{name} is FAILED: "));
        nodes.servers[0].restart();
        running.shows(&format!("{name} is up"));
        if names.is_empty() {
            running.end_by(Signal::INT).is_quiet(0);
        } else {
            running.stop_reading();
            // Each change is a line, which nobody reads.
            let ended = || {
                nodes.command("DEL job");
                let was_running = running.is_running();
                nodes.hold(TOKEN, 60_000);
                !was_running
            };
            assert!(eventually(LIMIT, ended));
            running.end().ends_with(0);
            nodes.command("DEL job");
        }
    }
}

#[test]
fn where_too_few_servers_answer_no_list_is_tried_which_would_keep_its_end_waiting() {
    let mut nodes = Nodes::hasty();
    nodes.servers[..2].iter_mut().for_each(Server::kill);
    let running = Running::start(&mut nodes.redlatch("watch --every 50ms"));
    running.shows(&format!("{} is FAILED: ", nodes.servers[1].name()));
    running.end_by(Signal::INT).ends_with(0);
    assert_eq!(nodes.servers[2].count("scan"), 0);
}

#[test]
fn on_a_terminal_it_shows_locks_and_servers_until_q_and_leaves_the_terminal_as_it_was() {
    let mut nodes = Nodes::hasty();
    nodes.hold(&format!("{TOKEN} web-3 \u{1b}[31m"), 600_000);
    nodes.servers[2].kill();
    // It is not the terminal of the session of the child, so Ctrl-C is no signal there.
    for end in ["q", "INT", "USR1", "ALRM", "XCPU"] {
        let terminal = Terminal::sized(80, 24);
        let tty = terminal.other_end();
        let before = tcgetattr(&tty).unwrap().local_modes;
        let mut command = nodes.redlatch("watch --every 50ms job other");
        let running = Running::spawn(terminal.take(command.env("NO_COLOR", "1")));
        let failed = format!("{}  FAILED ", nodes.servers[2].name());
        let why = terminal.wait_for(&failed);
        assert!(why.starts_with("no connection: "), "{why}");
        terminal.wait_for("job    held   9m    2/3    ");
        terminal.wait_for("other  free         2/3");
        assert_ne!(tcgetattr(&tty).unwrap().local_modes, before);
        match end {
            "INT" => running.signal(Signal::INT),
            "USR1" => running.signal(Signal::USR1),
            "ALRM" => running.signal(Signal::ALARM),
            "XCPU" => running.signal(Signal::XCPU),
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
fn on_a_terminal_with_few_lines_the_locks_get_those_of_the_servers() {
    let mut nodes = Nodes::hasty();
    nodes.fill("job-", 7, true);
    let names: Vec<String> = (1..=7).map(|i| format!("job-{i}")).collect();
    let show = |nodes: &Nodes| {
        let terminal = Terminal::sized(80, 10);
        let mut watch = nodes.redlatch("watch --every 50ms");
        let running = Running::spawn(terminal.take(watch.env("NO_COLOR", "1")));
        assert!(eventually(LIMIT, || terminal.shown().contains("\u{1b}[J")));
        terminal.press("q");
        running.end().ends_with(0);
        let shown = terminal.shown();
        let frame = shown.split("\u{1b}[H").nth(1).unwrap().to_owned();
        frame.split("\u{1b}[J").next().unwrap().to_owned()
    };
    let frame = show(&nodes);
    assert!(names.iter().all(|name| frame.contains(name)), "{frame}");
    assert!(frame.contains("3 of 3 servers up"), "{frame}");
    // A server that fails is shown in any case.
    nodes.servers[1].kill();
    let frame = show(&nodes);
    assert!(frame.contains("2 of 3 servers up"), "{frame}");
    assert!(
        frame.contains(&format!("{}  FAILED", nodes.servers[1].name())),
        "{frame}"
    );
    assert!(
        names[..5].iter().all(|name| frame.contains(name)),
        "{frame}"
    );
    assert_eq!(frame.lines().count(), 10, "{frame}");
}

#[test]
fn ten_thousand_locks_and_twenty_columns_are_shown_as_far_as_there_is_room() {
    let nodes = Nodes::start(1);
    nodes.fill("job-", 10_000, true);
    let terminal = Terminal::sized(20, 12);
    let mut watch = nodes.redlatch("watch");
    let running = Running::spawn(terminal.take(&mut watch));
    assert!(eventually(LIMIT, || terminal.shown().contains(" more")));
    terminal.press("q");
    running.end().ends_with(0);
    assert!(
        terminal.shown().contains("job-1 "),
        "{:?}",
        terminal.shown()
    );
    assert_eq!(nodes.ask("list").stdout.lines().count(), 10_001);
}
