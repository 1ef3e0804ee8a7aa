//! The command is ended before others can have its lock, and whoever supervises it is late, stopped or gone.

use std::fs::OpenOptions;
use std::hint::spin_loop;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redlatch::Protocol;
use redlatch_testing::{Server, eventually, now, pause};
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, getpgid, kill_process, kill_process_group};

use crate::nodes::Nodes;
use crate::process::{LIMIT, Running, assert_dies, assert_stops, is_alive, pid};
use crate::terminal::run;

/// Prints the number of its process and a line for each TERM, and runs on.
const IGNORES: &str = "trap 'echo term' TERM; echo $$; while :; do sleep 0.02; done";

/// When the keys of the lock `job` end on a majority of three servers, if nobody renews it.
#[track_caller]
fn end_of_the_keys(nodes: &Nodes) -> Instant {
    let end =
        |server: &Server| now() + Duration::from_millis(server.pttl("job").try_into().unwrap());
    let mut ends: Vec<Instant> = nodes.servers.iter().map(end).collect();
    ends.sort_unstable();
    ends[1]
}

/// The watchdog leads the group of the command.
fn watchdog_of(command: Pid) -> Pid {
    getpgid(Some(command)).unwrap()
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Trouble {
    StoppedServers,
    StoppedRedlatch,
    Limit,
}

#[test]
fn a_command_that_ignores_term_is_dead_before_the_keys_of_its_lock_end() {
    thread::scope(|scope| {
        for (options, trouble) in [
            ("", Trouble::StoppedServers),
            ("--on-loss kill", Trouble::StoppedServers),
            ("--grace 0s", Trouble::StoppedRedlatch),
            ("", Trouble::StoppedRedlatch),
            ("--max-hold 12s", Trouble::Limit),
        ] {
            scope.spawn(move || {
                let nodes = Nodes::hasty();
                let running = nodes.start_run(&format!("--ttl 12s {options}"), IGNORES);
                let command = pid(&running.line());
                let end = end_of_the_keys(&nodes);
                match trouble {
                    Trouble::StoppedServers => nodes.servers.iter().for_each(Server::stop),
                    Trouble::StoppedRedlatch => running.signal(Signal::STOP),
                    Trouble::Limit => {}
                }
                if options.is_empty() || trouble == Trouble::Limit {
                    assert_eq!(running.line(), "term");
                    // A grace of four seconds. The watchdog waits for redlatch for a tenth of it.
                    let left = end.saturating_duration_since(now());
                    let seconds = Duration::from_secs(1)..Duration::from_millis(4_500);
                    assert!(seconds.contains(&left), "TERM {left:?} before the end");
                }
                assert_dies(command);
                let died = now();
                assert!(died < end, "{options} {trouble:?}: {:?} late", died - end);
                nodes.servers.iter().for_each(Server::resume);
                running.signal(Signal::CONT);
                running.end().ends_with(76);
            });
        }
    });
}

#[test]
fn a_grace_that_leaves_no_time_for_renewals_is_refused_before_anything_is_asked() {
    let nodes = Nodes::hasty();
    let ended = nodes.try_run("--ttl 10s --grace 20s", "echo ran");
    ended.is_refused(
        64,
        "--grace can't be used: 20s is too long for a ttl of 10s: renewals need time before it, so the longest is 6666 ms; ask for \
         less or for a longer ttl (--ttl)",
    );
    nodes
        .try_run("--ttl 10s --grace 20s --on-loss kill", "true")
        .is_silent(0);
    nodes
        .try_run("--ttl 10s --grace 6666ms", "true")
        .is_silent(0);
}

/// Prints both processes. It is no loop in a shell, because Ctrl-Z could come while a shell starts another process.
const SLEEPS: &str = "echo parent $PPID; echo command $$; exec sleep 60";

/// A `redlatch` that is stopped when a test ends. The end of its terminal does not end it, so this drop does.
struct Stopped(Pid);

impl Drop for Stopped {
    fn drop(&mut self) {
        kill_process(self.0, Signal::KILL).ok();
    }
}

#[test]
fn a_command_that_is_continued_alone_after_ctrl_z_is_dead_when_the_next_holder_has_the_lock() {
    let continues: [fn(Pid); 2] = [
        |command| kill_process_group(watchdog_of(command), Signal::CONT).unwrap(),
        |command| kill_process(command, Signal::CONT).unwrap(),
    ];
    for (place, continues) in continues.into_iter().enumerate() {
        for is_late in [false, true] {
            let nodes = Nodes::hasty();
            let other = nodes.manager(Protocol::Classic);
            let script = format!(
                "redlatch run --ttl 3s job -- sh -c '{SLEEPS}'; echo exit code $?; sleep 60"
            );
            let (terminal, _session) = run(&nodes, &script);
            let redlatch = Stopped(pid(&terminal.wait_for("parent ")));
            let command = pid(&terminal.wait_for("command "));
            terminal.press("\u{1a}");
            [redlatch.0, command].into_iter().for_each(assert_stops);
            if !is_late {
                continues(command);
                let guard = other.lock("job", Duration::from_mins(1)).unwrap();
                assert!(
                    !is_alive(command),
                    "{place}: it runs on beside the next holder"
                );
                guard.unlock().unwrap();
                continue;
            }
            // A stopped command does nothing, so it is left alone.
            assert!(eventually(LIMIT, || nodes.locked() == 0));
            pause(Duration::from_millis(500));
            assert!(is_alive(command));
            continues(command);
            assert_dies(command);
        }
    }
}

#[test]
fn a_command_that_stops_itself_after_a_loss_gets_kill_and_redlatch_goes_on() {
    let nodes = Nodes::hasty();
    let script = "redlatch run --ttl 6s --grace 1s job -- sh -c \
         'trap \"kill -STOP \\$\\$\" TERM; echo command $$; while :; do sleep 0.02; done'; echo exit code $?; sleep 60";
    let (terminal, _session) = run(&nodes, script);
    let command = pid(&terminal.wait_for("command "));
    nodes.hold("another", 60_000);
    assert_eq!(terminal.wait_for("exit code "), "76");
    assert_dies(command);
}

/// Writes a file when it gets TERM.
const TELLS: &str = "trap 'echo term >told; exit 0' TERM; echo $$; while :; do sleep 0.02; done";

#[test]
fn a_command_that_is_stopped_is_continued_to_get_its_term_whoever_sends_it() {
    for stands_still in [false, true] {
        let nodes = Nodes::hasty();
        let running = nodes.start_run("--ttl 6s", TELLS);
        let command = pid(&running.line());
        kill_process(command, Signal::STOP).unwrap();
        assert_stops(command);
        if stands_still {
            running.signal(Signal::STOP);
        } else {
            nodes.hold("another", 60_000);
        }
        let told = nodes.file("told");
        assert!(eventually(LIMIT, || told.exists()), "{stands_still}");
        running.end_by(Signal::CONT).ends_with(76);
    }
}

#[test]
fn a_watchdog_that_was_stopped_sends_term_before_kill() {
    let nodes = Nodes::hasty();
    let running = nodes.start_run("--ttl 3s", TELLS);
    let command = pid(&running.line());
    let watchdog = watchdog_of(command);
    for pid in [running.pid(), watchdog] {
        kill_process(pid, Signal::STOP).unwrap();
        assert_stops(pid);
    }
    assert!(eventually(LIMIT, || nodes.locked() == 0));
    // Only the watchdog goes on.
    kill_process(watchdog, Signal::CONT).unwrap();
    assert_dies(command);
    assert!(nodes.file("told").exists());
    running.end_by(Signal::CONT).ends_with(76);
}

#[test]
fn a_redlatch_that_stands_still_after_fg_is_watched_at_once() {
    let nodes = Nodes::hasty();
    let other = nodes.manager(Protocol::Classic);
    let script =
        format!("redlatch run --ttl 6s job -- sh -c '{SLEEPS}'; echo exit code $?; sleep 60");
    let (terminal, _session) = run(&nodes, &script);
    let redlatch = Stopped(pid(&terminal.wait_for("parent ")));
    let command = pid(&terminal.wait_for("command "));
    terminal.press("\u{1a}");
    [redlatch.0, command].into_iter().for_each(assert_stops);
    kill_process(redlatch.0, Signal::CONT).unwrap();
    let goes_on = || crate::process::state(command) != Some('T');
    assert!(eventually(LIMIT, goes_on));
    kill_process(redlatch.0, Signal::STOP).unwrap();
    let guard = other.lock("job", Duration::from_mins(1)).unwrap();
    assert!(!is_alive(command), "it runs on beside the next holder");
    guard.unlock().unwrap();
}

/// Writes to the pipe of a stopped watchdog until it takes nothing more.
#[track_caller]
fn fill_the_pipe_of(watchdog: Pid) {
    let path = format!("/proc/{}/fd/0", watchdog.as_raw_nonzero());
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap();
    let mut options = OpenOptions::new();
    let mut pipe = options
        .write(true)
        .custom_flags(nonblocking)
        .open(path)
        .unwrap();
    let never = format!("{0} {0} 0\n", u64::MAX);
    let is_full = |result: std::io::Result<usize>| {
        result.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    };
    while !is_full(pipe.write(never.as_bytes())) {}
    while !is_full(pipe.write(b"\n")) {}
}

#[test]
fn a_watchdog_that_can_not_be_told_goodbye_ends_and_leaves_the_rest_alone() {
    let nodes = Nodes::hasty();
    let script = "sleep 60 & echo $!; echo $$; read -r line; exit 7";
    let running = nodes.start_run("--ttl 1m", script);
    let [left, command] = [pid(&running.line()), pid(&running.line())];
    let watchdog = watchdog_of(command);
    kill_process(watchdog, Signal::STOP).unwrap();
    assert_stops(watchdog);
    fill_the_pipe_of(watchdog);
    running.finish().ends_with(7);
    assert_dies(watchdog);
    assert!(is_alive(left));
    kill_process(left, Signal::KILL).unwrap();
}

#[test]
fn a_watchdog_that_is_stopped_again_and_again_does_not_keep_redlatch_from_its_end() {
    let nodes = Nodes::start(1);
    let mut running = nodes.start_run("", "echo $$; read -r line; exit 7");
    let watchdog = watchdog_of(pid(&running.line()));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        // Repeat until `redlatch` has waited for the watchdog.
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) && kill_process(watchdog, Signal::STOP).is_ok() {
                spin_loop();
            }
        });
        assert_stops(watchdog);
        running.end_input();
        let has_ended = eventually(LIMIT, || !running.is_running());
        is_over.store(true, Ordering::Relaxed);
        assert!(has_ended, "it waits for the watchdog");
        running.end().ends_with(7);
    });
}

