//! The page `docs/operations.md`: its ACL users have exactly the permissions that they need.

use std::time::Duration;

use redis::Value;
use redlatch::{Error, LockGuard, LockManager, LockStatus, NodeReport, Protocol, Vote};
use redlatch_testing::Server;

use crate::fakes::operations::health::{assert_well, codes};
use crate::managers::PATIENCE;
use crate::servers::operations::health_servers::remembering;
use crate::servers::operations::page::PAGE;

const TTL: Duration = Duration::from_secs(10);
const USERS: [(&str, Protocol); 2] = [
    ("locks-classic", Protocol::Classic),
    ("locks-fenced", Protocol::Fenced),
];
/// What an operator reads when the ACL is in the way.
const FORBIDDEN: &str = "the user's ACL forbids it";

/// The words of the page's line for this user.
#[track_caller]
fn rules(user: &str) -> Vec<&'static str> {
    let beginning = format!("ACL SETUSER {user} ");
    let mut lines = PAGE.lines().filter(|line| line.starts_with(&beginning));
    let line = lines.next().expect("a line for the user");
    assert!(lines.next().is_none(), "two lines for {user}");
    line.split(' ').collect()
}

/// The permissions among them, and all rules without it for each.
#[track_caller]
fn without_each(user: &str) -> Vec<(&'static str, Vec<&'static str>)> {
    let all = rules(user);
    let permissions = all.iter().filter(|word| word.starts_with(['+', '~']));
    let less = |permission: &str| {
        all.iter()
            .filter(|it| **it != permission)
            .copied()
            .collect()
    };
    let each: Vec<_> = permissions.map(|it| (*it, less(it))).collect();
    assert!(each.len() >= 8, "{each:?}");
    each
}

#[track_caller]
fn apply(servers: &[Server], rules: &[&str]) {
    for server in servers {
        assert_eq!(server.command(rules), Value::Okay, "{rules:?}");
    }
}

fn manager(servers: &[Server], user: &str, protocol: Protocol) -> LockManager {
    let url = |server: &Server| format!("redis://{user}:change-me@{}", server.name());
    let builder = LockManager::builder().nodes(servers.iter().map(url));
    let builder = builder.key_prefix("billing:").protocol(protocol);
    builder.node_timeout(PATIENCE).build().unwrap()
}

/// Two processes of such a user.
fn managers(servers: &[Server], user: &str, protocol: Protocol) -> [LockManager; 2] {
    [(); 2].map(|()| manager(servers, user, protocol))
}

fn assert_is_held(result: Result<LockGuard, Error>, words: &str) -> Result<(), Error> {
    let error = result.expect_err("it is held twice");
    let is_told = matches!(error, Error::Held { .. }) && error.to_string().contains(words);
    if is_told { Ok(()) } else { Err(error) }
}

/// What a client does, and what one does that waits for it: a lock on one resource, and then on several.
fn use_locks([manager, another]: &[LockManager; 2], protocol: Protocol) -> Result<(), Error> {
    if protocol == Protocol::Fenced {
        manager.open_nodes()?;
    }
    let guard = manager.try_lock("report", TTL)?;
    assert_eq!(
        guard.fencing_token().is_some(),
        protocol == Protocol::Fenced
    );
    let is_granted = |report: &NodeReport| matches!(report.vote, Vote::Granted);
    assert!(guard.votes().iter().all(is_granted));
    guard.extend(TTL * 2)?;
    let wait = Duration::from_millis(5);
    assert_is_held(another.try_lock_for("report", TTL, wait), "report")?;
    let status = manager.status("report")?;
    let is_mine = matches!(&status, LockStatus::Held { token, .. } if token == guard.token());
    assert!(is_mine, "{status}");
    guard.unlock()?;
    let status = manager.status("report")?;
    assert!(matches!(status, LockStatus::Free { .. }), "{status}");
    // On connections that have seen all of it.
    manager.try_lock("report", TTL)?.unlock()?;

    let guard = manager.request_all(["account:1", "account:2", "account:3"]);
    let guard = guard.ttl(TTL).try_lock()?;
    guard.extend(TTL * 2)?;
    assert_is_held(another.try_lock("account:3", TTL), "account:3")?;
    let two = another.request_all(["account:3", "account:4"]);
    assert_is_held(two.try_lock(), "account:3")?;
    guard.unlock()?;
    two.try_lock()?.unlock()
}

/// What readers do, and a writer who meets them. The error may be a status that is unknown.
fn use_readers([manager, another]: &[LockManager; 2]) -> Result<(), Box<dyn std::error::Error>> {
    let mine = manager.rw_lock("ledger").ttl(TTL);
    let reader = mine.try_read()?;
    reader.extend(TTL * 2)?;
    let second = another.rw_lock("ledger").try_read()?;
    assert_is_held(another.try_lock("ledger", TTL), "ledger")?;
    let status = manager.status("ledger")?;
    if !matches!(status, LockStatus::Read { readers: 2, .. }) {
        return Err(status.to_string().into());
    }
    second.unlock()?;
    let adopted = another.adopt(reader.into_lease())?;
    adopted.unlock()?;
    Ok(mine.try_write()?.unlock()?)
}

