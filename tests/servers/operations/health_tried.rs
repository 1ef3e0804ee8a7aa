//! `LockManager::health` takes a lock and gives it back on each server: it finds servers that answer and give no lock, and
//! harms no lock of anybody.

use std::time::Duration;

use redlatch::{LockManager, Protocol, Severity};
use redlatch_testing::scripted::{Kind, Scripted};
use redlatch_testing::{Server, eventually, within};

use crate::fakes::operations::health::{assert_well, codes};
use crate::managers::{BOTH, PATIENCE, fenced, fenced_over, invalid_field, patient};
use crate::servers::operations::health_servers::{health, of, on_servers, remembering};

const TTL: Duration = Duration::from_mins(1);
const BOUND: Duration = Duration::from_secs(50);
const MARKER: &str = "redlatch:node";

/// Servers that are well, and a manager over them with this protocol.
fn deployment(protocol: Protocol) -> (Vec<Server>, LockManager) {
    let servers = remembering(3);
    let manager = if protocol == Protocol::Fenced {
        fenced_over(&servers)
    } else {
        patient(servers.iter().map(Server::url))
    };
    (servers, manager)
}

fn config(server: &Server, name: &str, value: &str) {
    server.command(&["CONFIG", "SET", name, value]);
}

/// The server has failed to write a snapshot, and takes no writes from now on.
fn cant_save(server: &Server) {
    config(server, "save", "3600 1");
    std::fs::create_dir_all(server.dir().join("dump.rdb/full")).unwrap();
    server.command(&["BGSAVE"]);
    let has_failed = || {
        let info = server.info("persistence");
        info.contains("rdb_last_bgsave_status:err")
    };
    assert!(eventually(BOUND, has_failed));
}

/// What keeps a server from giving locks, though it answers, with a word of what it says.
type Trouble = (fn(&Server), &'static str);

const TROUBLES: [Trouble; 3] = [
    (
        |server| config(server, "min-replicas-to-write", "1"),
        "NOREPLICAS",
    ),
    (|server| config(server, "maxmemory", "1"), "OOM"),
    (cant_save, "MISCONF"),
];

#[test]
fn servers_that_answer_and_give_no_lock_can_not_vote() {
    for protocol in BOTH {
        for (befalls, word) in TROUBLES {
            let (servers, manager) = deployment(protocol);
            assert_well(&health(&manager));
            // Each of them takes a vote, down to no majority.
            for (server, margin) in servers.iter().zip([0, -1, -2]) {
                befalls(server);
                let found = health(&manager);
                assert_eq!(found.margin, margin, "{word}: {found}");
                assert_eq!(of(&found, server, "state"), "refuses", "{word}: {found}");
                assert!(of(&found, server, "error").contains(word), "{found}");
                let mut findings = found.findings.iter();
                let is_told = findings.any(|one| {
                    one.code == "refuses"
                        && *one.nodes[0] == *server.name()
                        && one.message.contains(word)
                });
                assert!(is_told, "{found}");
                let can_lock = manager.try_lock("report", TTL).is_ok();
                let is_critical = found.severity == Severity::Critical;
                assert_eq!(can_lock, !is_critical, "{word}: {found}");
                assert_eq!(codes(&found)[0] == "no_majority", is_critical, "{found}");
            }
        }
    }
}

#[test]
fn a_server_that_renamed_its_set_can_not_vote() {
    let rename = ["--rename-command", "SET", "HIDDEN", "--appendonly", "yes"];
    let servers = [(); 3].map(|()| Server::start_with(&rename));
    let found = health(&on_servers(&servers));
    assert_eq!((found.margin, found.severity), (-2, Severity::Critical));
    assert!(found.to_string().contains("unknown command"), "{found}");
}

#[test]
fn many_who_look_at_a_time_alarm_nobody_disturb_no_lock_and_leave_nothing() {
    for protocol in BOTH {
        let (servers, manager) = deployment(protocol);
        let guard = manager.try_lock("report", TTL).unwrap();
        let seen = || -> Vec<_> {
            let keys = [MARKER, "report", "report:fence"];
            let of = |server: &Server| keys.map(|key| server.get(key));
            servers.iter().map(of).collect()
        };
        let before = seen();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..25 {
                        assert_well(&manager.health().unwrap());
                        assert_eq!(manager.locks("").unwrap().count(), 1);
                    }
                });
            }
        });
        assert_eq!(seen(), before);
        guard.extend(TTL * 2).unwrap();
        guard.unlock().unwrap();
        // The marker, and the counter of the lock.
        let (kept, command) = if protocol == Protocol::Fenced {
            (2, "evalsha")
        } else {
            (0, "set")
        };
        // Nothing that ends, either: the counter of a lock that nobody asks for again does not stay for a day.
        let is_clean = || servers.iter().all(|server| server.keys() == kept);
        assert!(eventually(BOUND, is_clean), "{protocol:?}");
        for server in &servers {
            let tried = server.count(command);
            assert!(tried >= 100, "{protocol:?}: {tried}");
        }
    }
}

