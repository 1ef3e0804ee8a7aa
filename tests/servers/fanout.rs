//! The order in which nodes are asked, and that those that hang, break or are busy take no time of the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Builder, Error, Fanout, LockManager, NodeError, NodeReport, Protocol, Vote};
use redlatch_testing::scripted::{Kind, Peer, Scripted, in_order};
use redlatch_testing::{BlackHole, eventually, within};

use crate::managers::{BOTH, over, with_protocol};
use crate::waiters::BOUND;

const TTL: Duration = Duration::from_secs(10);
const NODE_TIMEOUT: Duration = Duration::from_millis(50);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn is_granted(report: &NodeReport) -> bool {
    matches!(report.vote, Vote::Granted)
}

fn overlapped(protocol: Protocol) -> Builder {
    with_protocol(protocol).fanout(Fanout::Overlapped)
}

/// Takes a lock, for which all nodes vote.
#[track_caller]
fn lock(manager: &LockManager, name: &str) {
    let votes = manager.try_lock(name, TTL).unwrap().votes();
    assert!(votes.iter().all(is_granted), "{votes:?}");
}

/// Where so many meet before any of them goes on.
fn meeting_of(n: usize) -> impl Fn(&Peer) + Clone + Send + Sync + 'static {
    let came: Arc<AtomicUsize> = Arc::default();
    move |peer| {
        let before = came.fetch_add(1, Ordering::SeqCst);
        for _ in 0..3_000 {
            if came.load(Ordering::SeqCst) >= before / n * n + n {
                return;
            }
            peer.wait(ms(1));
        }
    }
}

/// Nobody says who it is before all were asked that, and nobody grants a lock before all were asked for it.
#[test]
fn a_lock_takes_one_round_trip_whatever_the_number_of_nodes() {
    for (protocol, n) in BOTH
        .into_iter()
        .flat_map(|one| (1..=7).map(move |n| (one, n)))
    {
        let (introduced, asked) = (meeting_of(n), meeting_of(n));
        let singers = (0..n).map(|_| {
            let asked = asked.clone();
            Scripted::start_shy(introduced.clone(), move |peer, command| {
                if command.asks_for_a_lock() {
                    asked(peer);
                }
                peer.say(command.consent());
            })
        });
        let singers: Vec<Scripted> = singers.collect();
        let urls = singers.iter().map(Scripted::url);
        // Had one been waited for before another was asked, its time would be over.
        let builder = overlapped(protocol).nodes(urls).node_timeout(ms(2_500));
        let manager = builder.build().unwrap();
        // On new connections, and on open ones.
        lock(&manager, "job");
        lock(&manager, "job");
    }
}

#[test]
fn after_another_holder_was_met_the_first_node_alone_is_looked_at_until_it_would_grant() {
    // The first attempt asks all, and one that goes from node to node those that can still make a majority.
    for (fanout, expected) in [
        (Fanout::Overlapped, [2, 2, 2, 2, 2]),
        (Fanout::Sequential, [2, 2, 2, 1, 1]),
    ] {
        let looks: Arc<AtomicUsize> = Arc::default();
        let met = meeting_of(4);
        let servers = in_order(move |place, peer, command| {
            let is_look = command.kind() == Kind::Look;
            let before = looks.fetch_add(is_look.into(), Ordering::SeqCst);
            assert!(place == 0 || !is_look, "another node is looked at");
            if fanout == Fanout::Overlapped
                && place > 0
                && before >= 5
                && command.kind() == Kind::Set
            {
                // Once the first would grant, all others are asked at once.
                met(peer);
            }
            peer.say(if is_look && before < 4 {
                b"*4\r\n:1\r\n:50000\r\n:0\r\n$0\r\n\r\n"
            } else if command.kind() == Kind::Set && before < 5 {
                b"$-1\r\n"
            } else {
                command.consent()
            });
        });
        let builder = over(&servers).fanout(fanout).retry_delay(ms(1), ms(2));
        let manager = builder.build().unwrap();
        let guard = within(BOUND, move || manager.lock("job", TTL)).unwrap();
        assert!(guard.votes().iter().all(is_granted), "{:?}", guard.votes());
        let asked = servers
            .iter()
            .map(|server| server.heard_of(Kind::Set).len());
        assert!(asked.eq(expected), "{fanout:?}");
    }
}

