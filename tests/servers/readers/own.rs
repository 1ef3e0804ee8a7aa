//! Each reader has a lock of its own: what extends it, what it is told of its loss, and what it leaves to the others.

use std::sync::mpsc;
use std::time::Duration;

use redlatch::{Error, LockManager, LossCause, Protocol};
use redlatch_testing::{Server, side_by_side};

use crate::managers::{BOTH, two_processes};
use crate::servers::readers::on_servers::{assert_read_by, ledger};
use crate::servers::readers::strangers::readers;
use crate::waiters::{BOUND, TTL, assert_nothing_is_left, cluster};

/// When the reader with this token ends on each node, by its clock in milliseconds; none where it has none.
#[track_caller]
fn ends(servers: &[Server], token: &str) -> Vec<Option<f64>> {
    let end = |server| {
        let found = readers(server)
            .into_iter()
            .find(|(value, _)| value.starts_with(token));
        found.map(|(_, end)| end)
    };
    servers.iter().map(end).collect()
}

#[test]
fn an_extension_prolongs_its_own_reader_and_no_other() {
    side_by_side(BOTH, |protocol| {
        let (servers, [one, other]) = two_processes(protocol);
        let first = ledger(&one).read().unwrap();
        let second = ledger(&other).read().unwrap();
        let before = [&first, &second].map(|guard| ends(&servers, guard.token()));
        first.extend(TTL * 3).unwrap();
        assert!(first.remaining() > TTL * 2 && second.remaining() <= TTL);
        let [longer, same] = [&first, &second].map(|guard| ends(&servers, guard.token()));
        assert!(
            longer
                .iter()
                .zip(&before[0])
                .all(|(now, then)| now.unwrap() > then.unwrap() + 60_000.0)
        );
        assert_eq!(same, before[1]);
        assert!(servers.iter().all(|server| server.pttl("ledger") > 120_000));

        // Never a shorter time, and the key ends with the last of those who are left.
        first.extend(Duration::from_secs(1)).unwrap();
        assert_eq!(ends(&servers, first.token()), longer);
        first.unlock().unwrap();
        assert!(servers.iter().all(|server| server.pttl("ledger") <= 60_000));
        assert_eq!(ends(&servers, second.token()), before[1]);
        second.check().unwrap();
        second.unlock().unwrap();
    });
}

#[test]
fn a_reader_whose_entries_are_gone_is_told_and_the_others_are_not() {
    side_by_side(BOTH, |protocol| {
        let (servers, [one, other]) = two_processes(protocol);
        let first = ledger(&one).read().unwrap();
        let second = ledger(&other).read().unwrap();
        let (tell, told) = mpsc::channel();
        first.on_lost(move |cause| tell.send(cause).unwrap());
        for server in &servers[..2] {
            server.command(&["ZREM", "ledger", first.token()]);
        }
        let lost = first.extend(TTL).unwrap_err();
        assert!(
            matches!(
                &lost,
                Error::Lost {
                    cause: LossCause::Vanished { .. },
                    ..
                }
            ),
            "{lost}"
        );
        assert!(matches!(
            told.recv_timeout(BOUND),
            Ok(LossCause::Vanished { .. })
        ));
        assert!(first.wait_lost(Duration::ZERO).is_some());
        second.extend(TTL).unwrap();
        assert_eq!(readers(&servers[2]).len(), 2);
        drop(first);
        assert!(servers.iter().all(|server| readers(server).len() == 1));
        assert_read_by(ledger(&one).try_write(), 1);

        // A writer came in between.
        for server in &servers[1..] {
            server.hold("ledger", "port", 60_000);
        }
        let lost = second.extend(TTL).unwrap_err();
        assert!(
            matches!(
                &lost,
                Error::Lost {
                    cause: LossCause::Taken { .. },
                    ..
                }
            ),
            "{lost}"
        );
        drop(second);
        assert!(
            servers[1..]
                .iter()
                .all(|server| server.get("ledger").as_deref() == Some("port"))
        );
        assert_eq!(servers[0].pttl("ledger"), -2);
    });
}

#[test]
fn a_reader_is_set_again_where_a_node_has_forgotten_it_with_the_classic_protocol_alone() {
    side_by_side(BOTH, |protocol| {
        let (servers, [one, other]) = two_processes(protocol);
        let guard = ledger(&one).read().unwrap();
        servers[2].command(&["DEL", "ledger"]);
        guard.extend(TTL).unwrap();
        let is_healed = protocol == Protocol::Classic;
        assert_eq!(readers(&servers[2]).len(), usize::from(is_healed));
        assert_eq!(one.stats().healed, u64::from(is_healed));

        // Never over a writer's key; but where a writer waits, which keeps out those alone that don't read yet.
        servers[2].hold("ledger", "port", 60_000);
        guard.extend(TTL).unwrap();
        assert_eq!(servers[2].get("ledger").as_deref(), Some("port"));
        servers[2].command(&["DEL", "ledger"]);
        servers[2].command(&["SET", "ledger:redlatch:intent", "1", "PX", "60000"]);
        guard.extend(TTL).unwrap();
        assert_eq!(readers(&servers[2]).len(), usize::from(is_healed));
        assert_eq!(one.stats().healed, 2 * u64::from(is_healed));
        let error = ledger(&other).try_read().unwrap_err();
        assert!(error.writer_waits(), "{error}");
        servers[2].command(&["DEL", "ledger:redlatch:intent"]);
        guard.unlock().unwrap();
        ledger(&other).try_write().unwrap().unlock().unwrap();
        if is_healed {
            assert_nothing_is_left(&servers);
        }
    });
}

#[test]
fn no_writer_comes_back_after_a_reader_with_the_fenced_protocol() {
    let (servers, [one, other]) = two_processes(Protocol::Fenced);
    let writer = ledger(&one).write().unwrap();
    let token = writer.fencing_token().unwrap();
    // As if its time were over; the counters stay.
    for server in &servers {
        server.command(&["DEL", "ledger"]);
    }
    ledger(&other).read().unwrap().unlock().unwrap();
    assert!(matches!(writer.extend(TTL), Err(Error::Lost { .. })));
    let next = ledger(&other).write().unwrap();
    assert!(next.fencing_token().unwrap() > token);
    next.unlock().unwrap();
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
