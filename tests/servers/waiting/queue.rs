//! The queue: threads of one manager that want one lock.

use std::collections::HashSet;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use redlatch::fake::FakeNode;
use redlatch::{Error, LockGuard, LockManager, Vote};
use redlatch_testing::Server;
use redlatch_testing::scripted::{Command, Kind, Scripted};

use crate::managers::{PATIENCE, patient};
use crate::waiters::{BOUND, got, heard, line_up, listeners};

pub(crate) const TTL: Duration = Duration::from_secs(15);

pub(crate) fn fakes() -> (Vec<FakeNode>, LockManager) {
    let nodes = FakeNode::cluster(3);
    let builder = LockManager::builder().fakes(&nodes);
    let manager = builder.node_timeout(PATIENCE).build().unwrap();
    (nodes, manager)
}

/// Whether a guard of the same manager is in the way, for which nobody was asked.
#[track_caller]
pub(crate) fn assert_held_here(result: Result<LockGuard, Error>) -> Error {
    let error = result.unwrap_err();
    let Error::Held { nodes, .. } = &error else {
        panic!("{error:?}");
    };
    let is_unasked = |vote: &Vote| matches!(vote, Vote::NotAsked);
    assert!(nodes.iter().all(|node| is_unasked(&node.vote)), "{error:?}");
    error
}

#[test]
fn who_asks_for_what_this_manager_holds_is_refused_without_a_command() {
    let nodes = listeners(3);
    let manager = patient(nodes.iter().map(Scripted::url));
    let guard = manager.try_lock("job", TTL).unwrap();
    let before = heard(&nodes);
    let error = assert_held_here(manager.try_lock("job", TTL));
    assert!(error.to_string().contains("another guard of this manager"));
    let Error::Held { nodes: reports, .. } = error else {
        panic!("{error}");
    };
    let mut names: Vec<String> = nodes.iter().map(Scripted::name).collect();
    names.sort();
    assert!(
        reports
            .iter()
            .map(|report| &*report.node)
            .eq(names.iter().map(String::as_str))
    );
    let wait = Duration::from_millis(120);
    assert_held_here(manager.try_lock_for("job", TTL, wait));
    assert_held_here(manager.request("job").try_lock());
    assert_eq!(heard(&nodes), before);
    guard.unlock().unwrap();
    manager.try_lock("job", TTL).unwrap().unlock().unwrap();
}

#[test]
fn two_managers_share_no_queue() {
    let (nodes, manager) = fakes();
    let other = LockManager::builder().fakes(&nodes);
    let other = other.node_timeout(PATIENCE).build().unwrap();
    let _guard = manager.lock("job", TTL).unwrap();
    let result = other.try_lock("job", TTL);
    let Err(error @ Error::Held { .. }) = result else {
        panic!("{result:?}");
    };
    assert!(error.to_string().contains("another holder"), "{error}");
    // And a clone is the same manager.
    assert_held_here(manager.clone().try_lock("job", TTL));
}

#[test]
fn only_the_first_talks_to_the_servers() {
    let server = Scripted::start(|peer, command| {
        peer.say(match command.kind() {
            Kind::Set => b"$-1\r\n",
            Kind::Look => b"*4\r\n:1\r\n:5000\r\n:0\r\n$0\r\n\r\n",
            Kind::Release => b"*1\r\n:5000\r\n",
            Kind::Listen | Kind::Retake | Kind::Pass | Kind::Extend | Kind::Probe | Kind::Other => {
                command.consent()
            }
        });
    });
    let builder = LockManager::builder().node(server.url());
    let manager = builder
        .node_timeout(PATIENCE)
        .retry_delay(Duration::ZERO, Duration::from_millis(1))
        .build()
        .unwrap();
    let threads = (0..8).map(|_| {
        let manager = manager.clone();
        thread::spawn(move || manager.try_lock_for("job", TTL, Duration::from_secs(2)))
    });
    for thread in threads.collect::<Vec<_>>() {
        let result = got(thread);
        assert!(matches!(result, Err(Error::Held { .. })), "{result:?}");
    }
    let mut heard = server.heard();
    heard.retain(|command| command.kind() != Kind::Look);
    assert!(heard.len() > 4, "{}", heard.len());
    // The attempts of two would be mixed up.
    for attempt in heard.chunks(2) {
        let [set, release] = attempt else {
            panic!("{attempt:?}");
        };
        assert_eq!((set.kind(), release.kind()), (Kind::Set, Kind::Release));
        assert_eq!(set.token(), release.token());
    }
    // Every attempt has a token of its own.
    let tokens: HashSet<_> = heard.iter().map(Command::token).collect();
    assert_eq!(tokens.len() * 2, heard.len());
}

#[test]
fn sixty_four_threads_have_the_lock_in_the_order_in_which_they_came() {
    let servers = Server::cluster(3);
    let builder = LockManager::builder().nodes(servers.iter().map(Server::url));
    let manager = builder.node_timeout(PATIENCE).build().unwrap();
    let guard = manager.lock("job", TTL).unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let threads = (0..64).map(|who| {
        let (manager, order) = (manager.clone(), Arc::clone(&order));
        line_up(move || {
            let guard = manager.try_lock_for("job", TTL, BOUND).unwrap();
            order.lock().push(who);
            guard.unlock().unwrap();
        })
    });
    let threads: Vec<_> = threads.collect();
    guard.unlock().unwrap();
    for thread in threads {
        got(thread);
    }
    assert_eq!(*order.lock(), (0..64).collect::<Vec<_>>());
    assert!(servers.iter().all(|server| server.get("job").is_none()));
}

#[test]
fn one_who_waits_in_vain_is_told_what_the_first_one_met() {
    let (nodes, manager) = fakes();
    for node in &nodes {
        node.refuse();
    }
    let first = line_up({
        let manager = manager.clone();
        move || manager.try_lock_for("job", TTL, BOUND)
    });
    let wait = Duration::from_millis(300);
    let result = manager.try_lock_for("job", TTL, wait);
    assert!(
        matches!(result, Err(Error::Unavailable { .. })),
        "{result:?}"
    );
    let result = manager.try_lock("job", TTL);
    assert!(
        matches!(result, Err(Error::Unavailable { .. })),
        "{result:?}"
    );
    for node in &nodes {
        node.recover();
    }
    let guard = got(first).unwrap();
    assert_held_here(manager.try_lock("job", TTL));
    guard.unlock().unwrap();
}
