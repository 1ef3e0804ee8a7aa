//! `--metrics FILE`: what is in the file, when, and how it gets there.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use redlatch_testing::{eventually, sample};

use crate::nodes::{Nodes, REDLATCH};
use crate::process::{LIMIT, Running};

/// A sample of the lock `job` in a text.
#[track_caller]
fn value(text: &str, name: &str) -> Option<f64> {
    sample(text, &format!("redlatch_{name}"), &[("resource", "job")])
}

/// Whether this whole number is the value of a sample in the file `job.prom`.
#[track_caller]
fn is(nodes: &Nodes, name: &str, expected: u8) -> bool {
    let text = fs::read_to_string(nodes.file("job.prom")).unwrap();
    value(&text, name) == Some(expected.into())
}

/// When the last run succeeded.
#[track_caller]
fn success(nodes: &Nodes) -> Option<SystemTime> {
    let text = fs::read_to_string(nodes.file("job.prom")).unwrap();
    let seconds = value(&text, "run_last_success_timestamp_seconds");
    seconds.map(|seconds| SystemTime::UNIX_EPOCH + Duration::from_secs_f64(seconds))
}

#[track_caller]
fn assert_nothing_is_left(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name();
        assert!(!name.to_string_lossy().contains(".tmp"), "{name:?}");
    }
}

#[test]
fn the_file_tells_of_the_lock_and_of_the_run_from_its_start_to_its_end() {
    let nodes = Nodes::start(3);
    let path = nodes.file("job.prom");
    let written = |name: &str| fs::metadata(nodes.file(name)).unwrap().modified().unwrap();
    // Whatever the umask is, the collector can read it.
    let script = format!(
        "umask 077; exec {REDLATCH} run --metrics job.prom job -- \
         sh -c 'echo started; while [ ! -e go ]; do sleep 0.02; done'"
    );
    let running = Running::start(&mut nodes.program("sh", &["-c", &script]));
    running.line();
    assert!(eventually(LIMIT, || is(&nodes, "held", 1)));
    assert_eq!(success(&nodes), None);
    let before = fs::metadata(&path).unwrap();
    assert_eq!(before.permissions().mode() & 0o777, 0o644);

    // Who has opened it reads it to its end, whatever is written meanwhile.
    let mut open = File::open(&path).unwrap();
    nodes.go();
    running.end().ends_with(0);
    assert_ne!(fs::metadata(&path).unwrap().ino(), before.ino());
    let mut text = String::new();
    open.read_to_string(&mut text).unwrap();
    assert_eq!(value(&text, "held"), Some(1.0));
    assert!(text.contains("# HELP redlatch_held Locks that are held now.\n"));

    for (name, expected) in [
        ("held", 0),
        ("acquired_total", 1),
        ("released_total", 1),
        ("run_last_exit_code", 0),
    ] {
        assert!(is(&nodes, name, expected), "{name}");
    }
    let (first, slack) = (success(&nodes).unwrap(), Duration::from_secs(1));
    assert!(first + slack >= written("redlatch.toml") && first <= written("job.prom") + slack);
    assert_nothing_is_left(path.parent().unwrap());

    // A run that is skipped keeps when the last one succeeded.
    nodes.hold("another", 60_000);
    nodes
        .try_run("-n --metrics job.prom", "exit 0")
        .ends_with(75);
    assert!(is(&nodes, "run_last_exit_code", 75));
    assert_eq!(success(&nodes), Some(first));
    let text = fs::read_to_string(&path).unwrap();
    let held = [("resource", "job"), ("reason", "held")];
    assert_eq!(
        sample(&text, "redlatch_failed_calls_total", &held),
        Some(1.0)
    );
}

/// What is there would be replaced by a file: `/dev/null` for all programs, if root runs it. A pipe would be waited for.
#[test]
fn a_file_that_can_not_be_written_or_is_no_file_is_an_error_before_the_lock_is_taken() {
    let nodes = Nodes::start(3);
    let folder = nodes.servers[0].dir();
    let mkfifo = Command::new("mkfifo").arg(folder.join("pipe")).status();
    assert!(mkfifo.unwrap().success());
    let _socket = UnixListener::bind(folder.join("socket")).unwrap();
    symlink("/dev/null", folder.join("link")).unwrap();
    symlink("not-there", folder.join("dangling")).unwrap();
    fs::create_dir(folder.join("a-folder")).unwrap();
    for path in [
        "/proc/job.prom",
        "no-such-folder/job.prom",
        "..",
        "redlatch.toml/job.prom",
        "a-folder",
        "pipe",
        "socket",
        "link",
        "dangling",
    ] {
        let kind = || {
            fs::symlink_metadata(folder.join(path))
                .map(|found| found.file_type())
                .ok()
        };
        let before = kind();
        let ended = nodes.try_run(&format!("--metrics {path}"), "echo ran");
        ended.is_refused(74, path).complains("metrics");
        assert_eq!(kind(), before, "{path}");
    }
    // Nobody asked for the lock.
    assert!(nodes.servers.iter().all(|server| server.count("set") == 0));
    assert_nothing_is_left(folder);
}

#[test]
fn a_folder_that_vanishes_while_the_command_runs_is_said_and_harms_nothing() {
    let nodes = Nodes::start(3);
    fs::create_dir(nodes.file("metrics")).unwrap();
    symlink("metrics/job.prom", nodes.file("job.prom")).unwrap();
    let script = "while [ ! -e go ]; do sleep 0.02; done; exit 7";
    let running = nodes.start_run("--metrics metrics/job.prom", script);
    // No writing is under way then, which would be in the way of the removal.
    let is_written = || nodes.file("job.prom").exists() && is(&nodes, "held", 1);
    assert!(eventually(LIMIT, || nodes.locked() == 3 && is_written()));
    fs::remove_dir_all(nodes.file("metrics")).unwrap();
    nodes.go();
    running.end().ends_with(7).complains("can't be written");
}
