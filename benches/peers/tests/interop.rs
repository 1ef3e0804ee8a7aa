//! The crate and its peers on the same keys: while one has a lock, the others are refused, and what a peer does under a key
//! that readers hold changes nothing. `cargo test --test interop`

use std::time::Duration;

use redlatch::{Error, LockGuard, LockManager};
use redlatch_testing::{Server, eventually};
use tokio::runtime::{Builder, Runtime};

/// Of all locks, and longer than any test takes.
const TTL: Duration = Duration::from_mins(1);
const LONGER: Duration = Duration::from_hours(1);
const BOUND: Duration = Duration::from_mins(1);

/// A lock of a peer: its value, and how to give it back.
trait Port {
    fn name(&self) -> &'static str;

    /// One attempt. Whether it has got the lock, which it keeps in mind.
    fn lock(&mut self, key: &str, ttl: Duration) -> bool;

    /// Prolongs the lock that it has or had; `None` if it has no such call.
    fn extend(&mut self, ttl: Duration) -> Option<bool>;

    /// Gives back the lock that it has or had.
    fn unlock(&mut self);
}

struct Redlock<'m> {
    manager: &'m redlock::RedLock,
    held: Option<redlock::Lock<'m>>,
}

impl Port for Redlock<'_> {
    fn name(&self) -> &'static str {
        "redlock"
    }

    fn lock(&mut self, key: &str, ttl: Duration) -> bool {
        let ttl_ms = usize::try_from(ttl.as_millis()).unwrap();
        let lock = self.manager.lock(key.as_bytes(), ttl_ms).unwrap();
        let has_it = lock.is_some();
        self.held = lock.or(self.held.take());
        has_it
    }

    fn extend(&mut self, _: Duration) -> Option<bool> {
        None
    }

    fn unlock(&mut self) {
        self.manager.unlock(self.held.as_ref().unwrap());
    }
}

struct Rslock {
    manager: rslock::LockManager,
    runtime: Runtime,
    held: Option<rslock::Lock>,
}

impl Port for Rslock {
    fn name(&self) -> &'static str {
        "rslock"
    }

    fn lock(&mut self, key: &str, ttl: Duration) -> bool {
        let lock = self.runtime.block_on(self.manager.lock(key, ttl));
        if let Err(error) = &lock {
            assert!(matches!(error, rslock::LockError::Unavailable), "{error}");
        }
        let has_it = lock.is_ok();
        self.held = lock.ok().or(self.held.take());
        has_it
    }

    fn extend(&mut self, ttl: Duration) -> Option<bool> {
        let lock = self.held.as_ref().unwrap();
        let extended = self.runtime.block_on(self.manager.extend(lock, ttl));
        Some(extended.is_ok())
    }

    fn unlock(&mut self) {
        let lock = self.held.as_ref().unwrap();
        self.runtime.block_on(self.manager.unlock(lock));
    }
}

/// Lets each of the peers play on servers of its own.
fn with_each(test: impl Fn(&[Server], &LockManager, &mut dyn Port)) {
    for is_async in [false, true] {
        let servers = Server::cluster(3);
        let urls: Vec<String> = servers.iter().map(Server::url).collect();
        let builder = LockManager::builder().nodes(&urls);
        // As long as a busy machine takes.
        let manager = builder.node_timeout(Duration::from_secs(10)).build();
        let manager = manager.unwrap();
        let urls = urls.iter().map(String::as_str).collect();
        if is_async {
            let mut peer = rslock::LockManager::new(urls);
            peer.set_retry(1, Duration::from_millis(1));
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            let mut port = Rslock {
                manager: peer,
                runtime,
                held: None,
            };
            test(&servers, &manager, &mut port);
        } else {
            let mut peer = redlock::RedLock::new(urls);
            peer.set_retry(1, 1);
            let mut port = Redlock {
                manager: &peer,
                held: None,
            };
            test(&servers, &manager, &mut port);
        }
    }
}

type Take<'m> = Box<dyn Fn() -> Result<LockGuard, Error> + 'm>;

