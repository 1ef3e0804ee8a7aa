//! `LockManager::health` on real servers: what they say of themselves, and the lock that is tried on them. And on servers whose answers
//! make no sense.

use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Health, LockManager, Protocol, Severity, Vote};
use redlatch_testing::scripted::{Command, Kind, Scripted};
use redlatch_testing::{Server, eventually, within};

use crate::fakes::operations::health::{assert_well, codes};
use crate::managers::{BOTH, PATIENCE, invalid_field, over, patient, processes_by};
use crate::servers::operations::foreign_text::is_printable;

const TTL: Duration = Duration::from_mins(1);
/// Only a hang takes this long.
const BOUND: Duration = Duration::from_secs(50);
const PERSISTING: [&str; 2] = ["--appendonly", "yes"];

#[track_caller]
pub(crate) fn health(manager: &LockManager) -> Health {
    let manager = manager.clone();
    within(BOUND, move || manager.health().unwrap())
}

/// Facts about a server, with a dash for what is unknown.
#[track_caller]
fn of(health: &Health, server: &Server, names: &str) -> String {
    let node = server.name();
    assert!(health.nodes().any(|other| other == node), "{health}");
    let facts = names.split(' ').map(|name| health.fact(&node, name));
    let facts: Vec<String> = facts.map(|fact| fact.unwrap_or("-".into())).collect();
    facts.join(" ")
}

/// Servers of which nothing is wrong.
#[track_caller]
pub(crate) fn remembering(n: usize) -> Vec<Server> {
    (0..n).map(|_| Server::start_with(&PERSISTING)).collect()
}

#[test]
fn what_real_servers_say_is_read_and_judged() {
    let master = Server::start_with(&["--save", "3600 1", "--bind", "127.0.0.1", "127.0.0.2"]);
    master.command(&["SET", "key", "value"]);
    master.command(&["BGSAVE"]);
    let has_saved = || {
        !master
            .info("persistence")
            .contains("last_bgsave_time_sec:-1")
    };
    assert!(eventually(BOUND, has_saved));
    let port = master.port().to_string();
    let servers = [
        Server::start(),
        master,
        Server::start_with(&[&PERSISTING[..], &["--replicaof", "127.0.0.1", &port]].concat()),
        Server::start_with(&["--maxmemory-policy", "volatile-ttl"]),
    ];
    let other_name = servers[1].url().replace("127.0.0.1", "127.0.0.2");
    let urls = servers.iter().map(Server::url).chain([other_name]);
    let found = health(&patient(urls));
    let master = servers[1].name();
    for (server, expected) in servers.iter().zip([
        "standalone master - noeviction off",
        "standalone master - noeviction rdb",
        &format!("standalone replica {master} noeviction aof"),
        "standalone master - volatile-ttl off",
    ]) {
        let facts = of(&found, server, "mode role master eviction persistence");
        assert_eq!(facts, expected, "{found}");
        let info = server.info("server");
        let has = |name: &str, value: &str| info.contains(&format!("{name}:{value}\r\n"));
        assert!(has("run_id", &of(&found, server, "run_id")), "{found}");
        // The `redis_version` of a Valkey server is not its own.
        let is_valkey = info.contains("\r\nvalkey_version:");
        let name = if is_valkey { "valkey" } else { "redis" };
        assert_eq!(of(&found, server, "server"), name);
        assert!(has(
            &format!("{name}_version"),
            &of(&found, server, "version")
        ));
        let number = |fact| of(&found, server, fact).parse::<i64>().unwrap();
        assert!(number("uptime_s") < 300 && number("round_trip_us") > 0);
        // One machine has one clock.
        let is_right = number("clock_ahead_us").abs() <= number("clock_uncertainty_us") + 1_000;
        assert!(is_right, "{found}");
    }
    let expected = ["same_server", "replica", "evicts", "forgets"];
    assert_eq!(codes(&found), expected, "{found}");
    // Two names of one server have one vote, and the replica has none.
    assert_eq!(found.margin, 0, "{found}");
}

