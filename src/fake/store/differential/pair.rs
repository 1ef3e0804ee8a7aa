//! A real server and a store, at the same moment of a virtual time.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::{Connection, ConnectionLike, RedisResult, Value};
use redlatch_testing::{Clock, Server};

use super::super::entry::Sorted;
use super::super::process::Process;
use super::super::{Content, Entry, Store, pack};
use crate::wire::resp::{Reply, ServerError, of_redis};

/// All keys of a server, with what is in them and their times to live.
const DUMP: &str = "
    local all = {}
    for _, key in ipairs(redis.call('KEYS', '*')) do
      local kind, content = redis.call('TYPE', key).ok, {}
      if kind == 'string' then content = {redis.call('GET', key)} end
      if kind == 'zset' then content = redis.call('ZRANGE', key, '0', '-1', 'WITHSCORES') end
      if kind == 'set' then content = redis.call('SMEMBERS', key) end
      if kind == 'list' then content = redis.call('LRANGE', key, '0', '-1') end
      all[#all + 1] = {key, kind, redis.call('PTTL', key), content}
    end
    return all";

/// When a pair starts.
const FIRST: Duration = Duration::from_secs(1_700_000_000);

type Keys = BTreeMap<String, (Content, i64)>;

pub(super) struct Pair {
    connection: Connection,
    clock: Clock,
    /// Of the server.
    run_id: String,
    pub(super) store: Store,
    pub(super) now: Duration,
    _server: Server,
}

impl Pair {
    /// None where a server's clock can't be set, which is said on the terminal.
    #[track_caller]
    pub(super) fn start() -> Option<Self> {
        let clock = Clock::if_there()?;
        let now = FIRST;
        clock.set(now);
        let (server, connection) = start_passive(&clock);
        // No script takes that long, if it ends at all.
        let limit = Some(Duration::from_secs(20));
        connection.set_read_timeout(limit).unwrap();
        let info = server.info("server");
        let field = |name| info.lines().find_map(|line| line.strip_prefix(name));
        let is_old = field("redis_version:").unwrap().starts_with("6.");
        if is_old {
            println!("not compared: before Redis 7, the errors of scripts have other words");
            return None;
        }
        let id = field("run_id:");
        Some(Self {
            connection,
            clock,
            run_id: id.unwrap().trim().to_owned(),
            store: in_server_time(),
            now,
            _server: server,
        })
    }

    /// Begins anew, some days later.
    pub(super) fn begin(&mut self, micros: u64) {
        self.store = in_server_time();
        let day = self.now.as_secs() / 86_400 + 2;
        self.set_time(Duration::from_secs(day * 86_400) + Duration::from_micros(micros));
        redis::cmd("FLUSHALL").exec(&mut self.connection).unwrap();
        self.flush_scripts();
    }

    pub(super) fn flush_scripts(&mut self) {
        self.store.forget_scripts();
        let flush = redis::cmd("SCRIPT").arg("FLUSH").exec(&mut self.connection);
        flush.unwrap();
    }

    /// Lets time pass, and a ms more where a key of the store has just ended: Redis keeps it for the whole of its last ms.
    pub(super) fn pass(&mut self, span: Duration) {
        let ms = Duration::from_millis(1);
        let mut now = self.now + span;
        let is_over = |entry: &Entry, now| entry.until <= now && now < entry.until + ms;
        let entries = || {
            self.store
                .keys
                .values()
                .filter(|entry| is_kept_longer(entry))
        };
        while entries().any(|entry| is_over(entry, now)) {
            now += ms;
        }
        self.set_time(now);
    }

    fn set_time(&mut self, now: Duration) {
        self.now = now;
        let wall = self.store.process.wall_micros(now);
        self.clock.set(Duration::from_micros(wall));
    }

    /// Has both execute a command, and compares the replies and all keys.
    #[track_caller]
    pub(super) fn execute(&mut self, words: &[String], what: &impl std::fmt::Debug) {
        let fake = self.store.execute(&pack(words), self.now);
        let real = self.real(words);
        let is_same = is_same(&fake, &real);
        assert!(is_same, "{what:?}: store {fake:?}, server {real:?}");
        self.compare_keys(what);
    }

    /// What the server says to the command; of itself, it speaks as the store's process.
    pub(super) fn real(&mut self, words: &[String]) -> Reply {
        let mut words = words.to_vec();
        let own = self.store.run_id();
        for word in &mut words {
            *word = word.replace(&own, &self.run_id);
        }
        let reply = as_reply(self.connection.req_packed_command(&pack(&words)));
        renamed(reply, &self.run_id, &own)
    }

    #[track_caller]
    fn compare_keys(&mut self, what: &impl std::fmt::Debug) {
        let (now, own) = (self.now, self.store.run_id());
        let entries = self.store.keys.iter();
        let living = entries.filter(|(_, entry)| entry.until > now);
        let fake: Keys = living
            .map(|(key, entry)| (key.clone(), (entry.content.clone(), entry.pttl(now))))
            .collect();
        let dump = redis::cmd("EVAL").arg(DUMP).arg(0).take();
        let all: Vec<(String, String, i64, Vec<String>)> =
            dump.query(&mut self.connection).unwrap();
        let id = self.run_id.as_str();
        let real: Keys = all
            .into_iter()
            .map(|(key, kind, pttl, parts)| {
                let parts = parts.into_iter().map(|part| part.replace(id, &own));
                (key, (content(&kind, parts.collect()), pttl))
            })
            .collect();
        assert_eq!(fake, real, "{what:?}: left the store, right the server");
    }

    /// Puts something under a key of both, in place of what is there.
    pub(super) fn plant(&mut self, key: &str, content: Content, ttl_ms: Option<i64>) {
        self.write(key, &content);
        let mut until = Entry::NEVER;
        if let Some(ttl) = ttl_ms {
            self.send(&["PEXPIRE", key, &ttl.to_string()]);
            until = self.now + Duration::from_millis(ttl.unsigned_abs());
            if matches!(content, Content::Sorted(_)) {
                let end_ms = i64::try_from(until.as_millis()).unwrap();
                until = self.store.process.after(end_ms);
            }
        }
        let entry = Entry { content, until };
        self.store.keys.insert(key.to_owned(), entry);
    }

    fn write(&mut self, key: &str, content: &Content) {
        let own = self.store.run_id();
        let (command, parts) = match content {
            Content::Text(text) => ("SET", vec![text.replace(&own, &self.run_id)]),
            Content::Sorted(sorted) => {
                let members = sorted.0.iter();
                let members = members.map(|(member, score)| [score.to_string(), member.clone()]);
                ("ZADD", members.flatten().collect())
            }
            Content::Set(members) => ("SADD", members.iter().cloned().collect()),
            Content::List(elements) => ("RPUSH", elements.iter().cloned().collect()),
            Content::Other => ("HSET", vec!["field".to_owned(), "value".to_owned()]),
        };
        self.send(&["DEL", key]);
        let parts = parts.iter().map(String::as_str);
        let words: Vec<&str> = [command, key].into_iter().chain(parts).collect();
        self.send(&words);
    }

    /// Has the server alone execute a command.
    #[track_caller]
    pub(super) fn send(&mut self, words: &[&str]) {
        let reply = as_reply(self.connection.req_packed_command(&pack(words)));
        assert!(!matches!(reply, Reply::Error(_)), "{words:?}: {reply:?}");
    }
}

/// A server that removes a key when it is asked for it, and never on its own: Redis 8.2 does that when the last ms of the key
/// begins, but does not hide the key before that ms is over.
fn start_passive(clock: &Clock) -> (Server, Connection) {
    let start = |arguments: &[&str]| {
        let server = Server::start_with_clock(clock, arguments);
        let client = redis::Client::open(server.url()).unwrap();
        let mut connection = client.get_connection().unwrap();
        let result = redis::cmd("DEBUG")
            .arg("SET-ACTIVE-EXPIRE")
            .arg(0)
            .exec(&mut connection);
        result.map(|()| (server, connection))
    };
    // Redis 6.2 allows it to all and does not know the option.
    start(&[]).unwrap_or_else(|_| start(&["--enable-debug-command", "yes"]).unwrap())
}

/// A store whose own clock is its wall clock.
fn in_server_time() -> Store {
    Store::of(Process::new(0, Duration::ZERO, 0))
}

fn as_reply(reply: RedisResult<Value>) -> Reply {
    match reply {
        Ok(value) => of_redis(&value).unwrap(),
        Err(error) => {
            let (code, detail) = (error.code().unwrap(), error.detail().unwrap());
            Reply::Error(ServerError::new(&format!("{code} {detail}")))
        }
    }
}

/// With another name for the process.
fn renamed(reply: Reply, from: &str, to: &str) -> Reply {
    match reply {
        Reply::Bulk(text) => match String::from_utf8(text) {
            Ok(text) => Reply::Bulk(text.replace(from, to).into_bytes()),
            Err(error) => Reply::Bulk(error.into_bytes()),
        },
        Reply::Array(parts) => {
            let parts = parts.into_iter().map(|part| renamed(part, from, to));
            Reply::Array(parts.collect())
        }
        other @ (Reply::Nil | Reply::Okay | Reply::Text(_) | Reply::Int(_) | Reply::Error(_)) => {
            other
        }
    }
}

/// A server says more behind an error that ends a script.
fn is_same(fake: &Reply, real: &Reply) -> bool {
    match (fake, real) {
        (Reply::Array(fakes), Reply::Array(reals)) => {
            let mut pairs = fakes.iter().zip(reals);
            fakes.len() == reals.len() && pairs.all(|(fake, real)| is_same(fake, real))
        }
        (Reply::Error(fake), Reply::Error(real)) => {
            fake.code == real.code && real.message.starts_with(&fake.message)
        }
        _ => fake == real,
    }
}

/// A sorted set of the store ends as that of a server.
fn is_kept_longer(entry: &Entry) -> bool {
    !matches!(entry.content, Content::Sorted(_)) && entry.until != Entry::NEVER
}

fn content(kind: &str, mut parts: Vec<String>) -> Content {
    match kind {
        "string" => Content::Text(parts.remove(0)),
        "zset" => {
            let pairs = parts
                .chunks(2)
                .map(|pair| (pair[0].clone(), pair[1].parse().unwrap()));
            Content::Sorted(Sorted(pairs.collect()))
        }
        "set" => Content::Set(parts.into_iter().collect()),
        "list" => Content::List(parts.into()),
        _ => Content::Other,
    }
}
