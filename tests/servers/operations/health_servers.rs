//! `LockManager::health` on real servers.

use std::time::Duration;

use redlatch::{Finding, Health, LockManager, Severity};
use redlatch_testing::{Server, eventually, within};

use crate::fakes::operations::health::codes;

const TTL: Duration = Duration::from_secs(10);
const MARKER: &str = "redlatch:node";
/// A healthy server answers in this time on a busy machine, too.
pub(crate) const NODE_TIMEOUT: Duration = Duration::from_secs(2);
/// Only a hang takes this long.
const BOUND: Duration = Duration::from_secs(50);

pub(crate) fn manager(urls: impl IntoIterator<Item = String>) -> LockManager {
    let builder = LockManager::builder().nodes(urls);
    let builder = builder.node_timeout(NODE_TIMEOUT);
    builder.build().unwrap()
}

fn on_servers(servers: &[Server]) -> LockManager {
    manager(servers.iter().map(Server::url))
}

#[track_caller]
pub(crate) fn health(manager: &LockManager) -> Health {
    let manager = manager.clone();
    within(BOUND, move || manager.health().unwrap())
}

/// One fact about a server; empty if it is unknown.
#[track_caller]
pub(crate) fn of(health: &Health, server: &Server, name: &str) -> String {
    let node = server.name();
    assert!(health.nodes().any(|other| other == node), "{health}");
    health.fact(&node, name).unwrap_or_default()
}

#[track_caller]
pub(crate) fn micros(health: &Health, server: &Server, name: &str) -> Duration {
    let micros: i64 = of(health, server, name).parse().unwrap();
    Duration::from_micros(micros.unsigned_abs())
}

/// Servers of which nothing is wrong.
#[track_caller]
pub(crate) fn remembering(n: usize) -> Vec<Server> {
    let start = |_| Server::start_with(&["--appendonly", "yes"]);
    (0..n).map(start).collect()
}

#[track_caller]
pub(crate) fn assert_well(health: &Health) {
    assert!(health.findings.is_empty(), "{health}");
    assert_eq!(health.severity, Severity::Ok);
}

/// The one finding there is, of this kind.
#[track_caller]
fn only<'h>(health: &'h Health, severity: Severity, code: &str) -> &'h Finding {
    assert_eq!(health.severity, severity, "{health}");
    assert_eq!(codes(health), [code], "{health}");
    &health.findings[0]
}

#[test]
fn servers_that_are_well_tell_everything() {
    let servers = [
        Server::start(),
        Server::start_with(&["--appendonly", "yes"]),
        Server::start(),
    ];
    servers[2].command(&["SET", "key", "value"]);
    servers[2].command(&["BGSAVE"]);
    assert!(eventually(BOUND, || !servers[2]
        .info("persistence")
        .contains("rdb_last_bgsave_time_sec:-1")));
    let health = health(&on_servers(&servers));
    let nodes = &only(&health, Severity::Warning, "forgets").nodes;
    // Only an append-only file has the last writes.
    let mut forgetful = [servers[0].name(), servers[2].name()];
    forgetful.sort();
    let mut found: Vec<&str> = nodes.iter().map(AsRef::as_ref).collect();
    found.sort_unstable();
    assert_eq!(found, forgetful);
    assert_eq!(health.margin, 1);
    for (server, persistence) in servers.iter().zip(["off", "aof", "rdb"]) {
        let node = |name| of(&health, server, name);
        let info = server.info("server");
        let has = |name: &str, value: &str| info.contains(&format!("{name}:{value}\r\n"));
        assert!(has("run_id", &node("run_id")), "{health}");
        // The `redis_version` of a Valkey server is not its own.
        let (name, version) = if info.contains("\r\nvalkey_version:") {
            ("valkey", "valkey_version")
        } else {
            ("redis", "redis_version")
        };
        assert_eq!(node("server"), name);
        assert!(has(version, &node("version")), "{health}");
        assert_eq!(node("role"), "master");
        assert_eq!(node("eviction"), "noeviction");
        assert_eq!(node("persistence"), persistence);
        assert_eq!(node("quarantine"), "no_marker");
        assert!(node("uptime_s").parse::<u64>().unwrap() < 300);
        // One machine has one clock.
        let [by, uncertainty, round_trip] =
            ["clock_ahead_us", "clock_uncertainty_us", "round_trip_us"]
                .map(|name| micros(&health, server, name));
        let slack = Duration::from_millis(1);
        assert!(by <= uncertainty + slack, "{health}");
        assert!(uncertainty <= round_trip + BOUND);
    }
}

#[test]
fn a_server_that_is_killed_and_one_that_is_stopped_are_told_apart() {
    let mut servers = remembering(5);
    let manager = on_servers(&servers);
    assert_well(&health(&manager));
    servers[0].kill();
    servers[1].stop();
    for _ in 0..2 {
        let found = health(&manager);
        let killed = of(&found, &servers[0], "error");
        assert!(killed.starts_with("no connection: "), "{found}");
        assert_eq!(of(&found, &servers[0], "state"), "failed", "{found}");
        assert_eq!(of(&found, &servers[1], "state"), "timed_out", "{found}");
        assert_eq!(found.margin, 0);
        assert_eq!(found.severity, Severity::Warning);
        assert_eq!(found.findings.len(), 2, "{found}");
    }
    servers[2].stop();
    let found = health(&manager);
    assert_eq!(found.margin, -1);
    assert_eq!(found.severity, Severity::Critical);
    servers[1].resume();
    servers[2].resume();
    servers[0].restart();
    // It reads its file first.
    assert!(eventually(BOUND, || health(&manager).findings.is_empty()));
}

