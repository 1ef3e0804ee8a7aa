//! Waiting clients while servers fail, forbid commands, or have other values under the keys of the wake-up.

use std::time::Duration;

use redis::Value;
use redlatch::LockManager;
use redlatch_testing::{Server, eventually, now, pause, side_by_side};

use crate::managers::{BOTH, PATIENCE, over, processes_by};
use crate::waiters::{
    BOUND, LONG, SOON, TTL, Waiting, asked, assert_no_node_failed, assert_nothing_is_left, cluster,
    process, process_with,
};

const BELL: &str = "job:redlatch:bell";
const WAITING: &str = "job:redlatch:waiting";
const DELAY: Duration = Duration::from_millis(250);

#[test]
fn a_first_node_that_dies_or_hangs_under_one_who_listens_costs_it_a_poll() {
    for is_killed in [true, false] {
        let mut servers = cluster(3);
        let node_timeout = Duration::from_secs(1);
        let [holder, waiter] = [(); 2].map(|()| process_with(&servers, DELAY, node_timeout));
        let guard = holder.lock("job", TTL).unwrap();
        let waiting = Waiting::listen(&waiter, &servers[0]);
        if is_killed {
            servers[0].kill();
        } else {
            servers[0].stop();
        }
        pause(DELAY * 4);
        assert!(!waiting.is_over());
        let released = now();
        guard.unlock().unwrap();
        let (guard, at) = waiting.end();
        assert!(at - released < LONG, "{:?}", at - released);
        drop(guard);
        if !is_killed {
            servers[0].resume();
            assert_nothing_is_left(&servers);
        }
    }
}

#[test]
fn a_first_node_that_has_forgotten_the_lock_is_not_asked_all_the_time() {
    let mut servers = cluster(3);
    let [holder, waiter] = [(); 2].map(|()| process(&servers, DELAY));
    let guard = holder.lock("job", TTL).unwrap();
    let waiting = Waiting::listen(&waiter, &servers[0]);
    servers[0].kill();
    servers[0].restart();
    // Its counts begin anew. Three hints that come to nothing, and an attempt after each delay, of five commands at most.
    let polls = 12_u32;
    pause(DELAY * polls);
    let count = asked(&servers[0]);
    assert!(count <= u64::from(polls + 2) * 4 * 5, "{count}");
    assert!(!waiting.is_over());
    let released = now();
    guard.unlock().unwrap();
    let (guard, at) = waiting.end();
    assert!(at - released < LONG);
    assert_no_node_failed(&guard);
    drop(guard);
    assert_nothing_is_left(&servers);
}

/// Lets one wait with this under a key of the wake-up, and returns how much it has asked of the first node for each delay.
#[track_caller]
fn commands_with(garbage: &[&str], processes: usize) -> u64 {
    let servers = cluster(3);
    let holder = process(&servers, DELAY);
    let waiters: Vec<LockManager> = (0..processes).map(|_| process(&servers, DELAY)).collect();
    let guard = holder.lock("job", TTL).unwrap();
    assert!(matches!(
        servers[0].command(garbage),
        Value::Int(_) | Value::Okay
    ));
    let waiting: Vec<_> = waiters.iter().map(Waiting::begin).collect();
    let polls = 8;
    pause(DELAY * polls);
    let count = asked(&servers[0]) / u64::from(polls);
    assert!(waiting.iter().all(|waiting| !waiting.is_over()));
    guard.unlock().unwrap();
    // Others may have been in the way, but no server has failed.
    side_by_side(waiting, |waiting| assert_no_node_failed(&waiting.end().0));
    count
}

#[test]
fn a_release_of_what_another_has_wakes_nobody() {
    for protocol in BOTH {
        let servers = cluster(1);
        let [manager] = processes_by(&over(&servers), protocol);
        servers[0].hold("job", "another", 600_000);
        servers[0].command(&["SADD", WAITING, "1"]);
        // An attempt that fails gives back what it may have got.
        assert!(manager.try_lock("job", TTL).is_err());
        assert_eq!(servers[0].command(&["EXISTS", BELL]), Value::Int(0));
        assert_eq!(servers[0].command(&["EXISTS", "job"]), Value::Int(1));
    }
}

