//! The page `docs/operations.md`: its ACL users have exactly the permissions that they need.

use std::iter;
use std::time::Duration;

use redis::Value;
use redlatch::{Error, Health, LockGuard, LockManager, LockStatus, Protocol, Severity, Vote};
use redlatch_testing::Server;

use crate::managers::with_protocol;
use crate::servers::operations::page::PAGE;

const TTL: Duration = Duration::from_secs(10);
pub(crate) const USERS: [(&str, Protocol); 2] = [
    ("locks-classic", Protocol::Classic),
    ("locks-fenced", Protocol::Fenced),
];
/// What an operator reads when the ACL is in the way.
const FORBIDDEN: &str = "the user's ACL forbids it";

/// The words of the page's line for this user, as a command.
#[track_caller]
pub(crate) fn rules(user: &str) -> Vec<&'static str> {
    let beginning = format!("user {user} ");
    let mut lines = PAGE.lines().filter(|line| line.starts_with(&beginning));
    let line = lines.next().expect("a line for the user");
    assert!(lines.next().is_none(), "two lines for {user}");
    let words = line.split(' ').skip(1);
    ["ACL", "SETUSER"].into_iter().chain(words).collect()
}

/// All rules, and those without each of the permissions, which stands before them.
#[track_caller]
pub(crate) fn with_and_without_each(user: &str) -> Vec<(&'static str, Vec<&'static str>)> {
    let all = rules(user);
    let permissions = all.iter().filter(|word| word.starts_with(['+', '~']));
    let less = |permission: &&'static str| {
        let others = all.iter().filter(|other| *other != permission);
        (*permission, others.copied().collect())
    };
    let each = [("", all.clone())].into_iter();
    let each: Vec<_> = each.chain(permissions.map(less)).collect();
    assert!(each.len() > 8, "{each:?}");
    each
}

#[track_caller]
pub(crate) fn apply(server: &Server, rules: &[&str]) {
    assert_eq!(server.command(rules), Value::Okay, "{rules:?}");
}

pub(crate) fn manager(server: &Server, user: &str, protocol: Protocol) -> LockManager {
    let url = format!("redis://{user}:change-me@{}", server.name());
    let builder = with_protocol(protocol).node(url).key_prefix("billing:");
    builder.build().unwrap()
}

fn assert_is_held(result: Result<LockGuard, Error>) -> Result<(), Error> {
    let error = result.expect_err("it is held twice");
    if matches!(error, Error::Held { .. }) {
        Ok(())
    } else {
        Err(error)
    }
}

/// What a client does, and what one does that waits for it: a lock on one resource, and then on several.
fn use_locks([manager, another]: &[LockManager; 2], protocol: Protocol) -> Result<(), Error> {
    if protocol == Protocol::Fenced {
        manager.open_nodes()?;
    }
    let guard = manager.try_lock("report", TTL)?;
    assert!(matches!(guard.votes()[0].vote, Vote::Granted));
    guard.extend(TTL * 2)?;
    let wait = Duration::from_millis(5);
    assert_is_held(another.try_lock_for("report", TTL, wait))?;
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
    assert_is_held(another.try_lock("account:3", TTL))?;
    let two = another.request_all(["account:3", "account:4"]);
    assert_is_held(two.try_lock())?;
    guard.unlock()?;
    two.try_lock()?.unlock()
}

/// What readers do, and a writer who meets them. The error may be a status that is unknown.
fn use_readers([manager, another]: &[LockManager; 2]) -> Result<(), Box<dyn std::error::Error>> {
    // So that there is a counter.
    manager.try_lock("ledger", TTL)?.unlock()?;
    let mine = manager.rw_lock("ledger").ttl(TTL);
    let reader = mine.try_read()?;
    reader.extend(TTL * 2)?;
    let second = another.rw_lock("ledger").try_read()?;
    assert_is_held(another.try_lock("ledger", TTL))?;
    let status = manager.status("ledger")?;
    if !matches!(status, LockStatus::Read { readers: 2, .. }) {
        return Err(status.to_string().into());
    }
    second.unlock()?;
    another.adopt(&reader.into_lease())?.unlock()?;
    Ok(mine.try_write()?.unlock()?)
}

/// What a client does without, at another price; and one of the classic protocol.
const SPARED: &str = "+evalsha +exists +sadd +rpush +blpop +srem +sismember";
const SPARED_CLASSIC: &str = "+info +mget";
/// What readers need beside what plain locks do; with fencing, nothing works without `+time`.
const OF_READERS: &str =
    "+type +zadd +zrem +zscore +zcount +zrange +zrangebyscore +zremrangebyscore +pexpireat +incr";

