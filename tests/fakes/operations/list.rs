//! `LockManager::locks` over fake nodes: which locks it finds, and what it does about nodes that fail.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, ListedLock, LockManager, LockStatus, Protocol, Vote};

use crate::managers::{invalid_field, over_fakes, processes_by};

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
fn each_lock_that_is_held_or_rests_is_listed_with_its_status() {
    let (clock, nodes, manager) = over_fakes(3);
    assert!(list(&manager, "").is_empty());
    let request = manager.request("report").ttl(TTL).holder("web-3 4711");
    let guard = request.at_least(TTL * 2).lock().unwrap();
    hold(&nodes[1..], &["of another program"]);
    let locks = list(&manager, "");
    let is_mine = |lock: &ListedLock| matches!(&lock.status, LockStatus::Held { token, holder: Some(_), .. } if token == guard.token());
    assert!(is_mine(&locks[1]) && locks[1].slot.is_none());
    assert_eq!(locks[1].status.nodes().len(), 3);
    let told = [
        "\"of another program\": held by token, for another 9.9s, on 2 of 3 nodes".to_owned(),
        format!("\"report\": {:#}, on 3 of 3 nodes", locks[1].status),
    ];
    assert!(locks.iter().map(ToString::to_string).eq(told));

    let token = guard.token().to_owned();
    guard.unlock().unwrap();
    clock.advance(TTL);
    let locks = list(&manager, "");
    let rests = format!(
        "\"report\": {:#}, as rest:{token}, on 3 of 3 nodes",
        locks[0].status
    );
    assert_eq!((locks.len(), locks[0].to_string()), (1, rests));
    clock.advance(TTL * 2);
    let _reader = manager.rw_lock("report").try_read().unwrap();
    let locks = list(&manager, "");
    let read = format!("\"report\": {:#}, on 3 of 3 nodes", locks[0].status);
    assert!(read.contains(": read by 1, "), "{read}");
    assert_eq!((locks.len(), locks[0].to_string()), (1, read));
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
fn a_prefix_means_itself_whatever_is_in_it() {
    let (_, nodes, manager) = over_fakes(3);
    // Each is the beginning of itself alone, but for that of all.
    let all = [
        "job*", "job?x", "job[a]", "job\\", "joba", "Job", "job\n", "j\u{f6}b", "*",
    ];
    hold(&nodes, &all);
    for name in all {
        assert_eq!(names(&manager, name), [name]);
    }
    assert_eq!(names(&manager, "job["), ["job[a]"]);
    assert_eq!(list(&manager, "").len(), all.len());
    assert!(list(&manager, "nothing").is_empty());
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

/// What happens after the first lock was listed.
type Event = fn(&LockManager, &[FakeNode]);

#[test]
fn whatever_happens_to_a_minority_in_the_middle_each_lock_is_listed_once_and_nothing_changes() {
    let events: [(Event, Duration); 5] = [
        (
            |manager, _| drop(manager.lock("mine", TTL).unwrap()),
            Duration::ZERO,
        ),
        (|_, nodes| nodes[0].refuse(), Duration::ZERO),
        // Three tries of the next step, and the nodes' views of what the first has found.
        (|_, nodes| nodes[0].hang(), NODE_TIMEOUT * 4),
        // The last one is asked about the keys alone.
        (|_, nodes| nodes[2].hang(), NODE_TIMEOUT),
        (|_, nodes| nodes[0].restart_persisted(), Duration::ZERO),
    ];
    for (event, longest) in events {
        let (clock, nodes, manager) = over_fakes(3);
        // The first two are scanned, so that only the first one tells of them.
        let held = many(&[nodes[0].clone(), nodes[2].clone()]);
        let mut locks = manager.locks("job").unwrap();
        let mut found = vec![locks.next().unwrap().unwrap().resource];
        event(&manager, &nodes);
        found.extend(locks.map(|lock| lock.unwrap().resource));
        found.sort();
        assert_eq!(found, held);
        assert!(clock.elapsed() <= longest);
        let end = |name: &String| nodes[0].ttl_of(name).unwrap() + clock.elapsed();
        assert!(held.iter().all(|name| end(name) == TTL));
    }
}

#[test]
fn a_node_that_hangs_costs_one_node_timeout_and_another_one_is_scanned() {
    for hung in [0, 2] {
        let (clock, nodes, manager) = over_fakes(3);
        let held = many(&nodes);
        nodes[hung].hang();
        assert_eq!(names(&manager, ""), held);
        assert_eq!(clock.elapsed(), NODE_TIMEOUT);
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
