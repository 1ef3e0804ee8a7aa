//! The page `docs/operations.md`: what its ACL users need, also for readers and for locks on several resources.

use redlatch::{Error, LockGuard, LockManager, LockStatus, Protocol};
use redlatch_testing::Server;

use crate::servers::operations::page::{
    FORBIDDEN, TTL, USERS, apply, manager, managers, rules, use_all,
};

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
    assert_is_refused(another.try_lock("ledger", TTL), "ledger").map_err(told)?;
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

#[test]
fn the_users_of_the_page_can_do_all_that_a_client_does() {
    let servers = Server::cluster(3);
    for (user, protocol) in USERS {
        for server in &servers {
            server.command(&["FLUSHALL"]);
            apply(server, &rules(user));
        }
        let managers = managers(&servers, user, protocol);
        use_all(&managers, protocol).unwrap();
        use_readers(&managers).unwrap();
        use_several(&managers).unwrap();
    }
    // Nothing is refused in silence either.
    for server in &servers {
        let log = server.command(&["ACL", "LOG"]);
        assert_eq!(log, redis::Value::Array(Vec::new()), "{log:?}");
    }
}

/// What a client does without, at another price.
const SPARED: &str = "+evalsha +exists +sadd +rpush +blpop +srem +sismember";
const SPARED_CLASSIC: &str = "+info +mget";
/// What readers need beside what plain locks do; with fencing, nothing works without `+time`.
const OF_READERS: &str =
    "+type +zadd +zrem +zscore +zcount +zrange +zrangebyscore +zremrangebyscore +pexpireat +incr";

#[test]
fn without_any_one_permission_something_is_refused_with_advice_and_nothing_granted() {
    let servers = [Server::start()];
    let is_in = |list: &str, word: &str| list.split(' ').any(|other| other == word);
    for (user, protocol) in USERS {
        let (all, is_classic) = (rules(user), protocol == Protocol::Classic);
        let permissions = all.iter().filter(|word| word.starts_with(['+', '~']));
        assert!(permissions.clone().count() >= 8, "{all:?}");
        for permission in permissions {
            let less: Vec<&str> = all.iter().filter(|w| *w != permission).copied().collect();
            servers[0].command(&["FLUSHALL"]);
            apply(&servers[0], &less);
            let managers = managers(&servers, user, protocol);
            let result = use_all(&managers, protocol);
            let is_of_readers =
                is_in(OF_READERS, permission) || (is_classic && *permission == "+time");
            if is_of_readers {
                result.unwrap();
                // Where there has been a writer, so that there is a counter.
                let writer = managers[0].try_lock("ledger", TTL).unwrap();
                writer.unlock().unwrap();
                let error = use_readers(&managers).expect_err(permission);
                assert!(error.contains(FORBIDDEN), "{permission}: {error}");
                use_several(&managers).unwrap();
                continue;
            }
            if is_in(SPARED, permission) || (is_classic && is_in(SPARED_CLASSIC, permission)) {
                result.unwrap();
                continue;
            }
            let error = result.expect_err(permission).to_string();
            assert!(error.contains(FORBIDDEN), "{permission}: {error}");
            let is_of_keys = permission.starts_with('~');
            assert_eq!(error.contains("key pattern"), is_of_keys, "{error}");
            let is_set = *permission == "+set" && is_classic;
            assert!(!is_set || error.contains("allow SET"), "{error}");
            // Where asking for the lock is what fails, there is no key afterwards.
            if let Err(error) = managers[0].try_lock("another", TTL) {
                assert!(matches!(error, Error::Unavailable { .. }), "{error}");
                assert_eq!(servers[0].get("billing:another"), None, "{permission}");
            }
        }
    }
}

/// What a viewer sees of a lock, of a lock that is read, and of the list of both; or why not.
fn looks(servers: &[Server]) -> [Result<String, String>; 3] {
    let viewer = manager(servers, "locks-viewer", Protocol::Classic);
    let [report, ledger] = ["report", "ledger"].map(|name| {
        let text = viewer.status(name).unwrap().to_string();
        match text.split(' ').next().unwrap() {
            known @ ("held" | "read") => Ok(known.to_owned()),
            _ => Err(text),
        }
    });
    let listed: Result<Vec<_>, _> = viewer.locks("").unwrap().collect();
    let listed = listed.map_err(|error| error.to_string()).map(|locks| {
        let mut names: Vec<String> = locks.into_iter().map(|lock| lock.resource).collect();
        names.sort();
        names.join(" ")
    });
    let refusal = viewer.try_lock("invoices", TTL).unwrap_err().to_string();
    assert!(refusal.contains(FORBIDDEN), "{refusal}");
    [report, ledger, listed]
}

#[test]
fn the_user_who_looks_sees_all_locks_and_takes_none_and_is_told_which_permission_is_missing() {
    let all = rules("locks-viewer");
    let permissions = all.iter().filter(|word| word.starts_with(['+', '~']));
    for permission in permissions.chain([&"none"]) {
        let servers = [Server::start()];
        apply(&servers[0], &rules("locks-classic"));
        servers[0].hold("billing:report", "someone", 60_000);
        let holder = manager(&servers, "locks-classic", Protocol::Classic);
        let _reader = holder.rw_lock("ledger").read().unwrap();
        let less: Vec<&str> = all.iter().filter(|w| *w != permission).copied().collect();
        apply(&servers[0], &less);
        let seen = looks(&servers);
        let told = seen.iter().filter_map(|seen| seen.as_ref().err());
        let told: Vec<&String> = told.collect();
        let is_spared = ["none", "+evalsha", "+info"].contains(permission);
        assert_eq!(told.is_empty(), is_spared, "{permission}: {told:?}");
        assert!(told.iter().all(|text| text.contains(FORBIDDEN)), "{told:?}");
        for (seen, right) in seen.iter().zip(["held", "read", "ledger report"]) {
            assert!(seen.as_ref().ok().is_none_or(|seen| seen == right));
        }
        let is_told = |words: &str| told.iter().all(|text| text.contains(words));
        match *permission {
            "+scan" | "+strlen" => assert!(is_told("to list locks, allow SCAN and STRLEN")),
            "~billing:*" => assert!(is_told("key pattern") && told.len() == 3, "{told:?}"),
            _ => {}
        }
    }
}
