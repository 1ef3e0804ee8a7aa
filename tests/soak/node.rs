//! A node: the server under its address, what it persists, the clock that it is told, and what is known of its memory.
//!
//! Before a fault a number is put into the memory of the server, and after it the number is looked at. So each fault is seen
//! to have happened: the number is gone, or an older one, or there.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use redlatch_testing::{Clock, Server, eventually};

use crate::keys::{self, NUMBER};
use crate::options::Options;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    Nothing,
    Older,
    All,
}

#[derive(Debug)]
pub(crate) struct Node {
    server: Server,
    /// Whether the server is neither down nor stopped.
    pub(crate) is_up: bool,
    /// Whether each write goes to a file before it is answered. Else there is a snapshot when one is made.
    has_log: bool,
    /// None where all servers are on one clock.
    clock: Option<Clock>,
    number: u64,
    /// The settings in its marker, before it is killed.
    settings: Option<String>,
    /// The data of an earlier moment, and the number of then.
    older: Option<(PathBuf, u64)>,
    /// A replica that receives nothing any more, and the number that it has.
    replica: Option<(Server, u64)>,
}

impl Node {
    /// Starts the server of the `i`th node.
    pub(crate) fn start(i: usize, options: &Options, ahead_ms: i64) -> Self {
        let has_log = i.is_multiple_of(2);
        let clock = options.clocks.then(|| Clock::new().unwrap());
        if let Some(clock) = &clock {
            clock.set_ahead_ms(ahead_ms);
        }
        Self {
            server: start(has_log, clock.as_ref()),
            is_up: true,
            has_log,
            clock,
            number: 0,
            settings: None,
            older: None,
            replica: None,
        }
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    pub(crate) fn remember(&mut self) {
        self.number += 1;
        let number = self.number.to_string();
        self.server.command(&["SET", NUMBER, &number]);
    }

    fn number(&self) -> Option<u64> {
        self.server.get(NUMBER).and_then(|text| text.parse().ok())
    }

    /// Puts its data of now aside, to come back with them later.
    pub(crate) fn put_aside(&mut self) {
        self.remember();
        if !self.has_log {
            self.server.command(&["SAVE"]);
        }
        let older = self.server.dir().with_extension("older");
        copy_all(self.server.dir(), &older);
        self.older = Some((older, self.number));
        // What the server writes from now on will be forgotten.
        self.remember();
    }

    /// Starts a replica that has all data of now, and hears of nothing that comes after. It is on the same clock.
    pub(crate) fn replicate(&mut self) {
        self.remember();
        let replica = start(self.has_log, self.clock.as_ref());
        let port = self.server.port().to_string();
        replica.command(&["REPLICAOF", "127.0.0.1", &port]);
        let is_like_it = eventually(Duration::from_secs(20), || {
            replica
                .info("replication")
                .contains("master_link_status:up")
                && replica.get(NUMBER).and_then(|text| text.parse().ok()) == Some(self.number)
        });
        // It asks where nobody answers.
        replica.command(&["REPLICAOF", "127.0.0.1", "1"]);
        self.replica = is_like_it.then_some((replica, self.number));
        self.remember();
    }

    /// Ends the server: `All` lets it write what it keeps.
    pub(crate) fn kill(&mut self, next: Memory) {
        self.remember();
        let marker = self.server.get(keys::MARKER);
        self.settings = marker.and_then(|marker| Some(marker.split('|').nth(1)?.to_owned()));
        if next == Memory::All && !self.has_log {
            // The server answers by the end of the connection, and takes none when all is written.
            let client = redis::Client::open(self.server.url()).unwrap();
            let mut connection = client.get_connection().unwrap();
            let end: redis::RedisResult<()> =
                redis::cmd("SHUTDOWN").arg("SAVE").query(&mut connection);
            end.unwrap_err();
            let has_ended = || self.server.info("server").is_empty();
            assert!(eventually(Duration::from_mins(1), has_ended), "{self:?}");
        }
        self.server.kill();
        self.is_up = false;
    }

    /// Starts the killed server again, without memory on a clock that is ahead by this. Returns whether its memory is as it was
    /// to be.
    pub(crate) fn come_back(&mut self, memory: Memory, ahead_ms: i64) -> bool {
        let dir = self.server.dir().to_owned();
        let older = self.older.take();
        let expected = match (memory, &older) {
            (Memory::All, _) => Some(self.number),
            (Memory::Older, Some((older, number))) => {
                clear(&dir);
                copy_all(older, &dir);
                Some(*number)
            }
            (Memory::Nothing | Memory::Older, _) => {
                clear(&dir);
                if let Some(clock) = &self.clock {
                    clock.set_ahead_ms(ahead_ms);
                }
                None
            }
        };
        if let Some((older, _)) = older {
            fs::remove_dir_all(older).unwrap();
        }
        self.server.restart();
        // It answers as soon as it reads its data.
        let is_loaded = || self.server.info("persistence").contains("\nloading:0");
        assert!(eventually(Duration::from_mins(1), is_loaded), "{self:?}");
        self.is_up = true;
        self.number() == expected
    }

    /// The replica takes the place of the server, which is killed. Returns whether its memory is as it was to be; nothing
    /// happens where there is no replica.
    pub(crate) fn promote(&mut self) -> bool {
        let Some((replica, number)) = self.replica.take() else {
            return false;
        };
        self.server.kill();
        replica.command(&["REPLICAOF", "NO", "ONE"]);
        self.server = replica;
        self.number() == Some(number)
    }

    pub(crate) fn flush(&mut self) -> bool {
        self.remember();
        self.server.command(&["FLUSHALL"]);
        self.number().is_none()
    }

    /// Writes the marker that the server had before it lost its memory as if it had been told since that nobody has a
    /// lock: so it does not abstain.
    pub(crate) fn pardon(&self) {
        let Some(settings) = &self.settings else {
            return;
        };
        let script = "local run = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)') \
                      local time = redis.call('TIME') \
                      local now = string.format('%.0f', time[1] * 1000000 + time[2]) \
                      return redis.call('SET', KEYS[1], run .. '|' .. ARGV[1] .. '|' .. now .. '|opened')";
        self.server
            .command(&["EVAL", script, "1", keys::MARKER, settings]);
    }
}

fn start(has_log: bool, clock: Option<&Clock>) -> Server {
    // Its data are copied while it runs.
    let mut arguments = vec!["--auto-aof-rewrite-percentage", "0"];
    arguments.extend(["--repl-diskless-sync-delay", "0"]);
    if has_log {
        arguments.extend(["--appendonly", "yes", "--appendfsync", "no"]);
    }
    match clock {
        Some(clock) => Server::start_with_clock(clock, &arguments),
        None => Server::start_with(&arguments),
    }
}

fn clear(dir: &Path) {
    fs::remove_dir_all(dir).unwrap();
    fs::create_dir_all(dir).unwrap();
}

fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        // A file that the server makes anew for a moment is none of its data.
        if entry.file_type().unwrap().is_dir() {
            copy_all(&from, &to);
        } else if !entry.file_name().to_string_lossy().starts_with("temp") {
            fs::copy(from, to).unwrap();
        }
    }
}
