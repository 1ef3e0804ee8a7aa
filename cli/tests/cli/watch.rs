//! `redlatch watch`: a live table on a terminal, and a line for each change elsewhere.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use redlatch_testing::eventually;
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::tcgetattr;

use crate::process::{LIMIT, Nodes, Running, TOKEN, end_of, let_children_heed_signals};
use crate::terminal::Terminal;

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
        running.signal(Signal::INT);
        let ended = running.end();
        ended.is_quiet(0);
    }
}

#[test]
fn it_ends_when_nobody_reads_it() {
    let nodes = Nodes::start(1);
    let mut child = watch(&nodes, &["job"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    lines.read_line(&mut String::new()).unwrap();
    drop(lines);
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
        child.try_wait().unwrap().is_some()
    };
    assert!(eventually(LIMIT, ended));
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn on_a_terminal_it_shows_locks_and_servers_until_q_and_leaves_the_terminal_as_it_was() {
    let_children_heed_signals();
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
        let mut child = terminal.take(&mut command).spawn().unwrap();
        let failed = format!("{}  FAILED ", nodes.servers[2].name());
        let why = terminal.wait_for(&failed);
        assert!(why.starts_with("no connection: "), "{why}");
        terminal.wait_for("job    held   9m    2/3    ");
        terminal.wait_for("other  free         2/3");
        assert_ne!(tcgetattr(&tty).unwrap().local_modes, before);
        match end {
            "INT" => kill_process(Pid::from_child(&child), Signal::INT).unwrap(),
            key => terminal.press(key),
        }
        assert!(eventually(LIMIT, || child.try_wait().unwrap().is_some()));
        assert_eq!(child.wait().unwrap().code(), Some(0));
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
    let mut child = terminal.take(&mut watch(&nodes, &[])).spawn().unwrap();
    assert!(eventually(LIMIT, || terminal.shown().contains(" more")));
    terminal.press("q");
    assert!(eventually(LIMIT, || child.try_wait().unwrap().is_some()));
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(
        terminal.shown().contains("job-1 "),
        "{:?}",
        terminal.shown()
    );

    let ended = end_of(&mut nodes.redlatch(&["list"]));
    assert_eq!(ended.stdout.lines().count(), 10_001, "{}", ended.stderr);
}
