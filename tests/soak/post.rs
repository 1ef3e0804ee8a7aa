//! What the driver tells the workers, and the locks that go from one of them to another.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ChildStdin;

use parking_lot::Mutex;

/// The way to each worker, by its number.
#[derive(Default)]
pub(crate) struct Post {
    workers: Mutex<BTreeMap<u32, Inbox>>,
}

struct Inbox {
    stdin: ChildStdin,
    is_fenced: bool,
}

impl Post {
    pub(crate) fn enters(&self, client: u32, is_fenced: bool, stdin: ChildStdin) {
        let inbox = Inbox { stdin, is_fenced };
        self.workers.lock().insert(client, inbox);
    }

    /// Its input ends.
    pub(crate) fn leaves(&self, client: u32) {
        self.workers.lock().remove(&client);
    }

    pub(crate) fn tell_all(&self, order: &str) {
        for inbox in self.workers.lock().values_mut() {
            // One that has ended is found by `look_after`, or by `finish`.
            writeln!(inbox.stdin, "{order}").ok();
        }
    }

    /// Gives a lock to the next worker that speaks the protocol of this one. What goes to one that has just ended is lost, and the
    /// lock ends by itself.
    pub(crate) fn pass_on(&self, from: u32, parcel: &str) {
        let mut workers = self.workers.lock();
        let Some(is_fenced) = workers.get(&from).map(|inbox| inbox.is_fenced) else {
            return;
        };
        let next = |client: &u32| (*client <= from, *client);
        let others = workers
            .iter_mut()
            .filter(|(client, inbox)| **client != from && inbox.is_fenced == is_fenced);
        if let Some((_, inbox)) = others.min_by_key(|(client, _)| next(client)) {
            writeln!(inbox.stdin, "adopt {parcel}").ok();
        }
    }
}
