//! Readers among clocks that jump, servers that lie, and keys that strangers have left beside the lock.

use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, LockGuard, LockManager, NodeError, NodeReport, RwLock, Vote};
use redlatch_testing::scripted::{Kind, Scripted};
use redlatch_testing::{Server, eventually, side_by_side, within};

use crate::managers::patient;
use crate::servers::readers::waiting::INTENT;
use crate::waiters::{BOUND, SOON, TTL, cluster, process};

const HOUR: Duration = Duration::from_hours(1);

fn ledger(manager: &LockManager) -> RwLock<'_> {
    manager.rw_lock("ledger").ttl(TTL)
}

/// How many readers each of the nodes names that were asked; None for a node that grants it.
#[track_caller]
fn readers(nodes: &[NodeReport]) -> Vec<Option<u64>> {
    let was_asked = |report: &&NodeReport| !matches!(report.vote, Vote::NotAsked);
    let asked = nodes.iter().filter(was_asked);
    let of = |report: &NodeReport| {
        if let Vote::Read { readers, .. } = report.vote {
            return Some(readers);
        }
        let is_about_no_reader = matches!(report.vote, Vote::Granted | Vote::Held { .. });
        assert!(is_about_no_reader, "{report}");
        None
    };
    asked.map(of).collect()
}

/// What they say that refuse it: after two of three that is decided.
#[track_caller]
fn held_by(result: Result<LockGuard, Error>) -> Vec<Option<u64>> {
    match result {
        Err(Error::Held { nodes, .. }) => readers(&nodes),
        other => panic!("{other:?}"),
    }
}

fn fakes() -> (FakeClock, Vec<FakeNode>, LockManager) {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(3, &clock);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    (clock, nodes, manager)
}

#[test]
fn a_clock_that_is_ahead_all_the_time_changes_nothing() {
    let (clock, nodes, manager) = fakes();
    nodes[0].advance(HOUR);
    nodes[1].advance(HOUR * 24 * 365);
    let [first, last] = [(); 2].map(|()| ledger(&manager).try_read().unwrap());
    assert_eq!(held_by(ledger(&manager).try_write()), [Some(2); 2]);
    clock.advance(TTL / 2);
    last.extend(TTL).unwrap();
    clock.advance(TTL / 2 + Duration::from_millis(1));
    // By the time of each node, one is over and the other is not.
    assert!(first.check().is_err());
    assert_eq!(held_by(ledger(&manager).try_write()), [Some(1); 2]);
    clock.advance(TTL / 2);
    assert!(last.check().is_err());
    let writer = ledger(&manager).try_write().unwrap();
    assert_eq!(readers(&writer.votes()), [None; 3]);
}

/// As after a clock that was ahead has been set right: what it had promised stays until then.
#[test]
fn a_reader_of_a_clock_that_was_ahead_keeps_one_server_and_no_more() {
    let servers = cluster(3);
    let manager = patient(servers.iter().map(Server::url));
    let ghost = |server: &Server, end: &str| {
        server.command(&["ZADD", "ledger", end, &"0a".repeat(20)]);
        server.command(&["PEXPIREAT", "ledger", end]);
    };
    let time: (u64, u64) = redis::from_redis_value(servers[0].command(&["TIME"])).unwrap();
    let end = ((time.0 + 3_600) * 1_000).to_string();
    for server in &servers {
        ghost(server, &end);
        let writer = ledger(&manager).try_write();
        if server.name() == servers[0].name() {
            // Two others are enough.
            let writer = writer.unwrap();
            let refused = |report: &&NodeReport| !matches!(report.vote, Vote::Granted);
            assert_eq!(writer.votes().iter().filter(refused).count(), 1);
            assert!(ledger(&manager).try_read().is_err());
            writer.unlock().unwrap();
        } else {
            writer.unwrap_err();
        }
        // Readers are none of its business, and what they do leaves it alone.
        let reader = ledger(&manager).try_read().unwrap();
        assert_eq!(readers(&reader.votes()), [None; 3]);
        reader.extend(TTL).unwrap();
        reader.unlock().unwrap();
        assert!(server.pttl("ledger") > 3_000_000);
    }
}

#[test]
fn ten_thousand_readers_that_died_are_cleared_away_by_the_next() {
    let servers = cluster(3);
    let manager = patient(servers.iter().map(Server::url));
    let alive = ledger(&manager).read().unwrap();
    let script = "local now = tonumber(redis.call('TIME')[1]) * 1000 \
                  for i = 1, 10000 do \
                    redis.call('ZADD', KEYS[1], now - i, string.format('%040x', i)) \
                  end";
    for server in &servers {
        server.command(&["EVAL", script, "1", "ledger"]);
    }
    // They are not in what others are told.
    assert_eq!(held_by(ledger(&manager).try_write()), [Some(1); 2]);
    let next = ledger(&manager).try_read().unwrap();
    assert_eq!(readers(&next.votes()), [None; 3]);
    for server in &servers {
        let count: i64 = redis::from_redis_value(server.command(&["ZCARD", "ledger"])).unwrap();
        assert_eq!(count, 2);
    }
    alive.unlock().unwrap();
    next.unlock().unwrap();
    assert!(servers.iter().all(|server| server.keys() == 0));
}

