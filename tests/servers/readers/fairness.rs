//! A stream of writers does not keep readers out. What is bounded are the sections of writers that a reader waits for, and not the
//! time. That a stream of readers keeps no writer out, the simulation shows (the runs called `stream`).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use redlatch::{Fanout, LockManager, Protocol};
use redlatch_testing::{eventually, pause};

use crate::managers::{over, processes_by};
use crate::servers::readers::on_servers::ledger;
use crate::waiters::{BOUND, cluster};

const WAYS: [(Protocol, Fanout); 3] = [
    (Protocol::Classic, Fanout::Sequential),
    (Protocol::Classic, Fanout::Overlapped),
    (Protocol::Fenced, Fanout::Sequential),
];

#[test]
fn a_reader_waits_for_few_writers_however_many_there_are() {
    const WRITERS: usize = 6;
    const ROUNDS: usize = 30;
    for (protocol, fanout) in WAYS {
        let servers = cluster(3);
        let managers: [LockManager; 3] = processes_by(&over(&servers).fanout(fanout), protocol);
        let (sections, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
        let begun = || sections.load(Ordering::SeqCst);
        let mut passed = Vec::new();
        thread::scope(|scope| {
            // Each asks again as soon as it has given the lock back, so that there is always somebody who has it or asks.
            for writer in 0..WRITERS {
                let (manager, sections, is_over) = (&managers[writer % 2], &sections, &is_over);
                scope.spawn(move || {
                    while !is_over.load(Ordering::SeqCst) {
                        let guard = ledger(manager).try_write_for(BOUND).unwrap();
                        sections.fetch_add(1, Ordering::SeqCst);
                        pause(Duration::from_millis(3));
                        guard.unlock().unwrap();
                    }
                });
            }
            for _ in 0..ROUNDS {
                let before = begun();
                assert!(eventually(BOUND, || begun() > before + 2));
                let since = begun();
                let guard = ledger(&managers[2]).try_read_for(BOUND).unwrap();
                passed.push(begun() - since);
                guard.unlock().unwrap();
            }
            is_over.store(true, Ordering::SeqCst);
        });
        passed.sort_unstable();
        // A writer that comes at the right moment may get ahead. In order it would be none, and one at the most. Sections are
        // counted as well while this thread is kept from running before or after its call, so one call in ten may be over
        // the bound; that no single call is, the simulation says.
        let (median, most) = (passed[ROUNDS / 2], passed[ROUNDS * 9 / 10]);
        let is_fair = median <= 1 && most <= WRITERS;
        assert!(is_fair, "{passed:?} with {protocol:?}, {fanout:?}");
    }
}