#[test]
fn the_users_of_the_page_can_do_all_that_a_client_does() {
    let servers = Server::cluster(3);
    for (user, protocol) in USERS {
        for server in &servers {
            server.command(&["FLUSHALL"]);
        }
        apply(&servers, &rules(user));
        let managers = managers(&servers, user, protocol);
        use_locks(&managers, protocol).unwrap();
        use_readers(&managers).unwrap();
    }
    // Nothing is refused in silence either.
    for server in &servers {
        let log = server.command(&["ACL", "LOG"]);
        assert_eq!(log, Value::Array(Vec::new()), "{log:?}");
    }
}

/// What a client does without, at another price; and one of the classic protocol.
const SPARED: &str = "+evalsha +exists +sadd +rpush +blpop +srem +sismember";
const SPARED_CLASSIC: &str = "+info +mget";
/// What readers need beside what plain locks do; with fencing, nothing works without `+time`.
const OF_READERS: &str =
    "+type +zadd +zrem +zscore +zcount +zrange +zrangebyscore +zremrangebyscore +pexpireat +incr";

#[test]
fn without_any_one_permission_something_is_refused_with_advice_and_nothing_granted() {
    let servers = [Server::start()];
    for (user, protocol) in USERS {
        let is_classic = protocol == Protocol::Classic;
        for (permission, less) in without_each(user) {
            let is_in = |list: &str| list.split(' ').any(|other| other == permission);
            servers[0].command(&["FLUSHALL"]);
            apply(&servers, &less);
            let managers = managers(&servers, user, protocol);
            let result = use_locks(&managers, protocol);
            if is_in(OF_READERS) || (is_classic && permission == "+time") {
                result.unwrap();
                // Where there has been a writer, so that there is a counter.
                managers[0]
                    .try_lock("ledger", TTL)
                    .unwrap()
                    .unlock()
                    .unwrap();
                let error = use_readers(&managers).expect_err(permission).to_string();
                assert!(error.contains(FORBIDDEN), "{permission}: {error}");
                continue;
            }
            if is_in(SPARED) || (is_classic && is_in(SPARED_CLASSIC)) {
                result.unwrap();
                continue;
            }
            let error = result.expect_err(permission).to_string();
            assert!(error.contains(FORBIDDEN), "{permission}: {error}");
            let is_of_keys = permission.starts_with('~');
            assert_eq!(error.contains("key pattern"), is_of_keys, "{error}");
            let is_set = permission == "+set" && is_classic;
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
fn looks(viewer: &LockManager) -> [Result<String, String>; 3] {
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
    [report, ledger, listed]
}

#[test]
fn the_user_who_looks_sees_all_locks_and_takes_none_and_is_told_which_permission_is_missing() {
    let mut users = without_each("locks-viewer");
    users.push(("none", rules("locks-viewer")));
    for (permission, less) in users {
        let servers = [Server::start()];
        apply(&servers, &rules("locks-classic"));
        servers[0].hold("billing:report", "someone", 60_000);
        let holder = manager(&servers, "locks-classic", Protocol::Classic);
        let _reader = holder.rw_lock("ledger").read().unwrap();
        apply(&servers, &less);
        let viewer = manager(&servers, "locks-viewer", Protocol::Classic);
        let seen = looks(&viewer);
        let refusal = viewer.try_lock("invoices", TTL).unwrap_err().to_string();
        assert!(refusal.contains(FORBIDDEN), "{refusal}");
        let told: Vec<&String> = seen.iter().filter_map(|seen| seen.as_ref().err()).collect();
        let is_spared = ["none", "+evalsha", "+info"].contains(&permission);
        assert_eq!(told.is_empty(), is_spared, "{permission}: {told:?}");
        for (seen, right) in seen.iter().zip(["held", "read", "ledger report"]) {
            assert!(seen.as_ref().ok().is_none_or(|seen| seen == right));
        }
        let words = match permission {
            "+scan" | "+strlen" => "to list locks, allow SCAN and STRLEN",
            "~billing:*" => "key pattern",
            _ => FORBIDDEN,
        };
        let is_told = told
            .iter()
            .all(|text| text.contains(FORBIDDEN) && text.contains(words));
        assert!(is_told, "{permission}: {told:?}");
        assert!(permission != "~billing:*" || told.len() == 3, "{told:?}");
    }
}

#[test]
fn the_user_who_looks_may_be_let_try_a_lock_and_still_takes_no_other() {
    let selector = PAGE.lines().find(|line| line.contains(" (~"));
    let selector: Vec<&str> = selector.unwrap().split(' ').collect();
    for (locker, protocol) in USERS {
        let servers = remembering(3);
        if servers[0].info("server").contains("redis_version:6.") {
            return println!("not tested: the server knows no selectors");
        }
        apply(&servers, &rules(locker));
        apply(&servers, &rules("locks-viewer"));
        if protocol == Protocol::Fenced {
            manager(&servers, locker, protocol).open_nodes().unwrap();
        }
        let viewer = manager(&servers, "locks-viewer", protocol);
        let mut codes = codes(&viewer.health().unwrap());
        codes.dedup();
        assert_eq!(codes, ["untried"]);
        apply(
            &servers,
            &[&["ACL", "SETUSER", "locks-viewer"][..], &selector].concat(),
        );
        assert_well(&viewer.health().unwrap());
        let refusal = viewer.try_lock("report", TTL).unwrap_err().to_string();
        assert!(refusal.contains(FORBIDDEN), "{refusal}");
        let mut keys = servers.iter().map(|server| server.get("billing:report"));
        assert!(keys.all(|left| left.is_none()));
    }
}
