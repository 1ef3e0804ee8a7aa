//! Servers whose memory is used up and that evict nothing: locks from before can still be released.

use std::time::Duration;

use redlatch::{LockManager, NodeError, NodeReport, Protocol, Vote};
use redlatch_testing::Server;

use crate::managers::fenced;

const TTL: Duration = Duration::from_mins(1);

fn over(servers: &[Server], protocol: Protocol) -> LockManager {
    let builder = fenced().protocol(protocol);
    let urls = servers.iter().map(Server::url);
    let manager = builder.nodes(urls).build().unwrap();
    if protocol == Protocol::Fenced {
        manager.open_nodes().unwrap();
    }
    manager
}

fn fill(servers: &[Server], maxmemory: &str) {
    for server in servers {
        server.command(&["CONFIG", "SET", "maxmemory", maxmemory]);
    }
}

#[track_caller]
fn assert_gone(servers: &[Server], what: &str) {
    for server in servers {
        assert_eq!(server.get("job"), None, "{what}");
    }
}

#[test]
fn a_full_server_takes_locks_back() {
    for protocol in [Protocol::Classic, Protocol::Fenced] {
        let servers = Server::cluster(3);
        let manager = over(&servers, protocol);

        let guard = manager.try_lock("job", TTL).unwrap();
        fill(&servers, "1");
        guard.extend(TTL * 2).unwrap();
        guard.unlock().unwrap();
        assert_gone(&servers, &format!("{protocol:?}, after unlock"));

        fill(&servers, "0");
        let guard = manager.try_lock("job", TTL).unwrap();
        // Somebody waits, so that a bell is rung, for which there is no room.
        servers[0].command(&["SADD", "job:redlatch:waiting", "1"]);
        fill(&servers, "1");
        drop(guard);
        assert_gone(&servers, &format!("{protocol:?}, after a drop"));

        fill(&servers, "0");
        let guard = manager.try_lock("job", TTL).unwrap();
        let token = guard.token().to_owned();
        fill(&servers, "1");
        manager.release("job", &token).unwrap();
        assert_gone(&servers, &format!("{protocol:?}, after a release by value"));
        drop(guard);

        // Nothing can be locked until there is room again, and that is said.
        let error = manager.try_lock("job", TTL).unwrap_err();
        let redlatch::Error::Unavailable { nodes, .. } = &error else {
            panic!("{error}");
        };
        // Before Redis 7, what is wrong within a script is an ERR, with the error in its text.
        let is_full = |report: &&NodeReport| matches!(&report.vote, Vote::Failed(error @ NodeError::Refused { .. }) if error.to_string().contains("OOM "));
        assert!(nodes.iter().filter(is_full).count() >= 2, "{error}");
        fill(&servers, "0");
        manager.try_lock("job", TTL).unwrap().unlock().unwrap();
    }
}
