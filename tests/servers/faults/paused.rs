//! A server whose writes are paused (`CLIENT PAUSE … WRITE`): it answers some commands, and grants no lock.

use std::time::Duration;

use redlatch::{LockManager, LockStatus, Vote};
use redlatch_testing::{Server, eventually, now, pause};

use crate::servers::faults::nodes::vote;

const TTL: Duration = Duration::from_mins(1);
const NODE_TIMEOUT: Duration = Duration::from_millis(200);
const BOUND: Duration = Duration::from_secs(30);

fn manager(servers: &[Server]) -> LockManager {
    let builder = LockManager::builder().nodes(servers.iter().map(Server::url));
    builder.node_timeout(NODE_TIMEOUT).build().unwrap()
}

#[test]
fn a_server_whose_writes_are_paused_is_left_out_until_the_end_of_the_pause() {
    let servers = Server::cluster(3);
    let manager = manager(&servers);
    manager.lock("job", TTL).unwrap().unlock().unwrap();
    let name = servers[0].name();
    let of_node = || {
        let stats = manager.stats();
        let node = stats.nodes.iter().find(|node| *node.node == *name);
        node.unwrap().clone()
    };
    // Should it have been too slow just now, it is waited for.
    assert!(eventually(BOUND, || of_node().opened == of_node().closed));
    let before = of_node();
    servers[0].command(&["CLIENT", "PAUSE", "600000", "WRITE"]);
    // Many times as long as it takes to answer a probe that is not paused.
    let until = now() + Duration::from_secs(2);
    while now() < until {
        // The others may have been too slow for once.
        if let Ok(guard) = manager.try_lock("job", TTL) {
            let votes = guard.votes();
            let vote = vote(&votes, &name);
            assert!(!matches!(vote, Vote::Granted), "{vote}");
            guard.unlock().ok();
        }
        pause(Duration::from_millis(5));
    }
    // Nor does what it answers to those who look bring it back.
    manager.health().unwrap();
    manager.try_lock("job", TTL).map(drop).ok();
    let paused = of_node();
    assert_eq!(paused.opened - before.opened, 1, "{paused:?}");
    assert_eq!(paused.closed, before.closed, "{paused:?}");

    servers[0].command(&["CLIENT", "UNPAUSE"]);
    assert!(eventually(BOUND, || of_node().closed == before.closed + 1));
    assert!(eventually(BOUND, || {
        manager.try_lock("job", TTL).is_ok_and(|guard| {
            let votes = guard.votes();
            let vote = vote(&votes, &name);
            matches!(vote, Vote::Granted)
        })
    }));
    assert!(eventually(BOUND, || {
        matches!(manager.status("job"), Ok(LockStatus::Free { .. }))
    }));
}
