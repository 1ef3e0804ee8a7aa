//! Other programs on the same keys, as docs/wire.md lets them take part: who wakes whom. Their scripts are played beside those of
//! the library in `tests/scripts/page.txt`, and other crates play in `benches/peers/tests/interop.rs`.

use std::thread;
use std::time::Duration;

use redis::Value;
use redlatch_testing::{eventually, side_by_side};

use crate::managers::{BOTH, two_processes};
use crate::waiters::{BOUND, TTL, Waiting, cluster, process};

const TOKEN: &str = "00112233445566778899aabbccddeeff00112233";

/// Where nobody rings, as clients of the published algorithm don't, it tries at the end of the time.
#[test]
fn the_bell_wakes_a_client_of_the_library_and_so_does_the_end_of_the_time_that_it_listens_for() {
    // Another one would look again after five minutes.
    for (delay, rings) in [(BOUND * 5, true), (Duration::from_secs(1), false)] {
        let servers = cluster(3);
        for server in &servers {
            server.hold("job", TOKEN, 60_000);
        }
        let waiting = Waiting::listen(&process(&servers, delay), &servers[0]);
        for server in &servers {
            server.command(&["DEL", "job"]);
        }
        if rings {
            servers[0].command(&["RPUSH", "job:redlatch:bell", "1"]);
        }
        let woken = eventually(BOUND / 2, || waiting.is_over());
        assert!(woken, "a bell: {rings}");
        waiting.end().0.unlock().unwrap();
    }
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
