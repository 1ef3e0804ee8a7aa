//! The command as a process, with servers of its own, in a folder of its own, ended by pid whatever happens.

use std::fs;
use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Once};
use std::thread;
use std::time::Duration;

use redlatch::{LockManager, Protocol};
use redlatch_testing::{Server, eventually, tell_reaper};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};

use crate::ended::Ended;

/// What only a hang would break.
pub(crate) const LIMIT: Duration = Duration::from_mins(1);

/// Of the command in a test, and of the test's own manager. A healthy server answers sooner, also on a busy machine.
const NODE_TIMEOUT: Duration = Duration::from_secs(5);

/// The program.
pub(crate) const REDLATCH: &str = env!("CARGO_BIN_EXE_redlatch");

/// A token of redlatch.
pub(crate) const TOKEN: &str = "0123456789abcdef0123456789abcdef01234567";

/// Servers that the command is run against.
pub(crate) struct Nodes {
    pub(crate) servers: Vec<Server>,
}

impl Nodes {
    #[track_caller]
    pub(crate) fn start(n: usize) -> Self {
        Self::of(Server::cluster(n))
    }

    /// These servers, with a configuration that has patience with servers on a busy machine.
    #[track_caller]
    pub(crate) fn of(servers: Vec<Server>) -> Self {
        let nodes = Self { servers };
        let text = format!("node_timeout = \"{}ms\"\n", NODE_TIMEOUT.as_millis());
        nodes.write_config("redlatch.toml", &text);
        nodes
    }

    /// Writes a configuration file that nobody else may write, whatever the umask is.
    #[track_caller]
    pub(crate) fn write_config(&self, name: &str, text: &str) -> PathBuf {
        let file = self.file(name);
        let folder = file.parent().unwrap();
        fs::create_dir_all(folder).unwrap();
        fs::write(&file, text).unwrap();
        set_mode(folder, 0o755);
        set_mode(&file, 0o644);
        file
    }

    /// Writes a file that only its owner can read.
    #[track_caller]
    pub(crate) fn write_secret(&self, name: &str, text: &str) -> PathBuf {
        let file = self.write_config(name, text);
        set_mode(&file, 0o600);
        file
    }

    pub(crate) fn urls(&self) -> String {
        let urls = self.servers.iter().map(Server::url);
        urls.collect::<Vec<_>>().join(",")
    }

    /// A folder for files of the test, which is removed with the servers.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.servers[0].dir().join(name)
    }

    /// The command with these arguments and the configuration of these servers, in their folder.
    pub(crate) fn redlatch(&self, arguments: &[&str]) -> Command {
        self.program(REDLATCH, arguments)
    }

    /// Another program, with the configuration of these servers, in their folder.
    pub(crate) fn program(&self, program: &str, words: &[&str]) -> Command {
        let mut command = unaffected(program, words);
        command.env("REDLATCH_NODES", self.urls());
        command.env("REDLATCH_CONFIG", self.file("redlatch.toml"));
        command.current_dir(self.servers[0].dir());
        command
    }

    /// `redlatch run` with these options, on the lock `job`, of a script.
    pub(crate) fn run(&self, options: &[&str], script: &str) -> Command {
        let words = ["job", "--", "sh", "-c", script];
        self.redlatch(&[&["run"], options, &words].concat())
    }

    /// A test of this program, as a process of its own.
    pub(crate) fn test(&self, name: &str) -> Command {
        let tests = std::env::current_exe().unwrap();
        self.program(tests.to_str().unwrap(), &["--exact", name, "--nocapture"])
    }

    /// A client of the library.
    #[track_caller]
    pub(crate) fn manager(&self, protocol: Protocol) -> LockManager {
        LockManager::builder()
            .nodes(self.servers.iter().map(Server::url))
            .node_timeout(NODE_TIMEOUT)
            .acquire_timeout(LIMIT)
            .protocol(protocol)
            .build()
            .unwrap()
    }

    /// How many servers have a key of the lock `job`.
    #[track_caller]
    pub(crate) fn locked(&self) -> usize {
        let values = self.servers.iter().filter_map(|server| server.get("job"));
        values.count()
    }

    /// The same with a short node timeout: for servers that do not answer, and for locks that are kept for a second or two, which
    /// have to last for three node timeouts.
    #[track_caller]
    pub(crate) fn hasty(self) -> Self {
        self.write_config("redlatch.toml", "node_timeout = \"300ms\"\n");
        self
    }

    /// Sends a command to each server.
    #[track_caller]
    pub(crate) fn command(&self, words: &[&str]) {
        for server in &self.servers {
            server.command(words);
        }
    }

    #[track_caller]
    pub(crate) fn hold(&self, token: &str, ttl_ms: u64) {
        for server in &self.servers {
            server.hold("job", token, ttl_ms);
        }
    }
}