#[test]
fn nodes_that_hang_keep_the_reading_of_no_other_waiting() {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(7, &clock);
    let builder = overlapped(Protocol::Classic).fakes(&nodes);
    let manager = builder.node_timeout(NODE_TIMEOUT).build().unwrap();
    // On new connections at first, and then on open ones.
    for hung in [&nodes[..1], &nodes[2..4], &nodes[..3], &nodes[4..]] {
        for node in &nodes {
            node.delay(ms(20));
        }
        hung.iter().for_each(FakeNode::hang);
        let started = clock.elapsed();
        let guard = manager.try_lock("job", TTL).unwrap();
        // All that hang at once cost what one does.
        assert_eq!(clock.elapsed(), started + NODE_TIMEOUT, "{guard:?}");
        for report in guard.votes() {
            let is_hung = hung.iter().any(|node| *node.name() == *report.node);
            let is_late = matches!(report.vote, Vote::Failed(NodeError::TimedOut { .. }));
            assert_eq!((is_late, is_granted(&report)), (is_hung, !is_hung));
            assert_eq!(report.elapsed == NODE_TIMEOUT, is_hung, "{report}");
        }
        nodes.iter().for_each(FakeNode::recover);
        drop(guard);
        clock.advance(Duration::from_secs(1));
        assert!(nodes.iter().all(|node| node.token_of("job").is_none()));
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
    let error = manager.try_lock("job", ms(32)).unwrap_err();
    assert!(matches!(error, Error::TooSlow { .. }), "{error}");
    assert!(error.to_string().contains("(waited "), "{error}");
    clock.advance(Duration::from_secs(1));
    assert!(nodes.iter().all(|node| node.token_of("job").is_none()));
}

/// Between others: their time is not over when it has been given up.
#[test]
fn a_node_that_can_not_be_connected_to_takes_no_time_of_the_others() {
    let servers = in_order(|_, peer, command| {
        if command.asks_for_a_lock() {
            // A reply that is there at once is read even where no time is left.
            peer.wait(ms(300));
        }
        peer.say(command.consent());
    });
    // The canonical order is that of the ports: one server has to come before the hole, and one behind it.
    let is_between =
        |hole: &BlackHole| servers[0].name() < hole.name() && hole.name() < servers[4].name();
    let mut holes = vec![BlackHole::open()];
    while !holes.last().is_some_and(is_between) {
        assert!(holes.len() < 100, "no port is between those of the servers");
        holes.push(BlackHole::open());
    }
    let hole = holes.pop().unwrap();
    let builder = overlapped(Protocol::Classic).node(hole.url());
    let builder = builder.nodes(servers.iter().map(Scripted::url));
    let manager = builder.node_timeout(ms(2_000)).build().unwrap();
    let guard = within(BOUND, move || manager.try_lock("job", TTL)).unwrap();
    for report in guard.votes() {
        let is_hole = *report.node == *hole.name();
        let fits = matches!(report.vote, Vote::Failed(NodeError::TimedOut { .. })) == is_hole;
        assert!(fits && is_granted(&report) != is_hole, "{report}");
    }
}

/// One connection to each node. The last node answers for "a" when the first one was asked for "c"; whoever wants "b" waits
/// for the connection of "a", and must not keep the one that "c" needs.
#[test]
fn who_waits_for_a_connection_keeps_no_other() {
    let is_asked: Arc<AtomicBool> = Arc::default();
    let servers = in_order(move |place, peer, command| {
        match (command.kind(), place, command.key()) {
            (Kind::Set, 0, "c") => is_asked.store(true, Ordering::SeqCst),
            (Kind::Set, 4, "a") => {
                while !is_asked.load(Ordering::SeqCst) {
                    peer.wait(ms(1));
                }
            }
            _ => (),
        }
        // Later than the first look for a reply.
        peer.wait(ms(20));
        peer.say(command.consent());
    });
    let builder = over(&servers).fanout(Fanout::Overlapped).pool_size(1);
    let manager = builder.node_timeout(ms(4_000)).build().unwrap();
    let asked = |place: usize, job: &str| {
        let heard = servers[place].heard_of(Kind::Set);
        heard.iter().any(|command| command.key() == job)
    };
    thread::scope(|scope| {
        scope.spawn(|| lock(&manager, "a"));
        assert!(eventually(BOUND, || asked(4, "a")));
        scope.spawn(|| lock(&manager, "b"));
        assert!(eventually(BOUND, || asked(0, "b")));
        scope.spawn(|| lock(&manager, "c"));
    });
}
