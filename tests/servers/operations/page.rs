//! The page `docs/operations.md`: its ACL users have exactly the permissions that they need, and every error and log line is
//! there.

use std::fs;
use std::path::Path;
use std::time::Duration;

use redis::Value;
use redlatch::{Error, LockManager, LockStatus, NodeError, NodeReport, Protocol, Vote};
use redlatch_testing::{Server, pause};

use crate::managers::{fenced, fenced_over};

pub(crate) const PAGE: &str = include_str!("../../../docs/operations.md");
pub(crate) const TTL: Duration = Duration::from_secs(10);
const PREFIX: &str = "billing:";
pub(crate) const USERS: [(&str, Protocol); 2] = [
    ("locks-classic", Protocol::Classic),
    ("locks-fenced", Protocol::Fenced),
];
/// What an operator reads when the ACL is in the way.
pub(crate) const FORBIDDEN: &str = "the user's ACL forbids it";

/// The words of the page's line for this user.
#[track_caller]
pub(crate) fn rules(user: &str) -> Vec<&'static str> {
    let beginning = format!("ACL SETUSER {user} ");
    let mut lines = PAGE.lines().filter(|line| line.starts_with(&beginning));
    let line = lines.next().expect("a line for the user");
    assert!(lines.next().is_none(), "two lines for {user}");
    line.split(' ').collect()
}

#[track_caller]
pub(crate) fn apply(server: &Server, rules: &[&str]) {
    assert_eq!(server.command(rules), Value::Okay, "{rules:?}");
}

pub(crate) fn manager(servers: &[Server], user: &str, protocol: Protocol) -> LockManager {
    let url = |server: &Server| format!("redis://{user}:change-me@{}", server.name());
    LockManager::builder()
        .nodes(servers.iter().map(url))
        .key_prefix(PREFIX)
        .protocol(protocol)
        // A check of permissions is in no hurry.
        .node_timeout(Duration::from_secs(2))
        .build()
        .unwrap()
}

/// Two processes.
pub(crate) fn managers(servers: &[Server], user: &str, protocol: Protocol) -> [LockManager; 2] {
    [(); 2].map(|()| manager(servers, user, protocol))
}

/// Everything that a client does, and what one does that waits for it.
pub(crate) fn use_all(
    [manager, another]: &[LockManager; 2],
    protocol: Protocol,
) -> Result<(), Error> {
    if protocol == Protocol::Fenced {
        manager.open_nodes()?;
    }
    let guard = manager.try_lock("report", TTL)?;
    let is_fenced = guard.fencing_token().is_some();
    assert_eq!(is_fenced, protocol == Protocol::Fenced);
    let is_granted = |report: &NodeReport| matches!(report.vote, Vote::Granted);
    assert!(guard.votes().iter().all(is_granted));
    guard.extend(TTL * 2)?;
    match another.try_lock_for("report", TTL, Duration::from_millis(5)) {
        Err(Error::Held { .. }) => {}
        Err(error) => return Err(error),
        Ok(second) => panic!("held twice: {second:?}"),
    }
    let status = manager.status("report")?;
    let is_mine = matches!(&status, LockStatus::Held { token, .. } if token == guard.token());
    assert!(is_mine, "{status}");
    guard.unlock()?;
    let status = manager.status("report")?;
    assert!(matches!(status, LockStatus::Free { .. }), "{status}");
    // On connections that have seen all of it.
    manager.try_lock("report", TTL)?.unlock()
}

#[test]
fn every_error_and_every_log_line_is_on_the_page() {
    let source = |name: &str| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        fs::read_to_string(root.join("src").join(name)).unwrap()
    };
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
            let entry = format!("`{name}::{variant}`");
            assert!(PAGE.contains(&entry), "docs/operations.md has no {entry}");
        }
    }

    let source = source("log_lines.rs");
    let (_, rows) = source.split_once("\nlines! {\n").unwrap();
    let (rows, _) = rows.split_once("\n}\n").unwrap();
    let mut lines = 0;
    for row in rows.split(";\n").filter(|row| row.contains('"')) {
        // The level, the target, and what is between the first quotation marks.
        let (begin, line) = row.split_once(" \"").unwrap();
        let mut words = begin.split_whitespace().rev();
        let target = format!("const {}: &str = \"", words.next().unwrap());
        let (_, target) = source.split_once(&target).unwrap();
        let (target, level) = (target.split_once('"').unwrap().0, words.next().unwrap());
        let line = line.trim_end_matches([';', '"']);
        let row = format!("| `{level}` | `{target}` | `{line}` |");
        assert!(PAGE.contains(&row), "docs/operations.md has no {row}");
        lines += 1;
    }
    assert!(lines >= 14, "{lines}: this test looks in the wrong place");
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
        let vote = &nodes[0].vote;
        assert!(
            matches!(vote, Vote::Failed(NodeError::Quarantined { has_marker, .. }) if *has_marker == survives),
            "{nodes:?}"
        );
        assert_eq!(guard.extend(TTL * 2).is_ok(), survives);
        // What was kept tells a restart from a new start.
        assert_eq!(manager.open_nodes().is_err(), survives);
    }
}
