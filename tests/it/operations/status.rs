//! `LockManager::status`: what it tells about a lock. It changes nothing.

use std::time::Duration;

use redis::Value;
use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, LockManager, LockStatus, NodeError, NodeStatus, View};
use redlatch_testing::scripted::{Kind, Scripted};
use redlatch_testing::{BlackHole, Server, eventually, within};

use crate::managers::patient;

const TTL: Duration = Duration::from_secs(10);
const NODE_TIMEOUT: Duration = Duration::from_millis(50);
/// Of servers, of which some are stopped; a healthy one answers in this time on a busy machine, too.
const SERVER_TIMEOUT: Duration = Duration::from_secs(2);
/// Only a hang takes this long.
const BOUND: Duration = Duration::from_secs(50);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn cluster(n: usize) -> (FakeClock, Vec<FakeNode>, LockManager) {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(n, &clock);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    (clock, nodes, manager)
}

fn manager_of(urls: impl IntoIterator<Item = String>) -> LockManager {
    let builder = LockManager::builder().nodes(urls);
    builder.node_timeout(SERVER_TIMEOUT).build().unwrap()
}

/// Who holds it and for how long, to the 100 ns that the drift is rounded up by.
#[track_caller]
fn holder(status: &LockStatus) -> (&str, Duration) {
    let LockStatus::Held {
        token, remaining, ..
    } = status
    else {
        panic!("{status}");
    };
    (token, *remaining)
}

#[track_caller]
fn assert_free(status: &LockStatus) {
    assert!(matches!(status, LockStatus::Free { .. }), "{status}");
}

#[track_caller]
fn assert_blocked(status: &LockStatus) {
    assert!(matches!(status, LockStatus::Blocked { .. }), "{status}");
}

#[track_caller]
fn assert_unknown(status: &LockStatus) {
    assert!(matches!(status, LockStatus::Unknown { .. }), "{status}");
}

fn is_silent(node: &NodeStatus) -> bool {
    matches!(node.view, View::Failed(NodeError::TimedOut))
}

fn is_held(node: &NodeStatus) -> bool {
    matches!(node.view, View::Held { .. })
}

/// The keys with what they have left.
fn keys(nodes: &[FakeNode], resource: &str) -> Vec<(Option<String>, Option<Duration>)> {
    let key = |node: &FakeNode| (node.token_of(resource), node.ttl_of(resource));
    nodes.iter().map(key).collect()
}

#[test]
fn a_lock_is_free_then_held_by_its_guard_for_what_the_guard_says_then_free_again() {
    let (clock, _, manager) = cluster(5);
    assert_free(&manager.status("report").unwrap());
    let guard = manager.lock("report", TTL).unwrap();
    let status = manager.status("report").unwrap();
    assert_eq!(holder(&status), (guard.token(), guard.remaining()));
    assert!(status.nodes().iter().all(is_held));

    // What is left has less of a drift than the whole had.
    clock.advance(Duration::from_secs(5));
    let status = manager.status("report").unwrap();
    assert_eq!(holder(&status).1 + Duration::from_nanos(100), ms(4_948));
    assert!(holder(&status).1 > guard.remaining());

    guard.unlock().unwrap();
    assert_free(&manager.status("report").unwrap());
}

#[test]
fn another_managers_lock_and_another_programs_lock_are_seen_alike() {
    let (_, nodes, manager) = cluster(3);
    let other = LockManager::builder().fakes(&nodes).build().unwrap();
    let guard = other.lock("report", TTL).unwrap();
    assert_eq!(holder(&manager.status("report").unwrap()).0, guard.token());
    for node in &nodes {
        node.hold("job", "{\"host\":\"a\"}", TTL);
    }
    assert_eq!(
        holder(&manager.status("job").unwrap()).0,
        "{\"host\":\"a\"}"
    );
}

#[test]
fn what_remains_is_the_quorumth_largest_time_and_a_minority_is_nobody() {
    let (_, nodes, manager) = cluster(5);
    for (node, seconds) in nodes.iter().zip([1, 40, 20, 30]) {
        node.hold("report", "t", Duration::from_secs(seconds));
    }
    let status = manager.status("report").unwrap();
    let (token, remaining) = holder(&status);
    assert_eq!(token, "t");
    assert_eq!(remaining + Duration::from_nanos(100), ms(19_798));

    for node in &nodes[..2] {
        node.hold("other", "t", TTL);
    }
    let status = manager.status("other").unwrap();
    assert_free(&status);
    assert_eq!(
        status.nodes().iter().filter(|node| is_held(node)).count(),
        2
    );
    assert!(manager.try_lock("other", TTL).is_ok());
}

