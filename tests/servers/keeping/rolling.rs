//! Kept locks while every server is restarted, one after the other, on real servers.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use redlatch::{Error, Fanout, LockGuard, LockManager, LossCause, Protocol};
use redlatch_testing::{Server, Stalls, eventually, now, pause};

use crate::managers::{over, processes_by};
use crate::servers::keeping::on_servers::{kept, ms};

const BOUND: Duration = Duration::from_secs(100);

/// Runs this while contenders try to get the lock, each with a manager of its own and in a way of its own. None may get it.
fn against_contenders(servers: &[String], run: impl FnOnce()) {
    let over = AtomicBool::new(false);
    let attempts = AtomicUsize::new(0);
    thread::scope(|scope| {
        for (fanout, wait) in [
            (Fanout::Sequential, Duration::ZERO),
            (Fanout::Overlapped, Duration::ZERO),
            (Fanout::Sequential, ms(300)),
            (Fanout::Overlapped, ms(300)),
        ] {
            let (over, attempts) = (&over, &attempts);
            scope.spawn(move || {
                let builder = LockManager::builder().nodes(servers.iter().cloned());
                let manager = builder.fanout(fanout).build().unwrap();
                while !over.load(Ordering::SeqCst) {
                    let refused = manager.try_lock_for("job", ms(2_000), wait).unwrap_err();
                    let is_so = matches!(refused, Error::Held { .. } | Error::Unavailable { .. });
                    assert!(is_so, "{refused}");
                    attempts.fetch_add(1, Ordering::SeqCst);
                    pause(ms(3));
                }
            });
        }
        // A panic here must not leave the contenders running.
        let ended = catch_unwind(AssertUnwindSafe(run));
        over.store(true, Ordering::SeqCst);
        ended.unwrap_or_else(|panic| resume_unwind(panic));
    });
    assert!(attempts.into_inner() > 100);
}

fn has_key(server: &Server, guard: &LockGuard) -> bool {
    server.get("job").as_deref() == Some(guard.token())
}

#[test]
fn a_kept_lock_outlives_all_its_servers_twice_each_away_for_longer_than_its_ttl_and_empty() {
    let mut servers = Server::cluster(5);
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let ttl = ms(2_500);
    let manager = over(&servers).node_timeout(ms(800)).build().unwrap();
    let guard = kept(&manager, "job", ttl);
    let stalls = Stalls::watch();
    let mut stalled = Duration::ZERO;
    against_contenders(&urls, || {
        // Two at a time, each of them twice.
        for places in [[0, 1], [2, 3], [4, 0], [1, 2], [3, 4]] {
            for place in places {
                servers[place].kill();
            }
            let killed = now();
            while killed.elapsed() < ttl + ms(100) {
                stalled = stalled.max(stalls.longest());
                let held = guard.check();
                assert!(held.is_ok(), "{held:?}, and nothing ran for {stalled:?}");
                pause(ms(20));
            }
            for place in places {
                servers[place].restart();
            }
            let is_healed = |place: &usize| has_key(&servers[*place], &guard);
            let are_healed = || places.iter().all(is_healed) || guard.check().is_err();
            assert!(eventually(BOUND, are_healed));
        }
        guard.check().unwrap();
        assert!(servers.iter().all(|server| has_key(server, &guard)));
    });
    assert!(servers.iter().all(|server| has_key(server, &guard)));
    let stats = manager.stats();
    assert!(stats.healed >= 10 && stats.lost == 0, "{stats}");
    guard.unlock().unwrap();
    // What contenders have announced ends by itself.
    let is_empty = |server: &Server| server.get("job").is_none();
    assert!(servers.iter().all(is_empty));
    let nothing_is_left = || servers.iter().all(|server| server.keys() == 0);
    assert!(eventually(BOUND, nothing_is_left));
}

#[test]
fn a_thousand_kept_locks_are_healed_on_a_server_that_came_back_empty() {
    const LOCKS: usize = 1_000;
    let mut servers = Server::cluster(5);
    let builder = over(&servers).node_timeout(ms(2_000));
    let manager = builder.fanout(Fanout::Overlapped).build().unwrap();
    // As long as a machine that has other things to do takes to renew so many.
    let ttl = Duration::from_secs(20);
    let guards: Vec<LockGuard> = (0..LOCKS)
        .map(|i| kept(&manager, &format!("job {i}"), ttl))
        .collect();
    // With the breaker closed, and with another server that does not answer while it heals.
    for (empty, stopped) in [(1, None), (3, Some(0))] {
        if let Some(stopped) = stopped {
            servers[stopped].stop();
        }
        servers[empty].kill();
        servers[empty].restart();
        let is_healed = || servers[empty].keys() == 1_000;
        assert!(eventually(ttl * 3, is_healed), "{}", servers[empty].keys());
        assert!(guards.iter().all(|guard| guard.check().is_ok()));
        if let Some(stopped) = stopped {
            servers[stopped].resume();
        }
    }
    // A server has the last key a moment before its reply is read.
    let has_counted = || manager.stats().healed == 2_000;
    let is_counted = eventually(BOUND, has_counted);
    let stats = manager.stats();
    assert!(is_counted && stats.lost == 0, "{stats}");
    drop(guards);
    let nothing_is_left = || servers.iter().all(|server| server.keys() == 0);
    assert!(eventually(BOUND, nothing_is_left));
}

/// The key ends while the server is away. It is another process afterwards, which does not know whether it has granted the
/// lock to others meanwhile.
#[test]
fn a_fenced_lock_is_not_set_again_on_a_server_that_was_away_for_longer_than_its_ttl() {
    // They write each command to disk before they answer it.
    let durable = ["--appendonly", "yes", "--appendfsync", "always"];
    let mut servers = [(); 3].map(|()| Server::start_with(&durable));
    let [manager] = processes_by(&over(&servers).node_timeout(ms(2_000)), Protocol::Fenced);
    let ttl = ms(6_000);
    let guard = kept(&manager, "job", ttl);
    servers[1].kill();
    pause(ttl + ms(100));
    servers[1].restart();
    let has_loaded = || servers[1].info("persistence").contains("loading:0");
    assert!(eventually(BOUND, has_loaded));
    for _ in 0..3 {
        guard.extend(ttl).unwrap();
    }
    assert_eq!(servers[1].get("job"), None);
    guard.check().unwrap();
    // With the next server away, too few are left that ever have the key.
    servers[2].kill();
    let cause = guard.wait_lost(BOUND).unwrap();
    assert!(matches!(cause, LossCause::Unreachable { .. }), "{cause}");
}
