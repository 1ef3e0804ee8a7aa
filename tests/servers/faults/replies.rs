//! Replies that are lost or late, and undos that a server reads later or never: no key is left, and what comes late counts for
//! nothing.

use std::thread;
use std::time::Duration;

use redlatch::{Error, LockManager};
use redlatch_testing::scripted::{Kind, Scripted};
use redlatch_testing::{Server, eventually, within};

use crate::managers::over;
use crate::servers::faults::nodes::{BOUND, TTL, assert_nothing_left, granted};

#[test]
fn too_slow_an_acquire_fails_although_every_node_said_yes_and_gives_all_back() {
    let servers = Server::cluster(3);
    // The reply to each SET is under way for a while.
    let fronts: Vec<Scripted> = servers
        .iter()
        .map(|server| {
            let port = server.port();
            Scripted::start(move |peer, command| {
                let reply = peer.ask(port, command);
                if command.kind() == Kind::Set {
                    peer.wait(Duration::from_millis(100));
                }
                peer.say(&reply);
            })
        })
        .collect();
    let manager = over(&fronts).build().unwrap();
    let ttl = Duration::from_millis(250);
    let error = within(BOUND, move || manager.try_lock("job", ttl)).unwrap_err();
    let Error::TooSlow { elapsed, nodes, .. } = &error else {
        panic!("{error:?}");
    };
    assert!(*elapsed >= Duration::from_millis(245), "{elapsed:?}");
    assert_eq!(granted(nodes), 3, "{error}");
    for front in &fronts {
        let token_of = |kind| {
            let heard = front.heard_of(kind);
            assert_eq!(heard.len(), 1, "{kind:?}");
            heard[0].token().to_owned()
        };
        // Not the expiry has freed the lock, the release has.
        assert_eq!(token_of(Kind::Set), token_of(Kind::Release));
    }
    assert_nothing_left(&servers);
}

/// Runs the calls while two of three servers stand still, which are sent more than they read at once. No key is left when they
/// go on.
#[track_caller]
fn assert_leave_no_key(run: impl FnOnce(&LockManager, &dyn Fn())) {
    let servers = Server::cluster(3);
    let builder = over(&servers).node_timeout(Duration::from_millis(300));
    let manager = builder.pool_size(2).build().unwrap();
    run(&manager, &|| servers[1..].iter().for_each(Server::stop));
    servers[1..].iter().for_each(Server::resume);
    assert_nothing_left(&servers);
    // The servers are as good as before.
    let is_taken = || manager.try_lock("afterwards", TTL).is_ok();
    assert!(eventually(BOUND, is_taken));
}

#[test]
fn a_lock_on_many_long_names_that_failed_leaves_no_key_on_servers_that_stood_still() {
    for are_new in [false, true] {
        assert_leave_no_key(|manager, stop| {
            let names: Vec<String> = (0..64).map(|n| format!("{n:0300}")).collect();
            if !are_new {
                // The connections are open, and the servers know the scripts.
                drop(manager.lock_all(&names, TTL).unwrap());
            }
            stop();
            let result = manager.request_all(&names).ttl(TTL).try_lock();
            assert!(
                matches!(result, Err(Error::Unavailable { .. })),
                "{result:?}"
            );
        });
    }
}

#[test]
fn locks_of_many_threads_that_failed_and_releases_leave_no_key_on_servers_that_stood_still() {
    let names: Vec<String> = (0..128).map(|thread| format!("{thread:0300}")).collect();
    assert_leave_no_key(|manager, stop| {
        drop(manager.try_lock("job", TTL).unwrap());
        stop();
        side_by_side_all(&names, |name| {
            drop(manager.try_lock(name, TTL).unwrap_err());
        });
    });
    assert_leave_no_key(|manager, stop| {
        let guards: Vec<_> = names
            .iter()
            .map(|name| manager.try_lock(name, TTL).unwrap())
            .collect();
        stop();
        side_by_side_all(guards, drop);
    });
}

/// Each on a thread of its own, at the same time.
pub(crate) fn side_by_side_all<T: Send>(all: impl IntoIterator<Item = T>, run: impl Fn(T) + Sync) {
    thread::scope(|scope| {
        for one in all {
            scope.spawn(|| run(one));
        }
    });
}
