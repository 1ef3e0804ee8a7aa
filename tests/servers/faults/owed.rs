//! Releases that servers did not hear, because they were away: what is repeated in the background, and what a flush tells of it.

use std::time::Duration;

use redlatch::{Error, LockGuard, LockManager};
use redlatch_testing::{IdleClient, LinkMode, Proxy, Server, eventually, pause};

use super::nodes::{BOUND, TTL, granted};

/// Longer than any test takes, so that a node that hangs holds up its thread for the whole test.
const NODE_TIMEOUT: Duration = Duration::from_secs(300);

/// Servers, proxies in front of them, and a manager over the proxies.
fn behind_proxies(node_timeout: Duration) -> (Vec<Server>, Vec<Proxy>, LockManager) {
    let servers = Server::cluster(3);
    let proxies: Vec<Proxy> = servers
        .iter()
        .map(|server| Proxy::start_at(0, server.port(), IdleClient::Goes))
        .collect();
    let builder = LockManager::builder().nodes(proxies.iter().map(Proxy::url));
    let manager = builder.node_timeout(node_timeout).build().unwrap();
    (servers, proxies, manager)
}

/// Takes so many locks, and gives them back while all servers but the first are away.
fn leave_behind(manager: &LockManager, proxies: &[Proxy], locks: usize) {
    let take = |i| manager.try_lock(&format!("job {i}"), TTL).unwrap();
    let guards: Vec<LockGuard> = (0..locks).map(take).collect();
    let votes: Vec<_> = guards.iter().map(|guard| granted(&guard.votes())).collect();
    assert_eq!(votes, vec![3; locks]);
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

#[test]
fn a_flush_waits_for_all_releases_and_names_those_that_a_node_has_not_answered() {
    let (servers, proxies, manager) = behind_proxies(Duration::from_secs(2));
    manager.flush(BOUND).unwrap();
    leave_behind(&manager, &proxies, 5);
    let timeout = Duration::from_millis(300);
    let Err(error @ Error::Unanswered { .. }) = manager.flush(timeout) else {
        panic!("two nodes are away");
    };
    let text = error.to_string();
    let Error::Unanswered { waited, nodes, .. } = error else {
        unreachable!()
    };
    assert!(waited >= timeout, "{text}");
    let of_node = |proxy: &Proxy| {
        let node = nodes.iter().find(|node| *node.node == *proxy.name());
        node.map(|node| node.resources.clone())
    };
    let jobs: Vec<String> = (0..5).map(|i| format!("job {i}")).collect();
    assert_eq!(
        proxies.iter().map(of_node).collect::<Vec<_>>(),
        [None, Some(jobs.clone()), Some(jobs)]
    );
    let named = format!(
        r#"{} has not answered the release of "job 0", "job 1", "job 2" and 2 more"#,
        proxies[1].name()
    );
    assert!(text.contains(&named), "{text}");

    proxies.iter().for_each(Proxy::pass);
    manager.flush(BOUND).unwrap();
    assert!(servers.iter().all(|server| server.keys() == 0));
}

#[test]
fn a_flush_does_not_wait_for_a_lock_that_rests_for_longer() {
    let (_servers, proxies, manager) = behind_proxies(Duration::from_secs(2));
    let request = manager.request("job").ttl(TTL).at_least(TTL / 2);
    let guard = request.try_lock().unwrap();
    proxies[2].set(LinkMode::Refuse, 0);
    guard.unlock().unwrap();
    let Err(Error::Unanswered { waited, nodes, .. }) = manager.flush(TTL / 4) else {
        panic!("a node has not heard that the lock rests");
    };
    assert!(waited < BOUND);
    assert_eq!(nodes.len(), 1);
    assert_eq!(nodes[0].resources, ["job"]);
}

#[test]
fn releases_are_repeated_while_a_guard_lives_and_end_with_the_last() {
    let (servers, proxies, manager) = behind_proxies(Duration::from_secs(2));
    let last = manager.try_lock("last", TTL).unwrap();
    leave_behind(&manager, &proxies, 5);
    drop(manager);
    proxies.iter().for_each(Proxy::pass);
    let is_left = |server: &Server| server.keys() == 1;
    assert!(eventually(BOUND, || servers.iter().all(is_left)));
    proxies[1..]
        .iter()
        .for_each(|proxy| proxy.set(LinkMode::Refuse, 1));
    // Two nodes are owed this release, and nobody is there to repeat it.
    drop(last);
    proxies.iter().for_each(Proxy::pass);
    pause(Duration::from_secs(1));
    let left: Vec<i64> = servers.iter().map(Server::keys).collect();
    assert_eq!(left, [0, 1, 1]);
}
