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
fn use_all([manager, another]: &[LockManager; 2], protocol: Protocol) -> Result<(), Error> {
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
fn the_users_of_the_page_can_do_all_that_a_client_does() {
    let servers = Server::cluster(3);
    for (user, protocol) in USERS {
        for server in &servers {
            apply(server, &rules(user));
        }
        use_all(&managers(&servers, user, protocol), protocol).unwrap();
    }
}

#[test]
fn the_user_who_looks_sees_a_lock_and_can_take_none() {
    let servers = Server::cluster(3);
    for server in &servers {
        apply(server, &rules("locks-viewer"));
        server.hold("billing:report", "someone", 60_000);
    }
    let viewer = manager(&servers, "locks-viewer", Protocol::Classic);
    let status = viewer.status("report").unwrap();
    assert!(matches!(status, LockStatus::Held { .. }), "{status}");
    let mut locks = viewer.locks("").unwrap();
    assert_eq!(locks.next().unwrap().unwrap().resource, "report");
    assert!(locks.next().is_none());
    let refusal = viewer.try_lock("invoices", TTL).unwrap_err().to_string();
    assert!(refusal.contains(FORBIDDEN), "{refusal}");
}

/// What plain locks do without: `page_shared.rs` has what readers need.
fn is_for_readers(permission: &str, protocol: Protocol) -> bool {
    permission.starts_with("+z")
        || ["+type", "+pexpireat", "+incr", "+srem", "+sismember"].contains(&permission)
        || (permission == "+time" && protocol == Protocol::Classic)
}

/// What a client can do without, at another price.
fn is_spared(permission: &str, protocol: Protocol) -> bool {
    ["+evalsha", "+exists", "+sadd", "+rpush", "+blpop"].contains(&permission)
        || is_for_readers(permission, protocol)
        || (["+info", "+mget"].contains(&permission) && protocol == Protocol::Classic)
}

#[test]
fn without_any_one_permission_something_is_refused_with_advice_and_nothing_granted() {
    let servers = [Server::start()];
    for (user, protocol) in USERS {
        let all = rules(user);
        let permissions = all.iter().filter(|word| word.starts_with(['+', '~']));
        assert!(permissions.clone().count() >= 8, "{all:?}");
        for permission in permissions {
            let less: Vec<&str> = all.iter().filter(|w| *w != permission).copied().collect();
            servers[0].command(&["FLUSHALL"]);
            apply(&servers[0], &less);
            let managers = managers(&servers, user, protocol);
            let result = use_all(&managers, protocol);
            if is_spared(permission, protocol) {
                result.unwrap();
                continue;
            }
            let error = result.expect_err(permission);
            assert!(
                error.to_string().contains(FORBIDDEN),
                "{permission}: {error}"
            );
            // Where asking for the lock is what fails, there is no key afterwards.
            if let Err(error) = managers[0].try_lock("another", TTL) {
                assert!(matches!(error, Error::Unavailable { .. }), "{error}");
                assert_eq!(servers[0].get("billing:another"), None, "{permission}");
            }
        }
    }
}

#[test]
fn a_user_without_a_pattern_for_the_keys_is_told_so_and_not_of_commands() {
    let servers = [Server::start()];
    for (user, protocol) in USERS {
        let all = rules(user);
        let elsewhere = all.iter().map(|word| match *word {
            "~billing:*" => "~other:*",
            word => word,
        });
        apply(&servers[0], &elsewhere.collect::<Vec<_>>());
        let manager = manager(&servers, user, protocol);
        let error = manager.try_lock("report", TTL).unwrap_err().to_string();
        assert!(error.contains(FORBIDDEN), "{error}");
        assert!(error.contains("key pattern"), "{error}");
        assert!(!error.contains("allow SET"), "{error}");
        let status = manager.status("report").unwrap().to_string();
        assert!(status.contains("key pattern"), "{status}");

        // Its counterpart.
        let less: Vec<&str> = all.into_iter().filter(|word| *word != "+set").collect();
        apply(&servers[0], &less);
        let error = self::manager(&servers, user, protocol).try_lock("report", TTL);
        let error = error.unwrap_err().to_string();
        assert!(!error.contains("key pattern"), "{error}");
        assert!(
            protocol == Protocol::Fenced || error.contains("allow SET"),
            "{error}"
        );
    }
}

#[test]
fn a_user_who_may_not_look_still_gets_a_typed_answer() {
    let servers = [Server::start()];
    for permission in ["+eval", "+get", "+pttl"] {
        let all = rules("locks-viewer");
        let less: Vec<&str> = all.into_iter().filter(|word| *word != permission).collect();
        servers[0].hold("billing:report", "someone", 60_000);
        apply(&servers[0], &less);
        let viewer = manager(&servers, "locks-viewer", Protocol::Classic);
        let status = viewer.status("report").unwrap();
        let vote = &status.nodes()[0].vote;
        assert!(
            matches!(vote, Vote::Failed(error) if error.to_string().contains(FORBIDDEN)),
            "{permission}: {status}"
        );
    }
}

#[test]
fn without_info_a_fenced_manager_says_so_and_a_classic_one_works() {
    let servers = Server::cluster(3);
    for (user, protocol) in USERS {
        for server in &servers {
            apply(server, &rules(user));
            apply(server, &["ACL", "SETUSER", user, "-info"]);
        }
        let manager = manager(&servers, user, protocol);
        match (protocol, manager.try_lock("report", TTL)) {
            (Protocol::Classic, Ok(guard)) => guard.unlock().unwrap(),
            (Protocol::Fenced, Err(Error::Unavailable { nodes, .. })) => {
                let unidentified = |report: &NodeReport| {
                    matches!(&report.vote, Vote::Failed(NodeError::Unidentified { .. }))
                };
                assert!(nodes.iter().any(unidentified), "{nodes:?}");
            }
            (_, result) => panic!("{result:?}"),
        }
    }
    for server in &servers {
        // What a release leaves, so that nothing of the attempt can come late.
        let left = server.command(&["KEYS", "*"]);
        let left: Vec<String> = redis::from_redis_value(left).unwrap();
        assert!(
            left.iter().all(|key| key == "billing:report:fence"),
            "{left:?}"
        );
    }
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

    let mut lines = 0;
    for (name, text) in crate::house::tidy::files("src", "rs") {
        for level in ["error", "warn", "info", "debug", "trace"] {
            for call in text.split(&format!("log::{level}!(")).skip(1) {
                // The name of the target, and what is between the first quotation marks.
                let target = call.split_once("target: ").unwrap().1;
                let target = target.split_once(',').unwrap().0;
                let target = text
                    .split_once(&format!("const {target}: &str = \""))
                    .unwrap()
                    .1;
                let target = target.split_once('"').unwrap().0;
                let line = call.split('"').nth(1).unwrap();
                let row = format!("| `{level}` | `{target}` | `{line}` |");
                assert!(
                    PAGE.contains(&row),
                    "{name}: docs/operations.md has no {row}"
                );
                lines += 1;
            }
        }
    }
    assert!(
        lines >= 7,
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
