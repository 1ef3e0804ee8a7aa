//! Waiting for a lock of another process: one server is asked, and a release wakes a waiting client.
//!
//! Two managers stand for two processes.

use std::time::Duration;

use redlatch::{Error, LockManager, Protocol};
use redlatch_testing::scripted::{Kind, Scripted};
use redlatch_testing::{Server, eventually, now, pause, within};

use crate::managers::PATIENCE;
use crate::waiters::{
    BOUND, LONG, SOON, TTL, Waiting, asked, assert_no_node_failed, assert_nothing_is_left, cluster,
    process,
};

#[test]
fn those_who_wait_ask_the_first_node_alone_and_seldom() {
    let servers = cluster(3);
    let [holder, waiter] = [(); 2].map(|()| process(&servers, Duration::from_secs(1)));
    let guard = holder.lock("job", TTL).unwrap();
    let waiting = Waiting::listen(&waiter, &servers[0]);
    let before: Vec<u64> = servers.iter().map(asked).collect();
    // All nodes are asked after eight seconds, and not before.
    pause(Duration::from_millis(2_500));
    let after: Vec<u64> = servers.iter().map(asked).collect();
    // Each time a look, and then it listens.
    let first = after[0] - before[0];
    assert!((2..=2 * 4).contains(&first), "{before:?} {after:?}");
    assert_eq!(before[1..], after[1..]);
    guard.unlock().unwrap();
    assert_no_node_failed(&waiting.end().0);
    assert_nothing_is_left(&servers);
}

#[test]
fn with_one_connection_a_poll_is_one_command_and_nobody_is_woken() {
    let servers = cluster(3);
    let delay = Duration::from_millis(500);
    let holder = process(&servers, delay);
    let waiter = LockManager::builder()
        .nodes(servers.iter().map(Server::url))
        .node_timeout(PATIENCE)
        .retry_delay(delay, delay)
        .pool_size(1)
        .build()
        .unwrap();
    let guard = holder.lock("job", TTL).unwrap();
    let scripts = || servers[0].count("eval") + servers[0].count("evalsha");
    let at_first = scripts();
    let waiting = Waiting::begin(&waiter);
    // The release of the first attempt, and a look.
    assert!(eventually(BOUND, || scripts() >= at_first + 2));
    let before = scripts();
    pause(delay * 5);
    let looks = scripts() - before;
    assert!((1..=6).contains(&looks), "{looks}");
    guard.unlock().unwrap();
    assert_no_node_failed(&waiting.end().0);
    assert_eq!(servers[0].count("blpop"), 0);
    assert_eq!(servers[0].count("sadd"), 0);
    assert_nothing_is_left(&servers);
}

#[test]
fn a_release_wakes_one_who_waits_long_before_its_next_look() {
    for (nodes, protocol) in [
        (1, Protocol::Classic),
        (3, Protocol::Classic),
        (3, Protocol::Fenced),
    ] {
        let servers = cluster(nodes);
        let [holder, waiter] = [(); 2].map(|()| {
            let builder = LockManager::builder().nodes(servers.iter().map(Server::url));
            let builder = builder.node_timeout(PATIENCE);
            let builder = builder.retry_delay(LONG, LONG).protocol(protocol);
            builder.build().unwrap()
        });
        if protocol == Protocol::Fenced {
            holder.open_nodes().unwrap();
        }
        let guard = holder.lock("job", TTL).unwrap();
        let waiting = Waiting::listen(&waiter, &servers[0]);
        let released = now();
        guard.unlock().unwrap();
        let (guard, at) = waiting.end();
        assert!(at - released < SOON, "{protocol:?}");
        assert_no_node_failed(&guard);
    }
}

#[test]
fn guards_that_are_dropped_and_locks_that_an_operator_gives_back_wake_as_well() {
    let servers = cluster(3);
    let [holder, waiter] = [(); 2].map(|()| process(&servers, LONG));
    let guard = holder.lock("job", TTL).unwrap();
    let waiting = Waiting::listen(&waiter, &servers[0]);
    let mut released = now();
    drop(guard);
    let (guard, at) = waiting.end();
    assert!(at - released < SOON);

    let waiting = Waiting::listen(&holder, &servers[0]);
    released = now();
    waiter.release("job", guard.token()).unwrap();
    assert!(waiting.end().1 - released < SOON);
}

#[test]
fn one_who_waits_at_a_unix_socket_is_woken() {
    let server = Server::start_with(&["--unixsocket", "{dir}/redis.sock"]);
    let url = format!("unix://{}/redis.sock", server.dir().display());
    let [holder, waiter] = [(); 2].map(|()| {
        let builder = LockManager::builder().node(&url).retry_delay(LONG, LONG);
        builder.node_timeout(PATIENCE).build().unwrap()
    });
    let guard = holder.lock("job", TTL).unwrap();
    let waiting = Waiting::listen(&waiter, &server);
    let released = now();
    guard.unlock().unwrap();
    assert!(waiting.end().1 - released < SOON);
}

#[test]
fn nobody_sleeps_longer_than_the_key_lives() {
    let servers = cluster(3);
    // Another implementation that has crashed.
    for server in &servers {
        server.hold("job", "of another port", 1_500);
    }
    let started = now();
    let (guard, at) = Waiting::begin(&process(&servers, LONG)).end();
    assert!(at - started < LONG / 2, "{:?}", at - started);
    assert_no_node_failed(&guard);
}

