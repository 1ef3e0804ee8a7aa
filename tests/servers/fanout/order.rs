//! The order in which nodes are asked: by a first attempt, and by an attempt after another holder was met.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Builder, Fanout, LockManager, NodeReport, Protocol, Vote};
use redlatch_testing::scripted::{Kind, Peer, Scripted, in_order};
use redlatch_testing::within;

const TTL: Duration = Duration::from_secs(10);
const BOUND: Duration = Duration::from_mins(1);
const BOTH: [Fanout; 2] = [Fanout::Sequential, Fanout::Overlapped];

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub(crate) fn overlapped(protocol: Protocol) -> Builder {
    LockManager::builder()
        .protocol(protocol)
        .fanout(Fanout::Overlapped)
        .node_timeout(Duration::from_secs(5))
}

pub(crate) fn is_granted(report: &NodeReport) -> bool {
    matches!(report.vote, Vote::Granted)
}

/// Nobody answers before all were asked.
#[derive(Default)]
struct Chorus {
    size: usize,
    asked: AtomicUsize,
}

impl Chorus {
    fn of(size: usize) -> Arc<Self> {
        let asked = AtomicUsize::new(0);
        Arc::new(Self { size, asked })
    }

    fn wait(&self, peer: &Peer) {
        let before = self.asked.fetch_add(1, Ordering::SeqCst);
        let all = before / self.size * self.size + self.size;
        for _ in 0..3_000 {
            if self.asked.load(Ordering::SeqCst) >= all {
                return;
            }
            peer.wait(ms(1));
        }
    }
}

#[test]
fn a_lock_takes_one_round_trip_whatever_the_number_of_nodes() {
    for protocol in [Protocol::Classic, Protocol::Fenced] {
        for n in 1..=7 {
            let chorus = Chorus::of(n);
            let singers = (0..n).map(|_| {
                let chorus = Arc::clone(&chorus);
                Scripted::start(move |peer, command| {
                    if command.asks_for_a_lock() {
                        chorus.wait(peer);
                        peer.say(b"+OK\r\n");
                    } else {
                        peer.say(b":1\r\n");
                    }
                })
            });
            let singers: Vec<Scripted> = singers.collect();
            let urls = singers.iter().map(Scripted::url);
            // Had one been waited for before another was asked, its time would be over.
            let builder = overlapped(protocol).nodes(urls).node_timeout(ms(2_500));
            let manager = builder.build().unwrap();
            // On new connections, and on open ones.
            for _ in 0..2 {
                let guard = manager.try_lock("job", TTL).unwrap();
                let all = guard.votes().iter().all(is_granted);
                assert!(all, "{protocol:?}, {n}: {:?}", guard.votes());
            }
        }
    }
}

#[test]
fn new_servers_are_asked_who_they_are_before_any_has_said_it() {
    let chorus = Chorus::of(5);
    let singers = (0..5).map(|_| {
        let chorus = Arc::clone(&chorus);
        let introduction = move |peer: &Peer| chorus.wait(peer);
        Scripted::start_shy(introduction, |peer, command| peer.say(command.consent()))
    });
    let singers: Vec<Scripted> = singers.collect();
    let builder = overlapped(Protocol::Classic).nodes(singers.iter().map(Scripted::url));
    let manager = builder.node_timeout(ms(2_500)).build().unwrap();
    let guard = manager.try_lock("job", TTL).unwrap();
    let all = guard.votes().iter().all(is_granted);
    assert!(all, "{:?}", guard.votes());
}

/// How often each server was asked for the lock.
fn asked(servers: &[Scripted]) -> Vec<usize> {
    let count = |server: &Scripted| {
        server
            .heard()
            .iter()
            .filter(|c| c.asks_for_a_lock())
            .count()
    };
    servers.iter().map(count).collect()
}

/// The lock is held at first, and the first node that is not loading would grant it when it is looked at for the fifth
/// time. Returns how often each was asked for it.
#[track_caller]
fn asked_until_granted(fanout: Fanout, is_loading: bool) -> Vec<usize> {
    let (arbiter, looks) = (usize::from(is_loading), AtomicUsize::new(0));
    let chorus = Chorus::of(4 - arbiter);
    let (looks, is_free) = (Arc::new(looks), Arc::new(AtomicBool::new(false)));
    let servers = in_order(move |place, peer, command| {
        let is_asked = matches!(command.kind(), Kind::Set | Kind::Look);
        if !is_asked {
            return peer.say(b":1\r\n");
        }
        if place < arbiter {
            return peer.say(b"-LOADING Redis is loading the dataset in memory\r\n");
        }
        if command.kind() == Kind::Look {
            assert_eq!(place, arbiter, "another node is looked at");
            let is_now = looks.fetch_add(1, Ordering::SeqCst) == 4;
            is_free.store(is_now, Ordering::SeqCst);
            return peer.say(if is_now {
                b"*4\r\n:1\r\n:-2\r\n:0\r\n$0\r\n\r\n"
            } else {
                b"*4\r\n:1\r\n:50000\r\n:0\r\n$0\r\n\r\n"
            });
        }
        let is_free = is_free.load(Ordering::SeqCst);
        if is_free && place > arbiter && fanout == Fanout::Overlapped {
            // Once there is a majority to be had, the others are asked at once.
            chorus.wait(peer);
        }
        peer.say(if is_free { b"+OK\r\n" } else { b"$-1\r\n" });
    });
    let builder = LockManager::builder().fanout(fanout);
    let builder = builder.nodes(servers.iter().map(Scripted::url));
    let builder = builder.node_timeout(ms(2_500)).retry_delay(ms(1), ms(2));
    let manager = builder.build().unwrap();
    let guard = within(BOUND, move || manager.lock("job", TTL)).unwrap();
    let granted = guard
        .votes()
        .iter()
        .filter(|report| is_granted(report))
        .count();
    assert_eq!(granted, 5 - arbiter, "{:?}", guard.votes());
    asked(&servers)
}

/// Also where the first node fails, which leaves it to the next.
#[test]
fn after_another_holder_was_met_the_first_node_alone_is_looked_at_until_it_would_grant() {
    // The first attempt asks all, and one that goes from node to node those that can still make a majority.
    for (fanout, expected) in [
        (Fanout::Overlapped, [2, 2, 2, 2, 2]),
        (Fanout::Sequential, [2, 2, 2, 1, 1]),
    ] {
        for is_loading in [false, true] {
            assert_eq!(asked_until_granted(fanout, is_loading), expected);
        }
    }
}

#[test]
fn what_is_left_on_the_first_node_alone_is_in_the_way_for_a_moment_only() {
    for fanout in BOTH {
        let clock = FakeClock::new();
        let nodes = FakeNode::cluster_on(5, &clock);
        nodes[0].hold("job", "of a holder that is gone", TTL * 360);
        for node in &nodes[1..] {
            node.hold("job", "another", ms(200));
        }
        let manager = LockManager::builder().fakes(&nodes).fanout(fanout);
        let manager = manager.build().unwrap();
        let guard = manager.lock("job", TTL).unwrap();
        assert!(
            clock.elapsed() < Duration::from_secs(4),
            "{:?}",
            clock.elapsed()
        );
        assert!(matches!(guard.votes()[0].vote, Vote::Held { .. }));
    }
}
