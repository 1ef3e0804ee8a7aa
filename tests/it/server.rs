//! Real `redis-server` processes on free loopback ports, ended by pid when they go out of scope.

use std::collections::HashSet;
use std::fs::File;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use redis::Value;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// One server with a folder of its own. It persists nothing unless it is told to.
pub(crate) struct Server {
    child: Child,
    port: u16,
    dir: PathBuf,
    arguments: Vec<String>,
    file: Option<PathBuf>,
}

impl Server {
    /// Starts a server that listens on 127.0.0.1, and waits until it answers.
    #[track_caller]
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server that has read a configuration before its arguments.
    #[track_caller]
    pub(crate) fn start_with_file(file: &Path) -> Self {
        Self::start_as(&[], Some(file))
    }

    /// Starts a server with more arguments, such as `["--requirepass", "secret"]`.
    #[track_caller]
    pub(crate) fn start_with(arguments: &[&str]) -> Self {
        Self::start_as(arguments, None)
    }

    #[track_caller]
    fn start_as(arguments: &[&str], file: Option<&Path>) -> Self {
        // Another process may take a port between its choice and the start of the server, so a few are tried.
        for _ in 0..10 {
            let port = free_port();
            TAKEN.lock().insert(port);
            let dir = scratch_dir(port);
            let arguments: Vec<String> = arguments
                .iter()
                .map(|argument| argument.replace("{dir}", &dir.display().to_string()))
                .collect();
            let mut server = Self {
                child: spawn(port, &dir, &arguments, file),
                port,
                dir,
                arguments,
                file: file.map(Path::to_owned),
            };
            if server.is_up_soon() {
                return server;
            }
        }
        panic!("no redis-server could be started; is it installed? (tests/run installs it)");
    }

