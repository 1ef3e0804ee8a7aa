//! `LockManager::locks` over fake nodes: which locks it finds, and what it does about nodes that fail.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, ListedLock, LockManager, LockStatus, Protocol, Vote};

use crate::managers::invalid_field;

const TTL: Duration = Duration::from_secs(10);
const NODE_TIMEOUT: Duration = Duration::from_millis(50);

fn cluster(n: usize) -> (FakeClock, Vec<FakeNode>, LockManager) {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(n, &clock);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    (clock, nodes, manager)
}

fn hold(nodes: &[FakeNode], key: &str) {
    for node in nodes {
        node.hold(key, "token", TTL);
    }
}

#[track_caller]
fn list(manager: &LockManager, prefix: &str) -> Vec<ListedLock> {
    let locks: Result<Vec<ListedLock>, Error> = manager.locks(prefix).unwrap().collect();
    let mut locks = locks.unwrap();
    locks.sort_by(|a, b| (&a.resource, a.slot).cmp(&(&b.resource, b.slot)));
    locks
}

#[track_caller]
fn names(manager: &LockManager, prefix: &str) -> Vec<String> {
    let locks = list(manager, prefix).into_iter();
    locks.map(|lock| lock.resource).collect()
}

/// More locks than are found in one step.
fn many(nodes: &[FakeNode]) -> Vec<String> {
    let names: Vec<String> = (0..1_000).map(|i| format!("job-{i:04}")).collect();
    for name in &names {
        hold(nodes, name);
    }
    names
}

#[test]
fn each_lock_that_is_held_is_listed_with_its_status() {
    let (clock, nodes, manager) = cluster(3);
    assert!(list(&manager, "").is_empty());
    let guard = manager.lock("report", TTL).unwrap();
    hold(&nodes, "of another program");
    clock.advance(Duration::from_secs(1));
    let locks = list(&manager, "");
    assert_eq!(locks.len(), 2);
    let LockStatus::Held {
        token, remaining, ..
    } = &locks[1].status
    else {
        panic!("{}", locks[1]);
    };
    assert_eq!((token.as_str(), locks[1].slot), (guard.token(), None));
    assert!(*remaining >= guard.remaining() && *remaining < TTL);
    assert_eq!(locks[1].status.nodes().len(), 3);
    let text = locks[1].to_string();
    assert!(text.starts_with("\"report\": held by "), "{text}");
    assert!(text.ends_with(", on 3 of 3 nodes"), "{text}");
    guard.unlock().unwrap();
    assert_eq!(names(&manager, ""), ["of another program"]);
    clock.advance(TTL);
    assert!(list(&manager, "").is_empty());
}

#[test]
fn a_listed_lock_says_who_has_it_since_when() {
    let nodes = FakeNode::cluster_on(3, &FakeClock::new());
    let manager = LockManager::builder().fakes(&nodes).holder("web-3 4711");
    let manager = manager.build().unwrap();
    let _guard = manager.lock("report", TTL).unwrap();
    let locks = list(&manager, "");
    let LockStatus::Held { holder, .. } = &locks[0].status else {
        panic!("{}", locks[0]);
    };
    let holder = holder.as_ref().unwrap();
    assert!(&*holder.label == "web-3 4711" && holder.since.is_some());
    assert!(locks[0].to_string().contains("(web-3 4711 since 20"));
}

#[test]
fn a_lock_that_rests_is_listed_as_such_until_its_end() {
    let (clock, _, manager) = cluster(3);
    let request = manager.request("report").ttl(TTL).at_least(TTL);
    request.lock().unwrap().unlock().unwrap();
    let locks = list(&manager, "");
    assert_eq!(locks.len(), 1);
    let text = locks[0].to_string();
    assert!(text.starts_with("\"report\": resting"), "{text}");
    let LockStatus::Resting { token, .. } = &locks[0].status else {
        panic!("{text}");
    };
    assert!(
        text.ends_with(&format!(", as {token}, on 3 of 3 nodes")),
        "{text}"
    );
    clock.advance(TTL * 2);
    assert!(list(&manager, "").is_empty());
}

#[test]
fn a_lock_is_found_on_whichever_majority_it_is() {
    for (n, quorum) in [(1_u32, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 4), (7, 4)] {
        let (_, nodes, manager) = cluster(usize::try_from(n).unwrap());
        let mut held = Vec::new();
        for set in 0..1_u32 << n {
            let key = format!("{set:03}");
            let has = |node: &usize| set >> node & 1 == 1;
            for node in (0..nodes.len()).filter(has) {
                hold(&nodes[node..=node], &key);
            }
            if set.count_ones() >= quorum {
                held.push(key);
            }
        }
        assert_eq!(names(&manager, ""), held, "{n} nodes");
    }
}

