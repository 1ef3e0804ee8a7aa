//! Heals that are under way: without a reply, while the guard ends, beside other extensions, and on a server with two names.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use redlatch::{Error, KeepAlive, LockGuard, LockManager};
use redlatch_testing::scripted::{Command, Kind, Scripted, in_order};
use redlatch_testing::{Server, eventually, pause};

use crate::kinds::outcomes::assert_unavailable;
use crate::managers::{over, patient};

use self::Say::{Consent, Late, Loading, Missing, Nothing};

const TTL: Duration = Duration::from_mins(1);
const BOUND: Duration = Duration::from_secs(100);
const NODE_TIMEOUT: Duration = Duration::from_secs(2);
/// The node that has lost the key.
const EMPTY: usize = 4;

/// What a node says to a command.
enum Say {
    Consent,
    Missing,
    Nothing,
    Loading,
    /// Once the test has opened this gate.
    Late(usize, &'static Say),
}

/// Tells what a node says, by its place, the kind of a command, and which one of that kind it is at this node.
type Script = fn(usize, Kind, usize) -> Say;

/// It has a majority without the empty node, which answers late to the `SET` that heals it.
const HEALED_LATE: Script = |place, kind, number| match (place, kind, number) {
    (EMPTY, Kind::Extend, 1) => Missing,
    (EMPTY, Kind::Set, 2..) => Late(0, &Consent),
    _ => Consent,
};

/// Five nodes, and a manager over them.
struct Five {
    nodes: Vec<Scripted>,
    gates: Arc<[AtomicBool; 2]>,
    manager: LockManager,
}

impl Five {
    fn start(script: Script) -> Self {
        let gates = Arc::<[AtomicBool; 2]>::default();
        let heard = Arc::<Mutex<HashMap<(usize, Kind), usize>>>::default();
        let is_open = Arc::clone(&gates);
        let nodes = in_order(move |place, peer, command| {
            let kind = command.kind();
            let number = {
                let mut heard = heard.lock();
                let number = heard.entry((place, kind)).or_insert(0);
                *number += 1;
                *number
            };
            let mut says = &script(place, kind, number);
            while let Late(gate, then) = says {
                let opens = || is_open[*gate].load(Ordering::SeqCst);
                assert!(eventually(BOUND, opens));
                says = then;
            }
            match says {
                Consent => peer.say(command.consent()),
                Missing => peer.say(b"*1\r\n:-2\r\n"),
                Loading => peer.say(b"-LOADING wait\r\n"),
                Nothing | Late(..) => {}
            }
        });
        let builder = over(&nodes).node_timeout(NODE_TIMEOUT);
        let manager = builder.build().unwrap();
        Self {
            nodes,
            gates,
            manager,
        }
    }

    fn lock(&self) -> LockGuard {
        self.manager.lock("job", TTL).unwrap()
    }

    fn open(&self, gate: usize) {
        self.gates[gate].store(true, Ordering::SeqCst);
    }

    /// Waits until the empty node has heard so many commands of a kind.
    #[track_caller]
    fn assert_hears(&self, kind: Kind, count: usize) {
        let node = &self.nodes[EMPTY];
        let hears = || node.heard_of(kind).len() == count;
        assert!(eventually(BOUND, hears), "{:?}", node.heard());
    }

    /// Waits until each node has heard an extension, so that another one comes after it.
    #[track_caller]
    fn assert_all_are_asked(&self) {
        let is_asked = |node: &Scripted| node.heard_of(Kind::Extend).len() == 1;
        assert!(eventually(BOUND, || self.nodes.iter().all(is_asked)));
    }

