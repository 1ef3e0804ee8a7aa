//! Servers, a folder of their own, and the command over them.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use redlatch::{LockManager, Protocol};
use redlatch_testing::Server;

use crate::ended::Ended;
use crate::process::{LIMIT, Running, end_of};

/// The program.
pub(crate) const REDLATCH: &str = env!("CARGO_BIN_EXE_redlatch");

/// A token of redlatch.
pub(crate) const TOKEN: &str = "0123456789abcdef0123456789abcdef01234567";

/// Servers that the command is run against. Where a helper takes a line, its words are separated by spaces.
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
        nodes.configure("node_timeout = '5s'\n");
        nodes
    }

    /// Three servers with a short node timeout: for servers that do not answer, and for locks that are kept for a second or
    /// two, which have to last for three node timeouts.
    #[track_caller]
    pub(crate) fn hasty() -> Self {
        let nodes = Self::start(3);
        nodes.configure("node_timeout = '300ms'\n");
        nodes
    }

    /// Three servers that vote for `--fenced` as well.
    #[track_caller]
    pub(crate) fn open() -> Self {
        let nodes = Self::start(3);
        nodes.ask("open-nodes").ends_with(0);
        nodes
    }

    #[track_caller]
    pub(crate) fn configure(&self, text: &str) {
        self.write("redlatch.toml", 0o644, text);
    }

    /// Writes a file with these rights into a folder that nobody else may write, whatever the umask is. Returns its path.
    #[track_caller]
    pub(crate) fn write(&self, name: &str, mode: u32, text: &str) -> String {
        let file = self.file(name);
        let folder = file.parent().unwrap();
        fs::create_dir_all(folder).unwrap();
        fs::write(&file, text).unwrap();
        set_mode(folder, 0o755);
        set_mode(&file, mode);
        file.display().to_string()
    }

    pub(crate) fn urls(&self) -> String {
        let urls = self.servers.iter().map(Server::url);
        urls.collect::<Vec<_>>().join(",")
    }

    /// The names of some of the servers, as messages have them.
    pub(crate) fn names(&self, of: impl Iterator<Item = usize>) -> String {
        let names = of.map(|i| self.servers[i].name());
        names.collect::<Vec<_>>().join(", ")
    }

    /// A file of the test, which is removed with the servers.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.servers[0].dir().join(name)
    }

    /// Lets scripts go on that wait for the file `go`.
    #[track_caller]
    pub(crate) fn go(&self) {
        File::create(self.file("go")).unwrap();
    }

    /// The command with these arguments and the configuration of these servers, in their folder.
    pub(crate) fn redlatch(&self, line: &str) -> Command {
        self.program(REDLATCH, &words(line))
    }

    /// Another program, with the configuration of these servers, in their folder.
    pub(crate) fn program(&self, program: &str, words: &[&str]) -> Command {
        let mut command = unaffected(program, words);
        command.env("REDLATCH_NODES", self.urls().replace(',', " ,\n"));
        command.env("REDLATCH_CONFIG", self.file("redlatch.toml"));
        command.current_dir(self.servers[0].dir());
        command
    }

    /// `redlatch run` with these options, on the lock `job`, of a script.
    pub(crate) fn run(&self, options: &str, script: &str) -> Command {
        let mut command = self.redlatch(&format!("run {options} job -- sh -c"));
        command.arg(script);
        command
    }

    /// Starts that.
    #[track_caller]
    pub(crate) fn start_run(&self, options: &str, script: &str) -> Running {
        Running::start(&mut self.run(options, script))
    }

    /// Starts that, and waits until it has said its first line.
    #[track_caller]
    pub(crate) fn start_ready(&self, options: &str, script: &str) -> Running {
        let running = self.start_run(options, script);
        running.line();
        running
    }

    /// The end of that.
    #[track_caller]
    pub(crate) fn try_run(&self, options: &str, script: &str) -> Ended {
        end_of(&mut self.run(options, script))
    }

    /// The end of the command with these arguments.
    #[track_caller]
    pub(crate) fn ask(&self, line: &str) -> Ended {
        end_of(&mut self.redlatch(line))
    }

    /// A client of the library.
    #[track_caller]
    pub(crate) fn manager(&self, protocol: Protocol) -> LockManager {
        LockManager::builder()
            .nodes(self.servers.iter().map(Server::url))
            .node_timeout(Duration::from_secs(5))
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

    /// Sends a command to each server.
    #[track_caller]
    pub(crate) fn command(&self, line: &str) {
        for server in &self.servers {
            server.command(&words(line));
        }
    }

    /// Sets this key and others with numbers behind it on each server: of locks, or of another program.
    #[track_caller]
    pub(crate) fn fill(&self, key: &str, number: u32, is_lock: bool) {
        let value = if is_lock {
            "ARGV[1], 'PX', 600000"
        } else {
            "'x'"
        };
        let script = format!("for i = 1, {number} do redis.call('SET', '{key}' .. i, {value}) end");
        for server in &self.servers {
            server.command(&["EVAL", &script, "0", TOKEN]);
        }
    }

    /// Gives the lock `job` to another holder on all servers.
    #[track_caller]
    pub(crate) fn hold(&self, token: &str, ttl_ms: u64) {
        for server in &self.servers {
            server.hold("job", token, ttl_ms);
        }
    }
}

pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split(' ').filter(|word| !word.is_empty()).collect()
}

/// The command with nothing of the environment and of the machine that could change what it does.
pub(crate) fn bare(line: &str) -> Command {
    let mut command = unaffected(REDLATCH, &words(line));
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
