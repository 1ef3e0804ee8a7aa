//! Threads whose commands go together, for certain: one of them is stopped while it has the only lane to the nodes, until
//! all others queue for it.

use std::collections::HashMap;
use std::fs;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use redlatch::fake::FakeNode;
use redlatch::{Builder, LockGuard, LockManager};
use redlatch_testing::scripted::{Command, Kind, Peer, Scripted};
use redlatch_testing::{eventually, pause};
use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Metadata, Subscriber};

pub(crate) const TTL: Duration = Duration::from_mins(10);
pub(crate) const BOUND: Duration = Duration::from_mins(1);
/// The lock of the thread that is stopped.
pub(crate) const FIRST: &str = "first";

/// What a thread does.
pub(crate) type Job<'j, T> = Box<dyn FnOnce() -> T + Send + 'j>;

/// A manager with one connection to each node, and so with one lane. For half of the node timeout threads queue for it: longer
/// than it takes to bring a crowd together on a busy machine.
pub(crate) fn with_one_lane<'s>(servers: impl IntoIterator<Item = &'s Scripted>) -> Builder {
    let urls = servers.into_iter().map(Scripted::url);
    let builder = LockManager::builder().nodes(urls).pool_size(1);
    builder.node_timeout(BOUND * 2)
}

/// A job that asks for a lock once.
pub(crate) fn asks<'j>(
    manager: &'j LockManager,
    name: &'j str,
) -> Job<'j, Result<LockGuard, redlatch::Error>> {
    Box::new(move || manager.try_lock(name, TTL))
}

/// Does the jobs on threads of their own, so that their commands go to the nodes in one write, in this order. Returns what
/// they come to.
#[track_caller]
pub(crate) fn together<T: Send>(manager: &LockManager, jobs: Vec<Job<'_, T>>) -> Vec<T> {
    let first = manager.try_lock(FIRST, TTL).unwrap();
    let leader: Job<'_, ()> = Box::new(|| first.extend(TTL * 2).unwrap());
    together_behind(leader, jobs, || ())
}

/// The same behind another command, and does something else when all of them queue.
#[track_caller]
pub(crate) fn together_behind<T: Send>(
    leader: Job<'_, ()>,
    jobs: Vec<Job<'_, T>>,
    when_all_queue: impl FnOnce(),
) -> Vec<T> {
    let stage = Brake::that_works();
    thread::scope(|scope| {
        // Also if this thread panics: the scope waits for the others.
        let released = Released(&stage);
        let dispatch = Dispatch::new(Brake(Arc::clone(&stage)));
        stage.state.lock().is_on = true;
        scope.spawn(move || tracing::dispatcher::with_default(&dispatch, leader));
        let stands = || stage.state.lock().has_stopped_one;
        assert!(eventually(BOUND, stands), "nobody came to a node");
        let (send, names) = channel();
        let threads = jobs.into_iter().map(|job| {
            let send = send.clone();
            let thread = scope.spawn(move || {
                let here = fs::read_link("/proc/thread-self").unwrap();
                send.send(here).unwrap();
                job()
            });
            wait_until_asleep(names.recv().unwrap().to_str().unwrap());
            thread
        });
        let threads: Vec<_> = threads.collect();
        when_all_queue();
        drop(released);
        let results = threads.into_iter().map(|thread| thread.join().unwrap());
        results.collect()
    })
}

/// Waits until a thread sleeps, and has slept for some time: it holds nothing, and waits for another thread.
#[track_caller]
fn wait_until_asleep(thread: &str) {
    let is_asleep = eventually(BOUND, || {
        let first = sleeps(thread);
        let goes_on = || {
            pause(Duration::from_millis(2));
            sleeps(thread) == first
        };
        first.is_some() && (0..3).all(|_| goes_on())
    });
    assert!(is_asleep, "{thread} does not sleep");
}

