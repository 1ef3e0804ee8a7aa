//! `LockManager::locks` over fake nodes: which locks it finds, and what it does about nodes that fail.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, ListedLock, LockManager, LockStatus, Protocol, Vote};

use crate::managers::{invalid_field, over_fakes};

const TTL: Duration = Duration::from_secs(10);
const NODE_TIMEOUT: Duration = Duration::from_millis(50);

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
fn each_lock_that_is_held_or_rests_is_listed_with_its_status() {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(3, &clock);
    let builder = LockManager::builder().fakes(&nodes).holder("web-3 4711");
    let manager = builder.build().unwrap();
    assert!(list(&manager, "").is_empty());
    let guard = manager.lock("report", TTL).unwrap();
    hold(&nodes, "of another program");
    clock.advance(Duration::from_secs(1));
    let locks = list(&manager, "");
    assert_eq!(locks.len(), 2);
    let text = locks[1].to_string();
    let LockStatus::Held {
        token,
        remaining,
        holder: Some(holder),
        ..
    } = &locks[1].status
    else {
        panic!("{text}");
    };
    assert_eq!((token.as_str(), locks[1].slot), (guard.token(), None));
    assert!(*remaining >= guard.remaining() && *remaining < TTL);
    assert!(&*holder.label == "web-3 4711" && holder.since.is_some());
    assert!(text.contains("(web-3 4711 since 20"));
    assert_eq!(locks[1].status.nodes().len(), 3);
    assert!(text.starts_with("\"report\": held by "), "{text}");
    assert!(text.ends_with(", on 3 of 3 nodes"), "{text}");
    guard.unlock().unwrap();
    assert_eq!(names(&manager, ""), ["of another program"]);

    clock.advance(TTL);
    let request = manager.request("report").ttl(TTL).at_least(TTL);
    request.lock().unwrap().unlock().unwrap();
    let locks = list(&manager, "");
    assert_eq!(locks.len(), 1);
    let text = locks[0].to_string();
    assert!(text.starts_with("\"report\": resting"), "{text}");
    assert!(text.ends_with(", on 3 of 3 nodes"), "{text}");
    clock.advance(TTL * 2);
    assert!(list(&manager, "").is_empty());
}

#[test]
fn a_lock_is_found_on_whichever_majority_it_is() {
    for (n, quorum) in [(1_u32, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 4), (7, 4)] {
        let (_, nodes, manager) = over_fakes(usize::try_from(n).unwrap());
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
    let (_, nodes, manager) = over_fakes(3);
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
    let is_unknown = |lock: &ListedLock| matches!(lock.status, LockStatus::Unknown { .. });
    assert!(locks.iter().all(is_unknown));
}

#[test]
fn keys_beside_locks_are_none_and_slots_of_a_semaphore_are_told_as_such() {
    let nodes = FakeNode::cluster_on(3, &FakeClock::new());
    let builder = LockManager::builder().fakes(&nodes).key_prefix("p:");
    let manager = builder.protocol(Protocol::Fenced).build().unwrap();
    manager.open_nodes().unwrap();
    // It leaves a counter and a marker.
    let _guard = manager.lock("report", TTL).unwrap();
    let no_locks = "report:redlatch:waiting report:redlatch:bell p:report:redlatch:later p:exports:redlatch:slot: \
        p:exports:redlatch:slot:01 p:exports:redlatch:slot:x p:exports:redlatch:slot:4294967296 \
        p:a:redlatch:bell:redlatch:slot:1 p::redlatch:slot:1:fence p: q:report";
    let slots = "p:exports:redlatch:slot:0 p:exports:redlatch:slot:17";
    let keys = no_locks.split(' ').chain(slots.split(' '));
    keys.for_each(|key| hold(&nodes, key));
    let found: Vec<String> = list(&manager, "")
        .iter()
        .map(|lock| lock.to_string().split_once(": ").unwrap().0.to_owned())
        .collect();
    let expected = ["\"exports\" slot 0", "\"exports\" slot 17", "\"report\""];
    assert_eq!(found, expected);
    let slots = list(&manager, "exp");
    assert_eq!([slots[0].slot, slots[1].slot], [Some(0), Some(17)]);
}

#[test]
fn a_prefix_means_itself_whatever_is_in_it() {
    let (_, nodes, manager) = over_fakes(3);
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
fn many_locks_are_listed_once_each_while_the_progress_goes_from_nothing_to_all() {
    let (_, nodes, manager) = over_fakes(5);
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
    // The last one is asked about the keys alone.
    for hung in [0, 2] {
        let (clock, nodes, manager) = over_fakes(3);
        let held = many(&nodes);
        nodes[hung].hang();
        assert_eq!(names(&manager, ""), held);
        assert_eq!(clock.elapsed(), NODE_TIMEOUT);
    }
}

/// All that is listed, if this happens after the first lock.
fn list_around(manager: &LockManager, event: impl FnOnce()) -> Vec<String> {
    let mut locks = manager.locks("").unwrap();
    let mut found = vec![locks.next().unwrap().unwrap().resource];
    event();
    found.extend(locks.map(|lock| lock.unwrap().resource));
    found.sort();
    found
}

#[test]
fn a_node_that_fails_in_the_middle_is_replaced_and_nothing_is_listed_twice() {
    for fail in [FakeNode::refuse, FakeNode::hang] {
        let (clock, nodes, manager) = over_fakes(3);
        let held = many(&nodes);
        assert_eq!(list_around(&manager, || fail(&nodes[0])), held);
        // Three tries of the next step, and the nodes' views of what the first has found.
        assert!(clock.elapsed() <= NODE_TIMEOUT * 4);
    }
}

#[test]
fn a_server_that_is_restarted_in_the_middle_is_scanned_from_its_first_key_on() {
    let (_, nodes, manager) = over_fakes(3);
    // The first two are scanned, so that only the first one tells of them.
    let held = many(&[nodes[0].clone(), nodes[2].clone()]);
    let found = list_around(&manager, || nodes[0].restart_persisted());
    assert_eq!(found, held);
}

#[test]
fn without_a_majority_the_list_ends_with_an_error_that_names_the_nodes() {
    for fail in [FakeNode::refuse, FakeNode::hang] {
        let (_, nodes, manager) = over_fakes(3);
        many(&nodes);
        fail(&nodes[0]);
        fail(&nodes[2]);
        let mut locks = manager.locks("").unwrap();
        let Some(Err(error)) = locks.next() else {
            panic!("nothing can be known");
        };
        assert!(locks.next().is_none());
        let text = error.to_string();
        let Error::Incomplete { nodes: reports, .. } = error else {
            panic!("{text}");
        };
        let failed: Vec<&str> = reports.iter().map(|report| &*report.node).collect();
        assert_eq!(failed, [nodes[0].name(), nodes[2].name()], "{text}");
        for report in &reports {
            assert!(matches!(report.vote, Vote::Failed(_)));
            assert!(text.contains(&*report.node), "{text}");
        }
    }
    // In the middle: what was found stays.
    let (_, nodes, manager) = over_fakes(3);
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
    let (_, nodes, manager) = over_fakes(3);
    let held = many(&nodes);
    let mine = || manager.lock("mine", TTL).unwrap().unlock().unwrap();
    assert_eq!(list_around(&manager, mine), held);
    for name in &held {
        assert_eq!(nodes[0].ttl_of(name), Some(TTL));
        assert_eq!(nodes[1].token_of(name).as_deref(), Some("token"));
    }
}
