//! A plain Redlock client, as the Redis documentation publishes the algorithm and other implementations write it down: `SET NX PX`
//! on each server, and the scripts that compare and delete, or compare and extend.

use std::time::Duration;

use redis::{Client, Connection, Script, ScriptInvocation, Value};
use redlatch_testing::Server;

/// As on the page "Distributed Locks with Redis".
const UNLOCK: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then \
                        return redis.call('del', KEYS[1]) \
                      else \
                        return 0 \
                      end";
/// Of those that keep the key and move its end.
const EXTEND: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then \
                        return redis.call('pexpire', KEYS[1], ARGV[2]) \
                      else \
                        return 0 \
                      end";
/// Of those that set the key again.
const SET_AGAIN: &str = "if redis.call('get', KEYS[1]) ~= ARGV[1] then \
                           return 0 \
                         end \
                         redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) \
                         return 1";
/// Of those that take several keys at once.
const LOCK_ALL: &str = "for i, key in ipairs(KEYS) do \
                          if redis.call('exists', key) == 1 then return 0 end \
                        end \
                        for i, key in ipairs(KEYS) do \
                          redis.call('set', key, ARGV[1], 'PX', ARGV[2]) \
                        end \
                        return #KEYS";
const UNLOCK_ALL: &str = "local count = 0 \
                          for i, key in ipairs(KEYS) do \
                            if redis.call('get', key) == ARGV[1] then \
                              redis.pcall('del', key) \
                              count = count + 1 \
                            end \
                          end \
                          return count";

/// How a port prolongs its lock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Extend {
    Expire,
    SetAgain,
}

pub(crate) const EXTENSIONS: [Extend; 2] = [Extend::Expire, Extend::SetAgain];

/// One such client, with a value of its own.
pub(crate) struct Port {
    clients: Vec<Client>,
    /// What it has in its keys.
    pub(crate) value: String,
}

impl Port {
    pub(crate) fn new(servers: &[Server], value: &str) -> Self {
        Self {
            clients: servers
                .iter()
                .map(|server| Client::open(server.url()).unwrap())
                .collect(),
            value: value.to_owned(),
        }
    }

    /// Takes the lock if a majority grants it, or gives back what it has got.
    pub(crate) fn lock(&self, key: &str, ttl: Duration) -> bool {
        let mut set = redis::cmd("SET");
        set.arg(key).arg(&self.value);
        set.arg("NX").arg("PX").arg(millis(ttl));
        let votes = self.count(|connection| set.query(connection), &Value::Okay);
        if !self.is_majority(votes) {
            self.unlock(key);
        }
        self.is_majority(votes)
    }

    pub(crate) fn lock_all(&self, keys: &[&str], ttl: Duration) -> bool {
        let script = Script::new(LOCK_ALL);
        let mut call = self.call(&script, keys);
        call.arg(millis(ttl));
        let votes = self.count(|connection| call.invoke(connection), &length(keys));
        if !self.is_majority(votes) {
            self.unlock_all(keys);
        }
        self.is_majority(votes)
    }

    /// Prolongs its lock; returns whether a majority did.
    pub(crate) fn extend(&self, how: Extend, key: &str, ttl: Duration) -> bool {
        let script = Script::new(match how {
            Extend::Expire => EXTEND,
            Extend::SetAgain => SET_AGAIN,
        });
        let mut call = self.call(&script, &[key]);
        call.arg(millis(ttl));
        self.is_majority(self.count(|connection| call.invoke(connection), &Value::Int(1)))
    }

    /// Gives the lock back; returns on how many servers its key was there.
    pub(crate) fn unlock(&self, key: &str) -> usize {
        let script = Script::new(UNLOCK);
        let call = self.call(&script, &[key]);
        self.count(|connection| call.invoke(connection), &Value::Int(1))
    }

    pub(crate) fn unlock_all(&self, keys: &[&str]) -> usize {
        let script = Script::new(UNLOCK_ALL);
        let call = self.call(&script, keys);
        self.count(|connection| call.invoke(connection), &length(keys))
    }

    fn call<'a>(&self, script: &'a Script, keys: &[&str]) -> ScriptInvocation<'a> {
        let mut call = script.prepare_invoke();
        for key in keys {
            call.key(*key);
        }
        call.arg(&self.value);
        call
    }

    /// On how many servers the reply is this one. An error is another reply.
    fn count(
        &self,
        ask: impl Fn(&mut Connection) -> redis::RedisResult<Value>,
        yes: &Value,
    ) -> usize {
        let says_yes = |client: &&Client| {
            let mut connection = client.get_connection().unwrap();
            let reply = ask(&mut connection);
            // It is an answer, and the connection can be used.
            assert!(
                !matches!(&reply, Err(error) if error.is_io_error()),
                "{reply:?}"
            );
            redis::cmd("PING").exec(&mut connection).unwrap();
            reply.is_ok_and(|reply| reply == *yes)
        };
        self.clients.iter().filter(says_yes).count()
    }

    fn is_majority(&self, votes: usize) -> bool {
        votes > self.clients.len() / 2
    }
}

fn length(keys: &[&str]) -> Value {
    Value::Int(i64::try_from(keys.len()).unwrap())
}

fn millis(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_millis()).unwrap()
}

/// What is under the keys of all locks of a server, and for how many milliseconds. What those who wait leave beside them is not
/// in it, nor the counters of the fenced protocol, which a refused attempt may move.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Content {
    pub(crate) values: Vec<Vec<String>>,
    pub(crate) pttls: Vec<i64>,
}

impl Content {
    pub(crate) fn of(server: &Server) -> Self {
        let script = "local all = {} \
                      for _, key in ipairs(redis.call('KEYS', '*')) do \
                        if not (key:find(':redlatch:', 1, true) or key:find(':fence$')) then table.insert(all, key) end \
                      end \
                      table.sort(all) \
                      local values, pttls = {}, {} \
                      for i, key in ipairs(all) do \
                        if redis.call('TYPE', key).ok == 'string' then \
                          values[i] = {key, redis.call('GET', key)} \
                        else \
                          values[i] = redis.call('ZRANGE', key, '0', '-1', 'WITHSCORES') \
                          table.insert(values[i], 1, key) \
                        end \
                        pttls[i] = redis.call('PTTL', key) \
                      end \
                      return {values, pttls}";
        let reply = server.command(&["EVAL", script, "0"]);
        let (values, pttls) = redis::from_redis_value(reply).unwrap();
        Self { values, pttls }
    }

    /// Nothing has changed since, but for the time.
    #[track_caller]
    pub(crate) fn assert_same(&self, now: &Self, case: &str) {
        assert_eq!(self.values, now.values, "{case}");
        for (before, after) in self.pttls.iter().zip(&now.pttls) {
            // Half of it does not go by in any test; -1 is for ever.
            let goes_on = after <= before && *after > before / 2;
            assert!(
                goes_on || (*before, *after) == (-1, -1),
                "{case}: {self:?} {now:?}"
            );
        }
    }
}