#[test]
fn the_users_of_the_page_can_do_all_and_without_any_one_permission_something_is_refused_with_advice()
 {
    let server = Server::start();
    for (user, protocol) in USERS {
        let is_classic = protocol == Protocol::Classic;
        for (permission, rules) in with_and_without_each(user) {
            let is_in = |list: &str| list.split(' ').any(|other| other == permission);
            server.command(&["FLUSHALL"]);
            server.command(&["ACL", "LOG", "RESET"]);
            apply(&server, &rules);
            let managers = [(); 2].map(|()| manager(&server, user, protocol));
            let locked = use_locks(&managers, protocol);
            if is_in(OF_READERS) || (is_classic && permission == "+time") {
                locked.unwrap();
                let error = use_readers(&managers).expect_err(permission).to_string();
                assert!(error.contains(FORBIDDEN), "{permission}: {error}");
                continue;
            }
            if permission.is_empty() || is_in(SPARED) || (is_classic && is_in(SPARED_CLASSIC)) {
                locked.unwrap();
                use_readers(&managers).unwrap();
                let log = server.command(&["ACL", "LOG"]);
                // Nothing is refused in silence either.
                let is_empty = log == Value::Array(Vec::new());
                assert!(is_empty || !permission.is_empty(), "{log:?}");
                continue;
            }
            let error = locked.expect_err(permission).to_string();
            assert!(error.contains(FORBIDDEN), "{permission}: {error}");
            let is_of_keys = permission.starts_with('~');
            assert_eq!(error.contains("key pattern"), is_of_keys, "{error}");
            let is_set = permission == "+set" && is_classic;
            assert!(!is_set || error.contains("allow SET"), "{error}");
            // Where asking for the lock is what fails, there is no key afterwards.
            if let Err(error) = managers[0].try_lock("another", TTL) {
                assert!(matches!(error, Error::Unavailable { .. }), "{error}");
                assert_eq!(server.get("billing:another"), None, "{permission}");
            }
        }
    }
}

/// What a viewer sees of a lock, of a lock that is read, and of the list of both; or why not.
fn looks(viewer: &LockManager) -> [String; 3] {
    let [report, ledger] = ["report", "ledger"].map(|name| viewer.status(name).unwrap());
    let listed: Result<Vec<_>, _> = viewer.locks("").unwrap().collect();
    let listed = listed.map(|locks| {
        let mut names: Vec<String> = locks.into_iter().map(|lock| lock.resource).collect();
        names.sort();
        names.join(" ")
    });
    let listed = listed.unwrap_or_else(|error| error.to_string());
    [report.to_string(), ledger.to_string(), listed]
}

#[test]
fn the_user_who_looks_sees_all_locks_and_takes_none_and_is_told_which_permission_is_missing() {
    for (permission, rights) in with_and_without_each("locks-viewer") {
        let server = Server::start();
        apply(&server, &rules("locks-classic"));
        server.hold("billing:report", "someone", 60_000);
        let holder = manager(&server, "locks-classic", Protocol::Classic);
        let _reader = holder.rw_lock("ledger").read().unwrap();
        apply(&server, &rights);
        let viewer = manager(&server, "locks-viewer", Protocol::Classic);
        let seen = looks(&viewer);
        let refusal = viewer.try_lock("invoices", TTL).unwrap_err().to_string();
        assert!(refusal.contains(FORBIDDEN), "{refusal}");
        let words = match permission {
            "+scan" | "+strlen" => "to list locks, allow SCAN and STRLEN",
            "~billing:*" => "key pattern",
            _ => FORBIDDEN,
        };
        let is_right = |(seen, right): &(&String, &str)| seen.starts_with(right);
        let seen = seen.iter().zip(["held ", "read ", "ledger report"]);
        let (right, told): (Vec<_>, Vec<_>) = seen.partition(is_right);
        let is_told =
            |(text, _): &(&String, &str)| text.contains(FORBIDDEN) && text.contains(words);
        assert!(told.iter().all(is_told), "{permission}: {told:?}");
        match permission {
            "" | "+evalsha" | "+info" => assert_eq!(right.len(), 3, "{permission}: {told:?}"),
            "~billing:*" => assert_eq!(right.len(), 0, "{right:?}"),
            _ => assert!(right.len() < 3, "{permission}"),
        }
    }
}

/// A server whose configuration has the lines of the page.
fn as_the_page_says() -> Server {
    let lines = PAGE.lines().filter(|line| line.starts_with("user "));
    let words = lines.flat_map(|line| iter::once("--user").chain(line.split(' ').skip(1)));
    let persisting = ["--appendonly", "yes"];
    let words: Vec<&str> = persisting.into_iter().chain(words).collect();
    Server::start_with(&words)
}

