//! A proxy keeps the connections of its clients while the server behind it becomes another process.

use std::time::Duration;

use redis::Value;
use redlatch::{Error, LockManager, NodeError, Vote};
use redlatch_testing::{Proxy, Server};

use crate::managers::fenced;

const TTL: Duration = Duration::from_mins(1);

/// The run id is that of the process which executes the script, whatever the client knows of its connection.
#[test]
fn a_server_that_comes_back_with_an_older_snapshot_behind_connections_that_stay_abstains() {
    let steady = [Server::start(), Server::start()];
    let mut forgetful = Server::start();
    let proxy = Proxy::start(forgetful.port());
    let manager = || {
        let urls = steady.iter().map(Server::url);
        fenced().nodes(urls).node(proxy.url()).build().unwrap()
    };
    let (first, second): (LockManager, LockManager) = (manager(), manager());
    first.open_nodes().unwrap();
    // Both have a connection from here on, and know who is at the other end.
    for manager in [&first, &second] {
        manager.try_lock("warm", TTL).unwrap().unlock().unwrap();
    }
    assert_eq!(forgetful.command(&["SAVE"]), Value::Okay);
    // The first majority does without the second steady server, which has another key at that moment.
    steady[1].hold("job", "someone", 60_000);
    let guard = first.try_lock("job", TTL).unwrap();
    steady[1].command(&["DEL", "job"]);
    let clients = proxy.clients();

    forgetful.kill();
    proxy.has_lost_the_server();
    forgetful.restart();
    let result = second.try_lock("job", TTL);
    guard.check().expect("the first one still holds it");
    let nodes = match result {
        Ok(other) => panic!("two holders: {:?} and {:?}", guard.votes(), other.votes()),
        Err(Error::Held { nodes, .. } | Error::Unavailable { nodes, .. }) => nodes,
        Err(error) => panic!("{error}"),
    };
    let report = nodes.iter().find(|report| *report.node == *proxy.name());
    let vote = &report.unwrap().vote;
    let Vote::Failed(NodeError::Quarantined { has_marker, .. }) = vote else {
        panic!("{vote:?}");
    };
    assert!(*has_marker);
    assert_eq!(proxy.clients(), clients, "a client has connected anew");
}

/// The key has ended there and the counter is of the lock still: what a snapshot has from before the server gave its word to
/// somebody else.
#[test]
fn an_extension_puts_no_key_back_on_a_server_that_came_back_behind_a_connection_that_stays() {
    let steady = [Server::start(), Server::start()];
    let mut forgetful = Server::start();
    let proxy = Proxy::start(forgetful.port());
    let urls = steady.iter().map(Server::url);
    let manager = fenced().nodes(urls).node(proxy.url()).build().unwrap();
    manager.open_nodes().unwrap();
    let guard = manager.try_lock("job", TTL).unwrap();
    forgetful.command(&["DEL", "job"]);
    assert_eq!(forgetful.command(&["SAVE"]), Value::Okay);
    let clients = proxy.clients();
    forgetful.kill();
    proxy.has_lost_the_server();
    forgetful.restart();
    guard.extend(TTL).unwrap();
    assert_eq!(forgetful.get("job"), None);
    assert_eq!(proxy.clients(), clients, "the client has connected anew");
}
