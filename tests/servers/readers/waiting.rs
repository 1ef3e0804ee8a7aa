//! Waiting for a lock that others read, and for one that a writer has: at one node, with a bell for each kind.

use std::thread;
use std::time::Duration;

use redlatch::{Cancel, Error, Fanout, LockGuard, LockManager, Protocol, Vote};
use redlatch_testing::{Server, eventually, now, side_by_side, within};

use crate::managers::{BOTH, over};
use crate::servers::readers::on_servers::{assert_held, ledger};
use crate::waiters::{
    BOUND, LONG, SOON, TTL, Waiting, assert_nothing_is_left, cluster, process_with, processes,
};

/// Where a writer that waits says so.
pub(crate) const INTENT: &str = "ledger:redlatch:intent";

/// How somebody asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asks {
    ToRead,
    ToWrite,
}

fn call(
    manager: &LockManager,
    asks: Asks,
) -> impl FnOnce() -> Result<LockGuard, Error> + Send + 'static {
    let manager = manager.clone();
    move || match asks {
        Asks::ToRead => ledger(&manager).try_read_for(BOUND),
        Asks::ToWrite => ledger(&manager).try_write_for(BOUND),
    }
}

/// One who waits for "ledger" on a thread.
pub(crate) fn begin(manager: &LockManager, asks: Asks) -> Waiting {
    Waiting::of(call(manager, asks))
}

/// The same, and returns once it listens at the server.
#[track_caller]
fn listen(manager: &LockManager, asks: Asks, server: &Server) -> Waiting {
    Waiting::at(server, call(manager, asks))
}

/// Managers of as many processes over the same servers, which look again only after a long time.
#[track_caller]
fn slow<const N: usize>(protocol: Protocol, servers: &[Server]) -> [LockManager; N] {
    processes(protocol, servers, LONG)
}

#[test]
fn a_writer_wakes_the_readers_of_each_process_that_waits() {
    side_by_side(BOTH, |protocol| {
        let servers = cluster(3);
        let [one, two, three] = slow(protocol, &servers);
        let writer = ledger(&one).write().unwrap();
        let readers = [&two, &three].map(|manager| listen(manager, Asks::ToRead, &servers[0]));
        let released = now();
        writer.unlock().unwrap();
        let guards = readers.map(|reader| {
            let (guard, at) = reader.end();
            assert!(at - released < SOON, "{:?}", at - released);
            guard
        });
        assert!(guards.iter().all(LockGuard::is_read));
    });
}

/// Whether the first node says that a writer waits, and so does the error.
#[track_caller]
fn assert_a_writer_waits(result: Result<LockGuard, Error>) {
    let error = result.unwrap_err();
    let Error::Held { nodes, .. } = &error else {
        panic!("{error}");
    };
    let is_told = matches!(nodes[0].vote, Vote::WriterWaits { .. });
    assert!(is_told, "{error}");
    let text = error.to_string();
    let head = "a writer waits for the lock on \"ledger\"";
    assert!(text.starts_with(head), "{text}");
}

#[test]
fn no_reader_passes_a_writer_that_waits() {
    side_by_side(BOTH, |protocol| {
        let servers = cluster(3);
        let [one, two, three] = slow(protocol, &servers);
        let reader = ledger(&one).read().unwrap();
        let writer = listen(&two, Asks::ToWrite, &servers[0]);
        for manager in [&one, &two, &three] {
            assert_a_writer_waits(ledger(manager).try_read());
        }
        // Whoever reads goes on, and its lock can be extended.
        reader.extend(TTL).unwrap();
        let late = begin(&three, Asks::ToRead);
        reader.unlock().unwrap();
        let (guard, _) = writer.end();
        guard.unlock().unwrap();
        assert!(late.end().0.is_read());
    });
}

#[test]
fn where_the_first_node_abstains_a_writer_keeps_readers_out_at_the_second() {
    let servers = cluster(3);
    let [one, two, three] = processes(Protocol::Fenced, &servers, Duration::from_millis(50));
    servers[0].command(&["FLUSHALL"]);
    let reader = ledger(&one).read().unwrap();
    let writer = listen(&two, Asks::ToWrite, &servers[1]);
    assert!(servers[1].get(INTENT).is_some());
    let late = ledger(&three).try_read();
    assert!(late.as_ref().is_err_and(Error::writer_waits), "{late:?}");
    reader.unlock().unwrap();
    writer.end().0.unlock().unwrap();
}

