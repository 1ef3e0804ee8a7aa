//! The page `docs/operations.md`: what its ACL users need for readers and for locks on several resources.

use redlatch::{Error, LockGuard, LockManager, LockStatus, Protocol};
use redlatch_testing::Server;

use crate::servers::operations::page::{FORBIDDEN, TTL, USERS, apply, manager, managers, rules};

/// What readers do, and a writer who meets them. The error is what people read of it.
fn use_readers([manager, another]: &[LockManager; 2]) -> Result<(), String> {
    let told = |error: Error| error.to_string();
    let (mine, theirs) = (
        manager.rw_lock("ledger").ttl(TTL),
        another.rw_lock("ledger"),
    );
    let reader = mine.try_read().map_err(told)?;
    reader.extend(TTL * 2).map_err(told)?;
    let second = theirs.try_read().map_err(told)?;
    match another.try_lock("ledger", TTL) {
        Err(Error::Held { .. }) => {}
        Err(error) => return Err(told(error)),
        Ok(second) => panic!("{second:?}"),
    }
    let status = manager.status("ledger").map_err(told)?;
    if !matches!(status, LockStatus::Read { readers: 2, .. }) {
        return Err(status.to_string());
    }
    second.unlock().map_err(told)?;
    let adopted = another.adopt(reader.into_lease()).map_err(told)?;
    adopted.unlock().map_err(told)?;
    let writer = mine.try_write().map_err(told)?;
    writer.unlock().map_err(told)
}

fn use_several([manager, another]: &[LockManager; 2]) -> Result<(), Error> {
    let names = ["account:1", "account:2", "account:3"];
    let guard = manager.request_all(names).ttl(TTL).try_lock()?;
    guard.extend(TTL * 2)?;
    assert_is_refused(another.try_lock("account:3", TTL), "account:3")?;
    let two = another.request_all(["account:3", "account:4"]);
    assert_is_refused(two.try_lock(), "account:3")?;
    guard.unlock()?;
    two.try_lock()?.unlock()
}

fn assert_is_refused(result: Result<LockGuard, Error>, words: &str) -> Result<(), Error> {
    match result {
        Err(error @ Error::Held { .. }) => {
            assert!(error.to_string().contains(words), "{error}");
            Ok(())
        }
        Err(error) => Err(error),
        Ok(guard) => panic!("{guard:?}"),
    }
}

/// On new servers of the fenced protocol, what any client does.
fn open(manager: &LockManager, protocol: Protocol) {
    if protocol == Protocol::Fenced {
        // On a server that has been flushed this may be refused for want of a permission, which is then in the way below.
        manager.open_nodes().ok();
    }
}

#[test]
fn the_users_of_the_page_can_read_and_take_several_locks() {
    let servers = Server::cluster(3);
    for (user, protocol) in USERS {
        for server in &servers {
            server.command(&["FLUSHALL"]);
            apply(server, &rules(user));
        }
        let managers = managers(&servers, user, protocol);
        open(&managers[0], protocol);
        use_readers(&managers).unwrap();
        use_several(&managers).unwrap();
    }
    // Nothing is refused in silence either.
    for server in &servers {
        let log = server.command(&["ACL", "LOG"]);
        assert_eq!(log, redis::Value::Array(Vec::new()), "{log:?}");
    }
}

/// What readers need beside what plain locks do.
const OF_READERS: [&str; 11] = [
    "+time",
    "+type",
    "+zadd",
    "+zrem",
    "+zscore",
    "+zcount",
    "+zrange",
    "+zrangebyscore",
    "+zremrangebyscore",
    "+pexpireat",
    "+incr",
];

#[test]
fn without_a_permission_of_readers_nobody_reads_and_plain_locks_work() {
    let servers = [Server::start()];
    for (user, protocol) in USERS {
        let all = rules(user);
        let is_of_readers = |word: &&&str| OF_READERS.contains(*word);
        let of_readers = all.iter().filter(is_of_readers);
        for permission in of_readers {
            if *permission == "+time" && protocol == Protocol::Fenced {
                // Nothing works without it.
                continue;
            }
            let less: Vec<&str> = all.iter().filter(|w| *w != permission).copied().collect();
            servers[0].command(&["FLUSHALL"]);
            apply(&servers[0], &less);
            let managers = managers(&servers, user, protocol);
            open(&managers[0], protocol);
            // Where there has been a writer, so that there is a counter.
            managers[0]
                .try_lock("ledger", TTL)
                .unwrap()
                .unlock()
                .unwrap();
            let error = use_readers(&managers).expect_err(permission);
            assert!(error.contains(FORBIDDEN), "{permission}: {error}");
            managers[0]
                .try_lock("report", TTL)
                .unwrap()
                .unlock()
                .unwrap();
            use_several(&managers).unwrap();
        }
    }
}

#[test]
fn the_user_who_looks_sees_readers_and_lists_them() {
    let servers = Server::cluster(3);
    for server in &servers {
        apply(server, &rules("locks-classic"));
        apply(server, &rules("locks-viewer"));
    }
    let holder = manager(&servers, "locks-classic", Protocol::Classic);
    let _reader = holder.rw_lock("ledger").read().unwrap();
    let viewer = manager(&servers, "locks-viewer", Protocol::Classic);
    let status = viewer.status("ledger").unwrap();
    assert!(
        matches!(status, LockStatus::Read { readers: 1, .. }),
        "{status}"
    );
    let mut locks = viewer.locks("").unwrap();
    assert_eq!(locks.next().unwrap().unwrap().resource, "ledger");
    assert!(locks.next().is_none());
    // Without the permission, what is in the way is told, and nothing is passed over.
    let all = rules("locks-viewer");
    for permission in ["+zrange", "+zcount", "+zrangebyscore"] {
        let less: Vec<&str> = all.iter().filter(|w| **w != permission).copied().collect();
        for server in &servers {
            apply(server, &less);
        }
        let viewer = manager(&servers, "locks-viewer", Protocol::Classic);
        let status = viewer.status("ledger").unwrap();
        assert!(
            status.to_string().contains(FORBIDDEN),
            "{permission}: {status}"
        );
        let listed: Result<Vec<_>, _> = viewer.locks("").unwrap().collect();
        let error = listed.expect_err(permission).to_string();
        assert!(error.contains(FORBIDDEN), "{permission}: {error}");
    }
}