#[test]
fn split_votes_and_a_minority_that_blocks_are_nobodys_and_not_to_be_had() {
    let (clock, nodes, manager) = cluster(4);
    for (node, token) in nodes.iter().zip(["a", "a", "b", "b"]) {
        node.hold("split", token, TTL);
    }
    for node in &nodes[..2] {
        node.hold("half", "a", TTL);
    }
    for resource in ["split", "half"] {
        assert_blocked(&manager.status(resource).unwrap());
        let refused = manager.try_lock(resource, TTL);
        assert!(matches!(refused, Err(Error::Held { .. })), "{refused:?}");
    }
    clock.advance(TTL);
    for resource in ["split", "half"] {
        assert_free(&manager.status(resource).unwrap());
    }
}

#[test]
fn a_lock_whose_lease_is_over_is_held_for_nothing_until_its_keys_are_gone() {
    let (clock, _, manager) = cluster(3);
    let guard = manager.lock("report", TTL).unwrap();
    clock.advance(ms(9_999));
    guard.check().unwrap_err();
    let status = manager.status("report").unwrap();
    assert_eq!(holder(&status), (guard.token(), Duration::ZERO));
    assert!(matches!(
        manager.try_lock("report", TTL),
        Err(Error::Held { .. })
    ));
    clock.advance(ms(1));
    assert_free(&manager.status("report").unwrap());
}

#[test]
fn a_minority_that_is_down_hides_nothing_and_a_majority_leaves_it_unknown() {
    let (_, nodes, manager) = cluster(5);
    let guard = manager.lock("report", TTL).unwrap();
    for node in &nodes[..2] {
        node.refuse();
    }
    assert_eq!(holder(&manager.status("report").unwrap()).0, guard.token());
    assert_free(&manager.status("other").unwrap());

    nodes[2].refuse();
    for resource in ["report", "other"] {
        let status = manager.status(resource).unwrap();
        assert_unknown(&status);
        // Asked once more, because the others are no majority.
        for node in &status.nodes()[..3] {
            let refused = matches!(node.view, View::Failed(NodeError::Connect { .. }));
            assert!(refused, "{node}");
        }
        assert!(status.to_string().contains(nodes[0].name()), "{status}");
    }
}

#[test]
fn keys_that_a_silent_node_may_complete_are_unknown_and_others_are_not() {
    let (_, nodes, manager) = cluster(5);
    for node in &nodes[..2] {
        node.hold("report", "a", TTL);
    }
    nodes[2].hold("split", "b", TTL);
    nodes[3].hold("split", "a", TTL);
    nodes[4].refuse();
    // Three nodes without a key are enough; two with it and one that is silent may be a holder.
    assert_free(&manager.status("none").unwrap());
    nodes[3].hold("report", "b", TTL);
    assert_unknown(&manager.status("report").unwrap());
    assert_blocked(&manager.status("split").unwrap());
}

#[test]
fn a_hung_node_costs_one_node_timeout_and_is_then_left_out_unless_it_is_needed() {
    let (clock, nodes, manager) = cluster(5);
    let guard = manager.lock("report", TTL).unwrap();
    nodes[1].hang();
    let status = manager.status("report").unwrap();
    assert!(is_silent(&status.nodes()[1]), "{status}");
    assert_eq!(clock.elapsed(), NODE_TIMEOUT);
    let status = manager.status("report").unwrap();
    let node = status.nodes()[1].to_string();
    assert!(node.contains("left out, it failed a moment ago: no answer"));
    assert_eq!(holder(&status).0, guard.token());
    assert_eq!(clock.elapsed(), NODE_TIMEOUT);

    // Two, two and one that may decide.
    for (node, token) in [(0, "a"), (2, "a"), (3, "b")] {
        nodes[node].hold("close", token, TTL);
    }
    let status = manager.status("close").unwrap();
    assert!(is_silent(&status.nodes()[1]), "{status}");
    assert_unknown(&status);
    assert_eq!(clock.elapsed(), NODE_TIMEOUT * 2);
}

#[test]
fn all_nodes_are_asked_before_any_reply_is_read() {
    let (clock, nodes, manager) = cluster(5);
    for node in &nodes {
        node.delay(ms(30));
    }
    assert_free(&manager.status("report").unwrap());
    assert_eq!(clock.elapsed(), ms(30));
}

