//! A plain Redlock client, as the Redis documentation publishes the algorithm and other implementations write it down: `SET NX PX`
//! on each server, and the scripts that compare and delete, or compare and extend.

use std::time::Duration;

use redis::{Client, Value};
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
                        return 1";
const UNLOCK_ALL: &str = "local count = 0 \
                          for i, key in ipairs(KEYS) do \
                            if redis.call('get', key) == ARGV[1] then \
                              redis.pcall('del', key) \
                              count = 1 \
                            end \
                          end \
                          return count";

pub(crate) const EXTENSIONS: [&str; 2] = [EXTEND, SET_AGAIN];

/// One such client, with a value of its own.
pub(crate) struct Port {
    clients: Vec<Client>,
    /// What it has in its keys.
    pub(crate) value: String,
}

impl Port {
    pub(crate) fn new(servers: &[Server], value: &str) -> Self {
        let client = |server: &Server| Client::open(server.url()).unwrap();
        Self {
            clients: servers.iter().map(client).collect(),
            value: value.to_owned(),
        }
    }

    /// Takes the lock if a majority grants it, or gives back what it has got.
    pub(crate) fn lock(&self, key: &str, ttl: Duration) -> bool {
        let mut set = redis::cmd("SET");
        set.arg(key).arg(&self.value).arg("NX");
        set.arg("PX").arg(ttl.as_millis().to_string());
        let is_locked = self.count(&set, &Value::Okay) > self.clients.len() / 2;
        if !is_locked {
            self.unlock(key);
        }
        is_locked
    }

    pub(crate) fn lock_all(&self, keys: &[&str], ttl: Duration) -> bool {
        let is_locked = self.run(LOCK_ALL, keys, ttl) > self.clients.len() / 2;
        if !is_locked {
            self.unlock_all(keys);
        }
        is_locked
    }

    /// Prolongs its lock, in one of two ways; returns whether a majority did.
    pub(crate) fn extend(&self, how: &str, key: &str, ttl: Duration) -> bool {
        self.run(how, &[key], ttl) > self.clients.len() / 2
    }

    /// Gives the lock back; returns on how many servers its key was there.
    pub(crate) fn unlock(&self, key: &str) -> usize {
        self.run(UNLOCK, &[key], Duration::ZERO)
    }

    pub(crate) fn unlock_all(&self, keys: &[&str]) -> usize {
        self.run(UNLOCK_ALL, keys, Duration::ZERO)
    }

    /// On how many servers the script replies with one.
    fn run(&self, script: &str, keys: &[&str], ttl: Duration) -> usize {
        let mut eval = redis::cmd("EVAL");
        eval.arg(script).arg(keys.len()).arg(keys).arg(&self.value);
        eval.arg(ttl.as_millis().to_string());
        self.count(&eval, &Value::Int(1))
    }

    /// On how many servers the reply is this one. An error is another reply.
    fn count(&self, command: &redis::Cmd, yes: &Value) -> usize {
        let says_yes = |client: &&Client| {
            let mut connection = client.get_connection().unwrap();
            let reply = command.query::<Value>(&mut connection);
            // It is an answer, and the connection can be used.
            let is_broken = matches!(&reply, Err(error) if error.is_io_error());
            assert!(!is_broken, "{reply:?}");
            redis::cmd("PING").exec(&mut connection).unwrap();
            reply.is_ok_and(|reply| reply == *yes)
        };
        self.clients.iter().filter(says_yes).count()
    }
}

/// What is under the keys of all locks of a server, and for how many milliseconds. What those who wait leave beside them is not
/// in it, nor the counters of the fenced protocol, which a refused attempt may move.
const CONTENT: &str = "local all = {} \
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

/// The keys with their values, and the times.
type Content = (Vec<Vec<String>>, Vec<i64>);

/// Does something, and nothing changes on any server but for the time.
#[track_caller]
pub(crate) fn changes_nothing(servers: &[Server], case: &str, act: impl FnOnce()) {
    let contents = || {
        let content = |server: &Server| server.command(&["EVAL", CONTENT, "0"]);
        let contents = servers.iter().map(content).map(redis::from_redis_value);
        contents.collect::<Result<Vec<Content>, _>>().unwrap()
    };
    let before = contents();
    act();
    for ((values, pttls), (values_now, pttls_now)) in before.iter().zip(contents()) {
        assert_eq!(*values, values_now, "{case}");
        for (before, after) in pttls.iter().zip(pttls_now) {
            // Half of it does not go by in any test; -1 is for ever.
            let goes_on = after <= *before && after > before / 2;
            assert!(
                goes_on || (*before, after) == (-1, -1),
                "{case}: {before} {after}"
            );
        }
    }
}
