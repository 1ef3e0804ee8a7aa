//! All nodes are asked at once, while some hang, break, are busy or have two names.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, NodeError, Protocol, Vote};
use redlatch_testing::scripted::{Kind, Scripted, in_order};
use redlatch_testing::{BlackHole, Server, eventually, within};

use crate::servers::fanout::order::{is_granted, overlapped};

const TTL: Duration = Duration::from_secs(10);
const BOUND: Duration = Duration::from_mins(1);
const NODE_TIMEOUT: Duration = Duration::from_millis(50);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[test]
fn nodes_that_hang_keep_the_reading_of_no_other_waiting() {
    for (protocol, are_new) in [
        (Protocol::Classic, false),
        (Protocol::Classic, true),
        (Protocol::Fenced, false),
        (Protocol::Fenced, true),
    ] {
        let clock = FakeClock::new();
        let nodes = FakeNode::cluster_on(7, &clock);
        let build = || {
            let builder = overlapped(protocol).fakes(&nodes);
            builder.node_timeout(NODE_TIMEOUT).build().unwrap()
        };
        if protocol == Protocol::Fenced {
            build().open_nodes().unwrap();
            // A token is above the time of the opening.
            clock.advance(ms(1));
        }
        let mut manager = build();
        for hung in [&nodes[..1], &nodes[2..4], &nodes[..3], &nodes[4..]] {
            if are_new {
                manager = build();
            }
            for node in &nodes {
                node.delay(ms(20));
            }
            hung.iter().for_each(FakeNode::hang);
            let started = clock.elapsed();
            let guard = manager.try_lock("job", TTL).unwrap();
            // All that hang at once cost what one does.
            let case = format!("{protocol:?} {are_new} {:?}", guard.votes());
            assert_eq!(clock.elapsed(), started + NODE_TIMEOUT, "{case}");
            for report in guard.votes() {
                let is_hung = hung.iter().any(|node| *node.name() == *report.node);
                let is_late = matches!(report.vote, Vote::Failed(NodeError::TimedOut));
                assert_eq!(
                    (is_late, is_granted(&report)),
                    (is_hung, !is_hung),
                    "{case}"
                );
                assert_eq!(report.elapsed == NODE_TIMEOUT, is_hung, "{case}");
            }
            nodes.iter().for_each(FakeNode::recover);
            drop(guard);
            clock.advance(Duration::from_secs(1));
            assert!(nodes.iter().all(|node| node.token_of("job").is_none()));
        }
    }
}

#[test]
fn the_validity_counts_from_before_the_first_node_was_asked() {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(5, &clock);
    let builder = overlapped(Protocol::Classic).fakes(&nodes);
    let manager = builder.node_timeout(NODE_TIMEOUT).build().unwrap();
    for node in &nodes[1..] {
        node.delay(ms(30));
    }
    nodes[0].hang();
    let guard = manager.try_lock("job", TTL).unwrap();
    // The ttl is 10 s, of which 1 % and 2 ms are drift; 1 us for rounding.
    let validity = ms(9_898) + Duration::from_micros(1);
    assert!(guard.remaining() + NODE_TIMEOUT <= validity, "{guard:?}");
    drop(guard);

    nodes[0].recover();
    clock.advance(Duration::from_secs(1));
    // The last reply is read 30 to 32 ms after the first command.
    let result = manager.try_lock("job", ms(32));
    let error = result.unwrap_err();
    assert!(matches!(error, Error::TooSlow { .. }), "{error}");
    assert!(error.to_string().contains("(waited "), "{error}");
    clock.advance(Duration::from_secs(1));
    assert!(nodes.iter().all(|node| node.token_of("job").is_none()));
}

