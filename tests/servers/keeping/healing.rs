//! Heals that are under way: without a reply, while the guard ends, and on servers with two names.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use redlatch::{Builder, Error, KeepAlive, LockGuard, LockManager};
use redlatch_testing::scripted::{Command, Kind, Peer, Scripted, in_order};
use redlatch_testing::{Server, eventually};

use crate::managers::{self, patient};

const TTL: Duration = Duration::from_mins(1);
const BOUND: Duration = Duration::from_secs(100);
/// The ttl of a lock that is soon renewed. Its drift leaves more than two node timeouts.
const SHORT: Duration = Duration::from_secs(6);
const NODE_TIMEOUT: Duration = Duration::from_secs(2);
const MISSING: &[u8] = b"*1\r\n:-2\r\n";
/// The node that has lost the key.
const EMPTY: usize = 4;

/// A reply that is held back until a test says so.
#[derive(Default)]
struct Gate(AtomicBool);

impl Gate {
    fn open(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn pass(&self) {
        assert!(eventually(BOUND, || self.0.load(Ordering::SeqCst)));
    }
}

/// Five nodes whose script is told which extension a command is, or which SET.
fn counting(
    script: impl Fn(usize, &mut Peer, &Command, usize) + Clone + Send + Sync + 'static,
) -> Vec<Scripted> {
    let counts = Arc::<[[AtomicUsize; 2]; 5]>::default();
    in_order(move |place, peer, command| {
        let count = &counts[place][usize::from(command.kind() == Kind::Set)];
        let counts = matches!(command.kind(), Kind::Set | Kind::Extend);
        let number = counts.then(|| count.fetch_add(1, Ordering::SeqCst) + 1);
        script(place, peer, command, number.unwrap_or_default());
    })
}

/// Five nodes. The last one has lost the key, and gets it again by a SET, to which `heal` answers.
fn one_empty(heal: impl Fn(&mut Peer, &Command) + Clone + Send + Sync + 'static) -> Vec<Scripted> {
    let is_healed = Arc::<AtomicBool>::default();
    counting(
        move |place, peer, command, number| match (place, command.kind(), number) {
            (EMPTY, Kind::Extend, _) if !is_healed.load(Ordering::SeqCst) => peer.say(MISSING),
            (EMPTY, Kind::Set, 2..) => {
                is_healed.store(true, Ordering::SeqCst);
                heal(peer, command);
            }
            _ => peer.say(command.consent()),
        },
    )
}

fn over(nodes: &[Scripted]) -> Builder {
    managers::over(nodes).node_timeout(NODE_TIMEOUT)
}

#[track_caller]
fn kept(manager: &LockManager) -> LockGuard {
    let request = manager.request("job").ttl(SHORT);
    request.keep_alive(KeepAlive::unbounded()).lock().unwrap()
}

fn count(node: &Scripted, kind: Kind) -> usize {
    node.heard_of(kind).len()
}

/// Waits until the keeper has sent the heal.
#[track_caller]
fn assert_heal_is_sent(nodes: &[Scripted]) {
    assert!(eventually(BOUND, || count(&nodes[EMPTY], Kind::Set) == 2));
}

/// Waits until the first extension has come to each node, so that those of another come after it.
#[track_caller]
fn assert_all_are_asked(nodes: &[Scripted]) {
    let is_asked = |node| count(node, Kind::Extend) == 1;
    assert!(eventually(BOUND, || nodes.iter().all(is_asked)));
}

/// Nodes whose last one holds back its reply to the heal.
fn held_back() -> (Arc<Gate>, Vec<Scripted>) {
    let gate = Arc::<Gate>::default();
    let nodes = one_empty({
        let gate = Arc::clone(&gate);
        move |peer, command| {
            gate.pass();
            peer.say(command.consent());
        }
    });
    (gate, nodes)
}

/// Lets the reply to the heal come, in time, and waits until the keeper has released the node.
#[track_caller]
fn assert_undone_after_the_reply(gate: &Gate, node: &Scripted, before: usize) {
    assert_eq!(count(node, Kind::Release), before);
    gate.open();
    let is_undone = || count(node, Kind::Release) > before;
    assert!(eventually(BOUND, is_undone), "{:?}", node.heard());
}

#[test]
fn a_heal_is_the_acquire_command_and_its_undo_follows_on_the_same_connection() {
    let nodes = one_empty(|_, _| {});
    let builder = over(&nodes).node_timeout(Duration::from_millis(300));
    let manager = builder.build().unwrap();
    let guard = manager.lock("job", TTL).unwrap();
    guard.extend(TTL).unwrap();
    let empty = &nodes[EMPTY];
    let is_undone = || count(empty, Kind::Release) == 1;
    assert!(eventually(BOUND, is_undone));
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
    assert_eq!(manager.stats().healed, 0);
}

#[test]
fn a_guard_that_is_dropped_while_a_heal_is_under_way_leaves_no_key() {
    let (gate, nodes) = held_back();
    let manager = over(&nodes).build().unwrap();
    let guard = kept(&manager);
    assert_heal_is_sent(&nodes);
    guard.unlock().unwrap();
    // The guard has released the node, and the SET may be executed after that.
    assert_undone_after_the_reply(&gate, &nodes[EMPTY], 1);
    // As a lock that was held, and not as an attempt that failed.
    let releases = nodes[EMPTY].heard_of(Kind::Release);
    assert_eq!(releases[0].words[2..], releases[1].words[2..]);
    assert_eq!(manager.stats().healed, 0);
}

#[test]
fn a_lease_that_is_made_while_a_heal_is_under_way_is_without_that_node() {
    let (gate, nodes) = held_back();
    let manager = over(&nodes).build().unwrap();
    let guard = kept(&manager);
    assert_heal_is_sent(&nodes);
    let lease = guard.into_lease();
    assert_eq!(lease.to_string().split(':').nth(4), Some("11110"));
    assert_undone_after_the_reply(&gate, &nodes[EMPTY], 0);
    for node in &nodes[..EMPTY] {
        assert_eq!(count(node, Kind::Release), 0);
    }
}

#[test]
fn an_extension_with_a_majority_holds_before_its_heals_are_answered() {
    let (gate, nodes) = held_back();
    let manager = over(&nodes).build().unwrap();
    let guard = manager.lock("job", SHORT).unwrap();
    let watch = guard.watch();
    thread::scope(|scope| {
        let extending = scope.spawn(|| guard.extend(TTL));
        assert_heal_is_sent(&nodes);
        assert!(watch.remaining() > SHORT);
        gate.open();
        extending.join().unwrap().unwrap();
    });
    guard.unlock().unwrap();
    assert_eq!(count(&nodes[EMPTY], Kind::Release), 1);
}

/// The second extension asks the node before the first one heals it, and hears of the key that the first one has set.
#[test]
fn another_extension_does_not_count_the_key_of_a_heal_that_may_be_undone() {
    let (gate, second) = (Arc::<Gate>::default(), Arc::<Gate>::default());
    let nodes = counting({
        let (gate, second) = (Arc::clone(&gate), Arc::clone(&second));
        move |place, peer, command, number| match (place, command.kind(), number) {
            (EMPTY, Kind::Extend, 1) => {
                gate.pass();
                peer.say(MISSING);
            }
            (EMPTY, Kind::Extend, _) => {
                second.pass();
                peer.say(command.consent());
            }
            // The first extension has a majority without the empty node. The second one needs it. The reply to the heal never comes.
            (2 | 3, Kind::Extend, 2..) | (EMPTY, Kind::Set, 2..) => {}
            _ => peer.say(command.consent()),
        }
    });
    let manager = over(&nodes).build().unwrap();
    let guard = manager.lock("job", TTL).unwrap();
    thread::scope(|scope| {
        let first = scope.spawn(|| guard.extend(TTL));
        assert_all_are_asked(&nodes);
        let other = scope.spawn(|| guard.extend(TTL));
        assert!(eventually(BOUND, || count(&nodes[EMPTY], Kind::Extend) == 2));
        gate.open();
        assert!(eventually(BOUND, || count(&nodes[EMPTY], Kind::Set) == 2));
        second.open();
        let error = other.join().unwrap().unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        first.join().unwrap().unwrap();
    });
}

/// The command of the acquisition arrives late, on a connection that broke: the first extension has found no key, and the
/// second one has extended it and counted it, before the first one heals.
#[test]
fn a_key_that_another_extension_has_counted_is_not_undone() {
    let gate = Arc::<Gate>::default();
    let nodes = counting({
        let gate = Arc::clone(&gate);
        move |place, peer, command, number| match (place, command.kind(), number) {
            (EMPTY, Kind::Extend, 1) => {
                gate.pass();
                peer.say(MISSING);
            }
            // The reply to a heal never comes, so an undo follows.
            (EMPTY, Kind::Set, 2..) => {}
            _ => peer.say(command.consent()),
        }
    });
    let manager = over(&nodes).build().unwrap();
    let guard = manager.lock("job", TTL).unwrap();
    thread::scope(|scope| {
        let first = scope.spawn(|| guard.extend(TTL));
        assert!(eventually(BOUND, || count(&nodes[EMPTY], Kind::Extend) == 1));
        guard.extend(TTL).unwrap();
        gate.open();
        first.join().unwrap().unwrap();
    });
    assert_eq!(count(&nodes[EMPTY], Kind::Set), 1);
    assert_eq!(count(&nodes[EMPTY], Kind::Release), 0);
}

/// Two nodes lose the key while it is being set on the empty one. With that one there is still a majority.
#[test]
fn another_extension_takes_no_lock_for_lost_that_is_being_healed() {
    let gate = Arc::<Gate>::default();
    let nodes = counting({
        let gate = Arc::clone(&gate);
        move |place, peer, command, number| match (place, command.kind(), number) {
            (EMPTY, Kind::Extend, _) | (2 | 3, Kind::Extend, 2..) => peer.say(MISSING),
            (EMPTY, Kind::Set, 2..) => {
                gate.pass();
                peer.say(command.consent());
            }
            _ => peer.say(command.consent()),
        }
    });
    let manager = over(&nodes).build().unwrap();
    let guard = manager.lock("job", TTL).unwrap();
    thread::scope(|scope| {
        let first = scope.spawn(|| guard.extend(TTL));
        assert_all_are_asked(&nodes);
        assert_heal_is_sent(&nodes);
        let error = guard.extend(TTL).unwrap_err();
        gate.open();
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
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
    let mut urls = vec![shared.url(), second_name];
    urls.extend(others.iter().map(Server::url));
    let manager = patient(urls);
    let guard = manager.lock("job", TTL).unwrap();
    shared.command(&["FLUSHALL"]);
    others[1].kill();
    others[2].kill();
    // One node that has the key, and one server that gets it: two of five.
    let error = guard.extend(TTL).unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert_eq!(manager.stats().healed, 1);
    assert!(guard.unlock().is_err());
    assert_eq!(shared.info("keyspace").matches("keys=").count(), 0);
}
