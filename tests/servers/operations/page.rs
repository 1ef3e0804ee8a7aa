//! The page `docs/operations.md`: its ACL users have exactly the permissions that they need, and every error and log line is
//! there.

use std::fs;
use std::path::Path;
use std::time::Duration;

use redis::Value;
use redlatch::{Error, LockManager, LockStatus, NodeError, NodeReport, Protocol, Vote};
use redlatch_testing::{Server, pause};

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
    assert_eq!(
        guard.fencing_token().is_some(),
        protocol == Protocol::Fenced
    );
    assert!(guard.votes().iter().all(is_granted));
    guard.extend(TTL * 2)?;
    match another.try_lock_for("report", TTL, Duration::from_millis(5)) {
        Err(Error::Held { .. }) => {}
        Err(error) => return Err(error),
        Ok(second) => panic!("held twice: {second:?}"),
    }
    let status = manager.status("report")?;
    assert!(
        matches!(&status, LockStatus::Held { token, .. } if token == guard.token()),
        "{status}"
    );
    guard.unlock()?;
    let status = manager.status("report")?;
    assert!(matches!(status, LockStatus::Free { .. }), "{status}");
    // On connections that have seen all of it.
    manager.try_lock("report", TTL)?.unlock()
}

fn is_granted(report: &NodeReport) -> bool {
    matches!(report.vote, Vote::Granted)
}

#[test]
fn every_error_and_every_log_line_is_on_the_page() {
    let source = |name: &str| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        fs::read_to_string(root.join("src").join(name)).unwrap()
    };
    let (error, node) = (source("error.rs"), source("error/node.rs"));
    let (loss, report) = (source("error/loss.rs"), source("error/report.rs"));
    for (text, name) in [
        (&error, "Error"),
        (&loss, "LossCause"),
        (&report, "Vote"),
        (&node, "NodeError"),
    ] {
        let (_, body) = text.split_once(&format!("pub enum {name} {{\n")).unwrap();
        let body = &body[..body.find("\n}\n").unwrap()];
        let variants = body
            .lines()
            .filter_map(|line| line.strip_prefix("    "))
            .filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()))
            .map(|line| line.split([' ', ',', '(']).next().unwrap());
        let mut count = 0;
        for variant in variants {
            let entry = format!("`{name}::{variant}`");
            assert!(PAGE.contains(&entry), "docs/operations.md has no {entry}");
            count += 1;
        }
        assert!(count >= 2, "{name}: {count}");
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
    assert!(
        lines >= 14,
        "no log lines were found: this test looks in the wrong place"
    );
}

#[test]
fn the_number_of_nodes_and_max_ttl_are_changed_as_the_page_says() {
    let servers = Server::cluster(5);
    let manager = |servers: &[Server], max_ttl| {
        LockManager::builder()
            .nodes(servers.iter().map(Server::url))
            .key_prefix(PREFIX)
            .protocol(Protocol::Fenced)
            .max_ttl(max_ttl)
            .node_timeout(Duration::from_secs(2))
            .build()
            .unwrap()
    };
    let (short, long) = (Duration::from_millis(500), Duration::from_secs(20));
    let old = manager(&servers[..3], short);
    old.open_nodes().unwrap();
    let before = old.try_lock("report", short).unwrap().fencing_token();

    let new = manager(&servers, long);
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
        server.command(&["DEL", "billing:redlatch:node"]);
    }
    // 4. And no waiting after that.
    let new = manager(&servers, long);
    new.open_nodes().unwrap();
    let after = new.try_lock("report", TTL).unwrap().fencing_token();
    assert!(before < after);
}

#[test]
fn a_restart_does_to_a_fenced_lock_what_the_page_says() {
    let persisting: &[&str] = &["--appendonly", "yes", "--appendfsync", "always"];
    for (arguments, survives) in [(&[][..], false), (persisting, true)] {
        let mut servers: Vec<Server> = (0..3).map(|_| Server::start_with(arguments)).collect();
        let manager = LockManager::builder()
            .nodes(servers.iter().map(Server::url))
            .protocol(Protocol::Fenced)
            .node_timeout(Duration::from_secs(2))
            .build()
            .unwrap();
        manager.open_nodes().unwrap();
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
        assert!(
            matches!(&nodes[0].vote, Vote::Failed(NodeError::Quarantined { has_marker, .. }) if *has_marker == survives),
            "{nodes:?}"
        );
        assert_eq!(guard.extend(TTL * 2).is_ok(), survives);
        // What was kept tells a restart from a new start.
        assert_eq!(manager.open_nodes().is_err(), survives);
    }
}