#[test]
fn the_intent_of_a_writer_that_died_ends_by_itself() {
    let servers = cluster(3);
    let (delay, timeout) = (Duration::from_millis(50), Duration::from_millis(300));
    let [holder, late] = [(); 2].map(|()| process_with(&servers, delay, timeout));
    let reader = ledger(&holder).read().unwrap();
    // As a writer leaves it, which then is killed.
    servers[0].command(&["SET", INTENT, "1", "PX", "700"]);
    let begun = now();
    let (guard, at) = begin(&late, Asks::ToRead).end();
    assert!(at - begun >= Duration::from_millis(500), "{:?}", at - begun);
    drop((reader, guard));
    assert_nothing_is_left(&servers);
}

#[test]
fn a_writer_that_gives_up_holds_readers_up_for_a_moment_only() {
    let servers = cluster(3);
    let delay = Duration::from_millis(200);
    let timeout = Duration::from_millis(300);
    let [one, two] = [(); 2].map(|()| process_with(&servers, delay, timeout));
    let _reader = ledger(&one).read().unwrap();
    let cancel = Cancel::new();
    let writer = thread::spawn({
        let (manager, cancel) = (two.clone(), cancel.clone());
        move || ledger(&manager).cancelled_by(&cancel).try_write_for(BOUND)
    });
    let waits = eventually(BOUND, || servers[0].get(INTENT).is_some());
    assert!(waits, "no writer waits");
    // The back-off, the node timeout, and how late a server ends the listening.
    assert!(servers[0].pttl(INTENT) <= 600);
    assert_held(ledger(&one).try_read());
    cancel.cancel();
    let ended = within(BOUND, || writer.join().unwrap());
    assert!(matches!(ended, Err(Error::Cancelled { .. })));
    drop(begin(&one, Asks::ToRead).end());
}

#[test]
fn no_reader_passes_a_writer_whose_attempt_is_under_way() {
    for fanout in [Fanout::Sequential, Fanout::Overlapped] {
        let servers = cluster(3);
        // It has the vote of the first node by now, and asks the others.
        servers[0].hold("ledger", "writer", 60_000);
        servers[0].command(&["SET", INTENT, "1", "PX", "60000"]);
        let manager = over(&servers).fanout(fanout).build().unwrap();
        // The second one has met a writer there.
        for _ in 0..2 {
            assert_a_writer_waits(ledger(&manager).try_read());
            assert!(servers[1..].iter().all(|server| server.keys() == 0));
        }
        // Once it has met a writer, it asks the others only if the first one grants.
        let has_asked = u64::from(fanout == Fanout::Overlapped);
        assert_eq!(servers[1].count("zadd"), has_asked);
    }
}

#[test]
fn readers_that_wait_are_let_go_together() {
    let servers = cluster(3);
    let [one, two] = slow(Protocol::Classic, &servers);
    let writer = ledger(&one).write().unwrap();
    let threads: Vec<Waiting> = (0..12).map(|_| begin(&two, Asks::ToRead)).collect();
    assert!(eventually(BOUND, || two.stats().queued == 11));
    assert!(eventually(BOUND, || servers[0].blocked() == 1));
    let scripts = || servers[0].count("evalsha") + servers[0].count("eval");
    let before = scripts();
    writer.unlock().unwrap();
    let guards: Vec<LockGuard> = threads.into_iter().map(|thread| thread.end().0).collect();
    // The first one was woken. The others only ask: nobody else has looked for the lock.
    assert_eq!((two.stats().woken, servers[0].count("blpop")), (1, 1));
    let asked = usize::try_from(scripts() - before).unwrap();
    assert_eq!(asked, guards.len() + 1);
}

#[test]
fn a_thread_that_reads_again_waits_for_a_writer_that_waits_and_for_none_else() {
    side_by_side(BOTH, |protocol| {
        let servers = cluster(3);
        let [one, two] = slow(protocol, &servers);
        let first = ledger(&one).read().unwrap();
        ledger(&one).read().unwrap().unlock().unwrap();

        let writer = listen(&two, Asks::ToWrite, &servers[0]);
        let error = ledger(&one).try_read().unwrap_err();
        assert!(error.writer_waits() && !error.is_resting(), "{error}");
        let short = Duration::from_millis(200);
        let error = ledger(&one).try_read_for(short).unwrap_err();
        assert!(error.writer_waits(), "{error}");
        assert!(!writer.is_over());
        first.unlock().unwrap();
        writer.end().0.unlock().unwrap();

        let _held = one.lock("plain", TTL).unwrap();
        let error = two.rw_lock("plain").try_read().unwrap_err();
        assert!(!error.writer_waits(), "{error}");
    });
}
