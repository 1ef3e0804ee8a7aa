//! All nodes are asked at once, while some hang, break, are busy or have two names.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Builder, Error, Fanout, NodeError, Protocol, Vote};
use redlatch_testing::scripted::{Command, Kind, Scripted, in_order};
use redlatch_testing::{BlackHole, Server, eventually, within};

use crate::servers::fanout::order::{is_granted, overlapped};

const TTL: Duration = Duration::from_secs(10);
const BOUND: Duration = Duration::from_mins(1);
const NODE_TIMEOUT: Duration = Duration::from_millis(50);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Since then on this clock.
fn since(clock: &FakeClock, started: Duration) -> Duration {
    clock.elapsed().checked_sub(started).unwrap()
}

fn over_fakes(n: usize, clock: &FakeClock) -> (Vec<FakeNode>, Builder) {
    let nodes = FakeNode::cluster_on(n, clock);
    let builder = overlapped(Protocol::Classic).fakes(&nodes);
    (nodes, builder.node_timeout(NODE_TIMEOUT))
}

#[track_caller]
fn assert_nodes_that_hang_delay_no_other(protocol: Protocol, are_new: bool) {
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
        for node in hung {
            node.hang();
        }
        let started = clock.elapsed();
        let guard = manager.try_lock("job", TTL).unwrap();
        // All that hang at once cost what one does.
        let votes = guard.votes();
        assert_eq!(
            since(&clock, started),
            NODE_TIMEOUT,
            "{protocol:?} {are_new} {hung:?}: {votes:?}"
        );
        for report in guard.votes() {
            let is_hung = hung.iter().any(|node| *node.name() == *report.node);
            if is_hung {
                assert!(
                    matches!(report.vote, Vote::Failed(NodeError::TimedOut)),
                    "{report}"
                );
                assert_eq!(report.elapsed, NODE_TIMEOUT, "{report}");
            } else {
                assert!(is_granted(report), "{report}");
                assert!(report.elapsed < NODE_TIMEOUT, "{report}");
            }
        }
        for node in &nodes {
            node.recover();
        }
        drop(guard);
        clock.advance(Duration::from_secs(1));
        assert!(nodes.iter().all(|node| node.token_of("job").is_none()));
    }
}

#[test]
fn nodes_that_hang_keep_the_reading_of_no_other_waiting() {
    for protocol in [Protocol::Classic, Protocol::Fenced] {
        for are_new in [false, true] {
            assert_nodes_that_hang_delay_no_other(protocol, are_new);
        }
    }
}