fn config(server: &Server, name: &str, value: &str) {
    server.command(&["CONFIG", "SET", name, value]);
}

/// The server has failed to write a snapshot, and takes no writes from now on.
fn cant_save(server: &Server) {
    config(server, "save", "3600 1");
    std::fs::create_dir_all(server.dir().join("dump.rdb/full")).unwrap();
    server.command(&["BGSAVE"]);
    let has_failed = || server.info("persistence").contains("bgsave_status:err");
    assert!(eventually(BOUND, has_failed));
}

/// What keeps a server from giving locks, though it may answer, with the state then and a word of what is said.
type Trouble = (fn(&mut Server), &'static str, &'static str);

const TROUBLES: [Trouble; 5] = [
    (
        |server| config(server, "min-replicas-to-write", "1"),
        "refuses",
        "NOREPLICAS",
    ),
    (|server| config(server, "maxmemory", "1"), "refuses", "OOM"),
    (|server| cant_save(server), "refuses", "MISCONF"),
    (|server| server.kill(), "failed", "no connection: "),
    (
        |server| server.stop(),
        "timed_out",
        "no answer within the node timeout",
    ),
];

#[test]
fn servers_that_give_no_lock_can_not_vote_and_those_that_are_back_can() {
    for protocol in BOTH {
        let mut servers = remembering(5);
        let builder = over(&servers).node_timeout(Duration::from_secs(1));
        let [manager] = processes_by(&builder, protocol);
        assert_well(&health(&manager));
        // Each of them takes a vote, down to no majority.
        for ((place, (befalls, state, word)), margin) in
            TROUBLES.iter().enumerate().zip((-3..=1).rev())
        {
            befalls(&mut servers[place]);
            let found = health(&manager);
            assert_eq!(found.margin, margin, "{word}: {found}");
            assert_eq!(of(&found, &servers[place], "state"), *state, "{found}");
            assert!(
                of(&found, &servers[place], "error").contains(word),
                "{found}"
            );
            let name = servers[place].name();
            let mut findings = found
                .findings
                .iter()
                .filter(|one| one.message.contains(word));
            assert!(findings.any(|one| *one.nodes[0] == *name), "{found}");
            let can_lock = manager.try_lock("report", TTL).is_ok();
            assert_eq!(can_lock, found.severity < Severity::Critical, "{found}");
            assert_eq!(codes(&found)[0] == "no_majority", margin < 0, "{found}");
        }
        config(&servers[0], "min-replicas-to-write", "0");
        config(&servers[1], "maxmemory", "0");
        config(&servers[2], "save", "");
        servers[3].restart();
        servers[4].resume();
        // The one that was restarted abstains with the fenced protocol.
        let back = if protocol == Protocol::Fenced { 1 } else { 2 };
        assert!(eventually(BOUND, || health(&manager).margin == back));
    }
}

