//! Other clients, and other keys: plain locks of any port, and keys that are no locks, under the name that readers share.

use redis::Value;
use redlatch::{Error, LockGuard, NodeError, Protocol, Vote};
use redlatch_testing::{Server, side_by_side};

use crate::managers::{BOTH, two_processes};
use crate::servers::readers::on_servers::{assert_held, assert_read_by, ledger};
use crate::waiters::TTL;

/// How every port takes a lock.
#[track_caller]
fn plain_lock(server: &Server, value: &str) -> bool {
    let reply = server.command(&["SET", "ledger", value, "NX", "PX", "60000"]);
    assert!(matches!(reply, Value::Okay | Value::Nil), "{reply:?}");
    reply == Value::Okay
}

/// How every port gives it back: the reply, if it is no error.
fn compare_and_delete(server: &Server, value: &str) -> Option<Value> {
    const SCRIPT: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
    let client = redis::Client::open(server.url()).unwrap();
    let mut connection = client.get_connection().unwrap();
    let mut command = redis::cmd("EVAL");
    let command = command.arg(SCRIPT).arg(1).arg("ledger").arg(value);
    command.query(&mut connection).ok()
}

/// The values and ends of the readers.
#[track_caller]
pub(crate) fn readers(server: &Server) -> Vec<(String, f64)> {
    let reply = server.command(&["ZRANGE", "ledger", "0", "-1", "WITHSCORES"]);
    redis::from_redis_value(reply).unwrap()
}

#[track_caller]
fn assert_not_a_lock(result: Result<LockGuard, Error>, expected: &str) {
    let error = result.expect_err("no key of a lock");
    // A lock that lost its time to live may be somebody's still.
    let is_foreign = expected != "lost its time to live";
    let (Error::NotALock { nodes, .. } | Error::Unavailable { nodes, .. }) = &error else {
        panic!("{error}");
    };
    assert_eq!(
        matches!(error, Error::NotALock { .. }),
        is_foreign,
        "{error}"
    );
    for report in nodes
        .iter()
        .filter(|report| !matches!(report.vote, Vote::NotAsked))
    {
        let Vote::Failed(NodeError::NotALock { reason, .. }) = &report.vote else {
            panic!("{error}");
        };
        assert_eq!(*reason, expected);
    }
}

#[test]
fn a_plain_lock_of_any_port_and_readers_exclude_each_other_on_every_node() {
    side_by_side(BOTH, |protocol| {
        let (servers, [one, other]) = two_processes(protocol);
        let reader = ledger(&one).read().unwrap();
        for server in &servers {
            assert!(!plain_lock(server, "port"));
            let before = readers(server);
            assert_eq!(before.len(), 1);
            assert!(before[0].0.starts_with(reader.token()));
            // Also with the very value.
            for value in ["port", reader.token()] {
                assert_eq!(compare_and_delete(server, value), None);
            }
            assert_eq!(readers(server), before);
        }
        reader.extend(TTL).unwrap();
        reader.unlock().unwrap();

        assert!(servers.iter().all(|server| plain_lock(server, "port")));
        assert_held(ledger(&one).try_read());
        assert_held(ledger(&other).try_read());
        for server in &servers {
            assert_eq!(server.get("ledger").as_deref(), Some("port"));
            assert_eq!(compare_and_delete(server, "port"), Some(Value::Int(1)));
        }
        ledger(&other).try_read().unwrap().unlock().unwrap();
    });
}

const TYPE: &str = "holds a value of another type";

/// A value that a reader might have, and one that is too long for a token.
const TOKEN: &str = "0123456789abcdef0123456789abcdef01234567";
const LONGER: &str = "0123456789abcdef0123456789abcdef012345670";

