//! Read-write locks over fake nodes, by a clock that the test moves.

use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, Fanout, KeepAlive, LockManager, LossCause, Protocol, Vote};
use redlatch_testing::{Server, is_alone};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region};

use crate::log_lines::lines_about;
use crate::managers::patient;
use crate::servers::readers::on_servers::{assert_held, assert_read_by};
use crate::servers::readers::strangers::readers;
use crate::waiters::TTL;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

struct World {
    clock: FakeClock,
    nodes: Vec<FakeNode>,
    managers: [LockManager; 2],
}

fn world(protocol: Protocol, fanout: Fanout) -> World {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(3, &clock);
    let managers = [(); 2].map(|()| {
        let builder = LockManager::builder().fakes(&nodes).protocol(protocol);
        builder.fanout(fanout).build().unwrap()
    });
    if protocol == Protocol::Fenced {
        managers[0].open_nodes().unwrap();
    }
    World {
        clock,
        nodes,
        managers,
    }
}

const KINDS: [(Protocol, Fanout); 4] = [
    (Protocol::Classic, Fanout::Sequential),
    (Protocol::Classic, Fanout::Overlapped),
    (Protocol::Fenced, Fanout::Sequential),
    (Protocol::Fenced, Fanout::Overlapped),
];

#[test]
fn each_reader_reads_until_its_own_time_is_over() {
    for (protocol, fanout) in KINDS {
        let World {
            clock,
            managers: [one, other],
            ..
        } = world(protocol, fanout);
        let read =
            |manager: &LockManager, ttl| manager.rw_lock("ledger").ttl(ttl).try_read().unwrap();
        let short = read(&one, secs(10));
        let long = read(&other, secs(30));
        assert_read_by(other.rw_lock("ledger").try_write(), 2);
        clock.advance(secs(9));
        short.check().unwrap();
        clock.advance(secs(2));
        assert!(matches!(
            short.check(),
            Err(Error::Lost {
                cause: LossCause::Expired { .. },
                ..
            })
        ));
        long.check().unwrap();
        assert_read_by(one.rw_lock("ledger").try_write(), 1);
        long.extend(secs(30)).unwrap();
        clock.advance(secs(29));
        assert_read_by(one.rw_lock("ledger").try_write(), 1);
        clock.advance(secs(2));
        one.rw_lock("ledger").try_write().unwrap().unlock().unwrap();
        // Nothing of those whose time is over is given back.
        drop((short, long));
        read(&other, secs(10)).unlock().unwrap();
    }
}

#[test]
fn a_reader_is_kept_alive_up_to_its_longest_hold() {
    for (protocol, fanout) in KINDS {
        let World {
            clock,
            managers: [one, other],
            ..
        } = world(protocol, fanout);
        let lock = one.rw_lock("ledger").ttl(secs(10));
        let kept = lock
            .clone()
            .keep_alive(KeepAlive::max_hold(secs(60)))
            .try_read()
            .unwrap();
        let beside = lock.try_read().unwrap();
        for _ in 0..28 {
            clock.advance(secs(2));
            kept.check().unwrap();
            assert_held_or_read(&other);
        }
        assert!(beside.check().is_err());
        clock.advance(secs(10));
        assert!(matches!(
            kept.check(),
            Err(Error::Lost {
                cause: LossCause::MaxHold { .. },
                ..
            })
        ));
        other
            .rw_lock("ledger")
            .try_write()
            .unwrap()
            .unlock()
            .unwrap();
    }
}

#[track_caller]
fn assert_held_or_read(manager: &LockManager) {
    assert!(matches!(
        manager.rw_lock("ledger").try_write(),
        Err(Error::Held { .. })
    ));
}

#[test]
fn a_reply_that_is_lost_is_undone_behind_the_read() {
    for (protocol, fanout) in KINDS {
        let World {
            clock,
            nodes,
            managers: [one, other],
        } = world(protocol, fanout);
        for node in &nodes[1..] {
            node.lose_replies();
        }
        let error = one.rw_lock("ledger").try_read().unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        for node in &nodes[1..] {
            node.recover();
        }
        clock.advance(secs(1));
        assert!(nodes.iter().all(|node| node.ttl_of("ledger").is_none()));
        other
            .rw_lock("ledger")
            .try_write()
            .unwrap()
            .unlock()
            .unwrap();
    }
}

#[test]
fn a_clock_that_jumps_ahead_on_one_node_ends_readers_there_and_no_vote_of_one_node_lets_a_writer_in()
 {
    for (protocol, fanout) in KINDS {
        let World {
            nodes,
            managers: [one, other],
            ..
        } = world(protocol, fanout);
        let reader = one.rw_lock("ledger").ttl(secs(10)).try_read().unwrap();
        nodes[0].advance(secs(20));
        let error = other.rw_lock("ledger").try_write().unwrap_err();
        assert!(
            matches!(error, Error::Held { .. } | Error::Unavailable { .. }),
            "{error}"
        );
        // Readers share all the same, by the time of each node.
        let second = other.rw_lock("ledger").ttl(secs(10)).try_read().unwrap();
        reader.extend(secs(10)).unwrap();
        second.unlock().unwrap();
        reader.unlock().unwrap();
        assert!(nodes.iter().all(|node| node.ttl_of("ledger").is_none()));
    }
}

