//! Neither a stream of readers nor a stream of writers keeps the others out. What is bounded are the sections of the others that
//! somebody waits for, and not the time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use redlatch::{Fanout, LockManager, Protocol};
use redlatch_testing::{Server, eventually, pause};

use crate::managers::PATIENCE;
use crate::servers::readers::on_servers::ledger;
use crate::servers::readers::waiting::{Asks, INTENT, begin};
use crate::waiters::{BOUND, cluster};

/// A manager that looks again as often as by default.
fn process(servers: &[Server], protocol: Protocol, fanout: Fanout) -> LockManager {
    let builder = LockManager::builder().nodes(servers.iter().map(Server::url));
    let builder = builder.node_timeout(PATIENCE).protocol(protocol);
    builder.fanout(fanout).build().unwrap()
}

/// How long a reader of the stream waits for the next one.
const RELAY: Duration = Duration::from_millis(100);

const KINDS: [(Protocol, Fanout); 3] = [
    (Protocol::Classic, Fanout::Sequential),
    (Protocol::Classic, Fanout::Overlapped),
    (Protocol::Fenced, Fanout::Sequential),
];

/// Runs `check` while so many threads of two processes take the lock again and again, and gives it the number of sections that
/// they have begun.
///
/// Each of them asks again as soon as it has given the lock back, so that there is always somebody who has it or asks.
fn beside_a_stream<const N: usize>(
    managers: &[LockManager; 2],
    asks: Asks,
    check: impl FnOnce(&AtomicUsize),
) {
    let (sections, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for thread in 0..N {
            let manager = &managers[thread % 2];
            let (sections, is_over) = (&sections, &is_over);
            scope.spawn(move || {
                // Never all at the same time.
                pause(Duration::from_millis(u64::try_from(thread).unwrap()));
                while !is_over.load(Ordering::SeqCst) {
                    let guard = match asks {
                        Asks::ToRead => ledger(manager).try_read_for(BOUND),
                        Asks::ToWrite => ledger(manager).try_write_for(BOUND),
                    };
                    let guard = guard.unwrap();
                    let own = sections.fetch_add(1, Ordering::SeqCst) + 1;
                    match asks {
                        // Until the next one reads, so that the lock is never free; but not for long where none is let in.
                        Asks::ToRead => {
                            eventually(RELAY, || sections.load(Ordering::SeqCst) > own);
                        }
                        Asks::ToWrite => pause(Duration::from_millis(3)),
                    }
                    guard.unlock().unwrap();
                }
            });
        }
        check(&sections);
        is_over.store(true, Ordering::SeqCst);
    });
}

#[test]
fn a_writer_waits_for_the_readers_that_are_there_and_for_none_that_comes_later() {
    const READERS: usize = 8;
    for (protocol, fanout) in KINDS {
        let servers = cluster(3);
        let manager = || process(&servers, protocol, fanout);
        let (managers, other) = ([manager(), manager()], manager());
        if protocol == Protocol::Fenced {
            other.open_nodes().unwrap();
        }
        beside_a_stream::<READERS>(&managers, Asks::ToRead, |sections| {
            for _ in 0..10 {
                let before = sections.load(Ordering::SeqCst);
                assert!(eventually(BOUND, || sections.load(Ordering::SeqCst) > before + READERS));
                let writer = begin(&other, Asks::ToWrite);
                let intent = || servers[0].get(INTENT).is_some();
                assert!(eventually(BOUND, || writer.is_over() || intent()));
                let since = sections.load(Ordering::SeqCst);
                let (guard, _) = writer.end();
                // Each thread of the stream may have been on its way when the writer said that it waits.
                let passed = sections.load(Ordering::SeqCst) - since;
                assert!(passed <= READERS, "{passed} with {protocol:?}, {fanout:?}");
                guard.unlock().unwrap();
            }
        });
    }
}

#[test]
fn a_reader_waits_for_few_writers_however_many_there_are() {
    const WRITERS: usize = 6;
    const ROUNDS: usize = 30;
    for (protocol, fanout) in KINDS {
        let servers = cluster(3);
        let manager = || process(&servers, protocol, fanout);
        let (managers, other) = ([manager(), manager()], manager());
        if protocol == Protocol::Fenced {
            other.open_nodes().unwrap();
        }
        let mut passed = Vec::new();
        beside_a_stream::<WRITERS>(&managers, Asks::ToWrite, |sections| {
            for _ in 0..ROUNDS {
                let before = sections.load(Ordering::SeqCst);
                assert!(eventually(BOUND, || sections.load(Ordering::SeqCst) > before + 2));
                let since = sections.load(Ordering::SeqCst);
                let guard = ledger(&other).try_read_for(BOUND).unwrap();
                passed.push(sections.load(Ordering::SeqCst) - since);
                guard.unlock().unwrap();
            }
        });
        passed.sort_unstable();
        // A writer that comes at the right moment may get ahead. In order it would be none, and one at the most. Sections are
        // counted as well while this thread is kept from running before or after its call, so one call in ten may be over
        // the bound; that no single call is, the simulation says (the runs called `stream`).
        let (median, most) = (passed[ROUNDS / 2], passed[ROUNDS * 9 / 10]);
        assert!(
            median <= 1 && most <= WRITERS,
            "{passed:?} with {protocol:?}, {fanout:?}"
        );
    }
}
