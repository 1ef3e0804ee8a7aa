//! Passwords and users, also ones from a callback: what opens a server, and what one is told whom a server refuses.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use parking_lot::Mutex;
use redlatch::{Credentials, Error, LockManager, NodeError, Vote};
use redlatch_testing::{Server, eventually, now};

use crate::log_lines::{lines_about, listen};
use crate::managers::PATIENCE;
use crate::servers::connecting::connections::{TTL, assert_works, at, manager};

const PASSWORD: &str = "pa55-w0rd";

/// The URL of a server for this login, `user:password`.
fn url(login: &str, server: &Server) -> String {
    format!("redis://{login}@{}", server.name())
}

#[test]
fn a_password_opens_the_server_from_a_url_and_from_a_ready_client() {
    let odd = Server::start_with(&["--requirepass", "p@ss:w/rd#1%"]);
    let url = url(":p%40ss%3Aw%2Frd%231%25", &odd) + "/2";
    assert_works(&manager(&url));
    let client = redis::Client::open(url).unwrap();
    let builder = LockManager::builder().client(client).node_timeout(PATIENCE);
    assert!(!format!("{builder:?}").contains("w/rd"));
    assert_works(&builder.build().unwrap());
}

#[test]
fn a_login_that_is_refused_is_told_with_what_to_do_and_without_the_password() {
    listen();
    let server = Server::start_with(&["--requirepass", PASSWORD, "--databases", "4"]);
    let other = Server::start();
    let no_select = other.user("~* +@all -select") + "/1";
    let right = url(&format!(":{PASSWORD}"), &server);
    let out_of_range = "SELECT was refused with ERR DB index is out of range";
    for (url, words) in [
        (server.url(), ["NOAUTH", "demands a password"]),
        (
            url(&format!(":wrong-{PASSWORD}"), &server),
            ["WRONGPASS", ""],
        ),
        (
            url(":needless", &other),
            ["AUTH was refused with ERR", "may have no password"],
        ),
        (format!("{right}/4"), [out_of_range, ""]),
        (
            no_select,
            ["SELECT was refused with NOPERM", "allow SELECT, "],
        ),
    ] {
        let manager = manager(&url);
        let error = manager.try_lock("report", TTL).unwrap_err();
        let text = error.to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
        assert!(!text.contains("PEXPIRE"), "{text}");
        let shown = format!("{text} {error:?} {manager:?} {:?}", at(&url));
        assert!(!shown.contains(PASSWORD), "{shown}");
    }
    assert!(!lines_about(&server.name()).is_empty() && lines_about(PASSWORD).is_empty());
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
fn a_callback_is_asked_once_for_each_connection_and_its_failure_costs_a_vote_and_no_more() {
    let server = Server::start();
    server.command(&["ACL", "SETUSER", "locks", "on", ">first", "~*", "+@all"]);
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&asked);
    let builder = at(&server.url()).credentials(move |node| {
        let mut asked = noted.lock();
        asked.push(node.to_owned());
        match asked.len() {
            1 => Err(io::Error::other("the vault is sealed")),
            2 => panic!("the callback of a test"),
            3 => Ok(Credentials::new("locks", "first")),
            _ => Ok(Credentials::new("locks", "second")),
        }
    });
    let manager = builder.build().unwrap();
    for text in ["the vault is sealed", "the callback panicked"] {
        let vote = vote(&manager);
        let is_told = matches!(&vote, Vote::Failed(NodeError::NoCredentials { .. }));
        assert!(is_told && vote.to_string().contains(text), "{vote}");
    }
    // That says nothing about the node, which was not left out.
    for _ in 0..3 {
        assert!(matches!(vote(&manager), Vote::Granted));
    }
    assert_eq!(manager.stats().nodes[0].opened, 0);
    assert_eq!(*asked.lock(), [(); 3].map(|()| server.name()));

    server.command(&["ACL", "SETUSER", "locks", "resetpass", ">second"]);
    server.command(&["CLIENT", "KILL", "USER", "locks"]);
    assert!(matches!(vote(&manager), Vote::Granted));
    assert_eq!(asked.lock().len(), 4);
}

#[test]
fn what_a_url_says_of_a_login_counts_before_the_callback_but_for_a_user_that_it_names_alone() {
    let server = Server::start();
    for user in ["locks", "others"] {
        server.command(&["ACL", "SETUSER", user, "on", ">right", "~*", "+@all"]);
    }
    server.command(&["ACL", "SETUSER", "default", "-@scripting", "-@write"]);
    for (login, credentials, user) in [
        ("locks", Credentials::password("right"), "locks"),
        ("locks", Credentials::new("others", "right"), "others"),
        ("locks:right", Credentials::new("others", "wrong"), "locks"),
    ] {
        let builder = at(&url(login, &server)).credentials(move |_| Ok(credentials.clone()));
        let manager = builder.build().unwrap();
        let vote = vote(&manager);
        assert!(matches!(vote, Vote::Granted), "{login} {user}: {vote}");
        assert!(!format!("{manager:?}").contains("right"));
        let clients: String = redis::from_redis_value(server.command(&["CLIENT", "LIST"])).unwrap();
        let log_in = format!(" user={user} ");
        assert!(clients.contains(&log_in), "{user}: {clients}");
    }
}

/// What a server does that takes no connection is in `src/node/gate/tests.rs`.
#[test]
fn a_wrong_password_costs_few_logins_however_many_threads_ask_and_works_for_all_once_put_right() {
    let server = Server::start();
    server.user("~* +@all");
    let password = Arc::new(Mutex::new("wrong"));
    let given = Arc::clone(&password);
    let builder = at(&server.url());
    let builder = builder.credentials(move |_| Ok(Credentials::new("locker", *given.lock())));
    let manager = builder.build().unwrap();
    let (began, attempts) = (now(), AtomicU32::new(0));
    thread::scope(|scope| {
        let work = |thread: usize| {
            let (manager, attempts) = (&manager, &attempts);
            scope.spawn(move || {
                eventually(PATIENCE * 6, || {
                    let result = manager.try_lock(&format!("job-{thread}"), TTL);
                    let is_told = |error: &Error| {
                        error
                            .to_string()
                            .contains("AUTH was refused with WRONGPASS")
                    };
                    attempts.fetch_add(1, Ordering::SeqCst);
                    result
                        .inspect_err(|error| assert!(is_told(error), "{error}"))
                        .is_ok()
                })
            })
        };
        let workers: Vec<_> = (0..64).map(work).collect();
        assert!(eventually(PATIENCE * 6, || attempts.load(Ordering::SeqCst) > 1_000));
        *password.lock() = "secret";
        assert!(workers.into_iter().all(|worker| worker.join().unwrap()));
    });
    // At most the connections of a pool are made before the first of them has failed.
    let most = 20 + 20 * (began.elapsed().as_secs() + 1);
    assert!(
        server.count("auth") <= most,
        "{} in {most}",
        server.count("auth")
    );
}