/// How often a thread has gone to sleep, if it sleeps.
fn sleeps(thread: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let line = |name: &str| status.lines().find(|line| line.starts_with(name));
    let is_asleep = line("State:")?.contains("S (");
    let count = line("voluntary_ctxt_switches:")?;
    is_asleep.then(|| count.to_owned())
}

/// Stops the thread that comes to the span of a node next, with its lane, and before it sends anything.
struct Brake(Arc<Stage>);

#[derive(Default)]
struct Stage {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_on: bool,
    has_seen_one: bool,
    has_stopped_one: bool,
}

/// Lets the thread go on when it is dropped.
struct Released<'s>(&'s Stage);

impl Drop for Released<'_> {
    fn drop(&mut self) {
        self.0.state.lock().is_on = false;
        self.0.changed.notify_all();
    }
}

impl Brake {
    /// Whether anybody wants a span is asked once and remembered. A thread that comes to one for the first time at the moment
    /// when a subscriber begins to listen may remember that nobody does, until the next subscriber comes.
    #[track_caller]
    fn that_works() -> Arc<Stage> {
        let nodes = FakeNode::cluster(1);
        let manager = LockManager::builder().fakes(&nodes).build().unwrap();
        let stage = Arc::new(Stage::default());
        let is_heard = eventually(BOUND, || {
            let dispatch = Dispatch::new(Self(Arc::clone(&stage)));
            let ask = || drop(manager.try_lock("job", TTL));
            tracing::dispatcher::with_default(&dispatch, ask);
            stage.state.lock().has_seen_one
        });
        assert!(is_heard, "no span is heard");
        stage
    }
}

impl Subscriber for Brake {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        if attributes.metadata().name() == "redlatch.node" {
            let mut state = self.0.state.lock();
            state.has_seen_one = true;
            while state.is_on {
                state.has_stopped_one = true;
                self.0.changed.wait(&mut state);
            }
        }
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// What a server got in one write, which are the commands that came before it answered any of them.
pub(crate) type Writes = Arc<Mutex<Vec<Vec<Command>>>>;

/// A server that answers all commands of a write at once, when it has all of them, and notes the writes.
pub(crate) fn answering_writes(
    reply: impl Fn(&Command) -> Vec<u8> + Send + Sync + 'static,
) -> (Scripted, Writes) {
    let writes = Writes::default();
    let (noted, pending) = (Arc::clone(&writes), Pending::default());
    let server = Scripted::start(move |peer, command| {
        if let Some(write) = whole_write(&pending, peer, command) {
            let replies: Vec<u8> = write.iter().flat_map(&reply).collect();
            noted.lock().push(write);
            peer.say(&replies);
        }
    });
    (server, writes)
}

/// The commands of writes that have not come as a whole, by their connections.
type Pending = Mutex<HashMap<usize, Vec<Command>>>;

/// All commands of a write, with the last of them. For a script that gets them one by one.
fn whole_write(pending: &Pending, peer: &Peer, command: &Command) -> Option<Vec<Command>> {
    let begun = pending.lock().remove(&command.connection);
    let mut write = begun.unwrap_or_default();
    write.push(command.clone());
    // One write comes in one piece, or nearly so.
    if peer.has_more(Duration::from_millis(30)) {
        pending.lock().insert(command.connection, write);
        return None;
    }
    Some(write)
}

/// The keys of each write that is about other locks than [`FIRST`].
pub(crate) fn keys_of(writes: &Writes) -> Vec<Vec<String>> {
    let writes = writes.lock();
    let others = writes.iter().map(|write| {
        let keys = write.iter().map(|command| command.key().to_owned());
        keys.filter(|key| key != FIRST).collect::<Vec<_>>()
    });
    others.filter(|keys| !keys.is_empty()).collect()
}

/// Consent in either protocol.
pub(crate) fn consent(command: &Command) -> Vec<u8> {
    let is_acquire = command.asks_for_a_lock() && command.kind() != Kind::Extend;
    if is_acquire {
        b"+OK\r\n".to_vec()
    } else {
        command.consent().to_vec()
    }
}
