//! Real `redis-server` processes on free loopback ports, ended by pid when they go out of scope.

use std::error::Error;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use redis::{ErrorKind, ServerErrorKind, Value};
use rustix::process::{Pid, Signal, kill_process};

use crate::clock::Clock;
use crate::ports::{TAKEN, free_port};
use crate::processes::{scratch_dir, tell_reaper};
use crate::waits::eventually;

/// One server with a folder of its own. It persists nothing unless it is told to.
#[derive(Debug)]
pub struct Server {
    child: Child,
    port: u16,
    dir: PathBuf,
    /// What it is started with, also when it is started again.
    arguments: Vec<String>,
    clock: Option<Clock>,
}

impl Server {
    /// Starts a server that listens on 127.0.0.1, and waits until it answers.
    #[track_caller]
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with more arguments, such as `["--requirepass", "secret"]`. The first may be a file with a configuration, which
    /// is read before them; a sentinel also writes into it.
    #[track_caller]
    pub fn start_with(arguments: &[&str]) -> Self {
        Self::start_as(arguments, None)
    }

    /// Starts a server to which a clock says the time; with more arguments, if there are any.
    #[track_caller]
    pub fn start_with_clock(clock: &Clock, arguments: &[&str]) -> Self {
        let server = Self::start_as(arguments, Some(clock));
        assert!(clock.is_heeded(), "the server has no LD_PRELOAD");
        server
    }

    #[track_caller]
    fn start_as(arguments: &[&str], clock: Option<&Clock>) -> Self {
        let server = Self::try_start_as(arguments, clock);
        server.unwrap_or_else(|error| panic!("{error} (tests/run installs it)"))
    }

    /// Starts a server for a program that tells its user if there is none.
    ///
    /// # Errors
    ///
    /// [`NoServer`], where no server can be started.
    pub fn try_start() -> Result<Self, NoServer> {
        Self::try_start_as(&[], None)
    }

    fn try_start_as(arguments: &[&str], clock: Option<&Clock>) -> Result<Self, NoServer> {
        // Another process may take a port between its choice and the start of the server, so a few are tried.
        for _ in 0..10 {
            let port = free_port();
            TAKEN.lock().insert(port);
            let dir = scratch_dir(port);
            let place = dir.display().to_string();
            let arguments = arguments
                .iter()
                .map(|argument| argument.replace("{dir}", &place));
            let arguments: Vec<String> = arguments.collect();
            let child = spawn(port, &dir, &arguments, clock).map_err(|error| missing(&error))?;
            let clock = clock.cloned();
            let mut server = Self {
                child,
                port,
                dir,
                arguments,
                clock,
            };
            if server.is_up_soon() {
                return Ok(server);
            }
        }
        let text = "redis-server was started several times and did not answer";
        Err(NoServer(text.to_owned()))
    }

