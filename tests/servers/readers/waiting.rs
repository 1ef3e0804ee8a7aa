//! Waiting for a lock that others read, and for one that a writer has, on real servers: at one node, with a bell for each kind.

use std::time::Duration;

use redlatch::{Error, Fanout, LockGuard, LockManager, Protocol, Vote};
use redlatch_testing::{Server, eventually, now, side_by_side};

use crate::fakes::readers::ledger;
use crate::managers::{BOTH, over};
use crate::waiters::{BOUND, LONG, SOON, TTL, Waiting, cluster, processes};

/// Where a writer that waits says so.
const INTENT: &str = "ledger:redlatch:intent";

/// A writer that waits, and listens at the server.
#[track_caller]
fn writer(manager: &LockManager, server: &Server) -> Waiting {
    let manager = manager.clone();
    Waiting::at(server, move || ledger(&manager).try_write_for(BOUND))
}

/// Whether the first node says that a writer waits, and so does the error.
#[track_caller]
fn assert_a_writer_waits(result: Result<LockGuard, Error>) {
    let error = result.unwrap_err();
    let Error::Held { nodes, .. } = &error else {
        panic!("{error}");
    };
    let is_told = matches!(nodes[0].vote, Vote::WriterWaits { .. });
    assert!(is_told && error.writer_waits() && !error.is_resting());
    let text = error.to_string();
    let head = "a writer waits for the lock on \"ledger\"";
    assert!(text.starts_with(head), "{text}");
}

#[test]
fn no_reader_passes_a_writer_that_waits_which_wakes_the_readers_of_each_process() {
    side_by_side(BOTH, |protocol| {
        let servers = cluster(3);
        let [one, two, three] = processes(protocol, &servers, LONG);
        let reader = ledger(&one).read().unwrap();
        // A thread that reads may read again, unless a writer waits.
        ledger(&one).read().unwrap().unlock().unwrap();
        let writer = writer(&two, &servers[0]);
        for manager in [&one, &two, &three] {
            assert_a_writer_waits(ledger(manager).try_read());
        }
        let short = Duration::from_millis(200);
        assert_a_writer_waits(ledger(&one).try_read_for(short));
        assert!(!writer.is_over());
        // Whoever reads goes on, and its lock can be extended.
        reader.extend(TTL).unwrap();
        let late = [one, three]
            .map(|manager| Waiting::at(&servers[0], move || ledger(&manager).try_read_for(BOUND)));
        reader.unlock().unwrap();
        let (writer, _) = writer.end();
        assert!(eventually(BOUND, || servers[0].blocked() == 2));
        let released = now();
        writer.unlock().unwrap();
        let _both = late.map(|reader| {
            let (guard, at) = reader.end();
            assert!(at - released < SOON, "{:?}", at - released);
            assert!(guard.is_read());
            guard
        });
    });
}

#[test]
fn where_the_first_node_abstains_a_writer_keeps_readers_out_at_the_second() {
    let servers = cluster(3);
    let [one, two, three] = processes(Protocol::Fenced, &servers, Duration::from_millis(50));
    servers[0].command(&["FLUSHALL"]);
    let reader = ledger(&one).read().unwrap();
    let writer = writer(&two, &servers[1]);
    assert!(servers[1].get(INTENT).is_some());
    let late = ledger(&three).try_read();
    assert!(late.as_ref().is_err_and(Error::writer_waits), "{late:?}");
    reader.unlock().unwrap();
    writer.end().0.unlock().unwrap();
}

#[test]
fn no_reader_passes_a_writer_whose_attempt_is_under_way() {
    for fanout in [Fanout::Sequential, Fanout::Overlapped] {
        let servers = cluster(3);
        // It has the vote of the first node by now, and asks the others.
        servers[0].hold("ledger", "writer", 60_000);
        servers[0].command(&["SET", INTENT, "1", "PX", "60000"]);
        let manager = over(&servers).fanout(fanout).build().unwrap();
        for _ in 0..2 {
            assert_a_writer_waits(ledger(&manager).try_read());
            assert!(servers[1..].iter().all(|server| server.keys() == 0));
        }
        // Once it has met a writer, it asks the others only if the first one grants.
        let has_asked = u64::from(fanout == Fanout::Overlapped);
        assert_eq!(servers[1].count("zadd"), has_asked);
    }
}
