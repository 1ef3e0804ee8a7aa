//! What each finding says: where, what, and what to do.

use std::time::Duration;

use super::exhaustive::{good, loading, refused, rules, silent};
use super::facts::{ClockOffset, Fact};
use super::findings::FINDINGS;
use super::*;
use crate::error::NodeError;

/// The findings on one node among four that are well.
#[track_caller]
fn assert_found(node: Facts, severity: Severity, expected: &[&str]) {
    let mut nodes: Vec<Facts> = ["a", "b", "c", "d"].map(good).into();
    nodes.push(node);
    let health = Health::of(nodes, None);
    let lines: Vec<String> = health.findings.iter().map(ToString::to_string).collect();
    assert_eq!(lines, expected);
    assert_eq!(health.severity, severity);
}

#[test]
fn a_finding_says_where_what_and_what_to_do() {
    use Severity::{Critical, Ok, Warning};
    let node = || good("h:1");
    assert_found(node(), Ok, &[]);
    let evicts = node().with_text("eviction", "allkeys-lru");
    assert_found(
        evicts,
        Critical,
        &[
            "h:1: deletes keys, and so locks, when its memory is full (allkeys-lru); \
           run CONFIG SET maxmemory-policy noeviction, and set the same in its configuration",
        ],
    );
    let replica = node().with_text("role", "replica");
    let replica = replica.with_text("master", "h:2");
    assert_found(
        replica,
        Critical,
        &[
            "h:1: a replica of h:2; make it an independent master (REPLICAOF NO ONE), without automatic failover",
        ],
    );
    let active = node().with_text("role", "active_replica");
    assert_found(
        active,
        Critical,
        &["h:1: an active-replica, which shares its locks; \
           make it an independent master (REPLICAOF NO ONE), without automatic failover"],
    );
    let a = good("a");
    let id = a.text("run_id").unwrap();
    let shared = node().with_text("run_id", id);
    assert_found(
        shared,
        Critical,
        &[&format!(
            "a, h:1: one server (run_id {id}), which would vote more than once; \
             name each server once, in every client"
        )],
    );
    assert_found(
        silent("h:1", refused()),
        Warning,
        &["h:1: no connection: connection refused; \
           start the server, or fix its address or the network"],
    );
    assert_found(
        silent("h:1", NodeError::TimedOut),
        Warning,
        &[
            "h:1: no answer within the node timeout; check whether its process hangs, its machine is up, \
           and the network is faster than node_timeout",
        ],
    );
}

#[test]
fn a_finding_that_is_no_outage_says_what_to_do_too() {
    use Severity::{Notice, Warning};
    let node = || good("h:1");
    let refuses = Facts {
        refusal: Some(loading()),
        hidden: vec!["INFO"],
        ..node()
    };
    assert_found(
        refuses,
        Warning,
        &[
            "h:1: the server answered LOADING wait (the server is loading its data: it votes once that is done); \
           no lock can be taken there until that is fixed",
        ],
    );
    let hidden = Facts {
        hidden: vec!["INFO", "TIME"],
        ..node()
    };
    assert_found(
        hidden,
        Notice,
        &["h:1: does not tell everything; to see it, allow the user INFO and TIME"],
    );
    let fails = Facts {
        fails_to_save: true,
        ..node()
    };
    assert_found(
        fails,
        Warning,
        &[
            "h:1: its last write to disk failed, after which a server may refuse locks (MISCONF); \
           look at its log, and at the space on its disk",
        ],
    );
    let cluster = node().with_text("mode", "cluster");
    assert_found(
        cluster,
        Warning,
        &["h:1: runs in mode cluster; give each node a server of its own, in mode standalone"],
    );
    let odd = node().with_text("role", "boss");
    assert_found(
        odd,
        Warning,
        &[
            "h:1: has the role boss, which redlatch does not know; check that it is an independent master",
        ],
    );
}

#[test]
fn clocks_differ_when_they_certainly_do() {
    let second = 1_000_000;
    let node = |node_us, elapsed_ms| {
        let elapsed = Duration::from_millis(elapsed_ms);
        good("h:1").with_clock(ClockOffset::of(node_us, 100 * second, elapsed))
    };
    // Half a second of the round trip may be either way.
    assert_found(node(101 * second, 1000), Severity::Ok, &[]);
    assert_found(node(101 * second, 0), Severity::Ok, &[]);
    assert_found(
        node(101 * second + 1, 0),
        Severity::Warning,
        &["h:1: its clock is +1.0s \u{b1}0.0ns from this client's; \
           set up time synchronization (NTP) on both, and let it slew the clock, not step it"],
    );
    assert_found(
        node(90 * second, 2000),
        Severity::Warning,
        &["h:1: its clock is -9.0s \u{b1}1.0s from this client's; \
           set up time synchronization (NTP) on both, and let it slew the clock, not step it"],
    );
    // Nothing of it overflows.
    for (node_us, client_us) in [(0, u64::MAX), (u64::MAX, 0), (u64::MAX, u64::MAX), (0, 0)] {
        let difference = ClockOffset::of(node_us, client_us, Duration::MAX);
        assert!(!difference.to_string().is_empty());
    }
}

