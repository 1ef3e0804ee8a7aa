//! Processes: how they are started, read, sent signals and waited for. They are ended by pid whatever happens.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::iter;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Once};
use std::thread;
use std::time::Duration;

use redlatch_testing::{eventually, now, tell_reaper};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};

use crate::ended::Ended;

/// What only a hang would break.
pub(crate) const LIMIT: Duration = Duration::from_mins(1);

/// Whatever the tests were started with: `nohup`, and `&` in a script, have INT and QUIT ignored, which goes on to all
/// children. A signal that is caught in their place is one that they heed.
fn let_children_heed_signals() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let mut lines = status.lines();
        let ignored = lines.find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
        let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
        for signal in [SIGINT, SIGQUIT, SIGHUP, SIGTERM, SIGTSTP] {
            // The others are left alone, so that Ctrl-C still ends the tests.
            if ignored >> (signal - 1) & 1 == 1 {
                let caught = Arc::new(AtomicBool::new(false));
                signal_hook::flag::register(signal, caught).unwrap();
            }
        }
    });
}

/// A process that runs.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
    errors: Receiver<String>,
}

impl Running {
    /// Starts it with a standard input that stays open.
    #[track_caller]
    pub(crate) fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::piped());
        Self::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
    }

    /// Starts it with the streams that the command was given.
    #[track_caller]
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let_children_heed_signals();
        let mut child = command.spawn().unwrap();
        tell_reaper("up", &child);
        Self {
            lines: lines_of(child.stdout.take()),
            errors: lines_of(child.stderr.take()),
            child,
        }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    #[track_caller]
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Sends TERM, by which it ends.
    #[track_caller]
    pub(crate) fn terminate(self) {
        self.end_by(Signal::TERM).ends_with(143);
    }

    #[track_caller]
    pub(crate) fn end_by(self, signal: Signal) -> Ended {
        self.signal(signal);
        self.end()
    }

    #[track_caller]
    pub(crate) fn write(&mut self, text: &str) {
        let input = self.child.stdin.as_mut().unwrap();
        input.write_all(text.as_bytes()).unwrap();
    }

    pub(crate) fn end_input(&mut self) {
        self.child.stdin = None;
    }

    /// Ends its standard input, by which it ends.
    #[track_caller]
    pub(crate) fn finish(mut self) -> Ended {
        self.end_input();
        self.end()
    }

    /// Its next line on standard output finds nobody who reads it.
    pub(crate) fn stop_reading(&mut self) {
        self.lines = channel().1;
    }

    /// The next line on standard output.
    #[track_caller]
    pub(crate) fn line(&self) -> String {
        let line = self.lines.recv_timeout(LIMIT);
        line.expect("a line on standard output")
    }

    /// The next line on standard output that has this text; those before it are passed over.
    #[track_caller]
    pub(crate) fn shows(&self, text: &str) -> String {
        line_with(text, || self.line())
    }

    /// The next line on standard error.
    #[track_caller]
    pub(crate) fn error_line(&self) -> String {
        let line = self.errors.recv_timeout(LIMIT);
        line.expect("a line on standard error")
    }

    /// The next line on standard error that has this text; those before it are passed over.
    #[track_caller]
    pub(crate) fn tells(&self, text: &str) -> String {
        line_with(text, || self.error_line())
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for its end, and returns it with what had not been read.
    #[track_caller]
    pub(crate) fn end(self) -> Ended {
        self.end_within(LIMIT)
    }

    #[track_caller]
    pub(crate) fn end_within(mut self, limit: Duration) -> Ended {
        assert!(eventually(limit, || !self.is_running()), "it does not end");
        let code = self.child.wait().unwrap().code();
        // Processes that it has left behind may have its pipes, so this is what it wrote up to now, and some time.
        let rest = |lines: &Receiver<String>| -> String {
            let next = || lines.recv_timeout(Duration::from_secs(2)).ok();
            iter::from_fn(next).map(|line| line + "\n").collect()
        };
        Ended {
            code,
            stdout: rest(&self.lines),
            stderr: rest(&self.errors),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Where a test has failed, the watchdog ends the rest.
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            self.child.kill().ok();
        }
        tell_reaper("down", &self.child);
        self.child.wait().ok();
    }
}

#[track_caller]
fn line_with(text: &str, next: impl Fn() -> String) -> String {
    let end = now() + LIMIT * 2;
    loop {
        let line = next();
        if line.contains(text) {
            return line;
        }
        assert!(now() < end, "{text}: not before {line}");
    }
}

/// Runs it to its end, without an input.
#[track_caller]
pub(crate) fn end_of(command: &mut Command) -> Ended {
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
    Running::spawn(command.stderr(Stdio::piped())).end()
}

fn lines_of(stream: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = channel();
    if let Some(stream) = stream {
        thread::spawn(move || {
            let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
            lines.try_for_each(|line| sender.send(line)).ok();
        });
    }
    receiver
}

/// A pid as a script prints it.
#[track_caller]
pub(crate) fn pid(text: &str) -> Pid {
    let pid = text.trim().parse().ok().and_then(Pid::from_raw);
    pid.unwrap_or_else(|| panic!("no pid: {text}"))
}

/// The letter of a process's state, if it is there: T for one that is stopped, Z for one that has ended.
pub(crate) fn state(pid: Pid) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The name, in parentheses, may hold anything; the state is behind it.
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Waits until a process is stopped.
#[track_caller]
pub(crate) fn assert_stops(pid: Pid) {
    assert!(eventually(LIMIT, || state(pid) == Some('T')), "{pid:?}");
}

/// Whether a process is there and not merely waiting to be waited for.
pub(crate) fn is_alive(pid: Pid) -> bool {
    state(pid).is_some_and(|state| !['Z', 'X'].contains(&state))
}

#[track_caller]
pub(crate) fn assert_dies(pid: Pid) {
    assert!(eventually(LIMIT, || !is_alive(pid)), "{pid:?} lives on");
}