#[test]
fn what_nobody_holds_is_left_out_and_what_a_silent_node_may_decide_is_not() {
    let (_, nodes, manager) = cluster(3);
    for (node, token) in nodes.iter().zip(["a", "b", "c"]) {
        node.hold("split", token, TTL);
    }
    nodes[0].hold("late", "token", TTL);
    nodes[0].hold("left", "token", Duration::MAX);
    assert!(list(&manager, "").is_empty());
    nodes[2].refuse();
    let locks = list(&manager, "");
    let unknown: Vec<&str> = locks.iter().map(|lock| lock.resource.as_str()).collect();
    assert_eq!(unknown, ["late", "split"]);
    assert!(
        locks
            .iter()
            .all(|lock| matches!(lock.status, LockStatus::Unknown { .. }))
    );
}

#[test]
fn keys_beside_locks_are_none_and_slots_of_a_semaphore_are_told_as_such() {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(3, &clock);
    let builder = LockManager::builder().fakes(&nodes).key_prefix("p:");
    let manager = builder.protocol(Protocol::Fenced).build().unwrap();
    manager.open_nodes().unwrap();
    // It leaves a counter and a marker.
    let _guard = manager.lock("report", TTL).unwrap();
    for key in [
        "report:redlatch:waiting",
        "report:redlatch:bell",
        "p:report:redlatch:later",
        "p:exports:redlatch:slot:",
        "p:exports:redlatch:slot:01",
        "p:exports:redlatch:slot:x",
        "p:exports:redlatch:slot:4294967296",
        "p:a:redlatch:bell:redlatch:slot:1",
        "p::redlatch:slot:1:fence",
        "p:",
        "q:report",
    ] {
        hold(&nodes, key);
    }
    hold(&nodes, "p:exports:redlatch:slot:0");
    hold(&nodes, "p:exports:redlatch:slot:17");
    let found = list(&manager, "").into_iter();
    let found: Vec<_> = found.map(|lock| (lock.resource, lock.slot)).collect();
    let expected = [
        ("exports", Some(0)),
        ("exports", Some(17)),
        ("report", None),
    ];
    assert_eq!(found, expected.map(|(name, slot)| (name.to_owned(), slot)));
    let slots = list(&manager, "exp");
    assert!(
        slots[1]
            .to_string()
            .starts_with("\"exports\" slot 17: held")
    );
}

#[test]
fn a_prefix_means_itself_whatever_is_in_it() {
    let (_, nodes, manager) = cluster(3);
    let all = [
        "job", "job*", "job?x", "job[a]", "job\\", "joba", "jo", "Job", "job\n", "jöb", "*",
    ];
    for name in all {
        hold(&nodes, name);
    }
    for (prefix, expected) in [
        ("job*", &["job*"][..]),
        ("job?", &["job?x"]),
        ("job[", &["job[a]"]),
        ("job[a]", &["job[a]"]),
        ("job\\", &["job\\"]),
        ("job\n", &["job\n"]),
        ("j\u{f6}", &["j\u{f6}b"]),
        ("*", &["*"]),
        ("joba", &["joba"]),
        ("nothing", &[]),
    ] {
        assert_eq!(names(&manager, prefix), expected, "{prefix:?}");
    }
    assert_eq!(list(&manager, "").len(), all.len());
    let prefixed = LockManager::builder().fakes(&nodes).key_prefix("job[");
    assert_eq!(names(&prefixed.build().unwrap(), "a"), ["a]"]);

    let longest = "x".repeat(64 * 1024);
    assert!(list(&manager, &longest).is_empty());
    let refused = manager.locks(&(longest + "x"));
    assert_eq!(invalid_field(&refused.err().unwrap()), "resource");
}

#[test]
fn many_locks_are_listed_once_each() {
    let (_, nodes, manager) = cluster(5);
    let held = many(&nodes);
    assert_eq!(names(&manager, ""), held);
    assert_eq!(names(&manager, "job-099"), held[990..]);
    // The longest names fill a step each.
    let long = |letter: &str| letter.repeat(60 * 1024);
    for letter in ["x", "y", "z"] {
        hold(&nodes, &long(letter));
    }
    assert_eq!(list(&manager, "").len(), 1_003);
    assert_eq!(names(&manager, "y"), [long("y")]);
}

