//! Releases that servers did not hear, because they were away: what is repeated in the background, and what a flush tells of it.

use std::time::Duration;

use redlatch::{LockGuard, LockManager};
use redlatch_testing::{LinkMode, Proxy, Server, eventually};

use super::nodes::{BOUND, TTL};

/// Longer than any test takes, so that a node that hangs holds up its thread for the whole test.
const NODE_TIMEOUT: Duration = Duration::from_secs(300);

/// Servers, proxies in front of them, and a manager over the proxies.
fn behind_proxies(node_timeout: Duration) -> (Vec<Server>, Vec<Proxy>, LockManager) {
    let servers = Server::cluster(3);
    let proxies: Vec<Proxy> = servers
        .iter()
        .map(|server| Proxy::start(server.port()))
        .collect();
    let builder = LockManager::builder().nodes(proxies.iter().map(Proxy::url));
    let manager = builder.node_timeout(node_timeout).build().unwrap();
    (servers, proxies, manager)
}

/// Takes so many locks, and gives them back while all servers but the first are away.
fn leave_behind(manager: &LockManager, proxies: &[Proxy], locks: usize) {
    let take = |i| manager.try_lock(&format!("job {i}"), TTL).unwrap();
    let guards: Vec<LockGuard> = (0..locks).map(take).collect();
    proxies[1..]
        .iter()
        .for_each(|proxy| proxy.set(LinkMode::Refuse, 0));
    drop(guards);
}

#[test]
fn a_node_that_hangs_delays_no_release_that_another_is_owed() {
    let (servers, proxies, manager) = behind_proxies(NODE_TIMEOUT);
    leave_behind(&manager, &proxies, 10);
    assert!(servers[1..].iter().all(|server| server.keys() == 10));
    proxies[1].set(LinkMode::Hold, 1);
    // Its probe waits for a reply from now on.
    assert!(eventually(BOUND, || proxies[1].struck().contains(&1)));
    proxies[2].pass();
    assert!(eventually(BOUND, || servers[2].keys() == 0));
    assert_eq!(servers[1].keys(), 10);
    proxies[1].pass();
    assert!(eventually(BOUND, || servers[1].keys() == 0));
}
