//! What is written, where nobody reads it, and what is not written at all.

use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use redlatch_testing::eventually;

use crate::process::{LIMIT, Nodes, Running, TOKEN, bare, end_of};
use crate::terminal::shown;

#[test]
fn a_reader_that_has_gone_away_is_no_fault() {
    let nodes = Nodes::start(1);
    for server in &nodes.servers {
        // Else their health is no 0.
        server.command(&["CONFIG", "SET", "appendonly", "yes"]);
    }
    for (arguments, code) in [
        (&["man"][..], 0),
        (&["completions", "bash"], 0),
        (&["--help"], 0),
        (&["--version"], 0),
        (&["health"], 0),
        (&["status", "job", "--json"], 1),
    ] {
        // Whoever writes into this pipe finds it broken, because the process that would read it has ended.
        let mut reader = Command::new("true").stdin(Stdio::piped()).spawn().unwrap();
        let pipe = reader.stdin.take().unwrap();
        reader.wait().unwrap();
        let child = nodes
            .redlatch(arguments)
            .stdin(Stdio::null())
            .stdout(pipe)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            (output.status.code(), stderr.as_ref()),
            (Some(code), ""),
            "{arguments:?}"
        );
    }
}

#[test]
fn a_full_disk_is_a_fault() {
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = bare(&["man"])
        .stdout(full)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(74));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("redlatch: standard output"));
}

#[test]
fn where_standard_error_is_closed_the_command_still_runs() {
    let nodes = Nodes::start(1);
    let redlatch = env!("CARGO_BIN_EXE_redlatch");
    let script = format!("exec {redlatch} run --verbose job -- sh -c 'exit 3' 2>&-");
    end_of(&mut nodes.program("sh", &["-c", &script])).ends_with(3);
}

#[test]
fn in_a_pipe_a_wait_tells_after_a_second_who_has_the_lock_and_then_that_it_is_there() {
    let nodes = Nodes::start(3);
    let wait = ["--wait", "10m"];
    let another_gives_back = || {
        nodes.command(&["DEL", "job"]);
    };
    nodes.hold("another", 600_000);
    let running = Running::start(&mut nodes.run(&wait, "true"));
    // It listens at the first node.
    let is_waiting = || nodes.servers.iter().any(|server| server.blocked() > 0);
    assert!(eventually(LIMIT, is_waiting));
    let line = running.error_line();
    let (waiting, until) = ("waiting: job is held for another 9m", "; for up to 10m");
    let (_, text) = stamped(&line);
    assert!(text.starts_with(waiting) && text.ends_with(until), "{line}");
    another_gives_back();
    let ended = running.end();
    let (_, text) = stamped(ended.complaint());
    assert!(text.starts_with("got the lock job after "), "{ended:?}");
    ended.ends_with(0);

    // With --quiet it is no news that another one has it.
    nodes.hold("another", 1_500);
    let quiet = ["--wait", "10m", "--quiet"];
    let ended = end_of(&mut nodes.run(&quiet, "true"));
    ended.is_quiet(0);

    nodes.hold("another", 600_000);
    let verbose = [&wait[..], &["--verbose"]].concat();
    let running = Running::start(&mut nodes.run(&verbose, "true"));
    let file = nodes.file("redlatch.toml");
    let line = running.error_line();
    let (time, text) = stamped(&line);
    assert_eq!(text, format!("the configuration is {}", file.display()));
    // By a clock that may be corrected meanwhile.
    let before = std::fs::metadata(&file).unwrap().modified().unwrap();
    let around = before - Duration::from_mins(1)..before + Duration::from_hours(1);
    assert!(around.contains(&time), "{line}");
    let line = running.error_line();
    let waiting = "waiting: job is held for another ";
    assert!(stamped(&line).1.starts_with(waiting), "{line}");
    another_gives_back();
    let ended = running.end();
    let lines: Vec<&str> = ended.stderr.lines().map(|line| stamped(line).1).collect();
    assert_eq!(lines.len(), 2, "{ended:?}");
    assert!(lines[0].starts_with("got the lock job after "), "{ended:?}");
    assert_eq!(lines[1], "released the lock job");
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
    let name = nodes.servers[0].name();
    let ended = end_of(&mut nodes.run(&["--verbose"], "true"));
    ended.ends_with(0);
    assert!(
        ended
            .stderr
            .lines()
            .all(|line| line.starts_with("redlatch: ")),
        "{ended:?}"
    );
    assert!(ended.stderr.contains(&name), "{ended:?}");
    let ended = end_of(&mut nodes.run(&[], "true"));
    ended.is_quiet(0);
}

#[test]
fn the_manual_page_and_the_completions_are_made_and_usable() {
    let page = end_of(&mut bare(&["man"])).stdout;
    assert!(page.contains(".TH redlatch 1"), "{page}");
    end_of(&mut bare(&["--version"])).shows(env!("CARGO_PKG_VERSION"));
    let script = end_of(&mut bare(&["completions", "bash"])).stdout;
    let read = Command::new("bash").args(["-n", "-c", &script]).status();
    // Where there is no bash, there is nobody to complain.
    assert!(read.is_err() || read.unwrap().success());
}

#[test]
fn colours_are_for_terminals_unless_the_user_says_otherwise() {
    let nodes = Nodes::start(1);
    nodes.hold(TOKEN, 600_000);
    let status = |more: &[&str]| nodes.redlatch(&[&["status", "job"], more].concat());
    let is_colored = |command: &mut Command| end_of(command).stdout.contains("\u{1b}[32mheld");
    let without_variables = |mut command: Command| {
        for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
            command.env_remove(name);
        }
        command
    };
    assert!(!is_colored(&mut without_variables(status(&[]))));
    assert!(is_colored(&mut without_variables(status(&[
        "--color", "always"
    ]))));
    assert!(is_colored(status(&["--color=always"]).env("NO_COLOR", "1")));
    assert!(!is_colored(
        status(&["--color", "never"]).env("CLICOLOR_FORCE", "1")
    ));
    let ended = end_of(&mut status(&["--color", "maybe"]));
    ended.is(64, "");
    ended.complains("auto, always, never");

    let on_terminal = |no_color: &str| {
        let mut command = without_variables(status(&[]));
        shown(command.env("NO_COLOR", no_color), 80, |_| ()).0
    };
    assert!(on_terminal("").contains("\u{1b}[32mheld"));
    assert!(!on_terminal("1").contains('\u{1b}'));
}
