//! Waiting clients while servers fail, forbid commands, or have other values under the keys of the wake-up.

use std::time::Duration;

use redis::Value;
use redlatch::{Cancel, Error, LockGuard, LockManager, Protocol};
use redlatch_testing::{Server, eventually, now, pause, side_by_side};

use crate::managers::{PATIENCE, over, processes_by};
use crate::servers::waiting::pass::leaves_by;
use crate::waiters::{
    BOUND, TTL, Waiting, asked, assert_no_node_failed, assert_nothing_is_left, cluster, got,
    process, processes,
};

const BELL: &str = "job:redlatch:bell";
const WAITING: &str = "job:redlatch:waiting";
const INTENT: &str = "job:redlatch:intent";
const DELAY: Duration = Duration::from_millis(250);

/// The holder gives the lock back, and the other one has it long before the end of its wait, at which it would try in any case.
#[track_caller]
fn assert_is_had(holder: LockGuard, waiting: Waiting) -> LockGuard {
    let released = now();
    holder.unlock().unwrap();
    let (guard, at) = waiting.end();
    assert!(at - released < BOUND / 2, "{:?}", at - released);
    guard
}

#[test]
fn a_first_node_that_dies_or_hangs_under_one_who_listens_costs_it_a_poll() {
    for is_killed in [true, false] {
        let mut servers = cluster(3);
        let builder = over(&servers).node_timeout(Duration::from_secs(2));
        let builder = builder.retry_delay(DELAY, DELAY);
        let [holder, waiter] = processes_by(&builder, Protocol::Classic);
        let guard = holder.lock("job", TTL).unwrap();
        let waiting = Waiting::listen(&waiter, &servers[0]);
        if is_killed {
            servers[0].kill();
        } else {
            servers[0].stop();
        }
        pause(DELAY * 4);
        assert!(!waiting.is_over());
        drop(assert_is_had(guard, waiting));
        if !is_killed {
            servers[0].resume();
            assert_nothing_is_left(&servers);
        }
    }
}

#[test]
fn something_else_under_the_keys_of_the_wake_up_harms_nobody() {
    let many = [vec!["RPUSH", BELL], vec!["1"; 10_000]].concat();
    let garbage: [&[&str]; 9] = [
        &many,
        &["SET", BELL, "text"],
        &["HSET", BELL, "field", "value"],
        &["SET", WAITING, "text"],
        &["RPUSH", WAITING, "element"],
        &["SADD", WAITING, "somebody for ever"],
        &["SET", INTENT, "text"],
        &["HSET", INTENT, "field", "value"],
        &["SET", "job:redlatch:bell:read", "text"],
    ];
    side_by_side(garbage, |garbage| {
        let servers = cluster(3);
        let holder = process(&servers, DELAY);
        let guard = holder.lock("job", TTL).unwrap();
        let reply = servers[0].command(garbage);
        assert!(matches!(reply, Value::Int(_) | Value::Okay), "{reply:?}");
        let writers = [(); 2].map(|()| Waiting::begin(&process(&servers, DELAY)));
        let process = process(&servers, DELAY);
        let reader = Waiting::of(move || process.rw_lock("job").ttl(TTL).try_read_for(BOUND));
        let polls = 8;
        pause(DELAY * polls);
        // For each delay of each of them.
        let count = asked(&servers[0]) / u64::from(polls * 3);
        assert!(count <= 30, "{:?}: {count}", &garbage[..3]);
        assert!(!reader.is_over());
        guard.unlock().unwrap();
        // Others may have been in the way, but no server has failed.
        let [one, two] = writers;
        side_by_side([one, two, reader], |waiting| {
            assert_no_node_failed(&waiting.end().0);
        });
    });
}

/// Of two who wait, the first has been woken for nothing too often, and takes no further bell from the second.
#[test]
fn one_whose_hints_came_to_nothing_does_not_listen_while_it_ignores_them() {
    let servers = cluster(3);
    // Each of them would look again after five minutes.
    let [holder, one, other] = processes(Protocol::Classic, &servers, BOUND * 5);
    let guard = holder.lock("job", TTL).unwrap();
    servers[0].command(&["RPUSH", BELL, "1", "1", "1"]);
    let cancel = Cancel::new();
    let disappointed = leaves_by(&one, &cancel);
    assert!(eventually(BOUND, || servers[0].count("blpop") >= 3));
    let listens = eventually(Duration::from_secs(1), || servers[0].blocked() > 0);
    assert!(!listens);

    let waiting = Waiting::listen(&other, &servers[0]);
    drop(assert_is_had(guard, waiting));
    cancel.cancel();
    assert!(matches!(got(disappointed), Err(Error::Cancelled { .. })));
    // What was announced for minutes is left.
    let is_free = || servers.iter().all(|server| server.get("job").is_none());
    assert!(eventually(BOUND, is_free));
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
            let (began, before) = (now(), asked(&servers[0]));
            let count = || asked(&servers[0]) - before;
            assert!(eventually(BOUND, || count() > 0), "{missing}");
            pause(DELAY * 4);
            let (count, elapsed) = (u128::from(count()), began.elapsed());
            let delays = elapsed.as_millis() / DELAY.as_millis();
            assert!(
                count <= 2 * (delays + 2),
                "{missing}: {count} in {elapsed:?}"
            );
            // No breaker is open.
            assert_no_node_failed(&assert_is_had(guard, waiting));
        }
        // It is remembered that it was refused.
        assert!(missing != "+blpop" || servers[0].count("blpop") == 0);
        assert_nothing_is_left(&servers);
    });
}
