//! A lock that rests: late commands of its former holder don't touch it, and it wakes nobody.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use redlatch::{Error, KeepAlive, LockManager, Protocol};
use redlatch_testing::scripted::{Command, Kind, Scripted};
use redlatch_testing::{Server, eventually, within};

use crate::waiters::process;

const BOUND: Duration = Duration::from_mins(1);
const TTL: Duration = Duration::from_secs(9);
const MINIMUM: Duration = Duration::from_mins(10);

/// A server, behind one that holds some commands back.
struct Node {
    server: Server,
    front: Scripted,
    stage: Arc<Stage>,
}

type Filter = fn(&Command) -> bool;

#[derive(Default)]
struct Stage {
    /// What is held back.
    is_late: Mutex<Option<Filter>>,
    late: Mutex<Vec<Command>>,
}

impl Node {
    fn start() -> Self {
        let (server, stage) = (Server::start(), Arc::<Stage>::default());
        let port = server.port();
        let front = Scripted::start({
            let stage = Arc::clone(&stage);
            move |peer, command| {
                let is_late = *stage.is_late.lock();
                if is_late.is_some_and(|is_late| is_late(command)) {
                    stage.late.lock().push(command.clone());
                } else {
                    let reply = peer.ask(port, command);
                    peer.say(&reply);
                }
            }
        });
        Self {
            server,
            front,
            stage,
        }
    }

    fn hold_back(&self, is_late: Filter) {
        *self.stage.is_late.lock() = Some(is_late);
    }

    /// Sends the server all that was held back, each release also as an undo. Returns how much was held back.
    fn deliver(&self) -> usize {
        let late = self.stage.late.lock();
        for command in &*late {
            if is_release(command) {
                let mut undo: Vec<&str> = command.words.iter().map(String::as_str).collect();
                undo.truncate(5);
                self.server.command(&[&undo[..], &["0", "u"]].concat());
            }
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.server.port())).unwrap();
            stream.set_read_timeout(Some(BOUND)).unwrap();
            stream.write_all(command.raw()).unwrap();
            let mut first = [0];
            stream.read_exact(&mut first).unwrap();
            assert_ne!(&first, b"-", "{command:?}");
        }
        late.len()
    }
}

/// An extension or a release of either protocol: all but what asks for a lock and what lets it rest.
fn is_of_the_holder(command: &Command) -> bool {
    command.kind() == Kind::Extend || is_release(command)
}

fn is_release(command: &Command) -> bool {
    command.kind() == Kind::Release && !command.is_rest()
}

fn over(nodes: &[Node], protocol: Protocol) -> LockManager {
    let builder = LockManager::builder().nodes(nodes.iter().map(|node| node.front.url()));
    let builder = builder.node_timeout(Duration::from_millis(300));
    let manager = builder.protocol(protocol).build().unwrap();
    if protocol == Protocol::Fenced {
        manager.open_nodes().unwrap();
    }
    manager
}

#[test]
fn no_renewal_no_release_and_no_undo_that_comes_late_touches_a_rest() {
    for protocol in [Protocol::Classic, Protocol::Fenced] {
        let nodes: Vec<Node> = (0..3).map(|_| Node::start()).collect();
        let manager = over(&nodes, protocol);
        let request = manager.request("job").ttl(TTL).at_least(MINIMUM);
        let guard = request.keep_alive(KeepAlive::unbounded()).lock().unwrap();
        let token = guard.token().to_owned();
        for node in &nodes {
            node.hold_back(is_of_the_holder);
        }
        // A release by its token.
        let unknown = manager.release("job", &token);
        assert!(matches!(unknown, Err(Error::Unconfirmed { .. })));
        // And a renewal, which is under way when the guard ends.
        let has_begun = |node: &Node| node.stage.late.lock().len() >= 2;
        assert!(eventually(BOUND, || nodes.iter().all(has_begun)));
        guard.unlock().unwrap();

        let rest = Some(format!("rest:{token}"));
        for node in &nodes {
            let before = node.server.pttl("job");
            assert!(node.deliver() >= 2);
            assert_eq!(node.server.get("job"), rest, "{protocol:?}");
            let after = node.server.pttl("job");
            assert!(after <= before, "{protocol:?}: {before} {after}");
            assert!(after > 500_000, "{protocol:?}: {before} {after}");
            // When the rest is over, they set no key again.
            node.server.command(&["DEL", "job"]);
            node.deliver();
            assert_eq!(node.server.get("job"), None, "{protocol:?}");
        }
    }
}

#[test]
fn a_rest_wakes_nobody_and_its_end_by_an_operator_does() {
    let servers = Server::cluster(3);
    let [manager, other] = [(); 2].map(|()| process(&servers, BOUND));
    let request = manager.request("job").ttl(TTL).at_least(TTL * 20);
    let guard = request.lock().unwrap();
    let token = guard.token().to_owned();
    let waiting = thread::spawn(move || {
        let guard = other.try_lock_for("job", TTL, BOUND).unwrap();
        guard.unlock().unwrap();
        other.stats()
    });
    let is_listening = || servers.iter().any(|server| server.blocked() > 0);
    assert!(eventually(BOUND, is_listening));
    guard.unlock().unwrap();
    for server in &servers {
        let bells = server.command(&["EXISTS", "job:redlatch:bell"]);
        assert_eq!(bells, redis::Value::Int(0));
    }
    assert!(is_listening());
    manager.release("job", &format!("rest:{token}")).unwrap();
    let stats = within(BOUND, move || waiting.join().unwrap());
    assert_eq!(stats.woken, 1);
}
