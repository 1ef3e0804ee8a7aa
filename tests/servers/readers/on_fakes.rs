//! Read-write locks over fake nodes, by a clock that the test moves.

use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, Fanout, LockManager, Protocol};

use crate::kinds::outcomes::assert_expired;
use crate::log_lines::lines_about;
use crate::managers::{BOTH, processes_by};
use crate::servers::readers::on_servers::assert_read_by;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// The managers of two processes, with both protocols and both fan-outs.
fn each_way(check: impl Fn(&FakeClock, &[FakeNode], [LockManager; 2])) {
    for protocol in BOTH {
        for fanout in [Fanout::Sequential, Fanout::Overlapped] {
            let clock = FakeClock::new();
            let nodes = FakeNode::cluster_on(3, &clock);
            let builder = LockManager::builder().fakes(&nodes).fanout(fanout);
            check(&clock, &nodes, processes_by(&builder, protocol));
        }
    }
}

#[test]
fn each_reader_reads_until_its_own_time_is_over_also_where_clocks_are_ahead() {
    each_way(|clock, nodes, [one, other]| {
        nodes[0].advance(secs(3600));
        nodes[1].advance(secs(3600 * 24 * 365));
        let read =
            |manager: &LockManager, ttl| manager.rw_lock("ledger").ttl(ttl).try_read().unwrap();
        let short = read(&one, secs(10));
        let long = read(&other, secs(30));
        assert_read_by(other.rw_lock("ledger").try_write(), 2);
        clock.advance(secs(9));
        short.check().unwrap();
        clock.advance(secs(2));
        assert_expired(short.check());
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
    });
}

#[test]
fn a_clock_that_jumps_ahead_on_one_node_ends_readers_there_and_no_vote_of_one_node_lets_a_writer_in()
 {
    each_way(|_, nodes, [one, other]| {
        let reader = one.rw_lock("ledger").ttl(secs(10)).try_read().unwrap();
        nodes[0].advance(secs(20));
        let error = other.rw_lock("ledger").try_write().unwrap_err();
        let is_refused = matches!(error, Error::Held { .. } | Error::Unavailable { .. });
        assert!(is_refused, "{error}");
        // Readers share all the same, by the time of each node.
        let second = other.rw_lock("ledger").ttl(secs(10)).try_read().unwrap();
        reader.extend(secs(10)).unwrap();
        second.unlock().unwrap();
        reader.unlock().unwrap();
        assert!(nodes.iter().all(|node| node.ttl_of("ledger").is_none()));
    });
}

#[test]
fn lines_and_counters_tell_of_readers() {
    let nodes = FakeNode::cluster(3);
    let builder = LockManager::builder().fakes(&nodes);
    let [one, other] = processes_by(&builder, Protocol::Classic);
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
        "read lock \"log readers\" acquired in ",
        "lock \"log readers\" is read by 1",
        "read lock \"log readers\" released after ",
        "lock \"log readers\" acquired in ",
        "lock \"log readers\" is held by another",
        "lock \"log readers\" released after ",
    ];
    let is_so = |line: &str, begin| line.starts_with(&format!("DEBUG redlatch::lock {begin}"));
    let are_so = lines
        .iter()
        .zip(begins)
        .all(|(line, begin)| is_so(line, begin));
    assert!(are_so && lines.len() == begins.len(), "{lines:?}");
    let stats = one.stats();
    assert_eq!((stats.attempts, stats.acquired, stats.released), (2, 1, 1));
    let waits = (stats.contended, stats.failed_held, stats.queued);
    assert_eq!(waits, (1, 1, 0));
}