fn say(server: &Server, login: &str, words: &[&str]) -> redis::RedisResult<Value> {
    let client = redis::Client::open(format!("redis://{login}{}", server.name()))?;
    redis::cmd(words[0])
        .arg(&words[1..])
        .query(&mut client.get_connection()?)
}

#[test]
fn the_lines_of_the_page_close_the_server_to_those_without_a_login_and_outlive_a_restart() {
    let mut server = as_the_page_says();
    for _ in 0..2 {
        let holder = manager(&server, "locks-classic", Protocol::Classic);
        // The server may still load its data after the restart.
        let guard = holder.lock("report", TTL).unwrap();
        let error = say(&server, "", &["DEL", "billing:report"]).unwrap_err();
        assert!(error.to_string().contains("NOAUTH"), "{error}");
        guard.unlock().unwrap();
        let found = holder.health().unwrap();
        let mut codes = found.findings.iter().map(|finding| finding.code);
        assert!(codes.all(|code| code == "uncounted"), "{found}");
        server.kill();
        server.restart();
    }
    // This is the case of the advice: a user that is in no file.
    let server = Server::start();
    let error = manager(&server, "locks-classic", Protocol::Classic);
    let error = error.try_lock("report", TTL).unwrap_err().to_string();
    assert!(
        error.contains("a restart has forgotten the user"),
        "{error}"
    );
}

#[test]
fn a_server_that_needs_no_login_is_open_to_all_where_clients_have_one() {
    let server = Server::start_with(&["--appendonly", "yes"]);
    server.command(&["SET", "billing:other", "x"]);
    apply(&server, &rules("locks-operator"));
    let look = || {
        manager(&server, "locks-operator", Protocol::Classic)
            .health()
            .unwrap()
    };
    let severity = |found: &Health| {
        let mut findings = found.findings.iter();
        findings
            .find(|it| it.code == "open_to_all")
            .map(|it| it.severity)
    };
    assert_eq!(severity(&look()), Some(Severity::Warning), "{}", look());
    assert_eq!(server.keys(), 1);
    let without = LockManager::builder().node(server.url()).build().unwrap();
    assert_eq!(severity(&without.health().unwrap()), None);
    for (less, expected) in [
        ("-@all +del", Some(Severity::Warning)),
        ("-@all +set", Some(Severity::Warning)),
        ("-@all +get", Some(Severity::Notice)),
        ("-@all +flushall +ping", Some(Severity::Notice)),
        ("-@all", None),
        ("reset", None),
    ] {
        // This connection stays logged in as the user who may do so.
        let admin = ["ACL", "SETUSER", "admin", "on", ">change-me", "~*", "+@all"];
        if less == "-@all +del" {
            apply(&server, &admin);
        }
        let words: Vec<&str> = ["ACL", "SETUSER", "default"]
            .into_iter()
            .chain(less.split(' '))
            .collect();
        assert_eq!(
            say(&server, "admin:change-me@", &words).unwrap(),
            Value::Okay
        );
        let found = look();
        assert_eq!(severity(&found), expected, "{less}: {found}");
    }
    let value = say(&server, "admin:change-me@", &["KEYS", "*"]).unwrap();
    assert_eq!(
        redis::from_redis_value::<Vec<String>>(value).unwrap(),
        ["billing:other"]
    );
}

#[test]
fn the_operator_lists_looks_and_unlocks_with_both_protocols() {
    let server = as_the_page_says();
    for (user, protocol) in USERS {
        let holder = manager(&server, user, protocol);
        if protocol == Protocol::Fenced {
            holder.open_nodes().unwrap();
        }
        let names = [format!("{user}-report"), format!("{user}-ledger")];
        let lock = holder.try_lock(&names[0], TTL).unwrap();
        let read = holder.rw_lock(&names[1]).ttl(TTL).try_read().unwrap();
        let operator = manager(&server, "locks-operator", protocol);
        let found = operator.health().unwrap();
        assert_eq!(found.severity, Severity::Ok, "{found}");
        let listed = operator
            .locks(user)
            .unwrap()
            .map(|lock| lock.unwrap().resource);
        assert_eq!(listed.count(), 2);
        for (name, guard) in names.iter().zip([lock, read]) {
            assert!(operator.status(name).unwrap().margin().is_some());
            operator.release(name, guard.token()).unwrap();
            let status = operator.status(name).unwrap();
            assert!(matches!(status, LockStatus::Free { .. }), "{status}");
        }
    }
    let log = say(&server, "admin:change-me@", &["ACL", "LOG"]).unwrap();
    let log = format!("{log:?}");
    assert!(!log.contains("locks-operator"), "{log}");
}
