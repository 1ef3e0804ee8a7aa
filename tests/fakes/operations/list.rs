//! `LockManager::locks` over fake nodes: which locks it finds, and what it does about nodes that fail.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, ListedLock, LockManager, LockStatus, Protocol, Vote};

use crate::managers::{over_fakes, processes_by};

const TTL: Duration = Duration::from_secs(10);
const NODE_TIMEOUT: Duration = Duration::from_millis(50);

fn hold(nodes: &[FakeNode], keys: &[impl AsRef<str>]) {
    for key in keys {
        for node in nodes {
            node.hold(key.as_ref(), "token", TTL);
        }
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
    hold(nodes, &names);
    names
}

#[test]
fn a_lock_is_found_on_whichever_majority_it_is() {
    for n in 1..=7 {
        let (_, nodes, manager) = over_fakes(n);
        let mut held = Vec::new();
        for set in 0..1_usize << n {
            let key = format!("{set:03}");
            let has: Vec<usize> = (0..n).filter(|node| set >> node & 1 == 1).collect();
            for node in &has {
                nodes[*node].hold(&key, "token", TTL);
            }
            if has.len() > n / 2 {
                held.push((key, format!("on {} of {n} nodes", has.len())));
            }
        }
        let listed = list(&manager, "");
        assert_eq!(listed.len(), held.len(), "{n} nodes");
        for (lock, (name, on)) in listed.into_iter().zip(held) {
            assert!(lock.to_string().ends_with(&on), "{lock}");
            assert_eq!(lock.resource, name);
        }
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
    assert_eq!(names(&manager, ""), ["late", "split"]);
    let is_unknown = |lock: &ListedLock| matches!(lock.status, LockStatus::Unknown { .. });
    assert!(list(&manager, "").iter().all(is_unknown));
}

#[test]
fn keys_beside_locks_are_none_and_slots_of_a_semaphore_are_told_as_such() {
    let nodes = FakeNode::cluster_on(3, &FakeClock::new());
    let builder = LockManager::builder().fakes(&nodes).key_prefix("p:");
    let [manager] = processes_by(&builder, Protocol::Fenced);
    // It leaves a counter and a marker.
    let _guard = manager.lock("report", TTL).unwrap();
    let no_locks = "report:redlatch:waiting report:redlatch:bell p:report:redlatch:later p:exports:redlatch:slot: \
        p:exports:redlatch:slot:01 p:exports:redlatch:slot:x p:exports:redlatch:slot:4294967296 \
        p:a:redlatch:bell:redlatch:slot:1 p::redlatch:slot:1:fence p: q:report";
    let slots = "p:exports:redlatch:slot:0 p:exports:redlatch:slot:17";
    let keys = no_locks.split(' ').chain(slots.split(' '));
    hold(&nodes, &keys.collect::<Vec<_>>());
    let told = list(&manager, "");
    let told = told
        .iter()
        .map(|lock| lock.to_string().split_once(": ").unwrap().0.to_owned());
    assert!(told.eq(["\"exports\" slot 0", "\"exports\" slot 17", "\"report\""]));
    let slots = list(&manager, "exp");
    assert_eq!([slots[0].slot, slots[1].slot], [Some(0), Some(17)]);
}

#[test]
fn many_locks_are_listed_once_each_while_the_progress_goes_from_nothing_to_all() {
    let (_, nodes, manager) = over_fakes(5);
    let held = many(&nodes);
    assert_eq!(names(&manager, ""), held);
    assert_eq!(names(&manager, "job-099"), held[990..]);
    // The longest names fill a step each.
    let long = ["x", "y", "z"].map(|letter| letter.repeat(60 * 1024));
    hold(&nodes, &long);
    assert_eq!(list(&manager, "").len(), 1_003);
    assert_eq!(names(&manager, "y"), long[1..2]);

    let shares: Arc<Mutex<Vec<f64>>> = Arc::default();
    let told = Arc::clone(&shares);
    let locks = manager.locks_with_progress("none of these", move |share| told.lock().push(share));
    assert_eq!(locks.unwrap().count(), 0);
    let shares = shares.lock();
    // Four steps of each of three nodes.
    assert!(shares.len() >= 12, "{shares:?}");
    assert!(shares.is_sorted() && shares[0] > 0.0);
    let steps = shares.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(
        steps.chain([shares[0]]).all(|step| step < 0.15),
        "{shares:?}"
    );
    assert!(shares.last().is_some_and(|last| (1.0..=1.0).contains(last)));
}

type Event = fn(&LockManager, &[FakeNode]);

#[test]
fn whatever_happens_to_a_minority_each_lock_is_listed_once_and_nothing_changes() {
    // After the first lock was listed, or before.
    let events: [(Event, bool, u32); 7] = [
        (
            |manager, _| drop(manager.lock("mine", TTL).unwrap()),
            true,
            0,
        ),
        (|_, nodes| nodes[0].refuse(), true, 0),
        // Three tries of the next step, and the nodes' views of what the first has found.
        (|_, nodes| nodes[0].hang(), true, 4),
        // The last one is asked about the keys alone.
        (|_, nodes| nodes[2].hang(), true, 1),
        (|_, nodes| nodes[0].restart_persisted(), true, 0),
        // Another one is scanned.
        (|_, nodes| nodes[0].hang(), false, 1),
        (|_, nodes| nodes[2].hang(), false, 1),
    ];
    for (event, is_late, timeouts) in events {
        let (clock, nodes, manager) = over_fakes(3);
        // The first two are scanned, so that only the first one tells of them.
        let held = many(&[nodes[0].clone(), nodes[2].clone()]);
        let mut locks = manager.locks("job").unwrap();
        let mut found = Vec::new();
        if is_late {
            found.push(locks.next().unwrap().unwrap().resource);
        }
        event(&manager, &nodes);
        found.extend(locks.map(|lock| lock.unwrap().resource));
        found.sort();
        assert_eq!(found, held);
        assert!(clock.elapsed() <= NODE_TIMEOUT * timeouts);
        let end = |name: &String| nodes[0].ttl_of(name).unwrap() + clock.elapsed();
        assert!(held.iter().all(|name| end(name) == TTL));
    }
}

#[test]
fn without_a_majority_the_list_ends_with_an_error_that_names_the_nodes() {
    for fail in [FakeNode::refuse, FakeNode::hang] {
        // From the beginning, or after the first lock. What was found stays.
        for is_late in [false, true] {
            let (_, nodes, manager) = over_fakes(3);
            let held = many(&nodes);
            let mut locks = manager.locks("").unwrap();
            if is_late {
                assert!(locks.next().unwrap().is_ok());
            }
            fail(&nodes[0]);
            fail(&nodes[2]);
            let (found, ends): (Vec<_>, Vec<_>) = locks.partition(Result::is_ok);
            assert!(found.len() < held.len() && found.is_empty() != is_late);
            let Err(error @ Error::Incomplete { nodes: reports, .. }) = &ends[0] else {
                panic!("{ends:?}");
            };
            assert_eq!(ends.len(), 1);
            let failed: Vec<&str> = reports.iter().map(|report| &*report.node).collect();
            assert_eq!(failed, [nodes[0].name(), nodes[2].name()], "{error}");
            let text = error.to_string();
            assert!(failed.iter().all(|name| text.contains(name)), "{text}");
            assert!(
                reports
                    .iter()
                    .all(|report| matches!(report.vote, Vote::Failed(_)))
            );
        }
    }
}
