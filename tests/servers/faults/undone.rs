//! Undos that a server has not read when the call has failed: more than it reads at once, on a server that stands still.

use std::thread;
use std::time::Duration;

use redlatch::{Error, LockManager};
use redlatch_testing::{Server, eventually};

/// Longer than any test.
const TTL: Duration = Duration::from_hours(1);
const BOUND: Duration = Duration::from_mins(1);
const NODE_TIMEOUT: Duration = Duration::from_millis(300);

fn manager(servers: &[Server]) -> LockManager {
    let urls = servers.iter().map(Server::url);
    let builder = LockManager::builder().nodes(urls);
    builder.node_timeout(NODE_TIMEOUT).build().unwrap()
}

/// Runs the calls while two of three servers stand still. No key is left when they go on.
#[track_caller]
fn leaves_no_key(manager: &LockManager, servers: &[Server], calls: impl FnOnce()) {
    servers[1..].iter().for_each(Server::stop);
    calls();
    servers[1..].iter().for_each(Server::resume);
    let left = || servers.iter().map(Server::keys).sum::<i64>();
    assert!(
        eventually(BOUND, || left() == 0),
        "{} keys are left",
        left()
    );
    // The servers are as good as before.
    let is_taken = || manager.try_lock("afterwards", TTL).is_ok();
    assert!(eventually(BOUND, is_taken));
}

#[test]
fn a_lock_on_many_long_names_that_failed_leaves_no_key_on_servers_that_stood_still() {
    for are_new in [false, true] {
        let servers = Server::cluster(3);
        let manager = manager(&servers);
        let names: Vec<String> = (0..64).map(|n| format!("{n:0300}")).collect();
        let all = || manager.request_all(names.iter()).ttl(TTL);
        if !are_new {
            // The connections are open, and the servers know the scripts.
            all().try_lock().unwrap().unlock().unwrap();
        }
        leaves_no_key(&manager, &servers, || {
            let error = all().try_lock().unwrap_err();
            assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        });
    }
}

#[test]
fn locks_of_many_threads_that_failed_together_leave_no_key_on_servers_that_stood_still() {
    let servers = Server::cluster(3);
    let manager = manager(&servers);
    manager.try_lock("job", TTL).unwrap().unlock().unwrap();
    leaves_no_key(&manager, &servers, || {
        thread::scope(|scope| {
            for thread in 0..128 {
                let manager = &manager;
                scope.spawn(move || {
                    let name = format!("{thread:0200}");
                    manager.try_lock(&name, TTL).unwrap_err();
                });
            }
        });
    });
}

#[test]
fn releases_of_many_threads_to_servers_that_stand_still_are_made_up_for() {
    let servers = Server::cluster(3);
    let manager = manager(&servers);
    let lock = |thread| manager.try_lock(&format!("{thread:0300}"), TTL).unwrap();
    let guards: Vec<_> = (0..128).map(lock).collect();
    leaves_no_key(&manager, &servers, || {
        thread::scope(|scope| {
            for guard in guards {
                scope.spawn(|| drop(guard));
            }
        });
    });
}