/// One server that does not answer the first attempt, and has the lock of another holder from then on.
#[test]
fn the_first_attempt_is_a_part_of_the_wait() {
    for options in ["", "--forever"] {
        let nodes = Nodes::start(1);
        let server = &nodes.servers[0];
        server.hold("job", "another", 600_000);
        server.stop();
        let wait = "--node-timeout 4s --wait 4s";
        let running = nodes.start_run(&format!("{wait} {options}"), "echo ran");
        // The first attempt has taken all of the time.
        running.error_line();
        let told = now();
        server.resume();
        running
            .end()
            .ends_with(if options.is_empty() { 75 } else { 69 });
        let took = told.elapsed();
        assert!(took < Duration::from_secs(3), "{options}: {took:?}");
    }
}

/// What relies on the lock has time after `hold` has ended as well.
#[test]
fn hold_leaves_its_keys_to_their_end_so_that_what_relies_on_it_can_stop() {
    let nodes = Nodes::hasty();
    let hold = Running::start(&mut nodes.redlatch("hold --ttl 6s job"));
    hold.line();
    let end = end_of_the_keys(&nodes);
    nodes.servers.iter().for_each(Server::stop);
    let ended = hold.end();
    let left = end.saturating_duration_since(now());
    nodes.servers.iter().for_each(Server::resume);
    ended.ends_with(76);
    assert!(!left.is_zero(), "it ended with its keys");
    assert!(nodes.locked() >= 2);
}
