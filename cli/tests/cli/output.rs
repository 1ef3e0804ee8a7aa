//! What is written, where nobody reads it, and what is not written at all.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use redlatch_testing::eventually;

use crate::nodes::{Nodes, REDLATCH, TOKEN};
use crate::process::{LIMIT, Running, end_of};
use crate::terminal::shown;

#[test]
fn a_reader_that_has_gone_away_is_no_fault_nor_is_standard_error_that_is_closed() {
    let nodes = Nodes::start(1);
    for (line, code) in [
        ("man", 0),
        ("completions bash", 0),
        ("--help", 0),
        ("status job --json", 1),
    ] {
        // Whoever writes into this pipe finds it broken, because the process that would read it has ended.
        let mut reader = Command::new("true").stdin(Stdio::piped()).spawn().unwrap();
        let pipe = reader.stdin.take().unwrap();
        reader.wait().unwrap();
        let mut command = nodes.redlatch(line);
        Running::spawn(command.stdout(pipe).stderr(Stdio::piped()))
            .end()
            .is_quiet(code);
    }
    let script = format!("exec {REDLATCH} run --verbose job -- sh -c 'exit 3' 2>&-");
    end_of(&mut nodes.program("sh", &["-c", &script])).ends_with(3);
}

#[test]
fn in_a_pipe_a_wait_tells_after_a_second_who_has_the_lock_and_then_that_it_is_there() {
    let nodes = Nodes::start(3);
    nodes.hold("another", 600_000);
    let running = nodes.start_run("--wait 10m", "true");
    // It listens at the first node.
    let is_waiting = || nodes.servers.iter().any(|server| server.blocked() > 0);
    assert!(eventually(LIMIT, is_waiting));
    let line = running.error_line();
    let (waiting, until) = ("waiting: job is held for another 9m", "; for up to 10m");
    let (_, text) = stamped(&line);
    assert!(text.starts_with(waiting) && text.ends_with(until), "{line}");
    nodes.command("DEL job");
    let ended = running.end();
    let (_, text) = stamped(ended.ends_with(0).complaint());
    assert!(text.starts_with("got the lock job after "), "{ended:?}");

    // With --quiet it is no news that another one has it.
    nodes.hold("another", 1_500);
    nodes.try_run("--wait 10m --quiet", "true").is_quiet(0);

    nodes.hold("another", 600_000);
    let running = nodes.start_run("--wait 10m --verbose", "true");
    let file = nodes.file("redlatch.toml");
    let line = running.error_line();
    let (time, text) = stamped(&line);
    assert_eq!(text, format!("the configuration is {}", file.display()));
    // By a clock that may be corrected meanwhile.
    let before = fs::metadata(&file).unwrap().modified().unwrap();
    let around = before - Duration::from_mins(1)..before + Duration::from_hours(1);
    assert!(around.contains(&time), "{line}");
    let line = running.error_line();
    assert!(
        stamped(&line)
            .1
            .starts_with("waiting: job is held for another "),
        "{line}"
    );
    nodes.command("DEL job");
    let ended = running.end();
    let lines: Vec<&str> = ended.stderr.lines().map(|line| stamped(line).1).collect();
    let [got, "released the lock job"] = lines[..] else {
        panic!("{ended:?}");
    };
    assert!(got.starts_with("got the lock job after "), "{ended:?}");
}

/// The time of a line that may be read later, and what it says.
#[track_caller]
fn stamped(line: &str) -> (SystemTime, &str) {
    let rest = line.strip_prefix("redlatch: ");
    let (stamp, text) = rest.and_then(|rest| rest.split_once(' ')).expect(line);
    let time = humantime::parse_rfc3339(stamp);
    (time.unwrap_or_else(|_| panic!("no time: {line}")), text)
}

#[test]
fn with_verbose_the_warnings_of_the_library_are_shown() {
    let mut nodes = Nodes::start(3);
    nodes.servers[0].kill();
    let ended = nodes.try_run("--verbose", "true");
    let is_own = |line: &str| line.starts_with("redlatch: ");
    assert!(ended.ends_with(0).stderr.lines().all(is_own), "{ended:?}");
    assert!(ended.stderr.contains(&nodes.servers[0].name()), "{ended:?}");
    nodes.try_run("", "true").is_quiet(0);
}

#[test]
fn colours_are_for_terminals_unless_the_user_says_otherwise() {
    let nodes = Nodes::start(1);
    nodes.hold(TOKEN, 600_000);
    let held = "\u{1b}[32mheld";
    for (options, variable, in_a_pipe, on_a_terminal) in [
        ("", ("X", ""), false, true),
        ("", ("NO_COLOR", "1"), false, false),
        ("--color always", ("X", ""), true, true),
        ("--color=always", ("NO_COLOR", "1"), true, true),
        ("--color never", ("CLICOLOR_FORCE", "1"), false, false),
    ] {
        let command = || {
            let mut command = nodes.redlatch(&format!("status job {options}"));
            for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
                command.env_remove(name);
            }
            command.env(variable.0, variable.1);
            command
        };
        let stdout = end_of(&mut command()).stdout;
        assert_eq!(stdout.contains(held), in_a_pipe, "{options} {variable:?}");
        let (shown, _) = shown(&mut command(), 80, |_| ());
        assert_eq!(
            shown.contains(held),
            on_a_terminal,
            "{options} {variable:?}"
        );
        assert_eq!(shown.contains('\u{1b}'), on_a_terminal, "{shown}");
    }
}