#[test]
fn the_validity_counts_from_before_the_first_node_was_asked() {
    let clock = FakeClock::new();
    let (nodes, builder) = over_fakes(5, &clock);
    let manager = builder.build().unwrap();
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
#[track_caller]
fn assert_only_the_hole_is_missing(protocol: Protocol) {
    let consent = || {
        Scripted::start(|peer, command| {
            if !command.asks_for_a_lock() {
                return peer.say(b":1\r\n");
            }
            // A reply that is there at once is read even where no time is left.
            peer.wait(Duration::from_millis(300));
            peer.say(b"+OK\r\n");
        })
    };
    let servers: Vec<Scripted> = (0..4).map(|_| consent()).collect();
    // The canonical order is that of the ports: one server has to come before the hole, and one behind it.
    let mut hole = BlackHole::open();
    let mut others = Vec::new();
    let names: Vec<String> = servers.iter().map(Scripted::name).collect();
    let is_before = |name: &String, hole: &BlackHole| *name < hole.name();
    while names.iter().all(|name| is_before(name, &hole))
        || !names.iter().any(|name| is_before(name, &hole))
    {
        others.push(std::mem::replace(&mut hole, BlackHole::open()));
        assert!(
            others.len() < 100,
            "no port is between those of the servers"
        );
    }
    let urls = servers.iter().map(Scripted::url);
    let urls: Vec<String> = urls.chain([hole.url()]).collect();
    let builder = overlapped(protocol)
        .nodes(urls)
        .node_timeout(Duration::from_secs(2));
    let manager = builder.build().unwrap();
    let guard = within(BOUND, move || manager.try_lock("job", TTL)).unwrap();
    for report in guard.votes() {
        let is_hole = *report.node == *hole.name();
        let fits = matches!(report.vote, Vote::Failed(NodeError::TimedOut)) == is_hole;
        assert!(fits && is_granted(report) != is_hole, "{report}");
    }
}

#[test]
fn a_node_that_can_not_be_connected_to_takes_no_time_of_the_others() {
    assert_only_the_hole_is_missing(Protocol::Classic);
    assert_only_the_hole_is_missing(Protocol::Fenced);
}

#[test]
fn behind_a_set_that_is_not_answered_goes_its_undo() {
    let servers: Vec<Scripted> = (0..5)
        .map(|i| {
            Scripted::start(move |peer, command| {
                if i < 3 || command.kind() != Kind::Set {
                    peer.say(command.consent());
                }
            })
        })
        .collect();
    let builder = overlapped(Protocol::Classic).nodes(servers.iter().map(Scripted::url));
    let manager = builder
        .node_timeout(Duration::from_secs(2))
        .build()
        .unwrap();
    let guard = within(BOUND, move || manager.try_lock("job", TTL)).unwrap();
    let token = guard.token().to_owned();
    drop(guard);
    for server in &servers[3..] {
        let done = || server.heard_on(0) == [Kind::Set, Kind::Release];
        assert!(eventually(BOUND, done), "{:?}", server.heard());
        // It has been undone, so nothing is owed: later connections are for looking whether the node is back.
        let mut heard = server.heard();
        heard.retain(|command| command.words.contains(&token));
        let places: Vec<_> = heard.iter().map(|c| (c.kind(), c.connection)).collect();
        assert_eq!(places, [(Kind::Set, 0), (Kind::Release, 0)]);
    }
}

#[test]
fn a_node_that_broke_before_its_vote_is_released_with_the_others() {
    for is_majority in [false, true] {
        let broken = if is_majority { 3 } else { 2 };
        let servers: Vec<Scripted> = (0..5)
            .map(|i| {
                Scripted::start(move |peer, command| {
                    if i < broken && command.kind() == Kind::Set {
                        peer.reset();
                    } else {
                        peer.say(command.consent());
                    }
                })
            })
            .collect();
        let builder = overlapped(Protocol::Classic).nodes(servers.iter().map(Scripted::url));
        let manager = builder.build().unwrap();
        let result = within(BOUND, move || manager.try_lock("job", TTL));
        assert_eq!(result.is_err(), is_majority, "{result:?}");
        drop(result);
        for server in &servers[..broken] {
            let set = server.heard_of(Kind::Set);
            let releases = server.heard_of(Kind::Release);
            assert_eq!((set.len(), releases.len()), (1, 1), "{:?}", server.heard());
            assert_eq!(set[0].token(), releases[0].token());
        }
    }
}

#[test]
fn a_set_on_a_connection_that_breaks_is_repeated_and_own_keys_count() {
    let mut servers = Server::cluster(5);
    for protocol in [Protocol::Classic, Protocol::Fenced] {
        let builder = overlapped(protocol).nodes(servers.iter().map(Server::url));
        let manager = builder
            .key_prefix(&format!("{protocol:?}:"))
            .build()
            .unwrap();
        if protocol == Protocol::Fenced {
            manager.open_nodes().unwrap();
        }
        drop(manager.try_lock("job", TTL).unwrap());
        if protocol == Protocol::Classic {
            for server in &mut servers {
                server.kill();
                server.restart();
            }
        } else {
            for server in &servers {
                server.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
            }
        }
        let guard = manager.try_lock("job", TTL).unwrap();
        let all = guard.votes().iter().all(is_granted);
        assert!(all, "{:?}", guard.votes());
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

/// One connection to each node. That to the last one breaks under "a" while "b" waits for it, and nothing else is under way.
#[test]
fn who_has_waited_for_a_connection_that_broke_makes_one_and_asks_on_that() {
    for protocol in [Protocol::Classic, Protocol::Fenced] {
        let servers = in_order(|place, peer, command| {
            if command.asks_for_a_lock() && place == 4 && command.key() == "a" {
                // The others have answered to "b" by then.
                peer.wait(ms(500));
                peer.close();
            } else if command.asks_for_a_lock() {
                peer.say(b"+OK\r\n");
            } else {
                peer.say(b":1\r\n");
            }
        });
        let builder = overlapped(protocol).nodes(servers.iter().map(Scripted::url));
        let builder = builder.pool_size(1).node_timeout(Duration::from_secs(4));
        let manager = builder.build().unwrap();
        let asked = |place: usize| {
            let heard = servers[place].heard();
            heard.iter().any(Command::asks_for_a_lock)
        };
        thread::scope(|scope| {
            let first = scope.spawn(|| manager.try_lock("a", TTL).unwrap());
            assert!(eventually(BOUND, || asked(4)));
            let guard = manager.try_lock("b", TTL).unwrap();
            let votes = guard.votes();
            assert!(votes.iter().all(is_granted), "{protocol:?}: {votes:?}");
            drop(first.join().unwrap());
        });
    }
}

#[test]
fn what_failed_lately_is_asked_only_if_a_majority_needs_it() {
    let clock = FakeClock::new();
    let (nodes, builder) = over_fakes(5, &clock);
    let manager = builder.fanout(Fanout::Overlapped).build().unwrap();
    nodes[0].hang();
    nodes[1].hang();
    drop(manager.try_lock("job", TTL).unwrap());
    let started = clock.elapsed();
    let guard = manager.try_lock("job", TTL).unwrap();
    assert_eq!(clock.elapsed(), started);
    for report in &guard.votes()[..2] {
        assert!(
            matches!(report.vote, Vote::Failed(NodeError::BreakerOpen { .. })),
            "{report}"
        );
    }
    drop(guard);
    // With one of the others in another's hands, those that hang are needed, and asked at once.
    nodes[2].hold("job", "another", TTL);
    let started = clock.elapsed();
    let error = manager.try_lock("job", TTL).unwrap_err();
    assert!(matches!(error, Error::Held { .. }), "{error}");
    assert!(since(&clock, started) <= NODE_TIMEOUT * 2);
    assert_eq!(nodes[3].token_of("job"), None);
    assert_eq!(nodes[4].token_of("job"), None);
}
