//! Locks of all kinds on real servers that are full, or stand still.

use std::time::Duration;

use redlatch::{Builder, Error, LockGuard, Vote};
use redlatch_testing::{Server, eventually};

use crate::kinds::outcomes::assert_unavailable;
use crate::kinds::world::{Kind, TTL, World, ms, on_own_servers};
use crate::waiters::BOUND;

const ENDS: [fn(&World, LockGuard); 3] = [
    |_, guard| guard.unlock().unwrap(),
    |_, guard| drop(guard),
    |world, guard| world.release(1, guard.token()).unwrap(),
];

#[test]
fn a_full_server_extends_releases_and_rests_and_grants_nothing() {
    let patient: fn(Builder) -> Builder = |builder| builder;
    on_own_servers(patient, |world, servers| {
        let fill = |maxmemory| {
            for server in servers {
                server.command(&["CONFIG", "SET", "maxmemory", maxmemory]);
            }
        };
        for end in ENDS {
            let guard = world.take();
            fill("1");
            guard.extend(TTL * 2).unwrap();
            end(world, guard);
            world.assert_nothing_is_left();
            fill("0");
        }
        fill("1");
        let result = world.call(0).try_lock();
        fill("0");
        let error = result.as_ref().unwrap_err().to_string();
        assert!(error.contains("OOM"), "{error}");
        assert_unavailable(&result);
        world.assert_free();
        if !world.is(Kind::Reader) {
            let guard = world.call(0).at_least(TTL).try_lock().unwrap();
            let token = guard.token().to_owned();
            fill("1");
            guard.unlock().unwrap();
            let late = world.release(0, &token);
            fill("0");
            assert!(matches!(late, Err(Error::Lost { .. })), "{late:?}");
            let error = world.call(1).try_lock().unwrap_err();
            assert!(error.is_resting(), "{error}");
            world.release(0, &format!("rest:{token}")).unwrap();
        }
        world.assert_free();
    });
}

fn hasty(builder: Builder) -> Builder {
    builder.node_timeout(Duration::from_millis(500))
}

#[track_caller]
fn assert_nothing_stays(world: &World) {
    let is_empty = || (0..world.nodes()).all(|node| !world.any_is_left(node));
    assert!(eventually(BOUND, is_empty));
}

#[test]
fn a_majority_of_stopped_servers_leaves_nothing_behind() {
    on_own_servers(hasty, |world, servers| {
        // Connected, so that the commands themselves are on their way.
        world.take().unlock().unwrap();
        servers[2].stop();
        let guard = world.take();
        let granted = |vote: &Vote| matches!(vote, Vote::Granted);
        assert!(
            guard.votes()[..2]
                .iter()
                .all(|report| granted(&report.vote))
        );
        servers[1].stop();
        let rival = world.rival(1).try_lock();
        let unlocked = guard.unlock();
        servers[1..].iter().for_each(Server::resume);
        assert!(rival.is_err(), "{rival:?}");
        assert!(unlocked.is_err());
        // The acquire and the undo behind it, and the release; what never got one goes with its time.
        assert_nothing_stays(world);
        let is_back = || world.call(0).try_lock_for(ms(500)).is_ok();
        assert!(eventually(BOUND, is_back));
        assert_nothing_stays(world);
    });
}
