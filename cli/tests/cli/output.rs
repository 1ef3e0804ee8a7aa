//! What is written, where nobody reads it, and what is not written at all.

use std::process::Stdio;

use redlatch_testing::eventually;

use crate::process::{Nodes, bare, end_of};

#[test]
fn a_reader_that_has_gone_away_is_no_fault() {
    let nodes = Nodes::start(1);
    for server in &nodes.servers {
        // Else their health is no 0.
        server.command(&["CONFIG", "SET", "appendonly", "yes"]);
    }
    for arguments in [
        &["man"][..],
        &["completions", "bash"],
        &["--help"],
        &["health"],
        &["status", "job", "--json"],
    ] {
        // Whoever writes into this pipe finds it broken, because the process that would read it has ended.
        let mut reader = std::process::Command::new("true")
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
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
            (Some(0), ""),
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
    let mut shell = std::process::Command::new("sh");
    let script = format!(
        "exec {} run --verbose job -- sh -c 'exit 3' 2>&-",
        env!("CARGO_BIN_EXE_redlatch")
    );
    shell
        .args(["-c", &script])
        .env("REDLATCH_NODES", nodes.urls());
    let ended = end_of(&mut shell);
    assert_eq!(ended.code, Some(3), "{ended:?}");
}

#[test]
fn in_a_pipe_waiting_is_quiet_unless_verbose() {
    let nodes = Nodes::start(3);
    nodes.hold("another", 500);
    let ended = end_of(&mut nodes.run(&["--wait", "15s"], "true"));
    assert_eq!(
        (ended.code, ended.stderr.as_str()),
        (Some(0), ""),
        "{ended:?}"
    );

    nodes.hold("another", 500);
    let ended = end_of(&mut nodes.run(&["--wait", "15s", "--verbose"], "true"));
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert_eq!(lines.len(), 3, "{ended:?}");
    assert!(
        lines[0].starts_with("redlatch: waiting: job is held by another on 3 of 3 nodes, for ")
    );
    assert!(
        lines[1].starts_with("redlatch: got the lock job after "),
        "{ended:?}"
    );
    assert_eq!(lines[2], "redlatch: gave the lock job back");
}

#[test]
fn with_verbose_the_warnings_of_the_library_are_shown() {
    let mut nodes = Nodes::start(3);
    nodes.servers[0].kill();
    let name = nodes.servers[0].name();
    let ended = end_of(&mut nodes.run(&["--verbose"], "true"));
    assert_eq!(ended.code, Some(0));
    assert!(
        ended
            .stderr
            .lines()
            .all(|line| line.starts_with("redlatch: ")),
        "{ended:?}"
    );
    assert!(ended.stderr.contains(&name), "{ended:?}");
    let ended = end_of(&mut nodes.run(&[], "true"));
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
}

#[test]
fn help_and_version_go_to_standard_output() {
    for (arguments, part) in [
        (&["--help"][..], "Exit codes of run"),
        (&["run", "--help"], "--on-loss"),
        (&["run", "-h"], "--max-hold"),
        (&["--version"], env!("CARGO_PKG_VERSION")),
    ] {
        let ended = end_of(&mut bare(arguments));
        assert_eq!(
            (ended.code, ended.stderr.as_str()),
            (Some(0), ""),
            "{ended:?}"
        );
        assert!(ended.stdout.contains(part), "{ended:?}");
    }
}

#[test]
fn the_manual_page_and_the_completions_are_made_and_usable() {
    let page = end_of(&mut bare(&["man"])).stdout;
    assert!(page.contains(".TH redlatch 1"), "{page}");
    let script = end_of(&mut bare(&["completions", "bash"])).stdout;
    let file = std::env::temp_dir().join(format!("redlatch-completions-{}", std::process::id()));
    std::fs::write(&file, script).unwrap();
    let read = std::process::Command::new("bash")
        .arg("-n")
        .arg(&file)
        .status();
    std::fs::remove_file(&file).unwrap();
    // Where there is no bash, there is nobody to complain.
    assert!(read.is_err() || read.unwrap().success());
    assert!(eventually(std::time::Duration::ZERO, || !file.exists()));
}