#[test]
fn a_replica_is_a_fault_that_names_its_master() {
    let master = remembering(1).remove(0);
    let port = master.port().to_string();
    let servers = [
        remembering(1).remove(0),
        remembering(1).remove(0),
        Server::start_with(&["--replicaof", "127.0.0.1", &port]),
    ];
    let found = health(&on_servers(&servers));
    let finding = only(&found, Severity::Critical, "replica");
    assert_eq!(*finding.nodes[0], *servers[2].name());
    assert_eq!(finding.message, format!("a replica of {}", master.name()));
    assert_eq!(of(&found, &servers[2], "role"), "replica");
    assert_eq!(of(&found, &servers[2], "master"), master.name());
    assert_eq!(found.margin, 0);
}

#[test]
fn several_urls_of_one_server_are_found_and_vote_once() {
    let shared = Server::start_with(&[
        "--unixsocket",
        "{dir}/socket",
        "--bind",
        "127.0.0.1",
        "127.0.0.2",
    ]);
    let alone = Server::start();
    let socket = format!("unix://{}/socket", shared.dir().display());
    let urls = [
        shared.url(),
        socket,
        shared.url().replace("127.0.0.1", "127.0.0.2"),
        alone.url(),
    ];
    let found = health(&manager(urls));
    let mut findings = found.findings.iter();
    let is_same_server = |finding: &&Finding| finding.code == "same_server";
    let finding = findings.find(is_same_server).unwrap();
    assert_eq!(finding.nodes.len(), 3, "{found}");
    let run_id = found.fact(&finding.nodes[0], "run_id").unwrap();
    assert!(shared.info("server").contains(&run_id));
    assert!(finding.message.contains(&run_id), "{found}");
    assert_eq!(found.margin, -1, "{found}");
    let verdict = "2 of 4 can vote, 3 have to: no majority: 1 vote is missing";
    assert!(found.to_string().ends_with(verdict), "{found}");
    assert_eq!(found.severity, Severity::Critical);
    for node in &finding.nodes {
        assert!(found.to_string().contains(&**node));
    }
}

#[test]
fn a_server_that_may_delete_locks_is_found() {
    let servers = remembering(3);
    for policy in ["allkeys-lru", "volatile-ttl"] {
        servers[1].command(&["CONFIG", "SET", "maxmemory-policy", policy]);
        let found = health(&on_servers(&servers));
        let finding = only(&found, Severity::Critical, "evicts");
        assert_eq!(*finding.nodes[0], *servers[1].name());
        assert!(finding.message.contains(policy), "{found}");
        assert_eq!(of(&found, &servers[1], "eviction"), policy);
        assert_eq!(found.margin, 1);
    }
}

#[test]
fn markers_on_servers_are_read_whatever_is_under_the_key() {
    let mut servers = Server::cluster(5);
    let manager = on_servers(&servers);
    let unmarked = health(&manager);
    let mark = |server: &Server, run_id: &str, open_us: &str| {
        let marker = format!("{run_id}|5:3:3600000:3636003:86400000:v2|{open_us}|new");
        server.command(&["SET", MARKER, &marker]);
    };
    let run_id = |server: &Server| of(&unmarked, server, "run_id");
    mark(&servers[0], &run_id(&servers[0]), "1700000000000000");
    mark(&servers[1], &run_id(&servers[1]), "18446744073709551615");
    mark(&servers[2], &run_id(&servers[0]), "1700000000000000");
    servers[3].command(&["LPUSH", MARKER, "x"]);
    // More than a reply may have.
    let huge = "x".repeat(1_000_000);
    servers[4].command(&["SET", MARKER, &huge]);
    let found = health(&manager);
    let state = |found: &Health, server: &Server| of(found, server, "quarantine");
    assert_eq!(state(&found, &servers[0]), "open");
    assert_eq!(state(&found, &servers[1]), "quarantined");
    assert_eq!(state(&found, &servers[2]), "other_process");
    assert_eq!(state(&found, &servers[3]), "unreadable");
    assert_eq!(state(&found, &servers[4]), "unreadable");
    let role = |server: &Server| of(&found, server, "role");
    assert!(servers.iter().all(|server| role(server) == "master"));
    // Who does not fence is given the vote of each of them.
    assert_eq!(found.margin, 2);
    assert!(found.severity < Severity::Critical, "{found}");
    let guard = manager.try_lock("report", TTL).unwrap();
    assert!(
        guard
            .votes()
            .iter()
            .all(|vote| vote.to_string().ends_with("granted"))
    );
    guard.unlock().unwrap();

    servers[0].kill();
    servers[0].restart();
    mark(&servers[0], &run_id(&servers[0]), "1700000000000000");
    assert_eq!(state(&health(&manager), &servers[0]), "other_process");
}

/// What every lock of this client fails with must not be "ok" here.
#[test]
fn a_client_with_fencing_that_may_not_see_the_run_id_is_told_that_no_lock_is_possible() {
    let servers = remembering(3);
    crate::managers::fenced_over(&servers);
    for server in &servers {
        let user = "ACL SETUSER silent on >x ~* +@all -info".split(' ');
        server.command(&user.collect::<Vec<_>>());
    }
    let urls = servers.iter().map(Server::url);
    let urls = urls.map(|url| url.replace("//", "//silent:x@"));
    let silent = crate::managers::fenced().nodes(urls).build().unwrap();
    silent.try_lock("job", TTL).unwrap_err();
    let seen = health(&silent);
    assert_eq!(seen.margin, -2, "{seen}");
    assert_eq!(seen.severity, Severity::Critical);
    assert!(seen.to_string().contains("run_id"), "{seen}");
}
