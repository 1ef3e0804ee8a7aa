//! `LockManager::health` takes a lock and gives it back on each server: it finds servers that answer and give no lock, and
//! harms no lock of anybody.

use std::time::Duration;

use redlatch::{Finding, Health, LockManager, Protocol, Severity};
use redlatch_testing::scripted::{Kind, Scripted};
use redlatch_testing::{Server, eventually, within};

use crate::fakes::operations::health::codes;
use crate::managers::{PATIENCE, fenced_over, invalid_field, patient};
use crate::servers::operations::health_servers::{assert_well, health, manager, of, remembering};

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

/// The findings with this code.
fn with_code<'h>(health: &'h Health, code: &str) -> Vec<&'h Finding> {
    let findings = health.findings.iter();
    findings.filter(|finding| finding.code == code).collect()
}

#[test]
fn servers_that_answer_and_give_no_lock_can_not_vote() {
    for protocol in [Protocol::Classic, Protocol::Fenced] {
        for (befalls, word) in TROUBLES {
            let (servers, manager) = deployment(protocol);
            assert_well(&health(&manager));
            // Each of them takes a vote, down to no majority.
            for (server, margin) in servers.iter().zip([0, -1, -2]) {
                befalls(server);
                let found = health(&manager);
                let refuses = with_code(&found, "refuses");
                assert_eq!(found.margin, margin, "{word}: {found}");
                assert_eq!(of(&found, server, "state"), "refuses", "{word}: {found}");
                assert!(of(&found, server, "error").contains(word), "{found}");
                let is_about = |finding: &&Finding| *finding.nodes[0] == *server.name();
                let about = refuses.iter().copied().find(is_about).unwrap();
                assert!(about.message.contains(word), "{found}");
                let can_lock = manager.try_lock("report", TTL).is_ok();
                let is_critical = found.severity == Severity::Critical;
                assert_eq!(can_lock, !is_critical, "{word}: {found}");
                assert_eq!(codes(&found)[0] == "no_majority", is_critical, "{found}");
            }
        }
    }
}

#[test]
fn servers_whose_writes_are_paused_can_not_vote() {
    let servers = remembering(3);
    let builder = LockManager::builder().nodes(servers.iter().map(Server::url));
    let manager = builder
        .node_timeout(Duration::from_millis(500))
        .build()
        .unwrap();
    // Connections that are open answer what changes nothing.
    assert!(eventually(BOUND, || {
        health(&manager).severity == Severity::Ok
    }));
    for server in &servers {
        server.command(&["CLIENT", "PAUSE", "600000", "WRITE"]);
    }
    let found = health(&manager);
    assert_eq!(found.margin, -2, "{found}");
    assert_eq!(found.severity, Severity::Critical);
    assert!(found.to_string().contains("CLIENT PAUSE"), "{found}");
    for server in &servers {
        server.command(&["CLIENT", "UNPAUSE"]);
    }
    assert!(eventually(BOUND, || {
        health(&manager).severity == Severity::Ok
    }));
    // What was late has been undone behind it.
    let is_empty = || servers.iter().all(|server| server.keys() == 0);
    assert!(eventually(BOUND, is_empty));
}

#[test]
fn a_server_that_renamed_its_set_can_not_vote() {
    let rename = ["--rename-command", "SET", "HIDDEN", "--appendonly", "yes"];
    let servers = [(); 3].map(|()| Server::start_with(&rename));
    let found = health(&manager(servers.iter().map(Server::url)));
    assert_eq!(found.margin, -2, "{found}");
    assert_eq!(found.severity, Severity::Critical);
    assert!(found.to_string().contains("unknown command"), "{found}");
}

#[test]
fn a_lock_that_is_tried_leaves_nothing_on_the_servers() {
    for protocol in [Protocol::Classic, Protocol::Fenced] {
        let (servers, manager) = deployment(protocol);
        let marker = || servers.iter().map(|server| server.get(MARKER));
        let before: Vec<_> = marker().collect();
        for _ in 0..20 {
            assert_well(&health(&manager));
            assert_eq!(manager.locks("").unwrap().count(), 0);
        }
        let kept = i64::from(protocol == Protocol::Fenced);
        // Nothing that ends, either: the counter of a lock that nobody asks for again does not stay for a day.
        let is_clean = || servers.iter().all(|server| server.keys() == kept);
        assert!(
            eventually(Duration::from_secs(30), is_clean),
            "{protocol:?}"
        );
        assert!(marker().eq(before));
        for server in &servers {
            let tried = if protocol == Protocol::Fenced {
                server.count("evalsha")
            } else {
                server.count("set")
            };
            assert!(tried >= 20, "{protocol:?}: {tried}");
        }
    }
}

