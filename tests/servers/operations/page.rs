//! The page `docs/operations.md`: every error and log line is there, and what it says of changes and restarts is so.

use std::fs;
use std::path::Path;
use std::time::Duration;

use redlatch::{Error, LockManager, NodeError, NodeReport, Vote};
use redlatch_testing::{Server, pause};

use crate::managers::{fenced, fenced_over};

pub(crate) const PAGE: &str = include_str!("../../../docs/operations.md");
const TTL: Duration = Duration::from_secs(10);

fn source(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(root.join("src").join(name)).unwrap()
}

#[track_caller]
fn assert_on_page(entry: &str) {
    assert!(PAGE.contains(entry), "docs/operations.md has no {entry}");
}

#[test]
fn every_error_and_every_log_line_is_on_the_page() {
    for (file, name) in [
        ("error.rs", "Error"),
        ("error/loss.rs", "LossCause"),
        ("error/report.rs", "Vote"),
        ("error/node.rs", "NodeError"),
    ] {
        let text = source(file);
        let (_, body) = text.split_once(&format!("pub enum {name} {{\n")).unwrap();
        let (body, _) = body.split_once("\n}\n").unwrap();
        let lines = body.lines().filter_map(|line| line.strip_prefix("    "));
        let variants = lines.filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()));
        assert!(variants.clone().count() >= 2, "{name}");
        for variant in variants {
            let variant = variant.split([' ', ',', '(']).next().unwrap();
            assert_on_page(&format!("`{name}::{variant}`"));
        }
    }
    let source = source("log_lines.rs");
    let (_, rows) = source.split_once("\nlines! {\n").unwrap();
    let (rows, _) = rows.split_once("\n}\n").unwrap();
    let rows = rows.split(";\n").filter(|row| row.contains('"'));
    assert!(rows.clone().count() >= 14, "it looks in the wrong place");
    for row in rows {
        // The level, the target, and what is between the first quotation marks.
        let (begin, line) = row.split_once(" \"").unwrap();
        let mut words = begin.split_whitespace().rev();
        let target = format!("const {}: &str = \"", words.next().unwrap());
        let (_, target) = source.split_once(&target).unwrap();
        let (target, level) = (target.split_once('"').unwrap().0, words.next().unwrap());
        let line = line.trim_end_matches([';', '"']);
        assert_on_page(&format!("| `{level}` | `{target}` | `{line}` |"));
    }
}

/// A manager with the fenced protocol and this longest ttl.
fn fenced_with(servers: &[Server], max_ttl: Duration) -> LockManager {
    let builder = fenced().nodes(servers.iter().map(Server::url));
    builder.max_ttl(max_ttl).build().unwrap()
}

#[test]
fn the_number_of_nodes_and_max_ttl_are_changed_as_the_page_says() {
    let servers = Server::cluster(5);
    let (short, long) = (Duration::from_millis(500), Duration::from_secs(20));
    let old = fenced_with(&servers[..3], short);
    old.open_nodes().unwrap();
    let before = old.try_lock("report", short).unwrap().fencing_token();

    let new = fenced_with(&servers, long);
    let Err(Error::Unavailable { nodes, .. }) = new.try_lock("report", TTL) else {
        panic!("other settings, and no refusal");
    };
    let differs =
        |report: &NodeReport| matches!(report.vote, Vote::Failed(NodeError::ConfigMismatch { .. }));
    // Asking ends when a majority is out of reach.
    assert!(nodes.iter().any(differs), "{nodes:?}");

    // 1. No client is left. 2. The old max_ttl and drift.
    drop((old, new));
    pause(short + short / 10);
    // 3. The markers.
    for server in &servers {
        server.command(&["DEL", "redlatch:node"]);
    }
    // 4. And no waiting after that.
    let new = fenced_with(&servers, long);
    new.open_nodes().unwrap();
    let after = new.try_lock("report", TTL).unwrap().fencing_token();
    assert!(before < after);
}

#[test]
fn a_restart_does_to_a_fenced_lock_what_the_page_says() {
    let persisting: &[&str] = &["--appendonly", "yes", "--appendfsync", "always"];
    for (arguments, survives) in [(&[][..], false), (persisting, true)] {
        let mut servers = [(); 3].map(|()| Server::start_with(arguments));
        let manager = fenced_over(&servers);
        let guard = manager.try_lock("report", TTL).unwrap();
        for server in &mut servers {
            server.kill();
            server.restart();
        }
        // Nobody gets a lock, whatever was kept.
        let refused = manager.try_lock("another", TTL);
        let Err(Error::Unavailable { nodes, .. }) = refused else {
            panic!("{refused:?}");
        };
        let Vote::Failed(NodeError::Quarantined { has_marker, .. }) = nodes[0].vote else {
            panic!("{nodes:?}");
        };
        assert_eq!(has_marker, survives);
        assert_eq!(guard.extend(TTL * 2).is_ok(), survives);
        // What was kept tells a restart from a new start.
        assert_eq!(manager.open_nodes().is_err(), survives);
    }
}
