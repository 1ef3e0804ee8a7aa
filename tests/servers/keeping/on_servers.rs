//! Keep-alive in real time: hundreds of locks, and servers that come back.

use std::sync::mpsc;
use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Error, KeepAlive, LockGuard, LockManager, LossCause, NodeReport, Protocol, Vote};
use redlatch_testing::{Server, Stalls, eventually, now, pause};

use crate::managers::{over, patient, processes_by};
use crate::waiters::slow_fakes;

const BOUND: Duration = Duration::from_secs(100);
const LONG: Duration = Duration::from_mins(10);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[track_caller]
fn kept(manager: &LockManager, name: &str, ttl: Duration) -> LockGuard {
    let request = manager.request(name).ttl(ttl);
    request.keep_alive(KeepAlive::unbounded()).lock().unwrap()
}

#[test]
fn hundreds_of_locks_are_healed_while_a_node_hangs_and_delay_no_renewal_of_others() {
    let nodes = FakeNode::cluster(3);
    let builder = LockManager::builder().fakes(&nodes);
    let manager = builder.node_timeout(ms(100)).build().unwrap();
    let keep = |count: usize, ttl| -> Vec<LockGuard> {
        let kept = |i| kept(&manager, &format!("job {i} {ttl:?}"), ttl);
        (0..count).map(kept).collect()
    };
    // Three hundred locks on two nodes each, because the third failed. With a node timeout for each they would be lost.
    nodes[1].refuse();
    let many = keep(300, ms(12_000));
    nodes[1].recover();
    // As many on all of them as need a renewal soon.
    let is_granted = |report: &NodeReport| matches!(report.vote, Vote::Granted);
    assert!(eventually(BOUND, || {
        let guard = kept(&manager, "probe", ms(12_000));
        guard.votes().iter().all(is_granted)
    }));
    let (stalls, ttl) = (Stalls::watch(), ms(1_800));
    let urgent = keep(20, ttl);
    nodes[2].hang();
    let (began, mut stalled, mut lost) = (now(), Duration::ZERO, Vec::new());
    while began.elapsed() < ms(7_000) && lost.is_empty() {
        pause(ms(50));
        stalled = stalled.max(stalls.longest());
        lost.extend(urgent.iter().filter_map(|guard| guard.check().err()));
    }
    // While that one hangs, the keys of all are set on the node that had failed.
    let is_set =
        |guard: &LockGuard| nodes[1].token_of(guard.resource()).as_deref() == Some(guard.token());
    let is_healed = || many.iter().all(is_set) && manager.stats().healed >= 300;
    let are_healed = eventually(BOUND, is_healed);
    stalled = stalled.max(stalls.longest());
    let ended = many.iter().find_map(|guard| guard.check().err());
    // Before the assertions, so that the guards of a test that fails are not in its way.
    nodes[2].recover();
    drop((many, urgent));
    let is_fine = lost.is_empty() || stalled > ttl / 3;
    assert!(is_fine, "nothing ran for {stalled:?}: {lost:?}");
    let is_fine = are_healed && ended.is_none() || stalled > ms(4_000);
    assert!(is_fine, "{stalled:?} {ended:?} {}", manager.stats());
}

#[test]
fn no_hook_is_called_once_the_lock_was_given_back() {
    let (_nodes, manager) = slow_fakes(3);
    let guard = manager.try_lock("job", ms(200)).unwrap();
    let (begun, has_begun) = mpsc::channel();
    let (go_on, goes_on) = mpsc::channel::<()>();
    guard
        .on_lost(move |_| {
            begun.send(()).unwrap();
            goes_on.recv().unwrap_err();
        })
        .unwrap();
    let (tell, told) = mpsc::channel();
    guard.on_lost(move |_| tell.send(()).unwrap()).unwrap();
    has_begun.recv_timeout(BOUND).unwrap();
    // While the first one runs, the second is still to come.
    drop(guard);
    drop(go_on);
    let is_gone = Err(mpsc::RecvTimeoutError::Disconnected);
    assert_eq!(told.recv_timeout(BOUND), is_gone);
}

/// The server executes the `SET` and the undo behind it when it goes on.
#[test]
fn a_kept_lock_gets_a_server_that_stood_still_while_it_was_taken_and_outlives_another_one() {
    let mut servers = Server::cluster(3);
    let manager = over(&servers).node_timeout(ms(500)).build().unwrap();
    // All servers are known before.
    kept(&manager, "first", LONG).unlock().unwrap();
    servers[2].stop();
    let guard = kept(&manager, "job", ms(6_000));
    servers[2].resume();
    let vote = &guard.votes()[2].vote;
    assert!(matches!(vote, Vote::Failed(_)), "{vote}");
    let has_key = || servers[2].get("job").as_deref() == Some(guard.token());
    assert!(eventually(BOUND, has_key), "{guard:?}");
    servers[0].kill();
    servers[0].restart();
    let has_key = || servers[0].get("job").as_deref() == Some(guard.token());
    assert!(eventually(BOUND, has_key), "{guard:?}");
    guard.check().unwrap();
    guard.unlock().unwrap();
    assert!(servers.iter().all(|server| server.get("job").is_none()));
}

/// The key ends while the server is away. It is another process afterwards, which does not know whether it has granted the
/// lock to others meanwhile.
#[test]
fn a_fenced_lock_is_not_set_again_on_a_server_that_was_away_for_longer_than_its_ttl() {
    // They write each command to disk before they answer it.
    let durable = ["--appendonly", "yes", "--appendfsync", "always"];
    let mut servers = [(); 3].map(|()| Server::start_with(&durable));
    let [manager] = processes_by(&over(&servers).node_timeout(ms(2_000)), Protocol::Fenced);
    let ttl = ms(6_000);
    let guard = kept(&manager, "job", ttl);
    servers[1].kill();
    pause(ttl + ms(100));
    servers[1].restart();
    let has_loaded = || servers[1].info("persistence").contains("loading:0");
    assert!(eventually(BOUND, has_loaded));
    for _ in 0..3 {
        guard.extend(ttl).unwrap();
    }
    assert_eq!(servers[1].get("job"), None);
    // With the next server away, too few are left that ever have the key.
    servers[2].kill();
    let cause = guard.wait_lost(BOUND).unwrap();
    assert!(matches!(cause, LossCause::Unreachable { .. }), "{cause}");
}

#[test]
fn a_lease_whose_own_key_lost_its_time_to_live_is_not_told_as_lost() {
    let servers = Server::cluster(3);
    let manager = patient(servers.iter().map(Server::url));
    let text = manager.lock("job", LONG).unwrap().into_lease().to_string();
    let adopt = |command: &[&str]| {
        for server in &servers {
            server.command(command);
        }
        manager.adopt(&text.parse().unwrap())
    };
    let result = adopt(&["PERSIST", "job"]);
    assert!(
        matches!(result, Err(Error::Unavailable { .. })),
        "{result:?}"
    );
    adopt(&["PEXPIRE", "job", "600000"])
        .unwrap()
        .unlock()
        .unwrap();
}