#[test]
fn what_another_port_gives_back_is_found_by_the_next_look() {
    const PORTS_RELEASE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
        return redis.call('DEL', KEYS[1]) else return 0 end";
    let servers = cluster(3);
    for server in &servers {
        server.hold("job", "of another port", 60_000);
    }
    let waiter = process(&servers, Duration::from_millis(300));
    let waiting = Waiting::listen(&waiter, &servers[0]);
    let released = now();
    for server in &servers {
        let delete = ["EVAL", PORTS_RELEASE, "1", "job", "of another port"];
        assert_eq!(server.command(&delete), redis::Value::Int(1));
    }
    let (guard, at) = waiting.end();
    assert!(at - released < SOON);
    assert_no_node_failed(&guard);
}

#[test]
fn one_whose_time_is_short_does_not_wait_longer() {
    let servers = cluster(3);
    let [holder, waiter] = [(); 2].map(|()| process(&servers, LONG));
    let _guard = holder.lock("job", TTL).unwrap();
    let micros = [0, 1, 500, 1_000, 2_000, 20_000, 300_000];
    for timeout in micros.map(Duration::from_micros) {
        let started = now();
        let result = waiter.try_lock_for("job", TTL, timeout);
        assert!(matches!(result, Err(Error::Held { .. })), "{result:?}");
        assert!(now() - started < SOON, "{timeout:?}");
    }
    assert_eq!(servers[0].blocked(), 0);
}

/// A server that has a lock and lets people listen.
fn busy(listen: impl Fn(&redlatch_testing::scripted::Peer) + Send + Sync + 'static) -> Scripted {
    Scripted::start(move |peer, command| match command.kind() {
        Kind::Set => peer.say(b"$-1\r\n"),
        Kind::Release => peer.say(b"*1\r\n:50000\r\n"),
        Kind::Look => peer.say(b"*4\r\n:1\r\n:50000\r\n:1\r\n$0\r\n\r\n"),
        Kind::Listen => listen(peer),
        Kind::Retake | Kind::Pass | Kind::Extend | Kind::Probe | Kind::Other => {
            peer.say(command.consent());
        }
    })
}

fn waiter_at(server: &Scripted, delay: Duration) -> LockManager {
    LockManager::builder()
        .node(server.url())
        .node_timeout(Duration::from_secs(2))
        .retry_delay(delay, delay)
        .build()
        .unwrap()
}

#[test]
fn a_server_that_is_late_to_end_the_listening_is_not_taken_for_one_that_failed() {
    let server = busy(|peer| peer.wait(BOUND));
    let waiter = waiter_at(&server, Duration::from_millis(50));
    let wait = Duration::from_secs(3);
    let started = now();
    let result = within(BOUND, move || waiter.try_lock_for("job", TTL, wait));
    assert!(matches!(result, Err(Error::Held { .. })), "{result:?}");
    assert!(now() - started < wait * 3);
    assert!(server.heard_of(Kind::Look).len() >= 2);
    // A node that failed is probed.
    assert!(server.heard_of(Kind::Probe).is_empty());
}

#[test]
fn one_whose_connection_breaks_listens_again_for_the_rest_of_the_time() {
    let server = Scripted::start(|peer, command| match command.kind() {
        Kind::Set => peer.say(b"$-1\r\n"),
        Kind::Release => peer.say(b"*1\r\n:50000\r\n"),
        Kind::Look => peer.say(b"*4\r\n:1\r\n:50000\r\n:1\r\n$0\r\n\r\n"),
        Kind::Listen if command.connection == 0 => {
            peer.wait(Duration::from_millis(700));
            peer.close();
        }
        Kind::Listen | Kind::Retake | Kind::Pass | Kind::Extend | Kind::Probe | Kind::Other => {
            peer.say(command.consent());
        }
    });
    let waiter = waiter_at(&server, Duration::from_secs(1));
    let wait = Duration::from_millis(1_500);
    let result = within(BOUND, move || waiter.try_lock_for("job", TTL, wait));
    assert!(matches!(result, Err(Error::Held { .. })), "{result:?}");
    let listened = server.heard_of(Kind::Listen);
    let seconds = |at: usize| -> f64 { listened[at].words[2].parse().unwrap() };
    assert!((seconds(0) - 1.0).abs() < 0.01, "{listened:?}");
    assert!(seconds(1) < 0.4, "{listened:?}");
}

#[test]
fn a_server_that_refuses_a_look_has_not_failed() {
    let server = Scripted::start(|peer, command| match command.kind() {
        Kind::Set => peer.say(b"$-1\r\n"),
        Kind::Release => peer.say(b"*1\r\n:50000\r\n"),
        Kind::Look => peer.say(b"-LOADING Redis is loading the dataset in memory\r\n"),
        Kind::Listen | Kind::Retake | Kind::Pass | Kind::Extend | Kind::Probe | Kind::Other => {
            peer.say(command.consent());
        }
    });
    let waiter = waiter_at(&server, Duration::from_millis(50));
    let wait = Duration::from_millis(500);
    let result = within(BOUND, move || waiter.try_lock_for("job", TTL, wait));
    assert!(matches!(result, Err(Error::Held { .. })), "{result:?}");
    let looks = server.heard_of(Kind::Look).len();
    assert!((2..=11).contains(&looks), "{looks}");
    assert!(server.heard_of(Kind::Probe).is_empty());
}