    /// Starts `n` servers.
    #[track_caller]
    pub fn cluster(n: usize) -> Vec<Self> {
        (0..n).map(|_| Self::start()).collect()
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its name in reports and log lines.
    pub fn name(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Its URL, without TLS and without a password.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its working directory, which goes with it.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Sends a command on a connection of its own and returns the reply.
    #[track_caller]
    pub fn command(&self, words: &[&str]) -> Value {
        let mut cmd = redis::cmd(words[0]);
        for word in &words[1..] {
            cmd.arg(*word);
        }
        // redis reports a system call that was interrupted as an error. And while it starts, a server may say that it has loaded its
        // data before it has.
        let (mut result, mut interruptions) = (self.query(&cmd), 0..3);
        eventually(Duration::from_secs(60), || {
            let is_passing = result.as_ref().is_err_and(|error| {
                error.kind() == ErrorKind::Server(ServerErrorKind::BusyLoading)
                    || error.is_io_error() && interruptions.next().is_some()
            });
            if is_passing {
                result = self.query(&cmd);
            }
            !is_passing
        });
        result.unwrap()
    }

    fn query(&self, cmd: &redis::Cmd) -> redis::RedisResult<Value> {
        let client = redis::Client::open(self.url())?;
        let mut connection = client.get_connection_with_timeout(Duration::from_secs(30))?;
        cmd.query(&mut connection)
    }

    /// A section of INFO, or nothing when the server takes no connection.
    pub fn info(&self, section: &str) -> String {
        let info = self.query(redis::cmd("INFO").arg(section));
        info.ok()
            .and_then(|text| redis::from_redis_value(text).ok())
            .unwrap_or_default()
    }

    /// How often a command was executed, also within scripts.
    #[track_caller]
    pub fn count(&self, command: &str) -> u64 {
        let stats = self.info("commandstats");
        let line = format!("cmdstat_{command}:calls=");
        let calls = stats.lines().find_map(|stat| stat.strip_prefix(&line));
        let calls = calls.and_then(|calls| calls.split(',').next());
        calls.map_or(0, |calls| calls.parse().unwrap())
    }

    /// How many clients wait within a command that blocks.
    pub fn blocked(&self) -> usize {
        let clients = self.info("clients");
        let mut lines = clients.lines();
        let count = lines.find_map(|line| line.strip_prefix("blocked_clients:"));
        count.map_or(0, |count| count.parse().unwrap())
    }

    /// The value of a key.
    #[track_caller]
    pub fn get(&self, key: &str) -> Option<String> {
        let reply = self.command(&["GET", key]);
        redis::from_redis_value(reply).unwrap()
    }

    /// The PTTL of a key in milliseconds, or a negative number as Redis answers it.
    #[track_caller]
    pub fn pttl(&self, key: &str) -> i64 {
        redis::from_redis_value(self.command(&["PTTL", key])).unwrap()
    }

    /// How many keys there are.
    #[track_caller]
    pub fn keys(&self) -> i64 {
        redis::from_redis_value(self.command(&["DBSIZE"])).unwrap()
    }

    /// Puts a key there as another holder would.
    #[track_caller]
    pub fn hold(&self, key: &str, token: &str, ttl_ms: u64) {
        let ttl = ttl_ms.to_string();
        assert_eq!(self.command(&["SET", key, token, "PX", &ttl]), Value::Okay);
    }

    /// Adds a user with these rules, such as `~app:* +set`. Returns the URL for that user.
    #[track_caller]
    pub fn user(&self, rules: &str) -> String {
        let mut words = vec!["ACL", "SETUSER", "locker", "on", ">secret", "resetkeys"];
        words.extend(rules.split(' '));
        assert_eq!(self.command(&words), Value::Okay);
        format!("redis://locker:secret@{}", self.name())
    }

    /// Stops the process: it keeps its connections and answers nothing.
    #[track_caller]
    pub fn stop(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets a stopped process go on.
    #[track_caller]
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills the process, as `kill -9` does.
    #[track_caller]
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        tell_reaper("down", &self.child);
        self.child.wait().unwrap();
    }

    /// Starts a killed server again on its port; should a stranger have taken it meanwhile, once that one is gone.
    #[track_caller]
    pub fn restart(&mut self) {
        let is_back = eventually(Duration::from_secs(60), || {
            let clock = self.clock.as_ref();
            self.child = spawn(self.port, &self.dir, &self.arguments, clock).unwrap();
            let is_up = self.is_up_soon();
            if !is_up {
                self.kill();
            }
            is_up
        });
        assert!(is_back, "the server on {} did not come back", self.port);
    }

    #[track_caller]
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// One answer is enough. On a busy machine the next one may come too late, and the server has given its word to others by
    /// then: if it were started anew, it would have forgotten that.
    fn is_up_soon(&mut self) -> bool {
        let mut is_up = false;
        eventually(Duration::from_secs(60), || {
            is_up = answers(self.port);
            is_up || self.child.try_wait().unwrap().is_some()
        });
        is_up && self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A stopped process is killed as well.
        self.child.kill().ok();
        tell_reaper("down", &self.child);
        self.child.wait().ok();
        TAKEN.lock().remove(&self.port);
        std::fs::remove_dir_all(&self.dir).ok();
    }
}

fn spawn(port: u16, dir: &Path, arguments: &[String], clock: Option<&Clock>) -> io::Result<Child> {
    let port = port.to_string();
    let clock = clock.into_iter().flat_map(Clock::environment);
    let is_file = |argument: &&String| !argument.starts_with("--");
    let file = arguments.first().filter(is_file);
    let arguments = arguments.iter().skip(file.iter().count());
    let child = Command::new("redis-server")
        .envs(clock)
        .args(file)
        .args(["--port", &port, "--bind", "127.0.0.1"])
        .args(["--save", "", "--appendonly", "no"])
        .args(["--dir", &dir.display().to_string()])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    tell_reaper("up", &child);
    Ok(child)
}

/// Whether a server takes connections and answers PING, be it with a demand for a password.
fn answers(port: u16) -> bool {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let Ok(mut stream) = TcpStream::connect_timeout(&address, Duration::from_millis(200)) else {
        return false;
    };
    stream
        .set_read_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    let mut first = [0];
    stream.write_all(b"PING\r\n").is_ok()
        && stream.read(&mut first).is_ok_and(|n| n == 1)
        && (first[0] == b'+' || first[0] == b'-')
}

/// Why no server could be started, in words.
#[derive(Debug)]
pub struct NoServer(String);

impl Error for NoServer {}

impl fmt::Display for NoServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn missing(error: &io::Error) -> NoServer {
    NoServer(format!(
        "redis-server can't be run ({error}). Install it with the package manager (Debian, Ubuntu: apt-get install redis-server; \
         Fedora: dnf install redis; macOS: brew install redis)"
    ))
}