#[expect(clippy::too_many_lines, reason = "one list of all cases")]
#[test]
fn a_node_that_clients_with_fencing_leave_out_says_for_how_long() {
    let rules = Rules {
        config: "3:2:5".into(),
        ..rules()
    };
    let fenced = |quarantine: Option<&str>, settings: Option<&str>| {
        let node = good("h:1").with("quarantine", quarantine.map(Fact::text));
        node.with("settings", settings.map(Fact::text))
    };
    let lines = |node: Facts| -> Vec<String> {
        let open = ["a", "b"].map(|name| {
            let node = good(name).with_text("quarantine", "open");
            node.with_text("settings", "3:2:5")
        });
        let nodes = open.into_iter().chain([node]).collect();
        let health = Health::of(nodes, Some(&rules));
        health.findings.iter().map(ToString::to_string).collect()
    };
    let next = "it may have forgotten locks, and its quarantine begins with the next lock; \
                take a lock; the node votes again by itself when the quarantine is over";
    for (quarantine, line) in [
        (Some("open"), None),
        (None, None),
        (
            Some("quarantined"),
            Some(
                "in quarantine for another 90s, because it may have forgotten locks; \
                 wait; the node votes again by itself"
                    .to_owned(),
            ),
        ),
        (
            Some("no_marker"),
            Some(format!("has no marker: {next}")),
        ),
        (
            Some("other_process"),
            Some(format!("its marker is of another process: {next}")),
        ),
        (
            Some("unreadable"),
            Some(
                "the key of its marker holds something else, so it does not vote; \
                 find out who wrote the key, then delete it; after a quarantine the node votes again"
                    .to_owned(),
            ),
        ),
    ] {
        let expected: Vec<String> = line
            .into_iter()
            .map(|line| format!("h:1: {line}"))
            .collect();
        let remaining = quarantine.filter(|state| *state == "quarantined");
        let remaining = remaining.map(|_| Fact::Number(90_000));
        let node = fenced(quarantine, None).with("quarantine_remaining_ms", remaining);
        assert_eq!(lines(node), expected);
    }
    let found = lines(fenced(Some("open"), Some("5:3:5")));
    assert_eq!(
        found[0],
        "a, b, h:1: the clients have different settings (nodes, quorum, max_ttl): \
          a has 3:2:5, b has 3:2:5, h:1 has 5:3:5; give all clients the same"
    );
    assert!(found[1].starts_with("h:1: other clients have"), "{found:?}");
}

#[test]
fn a_server_that_forgets_is_found_by_who_does_not_fence() {
    let deployment = || -> Vec<Facts> {
        let kept = [Some("off"), Some("rdb"), None];
        let nodes = ["a", "b", "c"].iter().zip(kept);
        nodes
            .map(|(name, persistence)| {
                let node = good(name).with("persistence", persistence.map(Fact::text));
                node.with_text("quarantine", "open")
            })
            .collect()
    };
    let health = Health::of(deployment(), None);
    let lines: Vec<String> = health.findings.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "a, b: without an append-only file a restart forgets locks, which others may then get as well; \
             set appendonly yes and appendfsync always, or let a server that went down stay down for the longest ttl, \
             or use the fenced protocol",
            "a, b, c: clients that fence have been here; \
             to see what they meet, look with the fenced protocol (redlatch health --fenced)",
        ]
    );
    assert_eq!(health.severity, Severity::Warning);
    assert_eq!(health.voters, 3);
    assert_eq!(
        Health::of(deployment(), Some(&rules())).severity,
        Severity::Ok
    );
}

/// Programs branch on the codes, and operators look them up.
#[test]
fn every_code_is_listed_with_its_severity() {
    let source = include_str!("finding.rs");
    let (_, listed) = source.split_once("The kind of finding").unwrap();
    let page = include_str!("../../docs/operations.md");
    for (code, severity, _) in FINDINGS {
        let heading = match severity {
            Severity::Critical => "Critical:",
            Severity::Warning => "Warnings:",
            Severity::Notice => "Notices:",
            Severity::Ok => panic!("{code}"),
        };
        let list = listed.split_once(heading).unwrap().1;
        let list = list.split_once('.').unwrap().0;
        assert!(list.contains(&format!("`{code}`")), "{code}");
        let row = format!("| `{code}` | {severity} | ");
        assert!(page.contains(&row), "docs/operations.md has no row {row}");
    }
}

mod tried;