#[test]
fn the_progress_goes_from_nothing_to_all_and_never_back() {
    let (_, nodes, manager) = cluster(5);
    many(&nodes);
    let shares: Arc<Mutex<Vec<f64>>> = Arc::default();
    let told = Arc::clone(&shares);
    let locks = manager.locks_with_progress("none of these", move |share| told.lock().push(share));
    assert_eq!(locks.unwrap().count(), 0);
    let shares = shares.lock();
    // Four steps of each of three nodes.
    assert!(shares.len() >= 12, "{shares:?}");
    assert!(shares.is_sorted() && shares[0] > 0.0 && shares[0] < 0.2);
    assert!(shares.last().is_some_and(|last| (1.0..=1.0).contains(last)));
}

#[test]
fn a_node_that_hangs_costs_one_node_timeout_and_another_one_is_scanned() {
    let (clock, nodes, manager) = cluster(3);
    let held = many(&nodes);
    nodes[0].hang();
    assert_eq!(names(&manager, ""), held);
    assert_eq!(clock.elapsed(), NODE_TIMEOUT);

    // One that hangs while it is asked about the keys.
    let (clock, nodes, manager) = cluster(3);
    many(&nodes);
    nodes[2].hang();
    assert_eq!(names(&manager, ""), held);
    assert_eq!(clock.elapsed(), NODE_TIMEOUT);
}

#[test]
fn a_node_that_fails_in_the_middle_is_replaced_and_nothing_is_listed_twice() {
    for fail in [FakeNode::refuse, FakeNode::hang] {
        let (clock, nodes, manager) = cluster(3);
        let held = many(&nodes);
        let mut locks = manager.locks("").unwrap();
        let mut found = vec![locks.next().unwrap().unwrap().resource];
        fail(&nodes[0]);
        found.extend(locks.map(|lock| lock.unwrap().resource));
        found.sort();
        assert_eq!(found, held);
        // Three tries of the next step, and the nodes' views of what the first has found.
        assert!(clock.elapsed() <= NODE_TIMEOUT * 4);
    }
}

#[test]
fn a_server_that_is_restarted_in_the_middle_is_scanned_from_its_first_key_on() {
    let (_, nodes, manager) = cluster(3);
    // The first two are scanned, so that only the first one tells of them.
    let held = many(&[nodes[0].clone(), nodes[2].clone()]);
    let mut locks = manager.locks("").unwrap();
    let mut found = vec![locks.next().unwrap().unwrap().resource];
    nodes[0].restart_persisted();
    found.extend(locks.map(|lock| lock.unwrap().resource));
    found.sort();
    assert_eq!(found, held);
}

#[test]
fn without_a_majority_the_list_ends_with_an_error_that_names_the_nodes() {
    for fail in [FakeNode::refuse, FakeNode::hang] {
        let (_, nodes, manager) = cluster(3);
        many(&nodes);
        fail(&nodes[0]);
        fail(&nodes[2]);
        let mut locks = manager.locks("").unwrap();
        let Some(Err(error)) = locks.next() else {
            panic!("nothing can be known");
        };
        assert!(locks.next().is_none());
        let Error::Incomplete { nodes: reports, .. } = &error else {
            panic!("{error}");
        };
        let failed: Vec<&str> = reports.iter().map(|report| &*report.node).collect();
        assert_eq!(failed, [nodes[0].name(), nodes[2].name()], "{error}");
        assert!(
            reports
                .iter()
                .all(|report| matches!(report.vote, Vote::Failed(_)))
        );
        for name in failed {
            assert!(error.to_string().contains(name), "{error}");
        }
    }
    // In the middle: what was found stays.
    let (_, nodes, manager) = cluster(3);
    let held = many(&nodes);
    let mut locks = manager.locks("").unwrap();
    assert!(locks.next().unwrap().is_ok());
    nodes[..2].iter().for_each(FakeNode::refuse);
    let rest: Vec<_> = locks.collect();
    let (last, found) = rest.split_last().unwrap();
    assert!(matches!(last, Err(Error::Incomplete { .. })), "{last:?}");
    assert!(found.iter().all(Result::is_ok) && found.len() < held.len());
}

#[test]
fn a_list_changes_nothing_and_goes_on_beside_locks() {
    let (_, nodes, manager) = cluster(3);
    let held = many(&nodes);
    let mut locks = manager.locks("").unwrap();
    let first = locks.next().unwrap().unwrap();
    let guard = manager.lock("mine", TTL).unwrap();
    guard.unlock().unwrap();
    assert_eq!(nodes[0].ttl_of(&first.resource), Some(TTL));
    assert_eq!(locks.count(), held.len() - 1);
    for name in &held {
        assert_eq!(nodes[1].token_of(name).as_deref(), Some("token"));
    }
}
