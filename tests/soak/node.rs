//! A node: the server under its address, what it persists, the clock that it is told, and what is known of its memory.
//!
//! Before a fault a number is put into the memory of the server, and after it the number is looked at. So each fault is seen
//! to have happened: the number is gone, or an older one, or there.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use redlatch_testing::{Server, eventually};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::keys::{self, NUMBER};
use crate::options::Options;
use crate::time::Time;

/// What is kept of the reads of the clock: a server, a proxy and a busy machine are in between.
const ROUGHLY_MS: i64 = 15;

/// What a server finds when it starts again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    Nothing,
    Older,
    All,
}

/// How a server persists.
#[derive(Clone, Copy, Debug)]
enum Persistence {
    /// Each write goes to the file before it is answered.
    Log,
    /// There is a snapshot when one is made.
    Snapshots,
}

#[derive(Debug)]
pub(crate) struct Node {
    server: Server,
    persistence: Persistence,
    time: Time,
    number: u64,
    /// The settings in its marker, before it is killed.
    settings: Option<String>,
    /// The data of an earlier moment, and the number of then.
    older: Option<(PathBuf, u64)>,
    /// A replica that receives nothing any more, and the number that it has.
    replica: Option<(Server, Time, u64)>,
}

impl Node {
    /// Starts the server of the `i`th node.
    pub(crate) fn start(i: usize, options: &Options, ahead_ms: i64) -> Self {
        let persistence = if i.is_multiple_of(2) {
            Persistence::Log
        } else {
            Persistence::Snapshots
        };
        let time = Time::new(options, ahead_ms);
        Self {
            server: start(persistence, &time),
            persistence,
            time,
            number: 0,
            settings: None,
            older: None,
            replica: None,
        }
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    /// Puts the next number into its memory.
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
        if matches!(self.persistence, Persistence::Snapshots) {
            self.server.command(&["SAVE"]);
        }
        let older = self.server.dir().with_extension("older");
        copy_all(self.server.dir(), &older);
        self.older = Some((older, self.number));
        // What the server writes from now on will be forgotten.
        self.remember();
    }

    /// Starts a replica that has all data of now, and hears of nothing that comes after.
    pub(crate) fn replicate(&mut self, options: &Options, ahead_ms: i64) {
        self.remember();
        let time = Time::new(options, ahead_ms);
        let replica = start(self.persistence, &time);
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
        self.replica = is_like_it.then_some((replica, time, self.number));
        self.remember();
    }

    /// Ends the server: `All` lets it write what it keeps.
    pub(crate) fn kill(&mut self, next: Memory) {
        self.remember();
        let marker = self.server.get(keys::MARKER);
        self.settings = marker.and_then(|marker| Some(marker.split('|').nth(1)?.to_owned()));
        if next == Memory::All && matches!(self.persistence, Persistence::Snapshots) {
            let client = redis::Client::open(self.server.url()).unwrap();
            let mut connection = client.get_connection().unwrap();
            // The server answers by the end of the connection.
            let end: redis::RedisResult<()> =
                redis::cmd("SHUTDOWN").arg("SAVE").query(&mut connection);
            end.unwrap_err();
            assert!(has_ended(self.server.pid()), "it goes on: {self:?}");
        }
        self.server.kill();
    }

    /// Starts the killed server again. Returns whether its memory is as it was to be.
    pub(crate) fn come_back(&mut self, memory: Memory) -> bool {
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
        self.number() == expected
    }

    /// The replica takes the place of the server, which is killed. Returns whether its memory is as it was to be; nothing
    /// happens where there is no replica.
    pub(crate) fn promote(&mut self) -> bool {
        let Some((replica, mut time, number)) = self.replica.take() else {
            return false;
        };
        time.follows(&self.time);
        self.server.kill();
        replica.command(&["REPLICAOF", "NO", "ONE"]);
        self.server = replica;
        self.time = time;
        self.number() == Some(number)
    }

    /// Returns whether nothing is left.
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

    pub(crate) fn set_clock(&mut self, ahead_ms: i64) {
        self.time.set(ahead_ms);
    }

    /// The clock gains a millisecond.
    pub(crate) fn gain(&mut self) {
        self.time.gain();
    }

    pub(crate) fn has_gained(&self) -> bool {
        self.time.has_gained()
    }

    pub(crate) fn ahead_ms(&self) -> i64 {
        self.time.ahead_ms()
    }

    /// By how much keys may stay longer than they were set for.
    pub(crate) fn set_back_ms(&self) -> i64 {
        self.time.back_ms()
    }

    /// Whether the server says the time that its clock was set to.
    pub(crate) fn tells_its_time(&self) -> bool {
        let wall = || {
            let since = SystemTime::UNIX_EPOCH.elapsed().unwrap();
            i64::try_from(since.as_millis()).unwrap()
        };
        let before = wall();
        let words: Vec<i64> = redis::from_redis_value(self.server.command(&["TIME"])).unwrap();
        let time = words[0] * 1_000 + words[1] / 1_000 - self.time.ahead_ms();
        (before - ROUGHLY_MS..=wall() + ROUGHLY_MS).contains(&time)
    }
}

/// Whether a child ends by itself.
fn has_ended(child: u32) -> bool {
    let pid = i32::try_from(child).ok().and_then(Pid::from_raw).unwrap();
    // The caller that kills it also waits for it.
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    eventually(Duration::from_mins(1), || {
        waitid(WaitId::Pid(pid), look).is_ok_and(|status| status.is_some())
    })
}

fn start(persistence: Persistence, time: &Time) -> Server {
    let log: &[&str] = match persistence {
        Persistence::Log => &["--appendonly", "yes", "--appendfsync", "no"],
        Persistence::Snapshots => &[],
    };
    let mut arguments = log.to_vec();
    // Its data are copied while it runs.
    arguments.extend(["--auto-aof-rewrite-percentage", "0"]);
    arguments.extend(["--repl-diskless-sync-delay", "0"]);
    match time.clock() {
        Some(clock) => Server::start_with_clock(clock, &arguments),
        None => Server::start_with(&arguments),
    }
}

/// Removes all that is in a folder.
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