    /// A lock that is kept alive, while a renewal heals it.
    fn lock_that_is_healed(&self) -> LockGuard {
        // Its drift leaves more than two node timeouts.
        let request = self.manager.request("job").ttl(NODE_TIMEOUT * 3);
        let guard = request.keep_alive(KeepAlive::unbounded()).lock().unwrap();
        self.assert_hears(Kind::Set, 2);
        guard
    }
}

#[test]
fn a_heal_is_the_acquire_command_and_its_undo_follows_on_the_same_connection() {
    let five = Five::start(|place, kind, number| match (place, kind, number) {
        (EMPTY, Kind::Extend, _) => Missing,
        (EMPTY, Kind::Set, 2..) => Nothing,
        _ => Consent,
    });
    let guard = five.lock();
    guard.extend(TTL).unwrap();
    five.assert_hears(Kind::Release, 1);
    let empty = &five.nodes[EMPTY];
    let [first, heal] = &empty.heard_of(Kind::Set)[..] else {
        panic!("{:?}", empty.heard());
    };
    assert_eq!(first.words[..5], heal.words[..5]);
    let behind_it = empty.heard_on(heal.connection);
    assert_eq!(behind_it.last(), Some(&Kind::Release), "{behind_it:?}");

    // From now on, the node is neither asked nor released: the undo may delete the key at any time.
    let before = empty.heard().len();
    guard.extend(TTL).unwrap();
    guard.unlock().unwrap();
    let is_probe = |command: &Command| command.kind() == Kind::Probe;
    let heard = empty.heard();
    assert!(heard[before..].iter().all(is_probe), "{heard:?}");
    assert_eq!(five.manager.stats().healed, 0);
}

#[test]
fn a_guard_that_is_dropped_while_a_heal_is_under_way_leaves_no_key() {
    let five = Five::start(HEALED_LATE);
    five.lock_that_is_healed().unlock().unwrap();
    // The guard has released the node, and the SET may be executed after that.
    five.assert_hears(Kind::Release, 1);
    five.open(0);
    five.assert_hears(Kind::Release, 2);
    // As a lock that was held, and not as an attempt that failed.
    let releases = five.nodes[EMPTY].heard_of(Kind::Release);
    assert_eq!(releases[0].words[2..], releases[1].words[2..]);
    assert_eq!(five.manager.stats().healed, 0);
}

#[test]
fn the_release_behind_a_heal_is_repeated_for_longer_than_the_extension_asked_for() {
    let five = Five::start(|place, kind, number| match (place, kind, number) {
        (EMPTY, Kind::Release, 2..) => Loading,
        _ => HEALED_LATE(place, kind, number),
    });
    five.lock_that_is_healed().unlock().unwrap();
    five.open(0);
    let released = || five.nodes[EMPTY].heard_of(Kind::Release).len();
    assert!(eventually(BOUND, || released() > 1));
    // An extension without a reply may have given the key more than its ttl, which is three node timeouts.
    pause(NODE_TIMEOUT * 5);
    let before = released();
    assert!(eventually(NODE_TIMEOUT * 10, || released() > before));
}

#[test]
fn an_extension_with_a_majority_holds_before_its_heals_are_answered() {
    let five = Five::start(HEALED_LATE);
    let guard = five.lock();
    let watch = guard.watch();
    thread::scope(|scope| {
        let extending = scope.spawn(|| guard.extend(TTL * 2));
        five.assert_hears(Kind::Set, 2);
        assert!(watch.remaining() > TTL);
        five.open(0);
        extending.join().unwrap().unwrap();
    });
    guard.unlock().unwrap();
    five.assert_hears(Kind::Release, 1);
}

/// The second extension asks the node before the first one heals it, and hears of the key that the first one has set.
#[test]
fn another_extension_does_not_count_the_key_of_a_heal_that_may_be_undone() {
    let five = Five::start(|place, kind, number| match (place, kind, number) {
        (EMPTY, Kind::Extend, 1) => Late(0, &Missing),
        (EMPTY, Kind::Extend, _) => Late(1, &Consent),
        // The first extension has a majority without the empty node. The second one needs it. The reply to the heal never comes.
        (2 | 3, Kind::Extend, 2..) | (EMPTY, Kind::Set, 2..) => Nothing,
        _ => Consent,
    });
    let guard = five.lock();
    thread::scope(|scope| {
        let first = scope.spawn(|| guard.extend(TTL));
        five.assert_all_are_asked();
        let other = scope.spawn(|| guard.extend(TTL));
        five.assert_hears(Kind::Extend, 2);
        five.open(0);
        five.assert_hears(Kind::Set, 2);
        five.open(1);
        assert_unavailable(&other.join().unwrap());
        first.join().unwrap().unwrap();
    });
}

/// The command of the acquisition arrives late, on a connection that broke: the first extension has found no key, and the
/// second one has extended it and counted it, before the first one heals.
#[test]
fn a_key_that_another_extension_has_counted_is_not_undone() {
    let five = Five::start(|place, kind, number| match (place, kind, number) {
        (EMPTY, Kind::Extend, 1) => Late(0, &Missing),
        // The reply to a heal never comes, so an undo follows.
        (EMPTY, Kind::Set, 2..) => Nothing,
        _ => Consent,
    });
    let guard = five.lock();
    thread::scope(|scope| {
        let first = scope.spawn(|| guard.extend(TTL));
        five.assert_hears(Kind::Extend, 1);
        guard.extend(TTL).unwrap();
        five.open(0);
        first.join().unwrap().unwrap();
    });
    five.assert_hears(Kind::Set, 1);
    five.assert_hears(Kind::Release, 0);
}

/// Two nodes lose the key while it is being set on the empty one. With that one there is still a majority.
#[test]
fn another_extension_takes_no_lock_for_lost_that_is_being_healed() {
    let five = Five::start(|place, kind, number| match (place, kind, number) {
        (EMPTY, Kind::Extend, _) | (2 | 3, Kind::Extend, 2..) => Missing,
        (EMPTY, Kind::Set, 2..) => Late(0, &Consent),
        _ => Consent,
    });
    let guard = five.lock();
    thread::scope(|scope| {
        let first = scope.spawn(|| guard.extend(TTL));
        five.assert_all_are_asked();
        five.assert_hears(Kind::Set, 2);
        let second = guard.extend(TTL);
        five.open(0);
        assert_unavailable(&second);
        first.join().unwrap().unwrap();
    });
    guard.check().unwrap();
}

#[test]
fn two_names_of_one_server_heal_with_one_vote() {
    let shared = Server::start_with(&["--bind", "127.0.0.1", "127.0.0.2"]);
    let mut others = Server::cluster(3);
    // In another database, so that the key can be set a second time.
    let second_name = shared.url().replace("127.0.0.1", "127.0.0.2") + "/1";
    let urls = [shared.url(), second_name].into_iter();
    let manager = patient(urls.chain(others.iter().map(Server::url)));
    let guard = manager.lock("job", TTL).unwrap();
    shared.command(&["FLUSHALL"]);
    others[1].kill();
    others[2].kill();
    // One node that has the key, and one server that gets it: two of five.
    assert_unavailable(&guard.extend(TTL));
    assert_eq!(manager.stats().healed, 1);
    assert!(matches!(guard.unlock(), Err(Error::Unconfirmed { .. })));
    assert_eq!(shared.info("keyspace").matches("keys=").count(), 0);
}