/// Strangers have keys of other types, some of them for ever, under the names of those that waiting clients use.
#[test]
fn what_strangers_leave_beside_the_lock_is_in_nobodys_way() {
    let junk: &[&[&str]] = &[
        &["SET", "ledger:redlatch:intent", "for ever"],
        &["RPUSH", "ledger:redlatch:intent", "a"],
        &["HSET", "ledger:redlatch:intent", "a", "b"],
        &["SET", "ledger:redlatch:waiting", "a"],
        &["ZADD", "ledger:redlatch:waiting", "1", "r"],
        &["SET", "ledger:redlatch:bell", "a"],
        &["SET", "ledger:redlatch:bell:read", "a"],
        &["HSET", "ledger:redlatch:bell:read", "a", "b"],
    ];
    side_by_side(junk, |junk| {
        let servers = cluster(3);
        let [one, other] = [(); 2].map(|()| patient(servers.iter().map(Server::url)));
        for server in &servers {
            server.command(junk);
        }
        let reader = ledger(&one).try_read().expect(junk[1]);
        let waiting = {
            let other = other.clone();
            std::thread::spawn(move || ledger(&other).try_write_for(BOUND))
        };
        let looked = || servers[0].count("pttl") > 0;
        assert!(eventually(BOUND, looked), "{junk:?}");
        reader.unlock().unwrap();
        let writer = within(BOUND * 2, || waiting.join().unwrap()).expect(junk[1]);
        let waiting = {
            let one = one.clone();
            std::thread::spawn(move || ledger(&one).try_read_for(BOUND))
        };
        writer.unlock().unwrap();
        let reader = within(BOUND * 2, || waiting.join().unwrap()).expect(junk[1]);
        reader.unlock().unwrap();
    });
}

/// A server that answers so to one verb and behaves otherwise.
fn answering(verb: Kind, answer: &'static str) -> (Scripted, LockManager) {
    let server = Scripted::start(move |peer, command| {
        let is_it = command.kind() == verb;
        peer.say(if is_it {
            answer.as_bytes()
        } else {
            command.consent()
        });
    });
    let manager = LockManager::builder().node(server.url());
    let manager = manager.node_timeout(SOON).build().unwrap();
    (server, manager)
}

/// A server that answers readers with what is right for others, or for nobody.
#[test]
fn an_intent_of_a_clock_that_was_ahead_keeps_no_reader_out() {
    let servers = cluster(3);
    let manager = process(&servers, SOON);
    for server in &servers {
        let set: String =
            redis::from_redis_value(server.command(&["SET", INTENT, "1", "PX", "3600000"]))
                .unwrap();
        assert_eq!(set, "OK");
        ledger(&manager).try_read().unwrap().unlock().unwrap();
    }
    // Of three nodes, one with an intent of our time is enough.
    servers[2].command(&["PEXPIRE", INTENT, "60000"]);
    let error = ledger(&manager).try_read().unwrap_err();
    assert!(error.to_string().contains("a writer waits"), "{error}");
}

#[test]
fn what_is_no_answer_for_a_reader_is_a_fault_of_the_server() {
    let of_reads = [
        ":1\r\n",
        "$2\r\nOK\r\n",
        "*-1\r\n",
        "*0\r\n",
        // Other readers, in the place of a reason.
        "*2\r\n:5000\r\n:3\r\n",
        "*2\r\n:5000\r\n:-2\r\n",
        "*2\r\n:-1\r\n:-1\r\n",
        // What is said of several resources.
        "*2\r\n:1\r\n*1\r\n:5000\r\n",
        "*1\r\n+OK\r\n",
    ];
    side_by_side(of_reads, |answer| {
        let (_server, manager) = answering(Kind::Retake, answer);
        match ledger(&manager).try_read() {
            Err(Error::Unavailable { nodes, .. }) => {
                let is_told = matches!(nodes[0].vote, Vote::Failed(NodeError::Protocol { .. }));
                assert!(is_told, "{answer:?}: {}", nodes[0]);
            }
            other => panic!("{answer:?}: {other:?}"),
        }
    });
    let of_extensions = [
        "+OK\r\n",
        ":3\r\n",
        ":0\r\n",
        "*1\r\n:-2\r\n",
        "*1\r\n:1\r\n",
    ];
    side_by_side(of_extensions, |answer| {
        let (_server, manager) = answering(Kind::Extend, answer);
        let reader = ledger(&manager).try_read().unwrap();
        let before = reader.remaining();
        assert!(reader.extend(TTL * 2).is_err(), "{answer:?}");
        assert!(reader.remaining() <= before, "{answer:?}");
    });
}
