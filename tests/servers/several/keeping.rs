//! Several resources that are held: extended, healed, kept alive, at rest, and given back by a panic or a fork.

use std::time::Duration;

use redlatch::{KeepAlive, LossCause, Protocol};
use redlatch_testing::{Server, eventually};

use crate::servers::several::on_servers::{keys, over, take};
use crate::waiters::{BOUND, TTL, cluster};

const NAMES: [&str; 3] = ["a", "b", "c"];

#[test]
fn a_key_that_another_has_taken_is_not_touched_by_a_heal() {
    let servers = cluster(5);
    let manager = over(&servers, Protocol::Classic);
    let guard = take(&manager, &NAMES).unwrap();
    servers[0].command(&["DEL", "a"]);
    servers[0].hold("b", "another", 60_000);
    servers[1].command(&["DEL", "c"]);
    guard.extend(TTL).unwrap();
    assert_eq!(servers[0].get("a"), None);
    assert_eq!(servers[0].get("b").as_deref(), Some("another"));
    assert_eq!(servers[1].get("c").as_deref(), Some(guard.token()));
    guard.unlock().unwrap();
    assert_eq!(keys(&servers[0], &NAMES), ["b"]);
    assert!(
        servers[1..]
            .iter()
            .all(|server| keys(server, &NAMES).is_empty())
    );
}

#[test]
fn one_renewal_is_for_locks_on_one_and_on_several_resources() {
    for protocol in [Protocol::Classic, Protocol::Fenced] {
        let servers = cluster(3);
        let builder = crate::managers::fenced().protocol(protocol);
        let manager = builder
            .node_timeout(Duration::from_millis(500))
            .nodes(servers.iter().map(Server::url));
        let manager = manager.build().unwrap();
        if protocol == Protocol::Fenced {
            manager.open_nodes().unwrap();
        }
        let ttl = Duration::from_secs(2);
        let kept = |names: &[&str]| {
            let request = manager.request_all(names).ttl(ttl);
            request.keep_alive(KeepAlive::unbounded()).lock().unwrap()
        };
        let many: Vec<String> = (0..64).map(|n| format!("of-many:{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let guards = [
            kept(&["x"]),
            kept(&NAMES),
            kept(&["y"]),
            kept(&["d", "e"]),
            kept(&many),
        ];
        // Longer than any of them lives without.
        assert!(eventually(BOUND, || manager.stats().renewed >= 5 * 4));
        for guard in &guards {
            guard.check().unwrap();
            for name in guard.resources() {
                let with = servers
                    .iter()
                    .filter(|server| server.get(name).as_deref() == Some(guard.token()));
                assert!(with.count() >= 2, "{name}");
            }
        }
        // One is lost, and the others of its batch are not.
        for server in &servers {
            server.command(&["SET", "e", "another", "PX", "60000"]);
        }
        let cause = guards[3].wait_lost(BOUND).unwrap();
        assert!(matches!(cause, LossCause::Taken { .. }), "{cause}");
        for guard in [&guards[0], &guards[1], &guards[2], &guards[4]] {
            guard.check().unwrap();
        }
    }
}