#[test]
fn many_who_look_at_a_time_alarm_nobody_disturb_no_lock_and_leave_nothing() {
    for protocol in BOTH {
        let servers = remembering(3);
        let [manager] = processes_by(&over(&servers), protocol);
        let guard = manager.try_lock("report", TTL).unwrap();
        let seen = || {
            let keys = ["redlatch:node", "report", "report:fence"];
            let of = |server: &Server| keys.map(|key| server.get(key));
            servers.iter().map(of).collect::<Vec<_>>()
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
        // The marker, and the counter of the lock. That of a lock that is tried does not stay for a day.
        let is_fenced = protocol == Protocol::Fenced;
        let (kept, command) = if is_fenced {
            (2, "evalsha")
        } else {
            (0, "set")
        };
        let is_clean = || servers.iter().all(|server| server.keys() == kept);
        assert!(eventually(BOUND, is_clean), "{protocol:?}");
        assert!(servers.iter().all(|server| server.count(command) >= 100));
    }
}

/// A time that a server may tell.
const NOON: &[u8] = b"*2\r\n$1\r\n5\r\n$1\r\n0\r\n";

/// A server that says so of itself, tells this time, and gives each lock.
fn telling(section: &str, time: &'static [u8]) -> Scripted {
    let section = format!("${}\r\n{section}\r\n", section.len());
    Scripted::start(move |peer, command| match command.words[0].as_str() {
        "INFO" => peer.say(section.as_bytes()),
        "TIME" => peer.say(time),
        "GET" => peer.say(b"$-1\r\n"),
        _ => peer.say(command.consent()),
    })
}

#[test]
fn the_lock_that_is_tried_has_a_name_that_no_other_lock_has_and_ends_soon() {
    for prefix in ["", "app:", "app"] {
        let server = telling("role:master\r\n", NOON);
        let builder = LockManager::builder().node(server.url());
        let builder = builder.node_timeout(PATIENCE).key_prefix(prefix);
        let manager = builder.build().unwrap();
        drop([health(&manager), health(&manager)]);
        let tried = server.heard_of(Kind::Set);
        assert_eq!(tried.len(), 2, "{tried:?}");
        assert!(tried[0].key() != tried[1].key() && tried[0].token() != tried[1].token());
        for command in &tried {
            let key = command.key();
            assert!(key.starts_with(&format!("{prefix}:redlatch:try:")), "{key}");
            assert_eq!(command.words[3..5], ["NX", "PX"]);
            let ttl_ms: u64 = command.words[5].parse().unwrap();
            assert!((1..=1000).contains(&ttl_ms), "{ttl_ms}");
            for name in [key, key.strip_prefix(prefix).unwrap()] {
                let refused = manager.try_lock(name, TTL).unwrap_err();
                assert_eq!(invalid_field(&refused), "resource", "{refused:?}");
            }
        }
        // The read lock has the same key.
        let released = server.heard_of(Kind::Release);
        let mut released: Vec<&str> = released.iter().map(Command::key).collect();
        assert_eq!(released.len(), 4);
        released.dedup();
        assert!(released.into_iter().eq(tried.iter().map(Command::key)));
    }
}

/// What no reply is, is tested beside the code that reads it.
#[test]
fn a_section_without_sense_is_unknown_and_is_not_held_against_the_vote_of_the_node() {
    // As a server with very many replicas has.
    let long = "slave0:ip=10.0.0.1,port=6379,state=online\r\n".repeat(200);
    let odd = "redis_version:\r\nrun_id:x y\r\nrole:boss\r\nredis_mode:\u{202e}x\r\n:::\r\n";
    let odd_codes = ["unknown_role", "not_standalone", "clock_differs"];
    for (text, time, expected) in [
        (odd, NOON, &odd_codes[..]),
        (&long, NOON, &["clock_differs", "unreadable"]),
        ("role:master\r\n", b"+noon\r\n", &["unreadable"]),
    ] {
        let server = telling(text, time);
        let others = FakeNode::cluster(2);
        let builder = LockManager::builder().node(server.url()).fakes(&others);
        let manager = builder.node_timeout(PATIENCE).build().unwrap();
        let found = health(&manager);
        assert_eq!(
            (codes(&found), found.margin),
            (expected.to_vec(), 1),
            "{found}"
        );
        let text = found.to_string();
        assert!(
            text.chars().all(|c| c == '\n' || is_printable(c)),
            "{text:?}"
        );
        for node in &others {
            let facts = ["state", "role"].map(|fact| found.fact(node.name(), fact).unwrap());
            assert_eq!(facts, ["up", "master"], "{text}");
        }
        // A lock has come to an end there since. So what tells whether it was left out for a moment is the count.
        assert!(manager.stats().nodes.iter().all(|node| node.opened == 0));
        let guard = manager.try_lock("report", TTL).unwrap();
        let mut votes = guard.votes().into_iter();
        assert!(votes.all(|report| matches!(report.vote, Vote::Granted)));
    }
}
