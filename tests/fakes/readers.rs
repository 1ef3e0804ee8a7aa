//! Read-write locks over fake nodes, by a clock that the test moves: who shares, who is excluded, and for how long.

use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, Fanout, LockGuard, LockManager, Protocol, RwLock};

use crate::kinds::outcomes::assert_expired;
use crate::kinds::world::ms;
use crate::managers::{BOTH, processes_by};
use crate::waiters::TTL;

const INTENT: &str = "ledger:redlatch:intent";

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(crate) fn ledger(manager: &LockManager) -> RwLock<'_> {
    manager.rw_lock("ledger").ttl(TTL)
}

/// The readers that each node names, if they are in the way.
#[track_caller]
pub(crate) fn assert_read_by(result: Result<LockGuard, Error>, number: u64) {
    let error = result.expect_err("it is read");
    assert_eq!(error.readers(), Some(number), "{error}");
    let head = format!("the lock on \"ledger\" is read by {number}");
    assert!(error.to_string().starts_with(&head), "{error}");
}

#[track_caller]
fn assert_held(result: Result<LockGuard, Error>) {
    let error = result.expect_err("another has it alone");
    assert!(matches!(error, Error::Held { .. }), "{error}");
    assert!(
        error.readers().is_none() && !error.writer_waits(),
        "{error}"
    );
}

/// The managers of two processes, with both protocols and both fan-outs.
fn each_way(check: impl Fn(&FakeClock, &[FakeNode], [LockManager; 2])) {
    for protocol in BOTH {
        by(protocol, &check);
    }
}

fn by(protocol: Protocol, check: impl Fn(&FakeClock, &[FakeNode], [LockManager; 2])) {
    for fanout in [Fanout::Sequential, Fanout::Overlapped] {
        let clock = FakeClock::new();
        let nodes = FakeNode::cluster_on(3, &clock);
        let builder = LockManager::builder().fakes(&nodes).fanout(fanout);
        check(&clock, &nodes, processes_by(&builder, protocol));
        assert!(nodes.iter().all(|node| node.ttl_of("ledger").is_none()));
    }
}

#[test]
fn readers_share_and_a_writer_is_alone() {
    each_way(|_, _, [one, other]| {
        let [first, second] = [(); 2].map(|()| ledger(&one).read().unwrap());
        let third = ledger(&other).try_read().unwrap();
        assert!(first.token() != second.token() && second.token() != third.token());
        for manager in [&one, &other] {
            assert_read_by(ledger(manager).try_write(), 3);
            assert_read_by(manager.try_lock("ledger", TTL), 3);
        }
        second.unlock().unwrap();
        assert_read_by(ledger(&other).try_write(), 2);
        drop((first, third));

        let write = || ledger(&other).try_write();
        let lock = || other.try_lock("ledger", TTL);
        let asks: [&dyn Fn() -> Result<LockGuard, Error>; 2] = [&write, &lock];
        for ask in asks {
            let alone = ask().unwrap();
            assert_held(ledger(&one).try_read());
            assert_held(ledger(&other).try_read());
            alone.unlock().unwrap();
        }
        drop(ledger(&one).try_read().unwrap());
    });
}

#[test]
fn each_reader_reads_until_its_own_time_is_over_also_where_clocks_are_ahead() {
    each_way(|clock, nodes, [one, other]| {
        nodes[0].advance(secs(3600));
        nodes[1].advance(secs(3600 * 24 * 365));
        let short = ledger(&one).ttl(secs(10)).try_read().unwrap();
        let long = ledger(&other).ttl(secs(30)).try_read().unwrap();
        assert_read_by(ledger(&other).try_write(), 2);
        clock.advance(secs(9));
        short.check().unwrap();
        clock.advance(secs(2));
        assert_expired(short.check());
        long.check().unwrap();
        assert_read_by(ledger(&one).try_write(), 1);
        long.extend(secs(30)).unwrap();
        clock.advance(secs(29));
        assert_read_by(ledger(&one).try_write(), 1);
        clock.advance(secs(2));
        ledger(&one).try_write().unwrap().unlock().unwrap();
        // Nothing of those whose time is over is given back.
        drop((short, long));
        ledger(&other).try_read().unwrap().unlock().unwrap();
    });
}

#[test]
fn a_clock_that_jumps_ahead_on_one_node_ends_readers_there_and_no_vote_of_one_node_lets_a_writer_in()
 {
    each_way(|_, nodes, [one, other]| {
        let reader = ledger(&one).ttl(secs(10)).try_read().unwrap();
        nodes[0].advance(secs(20));
        let error = ledger(&other).try_write().unwrap_err();
        let is_refused = matches!(error, Error::Held { .. } | Error::Unavailable { .. });
        assert!(is_refused, "{error}");
        // Readers share all the same, by the time of each node.
        let second = ledger(&other).ttl(secs(10)).try_read().unwrap();
        reader.extend(secs(10)).unwrap();
        second.unlock().unwrap();
        reader.unlock().unwrap();
    });
}

#[test]
fn a_reader_is_set_again_where_a_node_has_forgotten_it_with_the_classic_protocol_alone() {
    for (protocol, is_healed) in [(Protocol::Classic, true), (Protocol::Fenced, false)] {
        by(protocol, |clock, nodes, [one, other]| {
            let node = &nodes[2];
            let reader = ledger(&one).read().unwrap();
            // What is there in place of the reader's entry is soon gone.
            node.hold("ledger", "port", secs(1));
            // Never over a writer's key; but where a writer waits, which keeps out those alone that don't read yet.
            reader.extend(TTL).unwrap();
            assert_eq!(node.token_of("ledger").as_deref(), Some("port"));
            clock.advance(secs(1));
            node.hold(INTENT, "1", secs(10));
            reader.extend(TTL).unwrap();
            assert_eq!(node.ttl_of("ledger").is_some(), is_healed);
            assert_eq!(one.stats().healed, u64::from(is_healed));
            let error = ledger(&other).try_read().unwrap_err();
            assert!(error.writer_waits(), "{error}");
            clock.advance(secs(10));
            reader.unlock().unwrap();
            ledger(&other).try_write().unwrap().unlock().unwrap();
        });
    }
}

#[test]
fn the_intent_of_a_writer_that_died_or_gave_up_ends_by_itself() {
    each_way(|clock, nodes, [one, other]| {
        let reader = ledger(&one).read().unwrap();
        nodes[0].hold(INTENT, "1", ms(700));
        let late = ledger(&other).try_read_for(TTL).unwrap();
        let waited = clock.elapsed();
        assert!(waited >= ms(700) && waited < ms(1_000), "{waited:?}");
        // One that gives up holds readers up for its back-off, a node timeout, and as long as a server is late to end a wait.
        assert_read_by(ledger(&other).try_write_for(ms(500)), 2);
        let intent = nodes[0].ttl_of(INTENT).unwrap();
        assert!(intent <= ms(200 + 50 + 100), "{intent:?}");
        assert!(ledger(&one).try_read().unwrap_err().writer_waits());
        clock.advance(intent);
        drop(ledger(&one).try_read().unwrap());
        drop((reader, late));
    });
}
