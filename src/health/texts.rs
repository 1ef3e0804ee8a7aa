//! What each finding says: where, what, and what to do.

use std::time::Duration;

use super::exhaustive::{good, loading, refused, rules, silent};
use super::facts::{ClockOffset, Quarantine};
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

#[expect(clippy::too_many_lines, reason = "one list of all cases")]
#[test]
fn a_finding_says_where_what_and_what_to_do() {
    use Severity::{Critical, Ok, Warning};
    let node = || good("h:1");
    assert_found(node(), Ok, &[]);
    let evicts = Facts {
        eviction: Some("allkeys-lru".into()),
        ..node()
    };
    assert_found(
        evicts,
        Critical,
        &[
            "h:1: deletes keys, and so locks, when its memory is full (allkeys-lru); \
           run CONFIG SET maxmemory-policy noeviction, and set the same in its configuration",
        ],
    );
    let replica = Facts {
        role: Some("replica".into()),
        master: Some("h:2".into()),
        ..node()
    };
    assert_found(
        replica,
        Critical,
        &[
            "h:1: a replica of h:2; make it an independent master (REPLICAOF NO ONE), without automatic failover",
        ],
    );
    let active = Facts {
        role: Some("active_replica".into()),
        ..node()
    };
    assert_found(
        active,
        Critical,
        &["h:1: an active-replica, which shares its locks; \
           make it an independent master (REPLICAOF NO ONE), without automatic failover"],
    );
    let shared = Facts {
        run_id: good("a").run_id,
        ..node()
    };
    let id = good("a").run_id.unwrap();
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
    let cluster = Facts {
        mode: Some("cluster".into()),
        ..node()
    };
    assert_found(
        cluster,
        Warning,
        &["h:1: runs in mode cluster; give each node a server of its own, in mode standalone"],
    );
    let odd = Facts {
        role: Some("boss".into()),
        ..node()
    };
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
    let node = |node_us, elapsed_ms| Facts {
        clock: Some(ClockOffset::of(
            node_us,
            100 * second,
            Duration::from_millis(elapsed_ms),
        )),
        ..good("h:1")
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
        assert!(difference.by() <= Duration::from_micros(u64::MAX));
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
    let fenced = |quarantine: Option<Quarantine>, settings: Option<&str>| Facts {
        quarantine,
        settings: settings.map(str::to_owned),
        ..good("h:1")
    };
    let lines = |node: Facts| -> Vec<String> {
        let open = ["a", "b"].map(|name| Facts {
            quarantine: Some(Quarantine::Open),
            settings: Some("3:2:5".into()),
            ..good(name)
        });
        let nodes = open.into_iter().chain([node]).collect();
        let health = Health::of(nodes, Some(&rules));
        health.findings.iter().map(ToString::to_string).collect()
    };
    let remaining = Duration::from_secs(90);
    let next = "it may have forgotten locks, and its quarantine begins with the next lock; \
                take a lock; the node votes again by itself when the quarantine is over";
    for (quarantine, line) in [
        (Some(Quarantine::Open), None),
        (None, None),
        (
            Some(Quarantine::Quarantined { remaining }),
            Some(
                "in quarantine for another 90s, because it may have forgotten locks; \
                 wait; the node votes again by itself"
                    .to_owned(),
            ),
        ),
        (
            Some(Quarantine::NoMarker),
            Some(format!("has no marker: {next}")),
        ),
        (
            Some(Quarantine::OtherProcess),
            Some(format!("its marker is of another process: {next}")),
        ),
        (
            Some(Quarantine::Unreadable),
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
        assert_eq!(lines(fenced(quarantine, None)), expected);
    }
    let found = lines(fenced(Some(Quarantine::Open), Some("5:3:5")));
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
            .map(|(name, persistence)| Facts {
                persistence,
                quarantine: Some(Quarantine::Open),
                ..good(name)
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
    let (listed, body) = source.split_once("pub code:").unwrap();
    let page = include_str!("../../docs/operations.md");
    let mut seen = 0;
    for call in body.split("finding(\"").skip(1) {
        let (code, rest) = call.split_once('"').unwrap();
        let (severity, heading) = [
            (Severity::Critical, "Critical:"),
            (Severity::Warning, "Warnings:"),
            (Severity::Notice, "Notices:"),
        ]
        .into_iter()
        .find(|(severity, _)| rest.starts_with(&format!(", {severity:?}, ")))
        .unwrap();
        let list = listed.split_once(heading).unwrap().1;
        let list = list.split_once('.').unwrap().0;
        assert!(list.contains(&format!("`{code}`")), "{code}");
        let row = format!("| `{code}` | {severity} | ");
        assert!(page.contains(&row), "docs/operations.md has no row {row}");
        seen += 1;
    }
    assert_eq!(seen, 18);
}

mod tried;
