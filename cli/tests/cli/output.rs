//! What is written, where nobody reads it, and what is not written at all.

use std::process::{Command, Stdio};
use std::time::Duration;

use redlatch_testing::pause;
use rustix::process::Signal;

use crate::nodes::{Nodes, REDLATCH, TOKEN};
use crate::process::{Running, end_of};
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

/// What a line says that may be read later, so that it has the time.
#[track_caller]
fn stamped(line: &str) -> &str {
    let rest = line.strip_prefix("redlatch: ");
    let (stamp, text) = rest.and_then(|rest| rest.split_once(' ')).expect(line);
    humantime::parse_rfc3339(stamp).expect(line);
    text
}

#[test]
fn in_a_pipe_a_wait_tells_after_a_second_who_has_the_lock_and_then_that_it_is_there() {
    let nodes = Nodes::start(3);
    nodes.hold("another", 600_000);
    let running = nodes.start_run("--wait 10m", "true");
    let line = running.error_line();
    let (waiting, got) = (
        "waiting: job is held for another 9m",
        "got the lock job after ",
    );
    let text = stamped(&line);
    assert!(
        text.starts_with(waiting) && text.ends_with("; for up to 10m"),
        "{line}"
    );
    nodes.command("DEL job");
    let ended = running.end();
    assert!(
        stamped(ended.ends_with(0).complaint()).starts_with(got),
        "{ended:?}"
    );

    // With --quiet it is no news that another one has it.
    nodes.hold("another", 1_500);
    nodes.try_run("--wait 10m --quiet", "true").is_quiet(0);

    nodes.hold("another", 600_000);
    let running = nodes.start_run("--wait 10m --verbose", "true");
    let file = nodes.file("redlatch.toml");
    let configuration = format!("the configuration is {}", file.display());
    assert_eq!(stamped(&running.error_line()), configuration);
    assert!(stamped(&running.error_line()).starts_with(waiting));
    nodes.command("DEL job");
    assert!(stamped(&running.error_line()).starts_with(got));
    assert_eq!(stamped(&running.error_line()), "released the lock job");
    running.end().is_quiet(0);
}

/// Servers that refuse to write, and new ones that abstain.
#[test]
fn a_lock_that_no_server_grants_is_not_told_to_be_free() {
    let refusing = Nodes::start(3);
    refusing.command("ACL SETUSER default -set");
    for (nodes, options, why) in [
        (refusing, "", "NOPERM"),
        (Nodes::start(3), "--fenced", "abstains"),
    ] {
        let (text, _) = shown(
            &mut nodes.run(&format!("{options} --wait 2s"), "true"),
            400,
            |_| (),
        );
        assert!(
            text.contains("waited 1 s of 2 s: ") && text.contains(why),
            "{text}"
        );
        assert!(!text.contains("free on"), "{text}");
        let running = nodes.start_run(&format!("{options} --wait 30s"), "true");
        assert!(running.error_line().contains(why));
        pause(Duration::from_millis(1_500));
        let ended = running.end_by(Signal::TERM);
        ended.is_quiet(143);
    }
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