/// Commands that put something there, and what it is then.
const NO_LOCKS: [(&[&[&str]], &str); 7] = [
    (&[&["SET", "ledger", "settings"]], "never expires"),
    (&[&["RPUSH", "ledger", "a"], EXPIRES], TYPE),
    (&[&["HSET", "ledger", "a", "b"]], TYPE),
    // A sorted set that never expires, one with other members, and one with other scores.
    (&[&["ZADD", "ledger", LATE, TOKEN]], "lost its time to live"),
    (&[&["ZADD", "ledger", LATE, "player"], EXPIRES], TYPE),
    (&[&["ZADD", "ledger", "0.5", TOKEN], EXPIRES], TYPE),
    (&[&["ZADD", "ledger", LATE, LONGER], EXPIRES], TYPE),
];

const EXPIRES: &[&str] = &["PEXPIRE", "ledger", "60000"];
const LATE: &str = "9000000000000";

#[test]
fn keys_that_are_no_locks_are_refused_by_name_and_left_alone() {
    side_by_side(BOTH, |protocol| {
        let (servers, [one, _]) = two_processes(protocol);
        for (commands, reason) in NO_LOCKS {
            for server in &servers {
                for command in commands {
                    server.command(command);
                }
            }
            let dump = || {
                servers
                    .iter()
                    .map(|server| server.command(&["DUMP", "ledger"]))
                    .collect::<Vec<_>>()
            };
            let before = dump();
            assert_not_a_lock(ledger(&one).try_read(), reason);
            // The plain SET of the classic protocol does not see what is in its way; the release behind it does.
            let error = ledger(&one).try_write().unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
            assert_eq!(dump(), before, "{commands:?}");

            // On one node alone it is a failure of that one.
            for server in &servers[..2] {
                server.command(&["DEL", "ledger"]);
            }
            let guard = ledger(&one).try_read().unwrap();
            assert_eq!(servers[2].command(&["DUMP", "ledger"]), before[2]);
            guard.unlock().unwrap();
            assert_eq!(servers[2].command(&["DUMP", "ledger"]), before[2]);
            servers[2].command(&["DEL", "ledger"]);
        }
    });
}

/// All commands that a server has executed, those within scripts as well.
#[track_caller]
fn executed(server: &Server) -> u64 {
    let stats = server.info("commandstats");
    let calls = stats.lines().filter_map(|line| {
        // What the test asks for itself.
        let line = line
            .strip_prefix("cmdstat_")
            .filter(|line| !line.starts_with("info"))?;
        line.split_once(":calls=")?.1.split(',').next()
    });
    calls.map(|calls| calls.parse::<u64>().unwrap()).sum()
}

#[test]
fn ten_thousand_readers_cost_a_further_one_no_more_commands_than_one() {
    let (servers, [one, other]) = two_processes(Protocol::Classic);
    let first = ledger(&one).read().unwrap();
    let pair = || {
        let before = executed(&servers[0]);
        ledger(&other).try_read().unwrap().unlock().unwrap();
        executed(&servers[0]) - before
    };
    pair();
    let beside_one = pair();
    for server in &servers {
        let now: (u64, u64) = redis::from_redis_value(server.command(&["TIME"])).unwrap();
        let end = (now.0 + 3600) * 1000;
        let members: Vec<String> = (0..10_000).map(|n| format!("{n:040x}")).collect();
        let end = end.to_string();
        for members in members.chunks(1000) {
            let words = members
                .iter()
                .flat_map(|member| [end.as_str(), member.as_str()]);
            let command: Vec<&str> = ["ZADD", "ledger"].into_iter().chain(words).collect();
            server.command(&command);
        }
        server.command(&["PEXPIREAT", "ledger", &end]);
    }
    let beside_many = pair();
    assert!(
        beside_many <= beside_one,
        "{beside_many} and not {beside_one}"
    );
    assert_read_by(ledger(&other).try_write(), 10_001);
    first.extend(TTL).unwrap();
    first.unlock().unwrap();
    assert_read_by(ledger(&other).try_write(), 10_000);
}
