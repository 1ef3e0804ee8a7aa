//! What servers say about themselves on a new connection: a node of a cluster, or an `INFO` that is too long.

use std::fs;
use std::time::Duration;

use redlatch::{Error, NodeReport, Protocol, Vote};
use redlatch_testing::{Server, eventually};

use crate::managers::{BOTH, over, processes_by, with_protocol};
use crate::waiters::BOUND;

const TTL: Duration = Duration::from_secs(10);

#[track_caller]
fn assert_named(nodes: &[NodeReport]) {
    let text = nodes[0].to_string();
    assert!(text.contains("Redis Cluster"), "{text}");
    assert!(!matches!(nodes[0].vote, Vote::Granted), "{text}");
}

/// It has all slots, so that nothing but its own word gives it away.
/// A cluster of one server, as a clustered service behind one address looks.
fn cluster() -> Server {
    let server = Server::start_with(&["--cluster-enabled", "yes"]);
    let slots: Vec<String> = (0..16384).map(|slot: u32| slot.to_string()).collect();
    let mut add = vec!["CLUSTER", "ADDSLOTS"];
    add.extend(slots.iter().map(String::as_str));
    server.command(&add);
    let is_up = || {
        let info = redis::from_redis_value::<String>(server.command(&["CLUSTER", "INFO"]));
        info.unwrap().contains("cluster_state:ok")
    };
    assert!(eventually(BOUND, is_up));
    server
}

#[test]
fn several_names_in_a_cluster_that_does_not_show_itself_need_one_hash_tag() {
    let server = cluster();
    let url = server.user("~* +@all -info");
    let manager = with_protocol(Protocol::Classic).node(url).build().unwrap();
    let error = manager
        .request_all(["a", "b"])
        .ttl(TTL)
        .try_lock()
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("CROSSSLOT") && error.contains("one hash tag"),
        "{error}"
    );
    let guard = manager.lock_all(["{a}:1", "{a}:2"], TTL).unwrap();
    guard.extend(TTL).unwrap();
    guard.unlock().unwrap();
}

#[test]
fn a_node_of_a_redis_cluster_is_refused_and_named() {
    let server = cluster();
    // With the tag, all keys of a lock are in one slot.
    for (protocol, prefix) in BOTH
        .iter()
        .flat_map(|one| ["", "{locks}:"].map(|prefix| (*one, prefix)))
    {
        let builder = with_protocol(protocol).key_prefix(prefix);
        let manager = builder.node(server.url()).build().unwrap();
        // On a new connection, and after that.
        for _ in 0..2 {
            let Err(Error::Unavailable { nodes, .. }) = manager.try_lock("job", TTL) else {
                panic!("{protocol:?}, {prefix:?}");
            };
            assert_named(&nodes);
        }
        if protocol == Protocol::Fenced {
            let Err(Error::NotOpened { nodes, .. }) = manager.open_nodes() else {
                panic!("opened");
            };
            assert_named(&nodes);
        }
        // An attempt that was sent before the server had said it was undone.
        for key in ["job", "redlatch:node"].map(|key| format!("{prefix}{key}")) {
            assert!(eventually(BOUND, || server.get(&key).is_none()), "{key}");
        }
    }
}

/// The path of its configuration is in it, and may be as long as that.
#[test]
fn a_server_whose_info_is_longer_than_any_reply_that_is_read_gives_locks() {
    let first = Server::start();
    let mut dir = first.dir().to_owned();
    while dir.as_os_str().len() + 220 < 4050 {
        dir.push("d".repeat(200));
    }
    fs::create_dir_all(&dir).unwrap();
    let file = dir.join("redis.conf");
    fs::write(&file, "").unwrap();
    let servers = [Server::start_with(&[file.to_str().unwrap()])];
    assert!(servers[0].info("server").len() > 4 * 1024);
    for protocol in BOTH {
        let [manager] = processes_by(&over(&servers), protocol);
        let guard = manager.try_lock("job", TTL).unwrap();
        guard.extend(TTL).unwrap();
        guard.unlock().unwrap();
    }
}