#[test]
fn the_lock_that_is_tried_has_a_name_that_no_other_lock_has_and_ends_soon() {
    for prefix in ["", "app:", "app"] {
        let server = Scripted::start(|peer, command| match command.words[0].as_str() {
            "GET" => peer.say(b"$-1\r\n"),
            "INFO" => peer.say(b"$13\r\nrole:master\r\n\r\n"),
            "TIME" => peer.say(b"*2\r\n$1\r\n5\r\n$1\r\n0\r\n"),
            _ => peer.say(command.consent()),
        });
        let builder = LockManager::builder().node_timeout(PATIENCE);
        let builder = builder.node(server.url()).key_prefix(prefix);
        let manager = builder.build().unwrap();
        let looks = manager.clone();
        within(BOUND, move || drop((looks.health(), looks.health())));
        let words = |kind| server.heard_of(kind).into_iter().map(|one| one.words);
        let tried: Vec<Vec<String>> = words(Kind::Set).collect();
        assert_eq!(tried.len(), 2, "{tried:?}");
        assert_ne!(tried[0][1..3], tried[1][1..3]);
        for words in &tried {
            let key = words[1].as_str();
            assert!(key.starts_with(&format!("{prefix}:redlatch:try:")), "{key}");
            assert_eq!(words[3..5], ["NX", "PX"]);
            let ttl_ms: u64 = words[5].parse().unwrap();
            assert!((1..=1000).contains(&ttl_ms), "{ttl_ms}");
            for name in [key, key.strip_prefix(prefix).unwrap()] {
                let refused = manager.try_lock(name, TTL).unwrap_err();
                assert_eq!(invalid_field(&refused), "resource", "{refused:?}");
            }
        }
        let released = words(Kind::Release).map(|words| words[3].clone());
        assert!(released.eq(tried.iter().map(|words| words[1].clone())));
    }
}

#[test]
fn with_fencing_a_look_begins_no_quarantine_and_writes_no_settings() {
    let servers = remembering(3);
    let with = |max_ttl| {
        let builder = fenced().nodes(servers.iter().map(Server::url));
        builder.max_ttl(max_ttl).build().unwrap()
    };
    let (right, other) = (with(TTL), with(TTL * 2));
    // On new servers: theirs would be what all others are refused for.
    assert_eq!(health(&other).margin, -2);
    assert!(servers.iter().all(|server| server.keys() == 0));
    right.open_nodes().unwrap();
    assert_well(&health(&right));

    let markers = || -> Vec<String> {
        let markers = servers.iter().map(|server| server.get(MARKER).unwrap());
        markers.collect()
    };
    let quarantined = ["no_majority", "quarantined", "quarantined", "quarantined"];
    // On servers of others, and on those that are in quarantine.
    let before = markers();
    let found = health(&other);
    assert_eq!(found.margin, -2);
    assert!(found.to_string().contains("120000"), "{found}");
    assert_eq!(markers(), before);
    for server in &servers {
        server.command(&["DEL", MARKER]);
    }
    right.try_lock("report", TTL).unwrap_err();
    let before = markers();
    let found = health(&right);
    assert_eq!(codes(&found), quarantined, "{found}");
    assert_eq!(markers(), before);

    // And on those that were restarted, whose quarantine begins with the next lock.
    for (server, marker) in servers.iter().zip(before) {
        let (_, rest) = marker.split_once('|').unwrap();
        server.command(&["SET", MARKER, &format!("another|{rest}")]);
    }
    let before = markers();
    let found = health(&right);
    assert_eq!(codes(&found), quarantined, "{found}");
    assert_eq!(markers(), before);
}
