//! Other programs on the same keys, as docs/wire.md lets them take part: what the library tells of them, and who wakes whom. Their
//! scripts are played beside those of the library in `tests/scripts/page.txt`.

use std::thread;

use redis::Value;
use redlatch::{Error, LockStatus};
use redlatch_testing::{Server, eventually, side_by_side};

use crate::managers::{BOTH, patient, two_processes};
use crate::waiters::{BOUND, TTL, Waiting, cluster, process};

const TOKEN: &str = "00112233445566778899aabbccddeeff00112233";

#[test]
fn a_label_is_read_by_both() {
    let servers = cluster(3);
    for server in &servers {
        let value = format!("{TOKEN} web-3 4711 since=2026-11-22T05:52:53Z");
        server.hold("job", &value, 60_000);
        server.hold("resting", &format!("rest:{TOKEN}"), 60_000);
    }
    let manager = patient(servers.iter().map(Server::url));
    let status = manager.status("job").unwrap();
    let LockStatus::Held { token, holder, .. } = &status else {
        panic!("{status}");
    };
    let label = &*holder.as_ref().unwrap().label;
    assert_eq!((token.as_str(), label), (TOKEN, "web-3 4711"));
    let status = manager.status("resting").unwrap();
    assert!(matches!(status, LockStatus::Resting { .. }), "{status}");

    let request = manager.request("next").ttl(TTL).holder("db-1");
    let guard = request.try_lock().unwrap();
    let value = servers[0].get("next").unwrap();
    let since = value.strip_prefix(&format!("{} db-1 since=", guard.token()));
    assert_eq!(since.unwrap().len(), "2026-11-22T05:52:53Z".len());
}

#[test]
fn a_permit_is_a_plain_lock_on_a_slot() {
    side_by_side(BOTH, |protocol| {
        let (servers, [manager, _]) = two_processes(protocol);
        let permit = || manager.semaphore("exports", 2).ttl(TTL).try_lock();
        for server in &servers {
            server.hold("exports:redlatch:slot:0", TOKEN, 60_000);
        }
        let ours = permit().unwrap();
        assert_eq!(ours.slot(), Some(1));
        let value = servers[0].get("exports:redlatch:slot:1");
        assert_eq!(value.as_deref(), Some(ours.token()));
        assert!(matches!(permit(), Err(Error::Held { .. })));
        for server in &servers {
            server.command(&["DEL", "exports:redlatch:slot:0"]);
        }
        assert_eq!(permit().unwrap().slot(), Some(0));
    });
}

#[test]
fn the_bell_wakes_a_client_of_the_library() {
    let servers = cluster(3);
    // It would look again after five minutes.
    let manager = process(&servers, BOUND * 5);
    for server in &servers {
        server.hold("job", TOKEN, 60_000);
    }
    let waiting = Waiting::listen(&manager, &servers[0]);
    for server in &servers {
        server.command(&["DEL", "job"]);
    }
    servers[0].command(&["RPUSH", "job:redlatch:bell", "1"]);
    let woken = eventually(BOUND / 2, || waiting.is_over());
    assert!(woken, "the bell was not heard");
    waiting.end().0.unlock().unwrap();
}

#[test]
fn a_release_of_the_library_rings_for_a_client_that_is_announced() {
    side_by_side(BOTH, |protocol| {
        let (servers, [manager, _]) = two_processes(protocol);
        let guard = manager.try_lock("job", TTL).unwrap();
        let first = &servers[0];
        first.command(&["SADD", "job:redlatch:waiting", "1"]);
        first.command(&["PEXPIRE", "job:redlatch:waiting", "60000"]);
        let heard = thread::scope(|scope| {
            let listen = scope.spawn(|| first.command(&["BLPOP", "job:redlatch:bell", "20"]));
            assert!(eventually(BOUND, || first.blocked() == 1));
            guard.unlock().unwrap();
            listen.join().unwrap()
        });
        let text = |text: &str| Value::BulkString(text.into());
        assert_eq!(
            heard,
            Value::Array(vec![text("job:redlatch:bell"), text("1")])
        );
    });
}