#[test]
fn something_else_under_the_keys_of_the_wake_up_harms_nobody() {
    let many = [vec!["RPUSH", BELL], vec!["1"; 10_000]].concat();
    let cases: [&[&str]; 6] = [
        &many,
        &["SET", BELL, "text"],
        &["HSET", BELL, "field", "value"],
        &["SET", WAITING, "text"],
        &["RPUSH", WAITING, "element"],
        &["SADD", WAITING, "somebody for ever"],
    ];
    let cases = cases.map(|garbage| [(garbage, 1), (garbage, 3)]);
    side_by_side(cases.concat(), |(garbage, processes)| {
        let count = commands_with(garbage, processes);
        let most = 30 * u64::try_from(processes).unwrap();
        assert!(count <= most, "{:?}: {count}", &garbage[..3]);
    });
}

/// Of two who wait, the first has been woken for nothing too often, and takes no further bell from the second.
#[test]
fn one_whose_hints_came_to_nothing_does_not_listen_while_it_ignores_them() {
    let servers = cluster(3);
    let holder = process(&servers, LONG);
    let guard = holder.lock("job", TTL).unwrap();
    servers[0].command(&["RPUSH", BELL, "1", "1", "1"]);
    let disappointed = Waiting::begin(&process(&servers, SOON));
    assert!(eventually(BOUND, || servers[0].count("blpop") >= 3));
    let listens = eventually(Duration::from_secs(1), || servers[0].blocked() > 0);
    assert!(!listens);

    let waiting = Waiting::listen(&process(&servers, LONG), &servers[0]);
    let released = now();
    guard.unlock().unwrap();
    let (guard, at) = waiting.end();
    assert!(at - released < SOON, "{:?}", at - released);
    drop(guard);
    drop(disappointed.end());
    assert_nothing_is_left(&servers);
}

/// All that a classic client needs, and is woken with.
const ALL: &str = "~job ~*:redlatch:* +set +eval +get +del +pttl +pexpire +ping +info +exists +sadd +rpush +blpop +select";

#[test]
fn without_the_permissions_of_the_wake_up_it_is_polled_and_releases_work() {
    let each = "+exists +sadd +rpush +blpop +pexpire ~*:redlatch:*";
    side_by_side(each.split(' '), |missing| {
        let servers = cluster(3);
        for server in &servers {
            let user = ["ACL", "SETUSER", "user", "reset", "on", ">change-me"];
            let rules = ALL.split(' ').filter(|rule| *rule != missing);
            let words: Vec<&str> = user.into_iter().chain(rules).collect();
            assert_eq!(server.command(&words), Value::Okay);
        }
        let [holder, waiter] = [(); 2].map(|()| {
            let url = |server: &Server| format!("redis://user:change-me@{}", server.name());
            let builder = LockManager::builder().nodes(servers.iter().map(url));
            let builder = builder.node_timeout(PATIENCE);
            builder.retry_delay(DELAY, DELAY).build().unwrap()
        });
        for _ in 0..2 {
            let guard = holder.lock("job", TTL).unwrap();
            let waiting = Waiting::begin(&waiter);
            pause(DELAY * 2);
            let before = asked(&servers[0]);
            pause(DELAY * 4);
            let count = asked(&servers[0]) - before;
            assert!((1..=2 * 6).contains(&count), "{missing}: {count}");
            let released = now();
            guard.unlock().unwrap();
            let (guard, at) = waiting.end();
            assert!(at - released < SOON, "{missing}: {:?}", at - released);
            // No breaker is open.
            assert_no_node_failed(&guard);
        }
        if missing == "+blpop" {
            // It is remembered that it was refused.
            assert!(servers[0].count("blpop") == 0);
        }
        assert_nothing_is_left(&servers);
    });
}
