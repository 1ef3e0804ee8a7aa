//! Replies that are lost or late: no key is left, and what comes late counts for nothing.

use std::time::Duration;

use redlatch::{Error, LockManager, NodeError, Vote};
use redlatch_testing::scripted::{Kind, Scripted};
use redlatch_testing::{Server, eventually, side_by_side, within};

use crate::servers::faults::nodes::{
    BOUND, RECOVERY, TTL, assert_all_vote_soon, assert_nothing_left, granted, vote,
};

/// Long enough for a server that was not stopped, on a busy machine.
const NODE_TIMEOUT: Duration = Duration::from_secs(1);

/// Stops some servers in turn, lets a lock be taken and given back meanwhile, and looks what the stopped ones do with
/// what they were sent once they go on.
#[track_caller]
fn assert_lost_replies_leave_no_key(n: usize, stopped: usize, rounds: &[usize]) {
    let servers = Server::cluster(n);
    for round in rounds.iter().copied() {
        let builder = LockManager::builder().nodes(servers.iter().map(Server::url));
        let manager = builder.node_timeout(NODE_TIMEOUT).build().unwrap();
        if round % 2 == 0 {
            // Over connections of earlier commands, and in the other rounds over new ones.
            assert_all_vote_soon(&manager);
        }
        let victims: Vec<&Server> = (0..stopped).map(|i| &servers[(round + i) % n]).collect();
        let sets: Vec<u64> = victims.iter().map(|server| server.count("set")).collect();
        for server in &victims {
            server.stop();
        }
        let votes = within(BOUND, move || match manager.try_lock("job", TTL) {
            Ok(guard) => guard.votes(),
            Err(Error::Unavailable { nodes, .. }) => nodes,
            Err(other) => panic!("{other:?}"),
        });
        for server in &victims {
            server.resume();
        }
        for (victim, before) in victims.iter().zip(sets) {
            let vote = vote(&votes, &victim.name());
            assert!(matches!(vote, Vote::Failed(NodeError::TimedOut)), "{vote}");
            let executed = eventually(RECOVERY, || victim.count("set") > before);
            assert!(executed, "{} got no SET", victim.name());
        }
        assert_nothing_left(&servers);
    }
}

#[test]
fn sets_whose_replies_were_lost_leave_no_key_once_their_servers_go_on() {
    let rounds: Vec<usize> = (0..20).collect();
    let cases = [(5, 1, 10), (5, 2, 20), (1, 1, 10)].map(|(n, stopped, count)| {
        let parts = rounds[..count].chunks(4);
        parts.map(move |rounds| (n, stopped, rounds))
    });
    side_by_side(cases.into_iter().flatten(), |(n, stopped, rounds)| {
        assert_lost_replies_leave_no_key(n, stopped, rounds);
    });
}

#[test]
fn too_slow_an_acquire_fails_although_every_node_said_yes_and_gives_all_back() {
    let servers = Server::cluster(3);
    let fronts: Vec<Scripted> = servers.iter().map(|s| delayed_set(s, 100)).collect();
    let manager = LockManager::builder()
        .nodes(fronts.iter().map(Scripted::url))
        .node_timeout(Duration::from_secs(5))
        .build()
        .unwrap();
    let ttl = Duration::from_millis(250);
    let error = within(BOUND, move || manager.try_lock("job", ttl)).unwrap_err();
    let Error::TooSlow { elapsed, nodes, .. } = &error else {
        panic!("{error:?}");
    };
    assert!(*elapsed >= Duration::from_millis(245), "{elapsed:?}");
    assert_eq!(granted(nodes), 3, "{error}");
    for front in &fronts {
        let (sets, releases) = (front.heard_of(Kind::Set), front.heard_of(Kind::Release));
        assert_eq!(sets.len(), 1);
        // Not the expiry has freed the lock, the release has.
        assert_eq!(releases.len(), 1, "{} was not released", front.name());
        assert_eq!(sets[0].token(), releases[0].token());
    }
    assert_nothing_left(&servers);
}

/// A server whose replies to SET are under way for so long.
fn delayed_set(server: &Server, millis: u64) -> Scripted {
    let port = server.port();
    Scripted::start(move |peer, command| {
        let reply = peer.ask(port, command);
        if command.kind() == Kind::Set {
            peer.wait(Duration::from_millis(millis));
        }
        peer.say(&reply);
    })
}
