//! Other clients and other keys under the name that readers share, or beside it: plain locks of any port, keys that are no locks,
//! entries of clocks that were ahead, and servers that answer readers with what is right for others. The cases of the scripts have
//! what each script does with such keys.

use redis::Value;
use redlatch::{Error, NodeError, NodeReport, Protocol, Vote};
use redlatch_testing::scripted::Kind;
use redlatch_testing::{Server, eventually, side_by_side};

use crate::managers::{BOTH, over, patient, two_processes};
use crate::servers::readers::on_servers::{assert_held, assert_read_by, ledger};
use crate::servers::readers::waiting::{Asks, begin};
use crate::waiters::{BOUND, TTL, answering, cluster};

/// The values and ends of the readers.
#[track_caller]
pub(crate) fn readers(server: &Server) -> Vec<(String, f64)> {
    let reply = server.command(&["ZRANGE", "ledger", "0", "-1", "WITHSCORES"]);
    redis::from_redis_value(reply).unwrap()
}

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

#[test]
fn a_plain_lock_of_any_port_and_readers_exclude_each_other_on_every_node() {
    side_by_side(BOTH, |protocol| {
        let (servers, [one, other]) = two_processes(protocol);
        let reader = ledger(&one).read().unwrap();
        for server in &servers {
            assert!(!plain_lock(server, "port"));
            let before = readers(server);
            assert_eq!(before.len(), 1);
            // Also with the very value.
            for value in ["port", reader.token()] {
                assert_eq!(compare_and_delete(server, value), None);
            }
            assert_eq!(readers(server), before);
        }
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

/// Commands that put something there, and what it is then: also sorted sets that never expire, and that have other members.
const NO_LOCKS: [(&[&[&str]], &str); 4] = [
    (&[&["SET", "ledger", "settings"]], "never expires"),
    (&[&["HSET", "ledger", "a", "b"]], TYPE),
    (&[&["ZADD", "ledger", LATE, TOKEN]], "lost its time to live"),
    (&[&["ZADD", "ledger", LATE, "player"], EXPIRES], TYPE),
];

const TOKEN: &str = "0123456789abcdef0123456789abcdef01234567";
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
            let of = |server: &Server| server.command(&["DUMP", "ledger"]);
            let dump = || servers.iter().map(of).collect::<Vec<_>>();
            let before = dump();
            let error = ledger(&one).try_read().unwrap_err();
            // A lock that lost its time to live may be somebody's still.
            let is_foreign = matches!(error, Error::NotALock { .. });
            assert_eq!(is_foreign, reason != "lost its time to live", "{error}");
            // The plain SET of the classic protocol does not see what is in its way; the release behind it does.
            for error in [error, ledger(&one).try_write().unwrap_err()] {
                assert!(error.to_string().contains(reason), "{error}");
            }
            assert_eq!(dump(), before, "{commands:?}");

            // On one node alone it is a failure of that one.
            for server in &servers[..2] {
                server.command(&["DEL", "ledger"]);
            }
            ledger(&one).try_read().unwrap().unlock().unwrap();
            assert_eq!(servers[2].command(&["DUMP", "ledger"]), before[2]);
            servers[2].command(&["DEL", "ledger"]);
        }
    });
}

/// All commands that a server has executed, those within scripts as well.
#[track_caller]
fn executed(server: &Server) -> u64 {
    let stats = server.info("commandstats");
    let lines = stats
        .lines()
        .filter_map(|line| line.strip_prefix("cmdstat_"));
    // What the test asks for itself.
    let lines = lines.filter(|line| !line.starts_with("info"));
    let calls = lines.filter_map(|line| line.split_once(":calls=")?.1.split(',').next());
    calls.map(|calls| calls.parse::<u64>().unwrap()).sum()
}

/// When a server thinks that this time is over, in milliseconds of its clock.
fn in_seconds(server: &Server, seconds: u64) -> String {
    let now: (u64, u64) = redis::from_redis_value(server.command(&["TIME"])).unwrap();
    ((now.0 + seconds) * 1000).to_string()
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
    let script = "for i = 1, 10000 do redis.call('ZADD', KEYS[1], ARGV[1], string.format('%040x', i)) end \
                  redis.call('PEXPIREAT', KEYS[1], ARGV[1])";
    for server in &servers {
        let end = in_seconds(server, 3600);
        server.command(&["EVAL", script, "1", "ledger", &end]);
    }
    let beside_many = pair();
    assert!(
        beside_many <= beside_one,
        "{beside_many} and not {beside_one}"
    );
    assert_read_by(ledger(&other).try_write(), 10_001);
    first.unlock().unwrap();
    assert_read_by(ledger(&other).try_write(), 10_000);
}