#[test]
fn an_entry_of_a_clock_that_was_ahead_is_not_made_shorter_and_goes_with_its_reader() {
    let servers = Server::cluster(3);
    let [one, other] = [(); 2].map(|()| patient(servers.iter().map(Server::url)));
    let reader = one.rw_lock("ledger").ttl(TTL).read().unwrap();
    // As if that node's clock had been ahead by a day when the reader came, and was set right since.
    let (value, end) = readers(&servers[0]).pop().unwrap();
    let late = format!("{:.0}", end + 86_400_000.0);
    servers[0].command(&["ZADD", "ledger", &late, &value]);
    servers[0].command(&["PEXPIREAT", "ledger", &late]);
    reader.extend(TTL).unwrap();
    assert_eq!(readers(&servers[0]), [(value, end + 86_400_000.0)]);
    // Others read, and what they leave does not touch it.
    other.rw_lock("ledger").read().unwrap().unlock().unwrap();
    assert!(servers[0].pttl("ledger") > 86_000_000);
    reader.unlock().unwrap();
    other
        .rw_lock("ledger")
        .try_write()
        .unwrap()
        .unlock()
        .unwrap();
    assert!(servers.iter().all(|server| server.keys() == 0));
}

#[test]
fn a_reader_is_refused_by_one_node_and_told_by_which() {
    for (protocol, fanout) in KINDS {
        let World {
            nodes,
            managers: [one, _],
            ..
        } = world(protocol, fanout);
        nodes[1].hold("ledger", "another", secs(60));
        let guard = one.rw_lock("ledger").try_read().unwrap();
        let votes = guard.votes();
        assert!(matches!(votes[1].vote, Vote::Held { .. }), "{votes:?}");
        guard.unlock().unwrap();
        nodes[2].hold("ledger", "another", secs(60));
        assert_held(one.rw_lock("ledger").try_read());
        assert_eq!(nodes[0].ttl_of("ledger"), None);
    }
}

#[test]
fn lines_and_counters_tell_of_readers() {
    let World {
        managers: [one, other],
        ..
    } = world(Protocol::Classic, Fanout::Sequential);
    log::set_logger(&crate::log_lines::LINES).ok();
    log::set_max_level(log::LevelFilter::Trace);
    let reader = one.rw_lock("log readers").try_read().unwrap();
    other.rw_lock("log readers").try_write().unwrap_err();
    reader.unlock().unwrap();
    let writer = other.rw_lock("log readers").try_write().unwrap();
    one.rw_lock("log readers").try_read().unwrap_err();
    drop(writer);
    let lines = lines_about("\"log readers\"");
    let begins = [
        "DEBUG redlatch::lock read lock \"log readers\" acquired in ",
        "DEBUG redlatch::lock lock \"log readers\" is read by 1",
        "DEBUG redlatch::lock read lock \"log readers\" released after ",
        "DEBUG redlatch::lock lock \"log readers\" acquired in ",
        "DEBUG redlatch::lock lock \"log readers\" is held by another",
        "DEBUG redlatch::lock lock \"log readers\" released after ",
    ];
    assert_eq!(lines.len(), begins.len(), "{lines:?}");
    assert!(
        lines
            .iter()
            .zip(begins)
            .all(|(line, begin)| line.starts_with(begin)),
        "{lines:?}"
    );
    let stats = one.stats();
    assert_eq!((stats.attempts, stats.acquired, stats.released), (2, 1, 1));
    assert_eq!(
        (stats.contended, stats.failed_held, stats.queued),
        (1, 1, 0)
    );
}

/// How often each is done.
const ROUNDS: usize = 100;

#[test]
fn a_read_takes_few_allocations_more_than_a_lock() {
    // The allocations of the whole process are counted.
    if !is_alone("readers::on_fakes::a_read_takes_few_allocations_more_than_a_lock") {
        return;
    }
    let servers = Server::cluster(3);
    let manager = patient(servers.iter().map(Server::url));
    let of_each = |run: &dyn Fn()| {
        run();
        let region = Region::new(&INSTRUMENTED_SYSTEM);
        (0..ROUNDS).for_each(|_| run());
        region.change().allocations / ROUNDS
    };
    let lock = of_each(&|| {
        let guard = manager.request("ledger").ttl(TTL).try_lock().unwrap();
        guard.unlock().unwrap();
    });
    let read = of_each(&|| {
        let guard = manager.rw_lock("ledger").ttl(TTL).try_read().unwrap();
        guard.unlock().unwrap();
    });
    assert!(read <= lock + 3, "{read} for a read, {lock} for a lock");
}
