//! `LockManager::health` on real servers.

use std::time::Duration;

use redlatch::{Finding, Health, LockManager, Severity};
use redlatch_testing::{Server, eventually, within};

use crate::fakes::operations::health::{assert_well, codes};

/// A healthy server answers in this time on a busy machine, too.
pub(crate) const NODE_TIMEOUT: Duration = Duration::from_secs(2);
/// Only a hang takes this long.
const BOUND: Duration = Duration::from_secs(50);

pub(crate) fn manager(urls: impl IntoIterator<Item = String>) -> LockManager {
    let builder = LockManager::builder().nodes(urls);
    builder.node_timeout(NODE_TIMEOUT).build().unwrap()
}

pub(crate) fn on_servers(servers: &[Server]) -> LockManager {
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

/// The one finding there is, of this kind.
#[track_caller]
fn only<'h>(health: &'h Health, severity: Severity, code: &str) -> &'h Finding {
    assert_eq!(health.severity, severity, "{health}");
    assert_eq!(codes(health), [code], "{health}");
    &health.findings[0]
}

#[test]
fn servers_that_are_well_tell_everything() {
    let mut servers = vec![Server::start(), Server::start()];
    servers.extend(remembering(1));
    servers[1].command(&["SET", "key", "value"]);
    servers[1].command(&["BGSAVE"]);
    assert!(eventually(BOUND, || !servers[1]
        .info("persistence")
        .contains("rdb_last_bgsave_time_sec:-1")));
    let health = health(&on_servers(&servers));
    let nodes = &only(&health, Severity::Warning, "forgets").nodes;
    // Only an append-only file has the last writes.
    let forgetful = |server: &Server| nodes.iter().any(|node| **node == *server.name());
    assert!(nodes.len() == 2 && servers[..2].iter().all(forgetful));
    assert_eq!(health.margin, 1);
    for (server, persistence) in servers.iter().zip(["off", "rdb", "aof"]) {
        let node = |name| of(&health, server, name);
        let info = server.info("server");
        let has = |name: &str, value: &str| info.contains(&format!("{name}:{value}\r\n"));
        assert!(has("run_id", &node("run_id")), "{health}");
        // The `redis_version` of a Valkey server is not its own.
        let is_valkey = info.contains("\r\nvalkey_version:");
        let name = if is_valkey { "valkey" } else { "redis" };
        assert!(has(&format!("{name}_version"), &node("version")));
        let facts = ["server", "role", "eviction", "persistence", "quarantine"].map(node);
        assert_eq!(
            facts,
            [name, "master", "noeviction", persistence, "no_marker"]
        );
        assert!(node("uptime_s").parse::<u64>().unwrap() < 300);
        // One machine has one clock.
        let [by, uncertainty, round_trip] =
            ["clock_ahead_us", "clock_uncertainty_us", "round_trip_us"]
                .map(|name| micros(&health, server, name));
        assert!(by <= uncertainty + Duration::from_millis(1), "{health}");
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
        assert_eq!((found.margin, found.severity), (0, Severity::Warning));
        assert_eq!(found.findings.len(), 2, "{found}");
    }
    servers[2].stop();
    let found = health(&manager);
    assert_eq!((found.margin, found.severity), (-1, Severity::Critical));
    servers[1].resume();
    servers[2].resume();
    servers[0].restart();
    // It reads its file first.
    assert!(eventually(BOUND, || health(&manager).findings.is_empty()));
}

#[test]
fn a_replica_and_a_server_that_may_delete_locks_are_critical() {
    let mut servers = remembering(3);
    for policy in ["allkeys-lru", "volatile-ttl"] {
        servers[1].command(&["CONFIG", "SET", "maxmemory-policy", policy]);
        let found = health(&on_servers(&servers));
        let finding = only(&found, Severity::Critical, "evicts");
        assert_eq!(*finding.nodes[0], *servers[1].name());
        assert!(finding.message.contains(policy), "{found}");
        assert_eq!(of(&found, &servers[1], "eviction"), policy);
        assert_eq!(found.margin, 1);
    }
    let master = remembering(1).remove(0);
    let port = master.port().to_string();
    servers[1] = Server::start_with(&["--replicaof", "127.0.0.1", &port]);
    let found = health(&on_servers(&servers));
    let finding = only(&found, Severity::Critical, "replica");
    assert_eq!(*finding.nodes[0], *servers[1].name());
    assert_eq!(finding.message, format!("a replica of {}", master.name()));
    assert_eq!(of(&found, &servers[1], "role"), "replica");
    assert_eq!(of(&found, &servers[1], "master"), master.name());
    assert_eq!(found.margin, 0);
}

#[test]
fn several_urls_of_one_server_are_found_and_vote_once() {
    let socket = ["--unixsocket", "{dir}/socket"];
    let shared = Server::start_with(&[&socket[..], &["--bind", "127.0.0.1", "127.0.0.2"]].concat());
    let alone = Server::start();
    let socket = format!("unix://{}/socket", shared.dir().display());
    let other = shared.url().replace("127.0.0.1", "127.0.0.2");
    let found = health(&manager([shared.url(), socket, other, alone.url()]));
    let mut findings = found.findings.iter();
    let finding = findings.find(|one| one.code == "same_server").unwrap();
    assert_eq!(finding.nodes.len(), 3, "{found}");
    let run_id = found.fact(&finding.nodes[0], "run_id").unwrap();
    assert!(shared.info("server").contains(&run_id));
    assert!(finding.message.contains(&run_id), "{found}");
    assert_eq!((found.margin, found.severity), (-1, Severity::Critical));
    let verdict = "2 of 4 can vote, 3 have to: no majority: 1 vote is missing";
    assert!(found.to_string().ends_with(verdict), "{found}");
    let text = found.to_string();
    assert!(finding.nodes.iter().all(|node| text.contains(&**node)));
}
