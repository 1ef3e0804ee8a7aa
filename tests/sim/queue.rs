//! What is going to happen, in the order of time.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::clocks::Nanos;
use super::wire::Message;

/// Something for a background thread to do.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

pub(crate) enum Event {
    /// A task goes on, if it is still in this wait.
    Wake {
        task: usize,
        wait: u64,
    },
    /// Something is due on a client's background thread.
    Job {
        client: usize,
        thread: usize,
        job: Job,
    },
    /// A command comes to its node.
    Request {
        connection: usize,
        message: Message,
    },
    /// A reply comes to its client.
    Reply {
        connection: usize,
        value: crate::wire::resp::Reply,
    },
    /// A client learns that its connection has ended.
    Reset {
        connection: usize,
    },
    /// A node looks who has listened for long enough.
    Unblock {
        connection: usize,
    },
    /// A node learns that the client of a connection has gone.
    Gone {
        connection: usize,
    },
    /// A trouble of the plan begins, or ends.
    Begin {
        episode: usize,
    },
    End {
        episode: usize,
    },
    /// All troubles are over.
    Calm,
    /// The next phase of the run.
    Next,
}

#[derive(Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Entry>,
    pushed: u64,
    popped: u64,
}

struct Entry {
    due: Reverse<(Nanos, u64)>,
    event: Event,
}

impl Queue {
    /// What is due at the same time happens in the order in which it was pushed.
    pub(crate) fn push(&mut self, at: Nanos, event: Event) {
        self.pushed += 1;
        let due = Reverse((at, self.pushed));
        self.heap.push(Entry { due, event });
    }

    pub(crate) fn pop(&mut self) -> Option<(Nanos, Event)> {
        let entry = self.heap.pop()?;
        self.popped += 1;
        Some((entry.due.0.0, entry.event))
    }

    pub(crate) fn popped(&self) -> u64 {
        self.popped
    }

    /// When the last command that is under way arrives.
    pub(crate) fn last_arrival(&self) -> Nanos {
        let requests = self
            .heap
            .iter()
            .filter(|entry| matches!(entry.event, Event::Request { .. }));
        requests.map(|entry| entry.due.0.0).max().unwrap_or(0)
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.due == other.due
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.due.cmp(&other.due)
    }
}