/// As after a clock that was ahead has been set right: what it had promised stays until then.
#[test]
fn a_reader_of_a_clock_that_was_ahead_keeps_one_server_and_no_more() {
    let servers = cluster(3);
    let manager = patient(servers.iter().map(Server::url));
    let end = in_seconds(&servers[0], 3600);
    for (number, server) in (1..).zip(&servers) {
        server.command(&["ZADD", "ledger", &end, &"0a".repeat(20)]);
        server.command(&["PEXPIREAT", "ledger", &end]);
        // Two others are enough.
        let writer = ledger(&manager).try_write();
        assert_eq!(writer.is_ok(), number == 1, "{writer:?}");
        if let Ok(writer) = writer {
            assert!(ledger(&manager).try_read().is_err());
            writer.unlock().unwrap();
        }
        // Readers are none of its business, and what they do leaves it alone.
        let reader = ledger(&manager).try_read().unwrap();
        let is_granted = |report: &NodeReport| matches!(report.vote, Vote::Granted);
        assert!(reader.votes().iter().all(is_granted));
        reader.extend(TTL).unwrap();
        reader.unlock().unwrap();
        assert!(server.pttl("ledger") > 3_000_000);
    }
}

/// Strangers have keys of other types, some of them for ever, under the names of those that waiting clients use.
#[test]
fn what_strangers_leave_beside_the_lock_is_in_nobodys_way() {
    let junk = [
        "SET ledger:redlatch:intent for-ever",
        "RPUSH ledger:redlatch:intent a",
        "HSET ledger:redlatch:intent a b",
        "SET ledger:redlatch:waiting a",
        "ZADD ledger:redlatch:waiting 1 r",
        "SET ledger:redlatch:bell a",
        "SET ledger:redlatch:bell:read a",
        "HSET ledger:redlatch:bell:read a b",
    ];
    side_by_side(junk, |junk| {
        let (servers, [one, other]) = two_processes(Protocol::Classic);
        let words: Vec<&str> = junk.split(' ').collect();
        for server in &servers {
            server.command(&words);
        }
        let reader = ledger(&one).try_read().expect(junk);
        let writer = begin(&other, Asks::ToWrite);
        let looked = || servers[0].count("pttl") > 0;
        assert!(eventually(BOUND, looked), "{junk:?}");
        reader.unlock().unwrap();
        let (writer, _) = writer.end();
        let reader = begin(&one, Asks::ToRead);
        writer.unlock().unwrap();
        reader.end().0.unlock().unwrap();
    });
}

/// A server that answers readers with what is right for others, or for nobody.
#[test]
fn what_is_no_answer_for_a_reader_is_a_fault_of_the_server() {
    let of_reads: [&[u8]; 9] = [
        b":1\r\n",
        b"$2\r\nOK\r\n",
        b"*-1\r\n",
        b"*0\r\n",
        // Other readers, in the place of a reason.
        b"*2\r\n:5000\r\n:3\r\n",
        b"*2\r\n:5000\r\n:-2\r\n",
        b"*2\r\n:-1\r\n:-1\r\n",
        // What is said of several resources.
        b"*2\r\n:1\r\n*1\r\n:5000\r\n",
        b"*1\r\n+OK\r\n",
    ];
    for answer in of_reads {
        let server = answering([(Kind::Retake, answer)]);
        let manager = over(std::slice::from_ref(&server)).build().unwrap();
        let error = ledger(&manager).try_read().unwrap_err();
        let is_told = matches!(
            &error,
            Error::Unavailable { nodes, .. } if matches!(nodes[0].vote, Vote::Failed(NodeError::Protocol { .. }))
        );
        assert!(is_told, "{answer:?}: {error}");
    }
    let of_extensions: [&[u8]; 5] = [
        b"+OK\r\n",
        b":3\r\n",
        b":0\r\n",
        b"*1\r\n:-2\r\n",
        b"*1\r\n:1\r\n",
    ];
    for answer in of_extensions {
        let server = answering([(Kind::Extend, answer)]);
        let manager = over(std::slice::from_ref(&server)).build().unwrap();
        let reader = ledger(&manager).try_read().unwrap();
        let before = reader.remaining();
        assert!(reader.extend(TTL * 2).is_err(), "{answer:?}");
        assert!(reader.remaining() <= before, "{answer:?}");
    }
}
