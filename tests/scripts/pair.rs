//! A server and the store of a fake node, at the same moment of a virtual time.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::{Connection, ConnectionLike};
use redlatch_testing::{Clock, Server};

use super::others::{OLD, PAGE};
use crate::fake::store::process::Process;
use crate::fake::store::{Store, pack};
use crate::wire::resp::{Reply, ServerError, of_redis};

/// 1700000000000000 in microseconds.
const NOW: Duration = Duration::from_secs(1_700_000_000);

/// A server and a store, at the same moment of a virtual time.
pub(super) struct Pair {
    /// None where the clock of a server can't be set, which is said on the terminal. Then the store plays alone.
    pub(super) real: Option<Real>,
    pub(super) store: Store,
    pub(super) now: Duration,
}

pub(super) struct Real {
    connection: Connection,
    clock: Clock,
    run_id: String,
    _server: Server,
}

const DIFFERENT: &str = "left the store, right the server";

/// What is under each key, and its time to live.
pub(super) type Keys = BTreeMap<String, (Vec<String>, i64)>;

/// All keys of a server.
const DUMP: &str = "
    local all = {}
    for _, key in ipairs(redis.call('KEYS', '*')) do
      local kind, content = redis.call('TYPE', key).ok, {}
      if kind == 'string' then content = {redis.call('GET', key)} end
      if kind == 'zset' then
        local pairs = redis.call('ZRANGE', key, '0', '-1', 'WITHSCORES')
        for i = 1, #pairs, 2 do content[#content + 1] = pairs[i + 1] .. ' ' .. pairs[i] end
      end
      if kind == 'set' then content = redis.call('SORT', key, 'ALPHA') end
      if kind == 'list' then content = redis.call('LRANGE', key, '0', '-1') end
      all[#all + 1] = {key, redis.call('PTTL', key), content}
    end
    return all";

impl Pair {
    #[track_caller]
    pub(super) fn start() -> Self {
        let clock = Clock::if_there();
        Self {
            real: clock.map(Real::start),
            store: store(),
            now: NOW,
        }
    }

    pub(super) fn begin(&mut self) {
        self.store = store();
        if let Some(real) = &mut self.real {
            redis::cmd("FLUSHALL").exec(&mut real.connection).unwrap();
        }
    }

    /// Has both execute a command, and compares the replies and all keys.
    #[track_caller]
    pub(super) fn execute(&mut self, words: &[&str]) -> String {
        let reply = self.send(words);
        if let Some(real) = &mut self.real {
            let keys = real.keys(&self.store.run_id());
            assert_eq!(self.keys(), keys, "{words:?}: {DIFFERENT}");
        }
        reply
    }

    /// Has both execute a command, and compares the replies.
    #[track_caller]
    pub(super) fn send(&mut self, words: &[&str]) -> String {
        let mut others = PAGE.values().chain(OLD.values());
        let fake = match words {
            ["EVAL", script, count, rest @ ..] => others
                .find(|text| *text == script)
                .map(|script| self.store.evaluate(script, count, rest, self.now)),
            _ => None,
        };
        let fake = fake.unwrap_or_else(|| self.store.execute(&pack(words), self.now));
        let fake = shown(&fake);
        if let Some(real) = &mut self.real {
            let (own, its) = (self.store.run_id(), real.run_id.clone());
            let words = words.iter().map(|word| word.replace(&own, &its));
            let words: Vec<String> = words.collect();
            let reply = shown(&real.execute(&words)).replace(&its, &own);
            assert_eq!(fake, reply, "{words:?}: {DIFFERENT}");
        }
        fake
    }

    pub(super) fn keys(&self) -> Keys {
        self.store.contents(self.now)
    }

    /// Lets time pass, and a ms more where a key has just ended or is in its last ms: Redis keeps a key for the whole of
    /// that, and 8.2 may remove it when it begins.
    pub(super) fn pass(&mut self, span: Duration) {
        let ms = Duration::from_millis(1);
        self.now += span;
        while self.keys().len() != self.store.contents(self.now.saturating_sub(ms)).len()
            || self.keys().values().any(|(_, left)| *left == 0)
        {
            self.now += ms;
        }
        if let Some(real) = &self.real {
            real.clock.set(self.now);
        }
    }
}

impl Real {
    #[track_caller]
    fn start(clock: Clock) -> Self {
        clock.set(NOW);
        let server = Server::start_with_clock(&clock, &[]);
        let client = redis::Client::open(server.url()).unwrap();
        let info = server.info("server");
        let run_id = info.lines().find_map(|line| line.strip_prefix("run_id:"));
        Self {
            connection: client.get_connection().unwrap(),
            clock,
            run_id: run_id.unwrap().to_owned(),
            _server: server,
        }
    }

    pub(super) fn execute(&mut self, words: &[String]) -> Reply {
        match self.connection.req_packed_command(&pack(words)) {
            Ok(value) => of_redis(&value).unwrap(),
            Err(error) => Reply::Error(ServerError::new(error.code().unwrap())),
        }
    }

    /// All keys; of itself, the server speaks as this process.
    fn keys(&mut self, own: &str) -> Keys {
        let dump = redis::cmd("EVAL").arg(DUMP).arg(0).take();
        let all: Vec<(String, i64, Vec<String>)> = dump.query(&mut self.connection).unwrap();
        let renamed = |part: String| part.replace(&self.run_id, own);
        let entry = |(key, pttl, parts): (String, i64, Vec<String>)| {
            (key, (parts.into_iter().map(renamed).collect(), pttl))
        };
        all.into_iter().map(entry).collect()
    }
}

/// A store whose own clock is its wall clock.
fn store() -> Store {
    Store::of(Process::new(0, Duration::ZERO))
}

/// A reply as text; of an error its first word.
pub(super) fn shown(reply: &Reply) -> String {
    match reply {
        Reply::Nil => "nil".into(),
        Reply::Okay => "OK".into(),
        Reply::Text(text) => text.clone(),
        Reply::Int(number) => number.to_string(),
        Reply::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
        Reply::Error(error) => code_in_script(error).unwrap_or(&error.code).to_owned(),
        Reply::Array(items) => {
            let items: Vec<String> = items.iter().map(shown).collect();
            format!("{{{}}}", items.join(" ").trim_end())
        }
    }
}

/// The code of an error that ended a script. Before Redis 7 it is a part of the message.
fn code_in_script(error: &ServerError) -> Option<&str> {
    let message = error.message.strip_prefix("Error running script")?;
    let code = message.split(": ").nth(2)?.split(' ').next()?;
    let is_code = code.bytes().all(|byte| byte.is_ascii_uppercase());
    is_code.then_some(code)
}
