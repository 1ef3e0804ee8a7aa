//! Users and passwords from a callback, which is asked at each new connection.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use redlatch::{Builder, Credentials, Error, LockManager, NodeError, Vote};
use redlatch_testing::Server;

const TTL: Duration = Duration::from_secs(10);

fn to(server: &Server) -> Builder {
    at(&format!("redis://{}", server.name()))
}

fn at(url: &str) -> Builder {
    let builder = LockManager::builder().node(url);
    builder.node_timeout(Duration::from_secs(5))
}

/// What the only node said.
#[track_caller]
fn vote(manager: &LockManager) -> Vote {
    let nodes = match manager.try_lock("report", TTL) {
        Ok(guard) => guard.votes(),
        Err(Error::Unavailable { nodes, .. }) => nodes,
        Err(error) => unreachable!("{error}"),
    };
    let [report] = <[_; 1]>::try_from(nodes).unwrap();
    report.vote
}

#[test]
fn a_password_that_changes_is_asked_for_at_the_next_connection() {
    let server = Server::start();
    server.command(&["ACL", "SETUSER", "locks", "on", ">first", "~*", "+@all"]);
    let password = Arc::new(Mutex::new("first"));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let manager = {
        let (password, asked) = (Arc::clone(&password), Arc::clone(&asked));
        let builder = to(&server).credentials(move |node| {
            asked.lock().push(node.to_owned());
            Ok(Credentials::new("locks", *password.lock()))
        });
        builder.build().unwrap()
    };
    for _ in 0..3 {
        assert!(matches!(vote(&manager), Vote::Granted));
    }
    assert_eq!(*asked.lock(), [server.name()], "once for each connection");

    server.command(&["ACL", "SETUSER", "locks", "resetpass", ">second"]);
    server.command(&["CLIENT", "KILL", "USER", "locks"]);
    *password.lock() = "second";
    assert!(matches!(vote(&manager), Vote::Granted));
    assert_eq!(asked.lock().len(), 2);
}

#[test]
fn a_callback_that_fails_or_panics_costs_a_vote_and_no_more() {
    let server = Server::start_with(&["--requirepass", "right"]);
    let calls = Arc::new(AtomicUsize::new(0));
    let manager = {
        let calls = Arc::clone(&calls);
        let builder =
            to(&server).credentials(move |_| match calls.fetch_add(1, Ordering::Relaxed) {
                0 => Err(io::Error::other("the vault is sealed")),
                1 => panic!("the callback of a test"),
                _ => Ok(Credentials::password("right")),
            });
        builder.build().unwrap()
    };
    for text in ["the vault is sealed", "the callback panicked"] {
        let vote = vote(&manager);
        assert!(
            matches!(&vote, Vote::Failed(NodeError::NoCredentials { .. })),
            "{vote}"
        );
        assert!(vote.to_string().contains(text), "{vote}");
    }
    // It says nothing about the node, which was not left out.
    assert!(matches!(vote(&manager), Vote::Granted));
    assert_eq!(manager.stats().nodes[0].opened, 0);
}

#[test]
fn a_password_in_the_url_of_a_node_stays_its_own() {
    let server = Server::start_with(&["--requirepass", "right"]);
    let builder = at(&format!("redis://:right@{}", server.name()));
    let builder = builder.credentials(|_| Ok(Credentials::password("wrong")));
    assert!(matches!(vote(&builder.build().unwrap()), Vote::Granted));
}

#[test]
fn a_password_of_the_callback_alone_is_of_the_user_in_the_url() {
    let server = Server::start();
    for user in ["locks", "others"] {
        server.command(&["ACL", "SETUSER", user, "on", ">right", "~*", "+@all"]);
    }
    server.command(&["ACL", "SETUSER", "default", "-@scripting", "-@write"]);
    for (credentials, user) in [
        (Credentials::password("right"), "locks"),
        (Credentials::new("others", "right"), "others"),
    ] {
        let builder = at(&format!("redis://locks@{}", server.name()));
        let builder = builder.credentials(move |_| Ok(credentials.clone()));
        let manager = builder.build().unwrap();
        let vote = vote(&manager);
        assert!(matches!(vote, Vote::Granted), "{user}: {vote}");
        assert!(!format!("{manager:?}").contains("right"));
        let clients: String = redis::from_redis_value(server.command(&["CLIENT", "LIST"])).unwrap();
        let log_in = format!(" user={user} ");
        assert!(clients.contains(&log_in), "{user}: {clients}");
    }
}
