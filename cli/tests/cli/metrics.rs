//! `--metrics FILE`: what is in the file, when, and how it gets there.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use redlatch_testing::eventually;
use redlatch_testing::open_metrics::{Exposition, parse};

use crate::process::{LIMIT, Nodes, REDLATCH, Running, try_run};

const RUN: &str = "redlatch_run_last_";

#[track_caller]
fn read(path: &Path) -> Exposition {
    let text = fs::read_to_string(path).unwrap();
    parse(&text).unwrap_or_else(|fault| panic!("{fault}\n{text}"))
}

/// A sample of the lock `job`.
fn value(exposition: &Exposition, name: &str) -> Option<f64> {
    exposition.value(name, &[("resource", "job")])
}

fn is(exposition: &Exposition, name: &str, expected: u8) -> bool {
    value(exposition, name).map(f64::to_bits) == Some(f64::from(expected).to_bits())
}

/// When a file was written.
fn written(path: &Path) -> SystemTime {
    fs::metadata(path).unwrap().modified().unwrap()
}

/// The names of the files beside this one.
fn names_in_folder_of(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path.parent().unwrap()).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn the_file_tells_of_the_lock_and_of_the_run_from_its_start_to_its_end() {
    let nodes = Nodes::start(3);
    let path = nodes.file("job.prom");
    let begun = written(&nodes.file("redlatch.toml"));
    // Whatever the umask is, the collector can read it.
    let script = format!(
        "umask 077; exec {REDLATCH} run --metrics job.prom job -- \
         sh -c 'echo started; while [ ! -e go ]; do sleep 0.02; done'"
    );
    let running = Running::start(&mut nodes.program("sh", &["-c", &script]));
    running.line();
    let has_it = || is(&read(&path), "redlatch_held", 1);
    assert!(eventually(LIMIT, has_it), "{:?}", read(&path));
    let exposition = read(&path);
    assert_eq!(
        value(&exposition, &format!("{RUN}success_timestamp_seconds")),
        None
    );
    let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o644, "{mode:o}");

    // Who has opened it reads it to its end, whatever is written meanwhile.
    let mut open = File::open(&path).unwrap();
    let before = fs::metadata(&path).unwrap().ino();
    fs::write(nodes.file("go"), "").unwrap();
    running.end().ends_with(0);
    assert_ne!(fs::metadata(&path).unwrap().ino(), before);
    let mut text = String::new();
    open.read_to_string(&mut text).unwrap();
    assert!(is(&parse(&text).unwrap(), "redlatch_held", 1), "{text}");

    let exposition = read(&path);
    assert!(is(&exposition, "redlatch_held", 0));
    assert!(is(&exposition, "redlatch_acquired_total", 1));
    assert!(is(&exposition, "redlatch_released_total", 1));
    assert!(is(&exposition, &format!("{RUN}exit_code"), 0));
    let success = value(&exposition, &format!("{RUN}success_timestamp_seconds")).unwrap();
    let success = SystemTime::UNIX_EPOCH + Duration::from_secs_f64(success);
    let slack = Duration::from_secs(1);
    assert!(success + slack >= begun && success <= written(&path) + slack);
    assert!(value(&exposition, &format!("{RUN}duration_seconds")).unwrap() > 0.0);
    let left: Vec<String> = names_in_folder_of(&path);
    assert!(!left.iter().any(|name| name.contains(".tmp")), "{left:?}");
}

#[test]
fn a_run_that_fails_or_is_skipped_keeps_when_the_last_one_succeeded() {
    let nodes = Nodes::start(3);
    let path = nodes.file("job.prom");
    let options = ["-n", "--metrics", path.to_str().unwrap()];
    let success = || value(&read(&path), &format!("{RUN}success_timestamp_seconds"));
    try_run(&nodes, &options, "exit 0").ends_with(0);
    let first = success();
    assert!(first.is_some());

    try_run(&nodes, &options, "exit 5").ends_with(5);
    assert_eq!(success(), first);
    assert!(is(&read(&path), &format!("{RUN}exit_code"), 5));

    nodes.hold("another", 60_000);
    try_run(&nodes, &options, "exit 0").ends_with(75);
    assert_eq!(success(), first);
    assert!(is(&read(&path), &format!("{RUN}exit_code"), 75));
    let failed = read(&path).value(
        "redlatch_failed_calls_total",
        &[("resource", "job"), ("reason", "held")],
    );
    assert_eq!(failed.map(f64::to_bits), Some(1.0_f64.to_bits()));
}

/// What is there would be replaced by a file: `/dev/null` for all programs, if root runs it. A pipe would be waited for.
#[test]
fn a_file_that_can_not_be_written_or_is_no_file_is_an_error_before_the_lock_is_taken() {
    let nodes = Nodes::start(3);
    let names = ["pipe", "socket", "link", "dangling", "a-folder"];
    let [pipe, socket, link, dangling, folder] = names.map(|name| nodes.file(name));
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let _socket = UnixListener::bind(&socket).unwrap();
    symlink("/dev/null", &link).unwrap();
    symlink("not-there", &dangling).unwrap();
    fs::create_dir(&folder).unwrap();
    let below_a_file = nodes.file("redlatch.toml").join("job.prom");
    for path in [
        Path::new("/proc/job.prom"),
        Path::new("no-such-folder/job.prom"),
        Path::new(".."),
        &below_a_file,
        &folder,
        &pipe,
        &socket,
        &link,
        &dangling,
    ] {
        let kind = || {
            fs::symlink_metadata(path)
                .ok()
                .map(|found| found.file_type())
        };
        let (before, path) = (kind(), path.to_str().unwrap());
        let ended = try_run(&nodes, &["--metrics", path], "echo ran");
        ended.is_refused(74, path);
        ended.complains("metrics");
        assert_eq!(kind(), before, "{path}");
    }
    // Nobody asked for the lock.
    for server in &nodes.servers {
        assert_eq!(server.count("set"), 0);
    }
    let left = names_in_folder_of(&folder);
    assert!(!left.iter().any(|name| name.contains(".tmp")), "{left:?}");
}

#[test]
fn a_folder_that_vanishes_while_the_command_runs_is_said_and_harms_nothing() {
    let nodes = Nodes::start(3);
    let folder = nodes.file("metrics");
    fs::create_dir(&folder).unwrap();
    let path = folder.join("job.prom");
    let options = ["--metrics", path.to_str().unwrap()];
    let script = "while [ ! -e go ]; do sleep 0.02; done; exit 7";
    let running = Running::start(&mut nodes.run(&options, script));
    // No writing is under way then, which would be in the way of the removal.
    let is_told = || nodes.locked() == 3 && is(&read(&path), "redlatch_held", 1);
    assert!(eventually(LIMIT, is_told));
    fs::remove_dir_all(&folder).unwrap();
    fs::write(nodes.file("go"), "").unwrap();
    let ended = running.end();
    ended.ends_with(7);
    ended.complains("can't be written");
}