/// The words of the lock that a classic manager tries at a server.
fn tried_at(server: &Scripted) -> Vec<Vec<String>> {
    let heard = server.heard_of(Kind::Set);
    heard.into_iter().map(|command| command.words).collect()
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
        let builder = LockManager::builder()
            .node_timeout(PATIENCE)
            .node(server.url());
        let manager = builder.key_prefix(prefix).build().unwrap();
        let looks = manager.clone();
        within(BOUND, move || drop((looks.health(), looks.health())));
        let tried = tried_at(&server);
        assert_eq!(tried.len(), 2, "{tried:?}");
        let [first, second] = [&tried[0], &tried[1]];
        assert_ne!((&first[1], &first[2]), (&second[1], &second[2]));
        for words in &tried {
            let key = words[1].as_str();
            assert!(key.starts_with(&format!("{prefix}:redlatch:try:")), "{key}");
            assert_eq!(words[3..5], ["NX", "PX"]);
            let ttl_ms: u64 = words[5].parse().unwrap();
            assert!((1..=1000).contains(&ttl_ms), "{ttl_ms}");
            let name = key.strip_prefix(prefix).unwrap();
            for name in [key, name] {
                let refused = manager.try_lock(name, TTL).unwrap_err();
                assert_eq!(invalid_field(&refused), "resource", "{refused:?}");
            }
        }
        let released = server.heard_of(Kind::Release);
        let released: Vec<_> = released.iter().map(|c| c.words[3].clone()).collect();
        assert_eq!(released, [first[1].as_str(), &second[1]]);
    }
}

#[test]
fn many_who_look_at_a_time_alarm_nobody_and_disturb_no_lock() {
    for protocol in [Protocol::Classic, Protocol::Fenced] {
        let (servers, holder) = deployment(protocol);
        let guard = holder.try_lock("report", TTL).unwrap();
        let seen = || -> Vec<_> {
            let of = |server: &Server| [server.get("report"), server.get("report:fence")];
            servers.iter().map(of).collect()
        };
        let before = seen();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..25 {
                        let found = holder.health().unwrap();
                        assert_well(&found);
                    }
                });
            }
        });
        assert_eq!(seen(), before);
        guard.extend(TTL * 2).unwrap();
        guard.unlock().unwrap();
    }
}

#[test]
fn with_fencing_a_look_begins_no_quarantine_and_writes_no_settings() {
    let servers = remembering(3);
    let with = |max_ttl| {
        let builder = crate::managers::fenced().nodes(servers.iter().map(Server::url));
        builder.max_ttl(max_ttl).build().unwrap()
    };
    let (right, other) = (with(TTL), with(TTL * 2));
    // On new servers: theirs would be what all others are refused for.
    assert_eq!(health(&other).margin, -2);
    assert!(servers.iter().all(|server| server.keys() == 0));
    right.open_nodes().unwrap();
    assert_well(&health(&right));

    // On servers of others, and on those that are in quarantine.
    let markers = || servers.iter().map(|server| server.get(MARKER).unwrap());
    let before: Vec<String> = markers().collect();
    let found = health(&other);
    assert_eq!(found.margin, -2);
    assert!(found.to_string().contains("120000"), "{found}");
    assert!(markers().eq(before));
    for server in &servers {
        server.command(&["DEL", MARKER]);
    }
    right.try_lock("report", TTL).unwrap_err();
    let before: Vec<String> = markers().collect();
    let found = health(&right);
    assert_eq!(
        codes(&found),
        ["no_majority", "quarantined", "quarantined", "quarantined"],
        "{found}"
    );
    assert!(markers().eq(before));

    // And on those that were restarted, whose quarantine begins with the next lock.
    for (server, marker) in servers.iter().zip(markers()) {
        let (_, rest) = marker.split_once('|').unwrap();
        server.command(&["SET", MARKER, &format!("another|{rest}")]);
    }
    let before: Vec<String> = markers().collect();
    assert_eq!(with_code(&health(&right), "quarantined").len(), 3);
    assert!(markers().eq(before));
}
