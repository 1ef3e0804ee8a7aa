//! Each reader has a lock of its own: what extends it, what it is told of its loss, and what it leaves to the others.

use std::sync::mpsc;
use std::time::Duration;

use redlatch::{Error, KeepAlive, LockManager, LossCause, Protocol};
use redlatch_testing::{Server, eventually, side_by_side};

use crate::managers::{BOTH, two_processes};
use crate::managers::{fenced, invalid_field};
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
fn a_reader_that_is_kept_alive_outlives_those_that_are_not() {
    side_by_side(BOTH, |protocol| {
        let servers = cluster(3);
        let timeout = Duration::from_secs(1);
        let builder = || {
            LockManager::builder()
                .nodes(servers.iter().map(Server::url))
                .node_timeout(timeout)
                .protocol(protocol)
        };
        let [one, other] = [(); 2].map(|()| builder().build().unwrap());
        if protocol == Protocol::Fenced {
            one.open_nodes().unwrap();
        }
        let ttl = timeout * 3;
        let lock = one.rw_lock("ledger").ttl(ttl);
        let kept = lock
            .clone()
            .keep_alive(KeepAlive::unbounded())
            .read()
            .unwrap();
        let forgotten = lock.read().unwrap();
        let cause = forgotten.wait_lost(BOUND);
        assert!(
            matches!(cause, Some(LossCause::Expired { .. })),
            "{cause:?}"
        );
        assert!(matches!(forgotten.check(), Err(Error::Lost { .. })));
        kept.check().unwrap();
        let counted = || other.rw_lock("ledger").try_write().unwrap_err().readers();
        assert!(eventually(BOUND, || counted() == Some(1)));
        assert!(matches!(forgotten.unlock(), Err(Error::Lost { .. })));
        kept.check().unwrap();
        kept.unlock().unwrap();
        other
            .rw_lock("ledger")
            .try_write()
            .unwrap()
            .unlock()
            .unwrap();
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
fn a_node_that_may_have_forgotten_its_readers_lets_nobody_in_with_the_fenced_protocol() {
    let mut servers = cluster(3);
    let manager = fenced()
        .nodes(servers.iter().map(Server::url))
        .build()
        .unwrap();
    manager.open_nodes().unwrap();
    let guard = ledger(&manager).read().unwrap();
    for server in &mut servers[1..] {
        server.kill();
        server.restart();
    }
    for (what, result) in [
        ("read", ledger(&manager).try_read()),
        ("write", ledger(&manager).try_write()),
    ] {
        let error = result.unwrap_err().to_string();
        assert!(
            error.contains("too many nodes failed") && error.contains("abstains for another"),
            "{what}: {error}"
        );
    }
    assert!(matches!(guard.unlock(), Err(Error::Lost { .. })));
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
fn what_is_asked_for_in_error_is_refused_before_any_node_is_asked() {
    let servers = cluster(1);
    let manager = LockManager::new(servers.iter().map(Server::url)).unwrap();
    let refused = |result: Result<redlatch::LockGuard, Error>| result.unwrap_err().to_string();
    let minimum = Duration::from_mins(1);
    let text = refused(ledger(&manager).at_least(minimum).read());
    assert_eq!(
        text,
        "invalid at_least: readers share the lock, so none of them can keep the others from it; set it to write, and not to read"
    );
    assert_eq!(
        invalid_field(&ledger(&manager).at_least(minimum).try_read().unwrap_err()),
        "at_least"
    );
    for name in ["", "a:redlatch:intent", "a:fence"] {
        assert_eq!(
            invalid_field(&manager.rw_lock(name).try_read().unwrap_err()),
            "resource"
        );
        assert_eq!(
            invalid_field(&manager.rw_lock(name).try_write().unwrap_err()),
            "resource"
        );
    }
    let nothing = Duration::from_millis(1);
    assert_eq!(
        invalid_field(
            &manager
                .rw_lock("ledger")
                .ttl(nothing)
                .try_read()
                .unwrap_err()
        ),
        "ttl"
    );
    let label = manager.rw_lock("ledger").holder("two\nlines").try_read();
    assert_eq!(invalid_field(&label.unwrap_err()), "holder");
    assert_eq!(servers[0].count("evalsha") + servers[0].count("eval"), 0);

    // For a writer it is kept.
    let writer = ledger(&manager).at_least(minimum).write().unwrap();
    writer.unlock().unwrap();
    let error = ledger(&manager).try_read().unwrap_err();
    assert!(error.is_resting(), "{error}");
}
