//! Fenced locks with a clock that leaps, several operators at once, and a server with two names.

use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use redlatch::LockManager;
use redlatch_testing::Server;
use redlatch_testing::scripted::Scripted;

use crate::managers::{PATIENCE, fenced};

const TTL: Duration = Duration::from_secs(10);

/// The node's clock is right, and a little ahead. What was proposed is far ahead of both, as after a leap of this machine's.
#[test]
fn a_proposal_that_is_ahead_of_the_own_clock_is_followed_by_one_that_is_not() {
    let ahead = |micros: u64| {
        #[expect(clippy::disallowed_methods, reason = "what a node's clock shows")]
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        u64::try_from(now.unwrap().as_micros()).unwrap() + micros
    };
    let asked = AtomicU32::new(0);
    let server = Scripted::start(move |peer, command| {
        if !command.asks_for_a_lock() {
            return peer.say(b":1\r\n");
        }
        let token: u64 = command.argument(4).unwrap().parse().unwrap();
        let answer = if asked.fetch_add(1, Ordering::SeqCst) == 0 {
            format!("*2\r\n$5\r\nSTALE\r\n:{}\r\n", ahead(3_000_000_000))
        } else if token > ahead(1_000_000_000) {
            format!("*2\r\n$4\r\nSKEW\r\n:{}\r\n", ahead(60_000_000))
        } else {
            "+OK\r\n".into()
        };
        peer.say(answer.as_bytes());
    });
    let manager = fenced().node(server.url()).build().unwrap();
    let guard = manager.try_lock("job", TTL).unwrap();
    assert!(guard.fencing_token().unwrap() < ahead(0));
}

#[test]
fn of_several_who_open_the_nodes_none_closes_what_another_was_told_is_open() {
    for _ in 0..8 {
        let servers = Server::cluster(3);
        let open = || fenced().nodes(servers.iter().map(Server::url)).build();
        let managers: Vec<LockManager> = (0..3).map(|_| open().unwrap()).collect();
        let opened = thread::scope(|scope| {
            let open = |manager: &LockManager| manager.open_nodes().is_ok();
            let threads: Vec<_> = managers
                .iter()
                .map(|manager| scope.spawn(move || open(manager)))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .filter(|is_open| *is_open)
                .count()
        });
        assert!(opened <= 1);
        if opened == 1 {
            drop(managers[0].try_lock("job", TTL).unwrap());
        }
    }
}

#[test]
fn a_server_has_one_vote_also_when_it_is_asked_last_under_one_of_its_names() {
    let twice = Server::start_with(&["--unixsocket", "{dir}/redis.sock"]);
    let other = Server::start();
    let path = twice.dir().join("address");
    let manager = LockManager::builder()
        .nodes([twice.url(), other.url()])
        .node_timeout(PATIENCE)
        .node(format!("unix://{}?db=1", path.display()))
        .build()
        .unwrap();
    other.hold("job", "someone", 60_000);
    let unreached = manager.try_lock("job", TTL).unwrap_err();
    assert!(
        unreached.to_string().contains("no connection"),
        "{unreached}"
    );

    // It is left out at first, and needed then.
    symlink(twice.dir().join("redis.sock"), &path).unwrap();
    let error = manager.try_lock("job", TTL).unwrap_err();
    assert!(error.to_string().contains("the same server as"), "{error}");
    assert_eq!(twice.get("job"), None);
}