/// The command with nothing of the environment and of the machine that could change what it does.
pub(crate) fn bare(arguments: &[&str]) -> Command {
    let mut command = unaffected(REDLATCH, arguments);
    command.env("REDLATCH_CONFIG", "/dev/null");
    command.current_dir(std::env::temp_dir());
    command
}

fn unaffected(program: &str, words: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(words);
    for name in ["REDLATCH_NODES", "REDLATCH_PASSWORD", "NOTIFY_SOCKET"] {
        command.env_remove(name);
    }
    command
}

#[track_caller]
pub(crate) fn set_mode(path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

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
    #[track_caller]
    pub(crate) fn start(command: &mut Command) -> Self {
        Self::piped(command.stdin(Stdio::null()))
    }

    /// Starts it with a standard input that stays open.
    #[track_caller]
    pub(crate) fn start_with_input(command: &mut Command) -> Self {
        Self::piped(command.stdin(Stdio::piped()))
    }

    #[track_caller]
    fn piped(command: &mut Command) -> Self {
        Self::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
    }

    /// Starts it with the streams that the command was given. An input that is a pipe stays open.
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
        self.lines
            .recv_timeout(LIMIT)
            .expect("a line on standard output")
    }

    /// The next line on standard error.
    #[track_caller]
    pub(crate) fn error_line(&self) -> String {
        self.errors
            .recv_timeout(LIMIT)
            .expect("a line on standard error")
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
            let mut text = String::new();
            while let Ok(line) = lines.recv_timeout(Duration::from_millis(300)) {
                text.push_str(&line);
                text.push('\n');
            }
            text
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

/// Lets the servers vote for `--fenced`.
#[track_caller]
pub(crate) fn open_nodes(nodes: &Nodes) {
    ask(nodes, &["open-nodes"]).ends_with(0);
}

/// The next line on standard error that has this text; those before it are passed over.
#[track_caller]
pub(crate) fn told(running: &Running, text: &str) -> String {
    loop {
        let line = running.error_line();
        if line.contains(text) {
            return line;
        }
    }
}

/// Runs it to its end.
#[track_caller]
pub(crate) fn end_of(command: &mut Command) -> Ended {
    Running::start(command).end()
}

/// The end of the command with these arguments.
#[track_caller]
pub(crate) fn ask(nodes: &Nodes, arguments: &[&str]) -> Ended {
    end_of(&mut nodes.redlatch(arguments))
}

/// The end of `Nodes::run`.
#[track_caller]
pub(crate) fn try_run(nodes: &Nodes, options: &[&str], script: &str) -> Ended {
    end_of(&mut nodes.run(options, script))
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

/// Whether a process is there and not merely waiting to be waited for.
pub(crate) fn is_alive(pid: Pid) -> bool {
    state(pid).is_some_and(|state| !['Z', 'X'].contains(&state))
}

#[track_caller]
pub(crate) fn assert_dies(pid: Pid) {
    assert!(eventually(LIMIT, || !is_alive(pid)), "{pid:?} lives on");
}