/// A node that nobody can connect to, between others: their time is not over when it has been given up.
#[test]
fn a_node_that_can_not_be_connected_to_takes_no_time_of_the_others() {
    let consent = || {
        Scripted::start(|peer, command| {
            if !command.asks_for_a_lock() {
                return peer.say(b":1\r\n");
            }
            // A reply that is there at once is read even where no time is left.
            peer.wait(ms(300));
            peer.say(b"+OK\r\n");
        })
    };
    // The canonical order is that of the ports: one server has to come before the hole, and one behind it.
    let servers: Vec<Scripted> = (0..4).map(|_| consent()).collect();
    let is_between = |hole: &BlackHole| {
        let before = servers.iter().filter(|it| it.name() < hole.name());
        (1..4).contains(&before.count())
    };
    let mut holes = vec![BlackHole::open()];
    while !holes.last().is_some_and(is_between) {
        assert!(holes.len() < 100, "no port is between those of the servers");
        holes.push(BlackHole::open());
    }
    let hole = holes.pop().unwrap();
    let urls = servers.iter().map(Scripted::url).chain([hole.url()]);
    let builder = overlapped(Protocol::Classic).nodes(urls);
    let manager = builder
        .node_timeout(Duration::from_secs(2))
        .build()
        .unwrap();
    let guard = within(BOUND, move || manager.try_lock("job", TTL)).unwrap();
    for report in guard.votes() {
        let is_hole = *report.node == *hole.name();
        let fits = matches!(report.vote, Vote::Failed(NodeError::TimedOut)) == is_hole;
        assert!(fits && is_granted(&report) != is_hole, "{report}");
    }
}

#[test]
fn two_names_of_one_server_have_one_vote() {
    let shared = Server::start_with(&["--bind", "127.0.0.1", "127.0.0.2"]);
    let other = Server::start();
    other.hold("job", "another", 60_000);
    // In another database, so that it grants the lock a second time.
    let second_name = shared.url().replace("127.0.0.1", "127.0.0.2") + "/1";
    let urls = [shared.url(), second_name, other.url()];
    let manager = overlapped(Protocol::Classic).nodes(urls).build().unwrap();
    let error = manager.try_lock("job", TTL).unwrap_err();
    let Error::Held { nodes, .. } = &error else {
        panic!("{error}");
    };
    let is_alias = |vote: &Vote| matches!(vote, Vote::Failed(NodeError::SameServer { .. }));
    let aliases = nodes.iter().filter(|report| is_alias(&report.vote)).count();
    assert_eq!(aliases, 1, "{error}");
    // Both were granted, so both are given back.
    assert_eq!(shared.info("keyspace").matches("keys=").count(), 0);
}

/// One connection to each node. The last node answers for "a" when the first one was asked for "c"; whoever wants "b" waits
/// for the connection of "a", and must not keep the one that "c" needs.
#[test]
fn who_waits_for_a_connection_keeps_no_other() {
    let is_asked = Arc::new(AtomicBool::new(false));
    let note = Arc::clone(&is_asked);
    let servers = in_order(move |place, peer, command| {
        if command.kind() == Kind::Set && place == 0 && command.words[1] == "c" {
            note.store(true, Ordering::SeqCst);
        }
        if command.kind() == Kind::Set && place == 4 && command.words[1] == "a" {
            while !note.load(Ordering::SeqCst) {
                peer.wait(ms(1));
            }
        }
        // Later than the first look for a reply.
        peer.wait(ms(20));
        peer.say(command.consent());
    });
    let builder = overlapped(Protocol::Classic).nodes(servers.iter().map(Scripted::url));
    let builder = builder.pool_size(1).node_timeout(Duration::from_secs(4));
    let manager = builder.build().unwrap();
    let asked = |place: usize, job: &str| {
        let heard = servers[place].heard_of(Kind::Set);
        heard.iter().any(|command| command.words[1] == job)
    };
    thread::scope(|scope| {
        let lock = |job: &'static str| {
            let guard = manager.try_lock(job, TTL).unwrap();
            assert!(guard.votes().iter().all(is_granted), "{:?}", guard.votes());
        };
        scope.spawn(move || lock("a"));
        assert!(eventually(BOUND, || asked(4, "a")));
        scope.spawn(move || lock("b"));
        assert!(eventually(BOUND, || asked(0, "b")));
        scope.spawn(move || lock("c"));
    });
}
