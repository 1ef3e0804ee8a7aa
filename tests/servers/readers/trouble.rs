//! Readers over servers that are killed, stopped or late, panics, and forks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Error, Fanout, LockManager, Protocol, Vote};
use redlatch_testing::{Server, eventually, is_alone, side_by_side};

use crate::managers::{BOTH, two_processes};
use crate::servers::readers::on_servers::{assert_read_by, ledger};
use crate::servers::readers::strangers::readers;
use crate::servers::threads::forks::in_a_child;
use crate::waiters::{BOUND, TTL, assert_nothing_is_left, cluster};

/// With a short time for each node.
fn hasty(servers: &[Server], protocol: Protocol, fanout: Fanout) -> LockManager {
    let builder = LockManager::builder().nodes(servers.iter().map(Server::url));
    let builder = builder.protocol(protocol).fanout(fanout);
    builder
        .node_timeout(Duration::from_millis(300))
        .build()
        .unwrap()
}

#[test]
fn a_minority_of_killed_servers_keeps_neither_readers_nor_writers_out() {
    side_by_side(BOTH, |protocol| {
        let mut servers = cluster(5);
        let manager = hasty(&servers, protocol, Fanout::Sequential);
        if protocol == Protocol::Fenced {
            manager.open_nodes().unwrap();
        }
        let first = ledger(&manager).read().unwrap();
        servers[0].kill();
        servers[3].kill();
        let second = ledger(&manager).read().unwrap();
        first.extend(TTL).unwrap();
        assert!(matches!(
            ledger(&manager).try_write(),
            Err(Error::Held { .. })
        ));
        first.unlock().unwrap();
        second.unlock().unwrap();
        ledger(&manager).try_write().unwrap().unlock().unwrap();
        servers[1].kill();
        let error = ledger(&manager).try_read().unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    });
}

#[test]
fn what_a_stopped_server_executes_late_is_undone_behind_it() {
    let kinds = [
        (Protocol::Classic, Fanout::Sequential),
        (Protocol::Classic, Fanout::Overlapped),
        (Protocol::Fenced, Fanout::Sequential),
    ];
    side_by_side(kinds, |(protocol, fanout)| {
        let servers = cluster(3);
        let manager = hasty(&servers, protocol, fanout);
        if protocol == Protocol::Fenced {
            manager.open_nodes().unwrap();
        }
        // Connected, so that the command itself is on its way.
        ledger(&manager).read().unwrap().unlock().unwrap();
        servers[2].stop();
        let guard = ledger(&manager).try_read().unwrap();
        let votes = guard.votes();
        assert!(
            votes[..2]
                .iter()
                .all(|report| matches!(report.vote, Vote::Granted)),
            "{votes:?}"
        );
        let before = readers_or_none(&servers[0]);
        servers[2].resume();
        let attempts = || servers[2].count("zadd") - servers[2].count("zrem");
        // Its READ and the UNREAD behind it, in this order.
        assert!(eventually(BOUND, || attempts() == 0
            && readers_or_none(&servers[2]) == 0));
        assert_eq!(readers_or_none(&servers[0]), before);
        guard.unlock().unwrap();
        if protocol == Protocol::Classic {
            assert_nothing_is_left(&servers);
        }
    });
}

fn readers_or_none(server: &Server) -> usize {
    readers(server).len()
}

#[test]
fn a_majority_of_stopped_servers_leaves_nothing_behind() {
    let servers = cluster(3);
    let manager = hasty(&servers, Protocol::Classic, Fanout::Sequential);
    ledger(&manager).read().unwrap().unlock().unwrap();
    for server in &servers[1..] {
        server.stop();
    }
    let error = ledger(&manager).try_read().unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    for server in &servers[1..] {
        server.resume();
    }
    assert_nothing_is_left(&servers);
    let is_back = eventually(BOUND, || ledger(&manager).try_write().is_ok());
    assert!(is_back);
}

#[test]
fn a_reader_gives_its_lock_back_as_its_thread_panics_and_leaves_the_others_theirs() {
    let (servers, [one, other]) = two_processes(Protocol::Classic);
    let stays = ledger(&one).read().unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _guard = ledger(&one).read().unwrap();
        assert_read_by(ledger(&other).try_write(), 2);
        panic!("of the program");
    }));
    assert!(panicked.is_err());
    assert_read_by(ledger(&other).try_write(), 1);
    stays.unlock().unwrap();
    assert_nothing_is_left(&servers);
}

#[test]
fn locks_are_given_back_in_any_order_and_by_managers_that_name_the_nodes_in_any_order() {
    side_by_side(BOTH, |protocol| {
        let servers = cluster(3);
        let urls: Vec<String> = servers.iter().map(Server::url).collect();
        let build = |urls: Vec<String>| {
            let builder = LockManager::builder().nodes(urls).protocol(protocol);
            builder.node_timeout(BOUND).build().unwrap()
        };
        let managers = [
            build(urls.clone()),
            build(urls.iter().rev().cloned().collect()),
            build(vec![urls[1].clone(), urls[2].clone(), urls[0].clone()]),
        ];
        if protocol == Protocol::Fenced {
            managers[0].open_nodes().unwrap();
        }
        let mut guards: Vec<_> = (0..6)
            .map(|n| ledger(&managers[n % 3]).read().unwrap())
            .collect();
        for (left, place) in [(5, 2), (4, 4), (3, 0), (2, 1), (1, 1)] {
            guards.remove(place).unlock().unwrap();
            assert_read_by(
                ledger(&managers[left % 3]).try_write(),
                u64::try_from(left).unwrap(),
            );
        }
        guards.remove(0).unlock().unwrap();
        ledger(&managers[1]).try_write().unwrap().unlock().unwrap();
    });
}

#[test]
fn the_child_of_a_fork_neither_reads_nor_gives_back() {
    if !is_alone("readers::trouble::the_child_of_a_fork_neither_reads_nor_gives_back") {
        return;
    }
    let nodes = FakeNode::cluster(3);
    let manager = LockManager::builder()
        .fakes(&nodes)
        .node_timeout(BOUND)
        .build()
        .unwrap();
    let mut guard = Some(ledger(&manager).read().unwrap());
    in_a_child(|| {
        let guard = guard.take().unwrap();
        let is_refused = [
            ledger(&manager).try_read(),
            ledger(&manager).read(),
            ledger(&manager).write(),
        ]
        .into_iter()
        .all(|result| matches!(result, Err(Error::Forked)));
        let is_still = guard.check().is_ok() && guard.is_read();
        let is_parents = matches!(guard.unlock(), Err(Error::Forked));
        is_refused && is_still && is_parents
    });
    assert_read_by(ledger(&manager).try_write(), 1);
    guard.unwrap().unlock().unwrap();
}

#[test]
fn a_full_server_extends_a_reader_as_it_extends_a_lock() {
    for protocol in BOTH {
        let (servers, [one, other]) = two_processes(protocol);
        let fill = |maxmemory| {
            for server in &servers {
                server.command(&["CONFIG", "SET", "maxmemory", maxmemory]);
            }
        };
        let reader = ledger(&one).read().unwrap();
        let lock = one.lock("job", TTL).unwrap();
        fill("1");
        lock.extend(TTL * 2).unwrap();
        reader.extend(TTL * 2).unwrap();
        reader.unlock().unwrap();
        let error = ledger(&other).try_read().unwrap_err();
        assert!(error.to_string().contains("OOM"), "{error}");
        fill("0");
        drop(ledger(&other).try_read().unwrap());
    }
}
