//! `LockManager::status` on real servers, some of which are stopped, killed or full of other things.

use std::time::Duration;

use redlatch::{LockManager, LockStatus};
use redlatch_testing::{Server, eventually, within};

use crate::fakes::operations::status::{TTL, assert_free, assert_unknown, holder, is_held};
use crate::managers::over;

/// Only a hang takes this long.
const BOUND: Duration = Duration::from_secs(50);

#[track_caller]
fn assert_blocked(status: &LockStatus) {
    assert!(matches!(status, LockStatus::Blocked { .. }), "{status}");
}

fn deployment(n: usize) -> (Vec<Server>, LockManager) {
    let servers = Server::cluster(n);
    let builder = over(&servers).node_timeout(Duration::from_secs(2));
    let manager = builder.build().unwrap();
    (servers, manager)
}

#[test]
fn keys_on_servers_that_are_no_locks_are_told_for_what_they_are() {
    let (servers, manager) = deployment(3);
    for server in &servers {
        server.command(&["LPUSH", "list", "x"]);
        server.command(&["SET", "forever", "x\ny"]);
    }
    for (key, what) in [("list", "another type"), ("forever", "3 bytes")] {
        let status = manager.status(key).unwrap();
        assert_blocked(&status);
        assert!(status.nodes()[0].to_string().contains(what), "{status}");
    }
    // One of them stands in nobody's way.
    servers[1].command(&["DEL", "list"]);
    servers[2].command(&["DEL", "list"]);
    assert_free(&manager.status("list").unwrap());
    let guard = manager.lock("list", TTL).unwrap();
    assert_eq!(holder(&manager.status("list").unwrap()).0, guard.token());
    assert_eq!(servers[0].pttl("list"), -1);
    assert_eq!(servers[0].pttl("forever"), -1);
}

#[test]
fn any_bytes_that_another_program_stored_are_shown_safely_and_told_apart() {
    let (servers, manager) = deployment(3);
    // On each server its own value.
    let set = |key: &str, values: [&[u8]; 3]| {
        for (server, value) in servers.iter().zip(values) {
            let client = redis::Client::open(server.url()).unwrap();
            let mut set = redis::cmd("SET");
            set.arg(key).arg(value).arg("PX").arg(60_000);
            set.exec(&mut client.get_connection().unwrap()).unwrap();
        }
        manager.status(key).unwrap()
    };
    let binary = set("binary", [b"\xff\0\r\n+OK\r\n$-1\r\n"; 3]);
    assert_eq!(holder(&binary).0, "\\xff\\0\\r\\n+OK\\r\\n$-1\\r\\n");
    assert!(!binary.to_string().contains(char::is_control));
    assert_eq!(holder(&set("empty", [b""; 3])).0, "");
    let (long, longer) = (vec![b'x'; 1_000_000], vec![b'x'; 1_000_001]);
    let status = set("long", [&long; 3]);
    let (token, _) = holder(&status);
    let is_cut = token.len() < 600 && token.ends_with("(1000000 bytes)");
    assert!(is_cut, "{token}");
    // Invalid bytes that look alike elsewhere are two tokens here.
    assert_blocked(&set("apart", [b"\xff", b"\xfe", b"\xfd"]));
    assert_blocked(&set("lengths", [&long, &longer, b"x"]));
}

#[test]
fn servers_that_are_stopped_or_killed_bound_the_look_and_what_they_were_sent_does_no_harm() {
    let (mut servers, manager) = deployment(5);
    let guard = manager.lock("report", TTL * 60).unwrap();
    let look = |resource: &'static str| {
        let manager = manager.clone();
        within(BOUND, move || manager.status(resource).unwrap())
    };
    servers[0].stop();
    servers[1].kill();
    assert_eq!(holder(&look("report")).0, guard.token());
    servers[2].stop();
    assert_unknown(&look("report"));
    assert_unknown(&look("other"));
    servers[0].resume();
    servers[2].resume();
    servers[1].restart();
    let all = eventually(BOUND, || {
        let status = manager.status("report").unwrap();
        status.nodes().iter().filter(|node| is_held(node)).count() == 4
    });
    assert!(all);
    for server in [&servers[0], &servers[2], &servers[3], &servers[4]] {
        assert_eq!(server.get("report").as_deref(), Some(guard.token()));
        assert_eq!(server.keys(), 1);
    }
    guard.unlock().unwrap();
}