    /// Starts `n` servers.
    #[track_caller]
    pub(crate) fn cluster(n: usize) -> Vec<Self> {
        (0..n).map(|_| Self::start()).collect()
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn name(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Sends a command on a connection of its own and returns the reply.
    #[track_caller]
    pub(crate) fn command(&self, words: &[&str]) -> Value {
        let mut cmd = redis::cmd(words[0]);
        for word in &words[1..] {
            cmd.arg(*word);
        }
        // redis reports a system call that was interrupted as an error.
        let mut result = self.query(&cmd);
        for _ in 0..3 {
            if result.as_ref().is_err_and(redis::RedisError::is_io_error) {
                result = self.query(&cmd);
            }
        }
        result.unwrap()
    }

    fn query(&self, cmd: &redis::Cmd) -> redis::RedisResult<Value> {
        let client = redis::Client::open(self.url())?;
        let mut connection = client.get_connection_with_timeout(Duration::from_secs(30))?;
        cmd.query(&mut connection)
    }

    /// A section of INFO, or nothing when the server takes no connection.
    pub(crate) fn info(&self, section: &str) -> String {
        let info = self.query(redis::cmd("INFO").arg(section));
        info.ok()
            .and_then(|text| redis::from_redis_value(text).ok())
            .unwrap_or_default()
    }

    /// How often a command was executed, also within scripts.
    #[track_caller]
    pub(crate) fn count(&self, command: &str) -> u64 {
        let stats = self.info("commandstats");
        let line = format!("cmdstat_{command}:calls=");
        let calls = stats.lines().find_map(|stat| stat.strip_prefix(&line));
        let calls = calls.and_then(|calls| calls.split(',').next());
        calls.map_or(0, |calls| calls.parse().unwrap())
    }

    /// How many clients wait within a command that blocks.
    pub(crate) fn blocked(&self) -> usize {
        let clients = self.info("clients");
        let mut lines = clients.lines();
        let count = lines.find_map(|line| line.strip_prefix("blocked_clients:"));
        count.map_or(0, |count| count.parse().unwrap())
    }

    /// The value of a key.
    #[track_caller]
    pub(crate) fn get(&self, key: &str) -> Option<String> {
        let reply = self.command(&["GET", key]);
        redis::from_redis_value(reply).unwrap()
    }

    /// The PTTL of a key in milliseconds, or a negative number as Redis answers it.
    #[track_caller]
    pub(crate) fn pttl(&self, key: &str) -> i64 {
        redis::from_redis_value(self.command(&["PTTL", key])).unwrap()
    }

    /// How many keys there are.
    #[track_caller]
    pub(crate) fn keys(&self) -> i64 {
        redis::from_redis_value(self.command(&["DBSIZE"])).unwrap()
    }

    /// Puts a key there as another holder would.
    #[track_caller]
    pub(crate) fn hold(&self, key: &str, token: &str, ttl_ms: u64) {
        let ttl = ttl_ms.to_string();
        assert_eq!(self.command(&["SET", key, token, "PX", &ttl]), Value::Okay);
    }

    /// Stops the process: it keeps its connections and answers nothing.
    #[track_caller]
    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets a stopped process go on.
    #[track_caller]
    pub(crate) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills the process, as `kill -9` does.
    #[track_caller]
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        tell_reaper("down", &self.child);
        self.child.wait().unwrap();
    }

    /// Starts a killed server again on its port; should a stranger have taken it meanwhile, once that one is gone.
    #[track_caller]
    pub(crate) fn restart(&mut self) {
        let is_back = eventually(Duration::from_mins(1), || {
            self.child = spawn(self.port, &self.dir, &self.arguments, self.file.as_deref());
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

    fn is_up_soon(&mut self) -> bool {
        eventually(Duration::from_mins(1), || {
            self.child.try_wait().unwrap().is_some() || answers(self.port)
        });
        self.child.try_wait().unwrap().is_none() && answers(self.port)
    }
}

/// A process that kills the servers, by pid, should this one end without doing so (a kill, an abort, a time limit), and
/// that removes their folders in any case.
static REAPER: LazyLock<Mutex<Option<ChildStdin>>> = LazyLock::new(|| {
    // It knows the processes that are up; its input ends with this process.
    let script = r#"
        trap '' INT TERM HUP
        up=
        while read -r what pid; do
            if [ "$what" = up ]; then up="$up $pid"; continue; fi
            rest=; for p in $up; do [ "$p" = "$pid" ] || rest="$rest $p"; done; up=$rest
        done
        [ -z "$up" ] || kill -9 $up
        # A server that is being killed may still write into its folder.
        rm -rf "$1" || { sleep 1; rm -rf "$1"; }"#;
    let reaper = Command::new("sh")
        .args(["-c", script, "reaper"])
        .arg(scratch())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Mutex::new(reaper.ok().and_then(|mut reaper| reaper.stdin.take()))
});

/// Tells the reaper that a child is `up`, or `down`; the latter before it is waited for, while the pid is still its own.
pub(crate) fn tell_reaper(what: &str, child: &Child) {
    if let Some(reaper) = REAPER.lock().as_mut() {
        writeln!(reaper, "{what} {}", child.id()).ok();
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

/// The child of a fork ends by itself, and has seen nothing wrong.
#[track_caller]
pub(crate) fn assert_ends_well(child: i32) {
    let child = Pid::from_raw(child).unwrap();
    let mut status = None;
    eventually(Duration::from_mins(1), || {
        status = waitpid(Some(child), WaitOptions::NOHANG).unwrap();
        status.is_some()
    });
    let Some((_, status)) = status else {
        kill_process(child, Signal::KILL).unwrap();
        waitpid(Some(child), WaitOptions::empty()).unwrap();
        panic!("the child hangs");
    };
    assert_eq!(status.exit_status(), Some(0), "{status:?}");
}

/// Polls until the condition holds or the time is over; returns whether it holds.
pub(crate) fn eventually(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = now() + limit;
    loop {
        if condition() {
            return true;
        }
        if now() >= deadline {
            return false;
        }
        pause(Duration::from_millis(2));
    }
}

/// Runs something that has to end, and fails if it takes longer than a bound that only a hang would break.
#[track_caller]
pub(crate) fn within<T: Send + 'static>(
    limit: Duration,
    run: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (sender, receiver) = mpsc::channel();
    let thread = thread::spawn(move || sender.send(run()).ok());
    match receiver.recv_timeout(limit) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it takes more than {limit:?}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => resume_unwind(thread.join().unwrap_err()),
    }
}

/// The real time, for upper bounds that only a hang would break.
#[expect(clippy::disallowed_methods, reason = "real servers live in real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Lets real time pass, for what a server does by itself (expiry), never to hide a race.
#[expect(clippy::disallowed_methods, reason = "real servers live in real time")]
pub(crate) fn pause(span: Duration) {
    thread::sleep(span);
}

/// A port that nobody listens on. It is below those that the system gives to connections, and among those of this process
/// alone, so that nobody else takes it while its server is down.
pub(crate) fn free_port() -> u16 {
    const PORTS: u32 = 500;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    for _ in 0..PORTS {
        let n = NEXT.fetch_add(1, Ordering::Relaxed) % PORTS;
        let port = u16::try_from(12_000 + OWN_PORTS.0 * PORTS + n).unwrap();
        let is_taken = TAKEN.lock().contains(&port);
        if !is_taken && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("no port is free");
}

/// Those of servers that are there, be they up or down.
static TAKEN: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);

/// The part of the ports that is for this process: the file is locked as long as it runs.
static OWN_PORTS: LazyLock<(u32, File)> = LazyLock::new(|| {
    const PARTS: u32 = 40;
    // Test processes that run side by side begin at different places.
    let parts = (0..PARTS).map(|n| (n + std::process::id()) % PARTS);
    let mut own = parts.filter_map(|part| {
        let path = std::env::temp_dir().join(format!("redlatch-ports-{part}"));
        let file = File::options().append(true).create(true).open(path).ok()?;
        file.try_lock().is_ok().then_some((part, file))
    });
    own.next().expect("forty test processes run already")
});

/// The folder of this process, which the reaper removes.
fn scratch() -> PathBuf {
    std::env::temp_dir().join(format!("redlatch-{}", std::process::id()))
}

fn scratch_dir(port: u16) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    // The reaper is there before the first folder is.
    LazyLock::force(&REAPER);
    let dir = scratch().join(format!("{port}-{n}"));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

fn spawn(port: u16, dir: &Path, arguments: &[String], file: Option<&Path>) -> Child {
    let port = port.to_string();
    let child = Command::new("redis-server")
        .args(file)
        .args(["--port", &port, "--bind", "127.0.0.1"])
        .args(["--save", "", "--appendonly", "no"])
        .args(["--dir", &dir.display().to_string()])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-server is missing: run tests/run, which installs it");
    tell_reaper("up", &child);
    child
}

/// Whether a server takes connections and answers PING, be it with a demand for a password.
fn answers(port: u16) -> bool {
    use std::io::Read;
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
