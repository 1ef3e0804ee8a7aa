//! Acquiring and giving back on healthy servers.

use std::time::Duration;

use redlatch::{Error, LockManager};

use crate::server::Server;

const TTL: Duration = Duration::from_secs(10);

#[test]
fn the_stored_value_is_the_token_on_every_node_and_its_ttl_is_right() {
    let servers = Server::cluster(5);
    let manager = LockManager::new(servers.iter().map(Server::url)).unwrap();
    let guard = manager.lock("report", TTL).unwrap();
    for server in &servers {
        assert_eq!(server.get("report").as_deref(), Some(guard.token()));
        let pttl = server.pttl("report");
        assert!((9_000..=10_000).contains(&pttl), "{pttl}");
    }
    assert!(matches!(
        manager.try_lock("report", TTL),
        Err(Error::Held { .. })
    ));
    guard.unlock().unwrap();
    for server in &servers {
        assert_eq!(server.keys(), 0);
    }
}
