//! Fenced locks with a clock that leaps, several operators at once, and a server with two names.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use redlatch::LockManager;
use redlatch_testing::Server;
use redlatch_testing::scripted::Scripted;

use crate::managers::fenced;

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
