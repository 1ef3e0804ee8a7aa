//! Read-write locks over fake nodes, by a clock that the test moves.

use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, Fanout, LockManager, LossCause, Protocol};
use redlatch_testing::Server;

use crate::log_lines::lines_about;
use crate::managers::patient;
use crate::servers::readers::on_servers::assert_read_by;
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