/// All in which we have the lock on "ledger".
fn ways(manager: &LockManager) -> Vec<(&'static str, Take<'_>)> {
    let shared = manager.rw_lock("ledger").ttl(TTL);
    let writer = shared.clone();
    let several = |names: [&str; 2]| manager.request_all(names).ttl(TTL);
    let (first, last) = (several(["ledger", "zoo"]), several(["an", "ledger"]));
    vec![
        ("lock", Box::new(|| manager.try_lock("ledger", TTL))),
        ("read", Box::new(move || shared.try_read())),
        ("write", Box::new(move || writer.try_write())),
        ("the first of several", Box::new(move || first.try_lock())),
        ("the last of several", Box::new(move || last.try_lock())),
    ]
}

/// What is under the keys of all locks of a server, without the time that they have left. What those who wait leave beside them
/// is not in it.
fn values(servers: &[Server]) -> Vec<String> {
    let script = "local all = {} \
                  for _, key in ipairs(redis.call('KEYS', '*')) do \
                    if not key:find(':redlatch:', 1, true) then table.insert(all, key) end \
                  end \
                  table.sort(all) \
                  for i, key in ipairs(all) do \
                    local value = redis.call('TYPE', key).ok \
                    if value == 'string' then \
                      value = redis.call('GET', key) \
                    elseif value == 'zset' then \
                      value = table.concat(redis.call('ZRANGE', key, '0', '-1', 'WITHSCORES'), ' ') \
                    end \
                    all[i] = key .. ' = ' .. value \
                  end \
                  return table.concat(all, ', ')";
    let value = |server: &Server| {
        let reply = server.command(&["EVAL", script, "0"]);
        // The values of peers are any bytes.
        let bytes: Vec<u8> = redis::from_redis_value(reply).unwrap();
        bytes.escape_ascii().to_string()
    };
    servers.iter().map(value).collect()
}

#[test]
fn a_peer_is_refused_while_we_read_write_or_hold_several() {
    with_each(|servers, manager, port| {
        for (way, take) in ways(manager) {
            let case = format!("{}, {way}", port.name());
            let guard = take().unwrap();
            let before = values(servers);
            assert!(!port.lock("ledger", LONGER), "{case}");
            assert_eq!(before, values(servers), "{case}");
            guard.check().unwrap();
            guard.unlock().unwrap();
            assert!(port.lock("ledger", TTL), "{case}");
            port.unlock();
            take().unwrap().unlock().unwrap();
        }
    });
}

#[test]
fn we_are_refused_while_a_peer_has_the_lock() {
    with_each(|servers, manager, port| {
        assert!(port.lock("ledger", TTL));
        let before = values(servers);
        for (way, take) in ways(manager) {
            let case = format!("{}, {way}", port.name());
            let Err(Error::Held { resource, .. }) = take() else {
                panic!("{case}");
            };
            assert_eq!(&*resource, "ledger", "{case}");
            assert_eq!(before, values(servers), "{case}");
        }
        // Ours have not meddled with it.
        assert_ne!(port.extend(TTL), Some(false), "{}", port.name());
        port.unlock();
        assert_eq!(values(servers), [""; 3]);
    });
}

#[test]
fn a_peer_that_is_late_with_its_own_lock_harms_no_reader() {
    with_each(|servers, manager, port| {
        // It ends soon, and the peer does not know.
        assert!(eventually(BOUND, || port.lock("ledger", Duration::from_secs(3))));
        let shared = manager.rw_lock("ledger").ttl(TTL);
        let readers = [(); 2].map(|()| shared.try_read_for(BOUND).unwrap());
        let before = values(servers);
        for ttl in [LONGER, Duration::from_millis(100)] {
            assert_ne!(port.extend(ttl), Some(true), "{}", port.name());
        }
        port.unlock();
        assert_eq!(before, values(servers), "{}", port.name());
        for server in servers {
            let left = server.pttl("ledger");
            assert!(
                (30_000..=60_000).contains(&left),
                "{}: {left} ms",
                port.name()
            );
        }
        for reader in readers {
            reader.extend(TTL).unwrap();
            reader.unlock().unwrap();
        }
        assert!(port.lock("ledger", TTL), "{}", port.name());
        port.unlock();
    });
}
