//! The crate and its peers on the same keys: while one has a lock, the others are refused. What a peer can do under a key that
//! readers hold is in `tests/scripts/page.txt`. `cargo test --test interop`

use std::time::Duration;

use redlatch::{Error, LockGuard, LockManager};
use redlatch_testing::Server;
use tokio::runtime::{Builder, Runtime};

/// Of all locks, and longer than any test takes.
const TTL: Duration = Duration::from_mins(1);
const KEY: &str = "ledger";

/// A lock of a peer: its value, and how to give it back.
trait Port {
    fn name(&self) -> &'static str;

    /// One attempt. Whether it has got the lock, which it keeps in mind.
    fn lock(&mut self) -> bool;

    /// Prolongs the lock that it has, if it has such a call, and gives it back.
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

    fn lock(&mut self) -> bool {
        let ttl_ms = usize::try_from(TTL.as_millis()).unwrap();
        self.held = self.manager.lock(KEY.as_bytes(), ttl_ms).unwrap();
        self.held.is_some()
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

    fn lock(&mut self) -> bool {
        let lock = self.runtime.block_on(self.manager.lock(KEY, TTL));
        if let Err(error) = &lock {
            assert!(matches!(error, rslock::LockError::Unavailable), "{error}");
        }
        self.held = lock.ok();
        self.held.is_some()
    }

    fn unlock(&mut self) {
        let lock = self.held.as_ref().unwrap();
        let extended = self.runtime.block_on(self.manager.extend(lock, TTL));
        extended.unwrap();
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

/// All in which we have the lock.
fn ways(manager: &LockManager) -> Vec<(&'static str, Take<'_>)> {
    let shared = manager.rw_lock(KEY).ttl(TTL);
    let writer = shared.clone();
    let several = |names: [&str; 2]| manager.request_all(names).ttl(TTL);
    let (first, last) = (several([KEY, "zoo"]), several(["an", KEY]));
    vec![
        ("lock", Box::new(|| manager.try_lock(KEY, TTL))),
        ("read", Box::new(move || shared.try_read())),
        ("write", Box::new(move || writer.try_write())),
        ("the first of several", Box::new(move || first.try_lock())),
        ("the last of several", Box::new(move || last.try_lock())),
    ]
}

#[test]
fn a_peer_and_we_refuse_each_other_however_we_have_the_lock() {
    with_each(|servers, manager, port| {
        for (way, take) in ways(manager) {
            let case = format!("{}, {way}", port.name());
            let guard = take().unwrap();
            assert!(!port.lock(), "{case}");
            guard.check().unwrap();
            guard.unlock().unwrap();
            assert!(port.lock(), "{case}");
            let Err(Error::Held { resource, .. }) = take() else {
                panic!("{case}");
            };
            assert_eq!(&*resource, KEY, "{case}");
            // Ours have not meddled with it.
            port.unlock();
            assert!(servers.iter().all(|server| server.get(KEY).is_none()));
        }
    });
}