#[test]
fn bad_names_are_refused_as_for_a_lock_and_the_prefix_counts() {
    let (_, nodes, manager) = cluster(3);
    for name in [String::new(), "x".repeat(64 * 1024 + 1)] {
        let refused = manager.status(&name);
        assert!(matches!(refused, Err(Error::InvalidResource { .. })));
    }
    assert_free(&manager.status("line\r\nSET x y\r\n").unwrap());
    let builder = LockManager::builder().fakes(&nodes).key_prefix("app:");
    let prefixed = builder.build().unwrap();
    let guard = prefixed.lock("report", TTL).unwrap();
    assert_eq!(holder(&prefixed.status("report").unwrap()).0, guard.token());
    assert_eq!(
        holder(&manager.status("app:report").unwrap()).0,
        guard.token()
    );
    assert_free(&manager.status("report").unwrap());
}

#[test]
fn to_look_changes_no_key_no_time_and_no_answer_to_others() {
    let (clock, nodes, manager) = cluster(5);
    let guard = manager.lock("report", TTL).unwrap();
    nodes[4].hold("report", "someone else", TTL);
    let before = keys(&nodes, "report");
    for _ in 0..100 {
        holder(&manager.status("report").unwrap());
        assert_free(&manager.status("other").unwrap());
    }
    assert_eq!(keys(&nodes, "report"), before);
    assert_eq!(keys(&nodes, "other"), vec![(None, None); 5]);
    assert_eq!(clock.elapsed(), Duration::ZERO);
    guard.extend(TTL * 2).unwrap();
    guard.unlock().unwrap();
}

#[test]
fn keys_on_servers_that_are_no_locks_are_told_for_what_they_are() {
    let servers = Server::cluster(3);
    let manager = manager_of(servers.iter().map(Server::url));
    for server in &servers {
        server.command(&["LPUSH", "list", "x"]);
        server.command(&["SET", "forever", "x\ny"]);
    }
    for (key, what) in [("list", "another type"), ("forever", "3 bytes")] {
        let status = manager.status(key).unwrap();
        assert_blocked(&status);
        assert!(status.nodes()[0].to_string().contains(what), "{status}");
    }
    // One of them stands in nobody's way.
    servers[1].command(&["DEL", "list"]);
    servers[2].command(&["DEL", "list"]);
    assert_free(&manager.status("list").unwrap());
    let guard = manager.lock("list", TTL).unwrap();
    assert_eq!(holder(&manager.status("list").unwrap()).0, guard.token());
    assert_eq!(servers[0].pttl("list"), -1);
    assert_eq!(servers[0].pttl("forever"), -1);
}

#[test]
fn any_bytes_that_another_program_stored_are_shown_safely_and_told_apart() {
    let servers = Server::cluster(3);
    let manager = manager_of(servers.iter().map(Server::url));
    let set = |server: &Server, key: &str, value: &[u8]| {
        let client = redis::Client::open(server.url()).unwrap();
        let mut connection = client.get_connection().unwrap();
        let mut cmd = redis::cmd("SET");
        let reply: Value = cmd
            .arg(key)
            .arg(value)
            .arg("PX")
            .arg(60_000)
            .query(&mut connection)
            .unwrap();
        assert_eq!(reply, Value::Okay);
    };
    let long = vec![b'x'; 1_000_000];
    let longer = vec![b'x'; 1_000_001];
    for server in &servers {
        set(server, "binary", b"\xff\0\r\n+OK\r\n$-1\r\n");
        set(server, "empty", b"");
        set(server, "long", &long);
    }
    let binary = manager.status("binary").unwrap();
    assert_eq!(holder(&binary).0, "\\xff\\0\\r\\n+OK\\r\\n$-1\\r\\n");
    assert!(!binary.to_string().contains(char::is_control));
    assert_eq!(holder(&manager.status("empty").unwrap()).0, "");
    let status = manager.status("long").unwrap();
    let (token, _) = holder(&status);
    assert!(
        token.len() < 600 && token.ends_with("(1000000 bytes)"),
        "{token}"
    );
    // Invalid bytes that look alike elsewhere are two tokens here.
    for (server, value) in servers.iter().zip([b"\xff", b"\xfe", b"\xfd"]) {
        set(server, "apart", value);
    }
    assert_blocked(&manager.status("apart").unwrap());
    for (server, value) in servers.iter().zip([&long[..], &longer, b"x"]) {
        set(server, "lengths", value);
    }
    assert_blocked(&manager.status("lengths").unwrap());
}

#[test]
fn servers_that_are_stopped_or_killed_bound_the_look_and_what_they_were_sent_does_no_harm() {
    let mut servers = Server::cluster(5);
    let manager = manager_of(servers.iter().map(Server::url));
    let guard = manager.lock("report", TTL * 60).unwrap();
    let look = |resource: &'static str| {
        let manager = manager.clone();
        within(BOUND, move || manager.status(resource).unwrap())
    };
    servers[0].stop();
    servers[1].kill();
    assert_eq!(holder(&look("report")).0, guard.token());
    servers[2].stop();
    assert_unknown(&look("report"));
    assert_unknown(&look("other"));
    servers[0].resume();
    servers[2].resume();
    servers[1].restart();
    let all = eventually(BOUND, || {
        let status = manager.status("report").unwrap();
        status.nodes().iter().filter(|node| is_held(node)).count() == 4
    });
    assert!(all);
    for server in [&servers[0], &servers[2], &servers[3], &servers[4]] {
        assert_eq!(server.get("report").as_deref(), Some(guard.token()));
        assert_eq!(server.keys(), 1);
    }
    guard.unlock().unwrap();
}

#[test]
fn a_node_that_takes_nobody_in_and_one_that_answers_nonsense_are_failures_of_these_two() {
    let hole = BlackHole::open();
    let nonsense = Scripted::start(|peer, command| peer.say(command.consent()));
    let servers = Server::cluster(3);
    let urls = [hole.url(), nonsense.url()].into_iter();
    let urls = urls.chain(servers.iter().map(Server::url));
    let manager = manager_of(urls);
    let status = within(BOUND, move || manager.status("report").unwrap());
    assert_free(&status);
    assert!(nonsense.heard_of(Kind::Other).len() == 1);
    for node in status.nodes() {
        if node.node.ends_with(&format!(":{}", nonsense.port())) {
            let told = matches!(node.view, View::Failed(NodeError::Protocol { .. }));
            assert!(told, "{node}");
        }
    }
}

#[test]
fn a_thousand_looks_at_a_lock_that_others_take_in_turn_disturb_nobody() {
    let servers = Server::cluster(3);
    let [holders, looker] = [(); 2].map(|()| patient(servers.iter().map(Server::url)));
    let rounds = 100;
    let worker = std::thread::spawn(move || {
        for _ in 0..rounds {
            let guard = holders.try_lock("report", TTL).unwrap();
            assert_eq!(guard.votes().len(), 3);
            guard.extend(TTL * 2).unwrap();
            guard.unlock().unwrap();
        }
    });
    let (mut looks, mut held) = (0, 0);
    while looks < 1000 || !worker.is_finished() {
        let status = looker.status("report").unwrap();
        held += usize::from(matches!(status, LockStatus::Held { .. }));
        assert!(!matches!(status, LockStatus::Unknown { .. }), "{status}");
        looks += 1;
    }
    worker.join().unwrap();
    assert!(held > 0);
    for server in &servers {
        assert_eq!(server.keys(), 0);
    }
}

#[test]
fn a_held_lock_on_servers_keeps_its_value_and_its_end() {
    let servers = Server::cluster(3);
    let manager = manager_of(servers.iter().map(Server::url));
    let guard = manager.lock("report", TTL).unwrap();
    let end = |server: &Server| -> i64 {
        redis::from_redis_value(server.command(&["EVAL", END, "1", "report"])).unwrap()
    };
    let ends = || -> Vec<i64> { servers.iter().map(end).collect() };
    let before = ends();
    for _ in 0..50 {
        let status = manager.status("report").unwrap();
        let (token, remaining) = holder(&status);
        assert_eq!(token, guard.token());
        assert!(remaining + ms(1) >= guard.remaining(), "{remaining:?}");
        assert!(remaining < TTL);
    }
    for (before, after) in before.into_iter().zip(ends()) {
        assert!(before.abs_diff(after) <= 2, "{before} {after}");
    }
    for server in &servers {
        assert_eq!(server.get("report").as_deref(), Some(guard.token()));
    }
}

/// Reads when a key expires by the server's clock; the two readings of it may be some milliseconds apart.
const END: &str = "local now = redis.call('TIME')
    return now[1] * 1000 + math.floor(now[2] / 1000) + redis.call('PTTL', KEYS[1])";
