//! The keys of a fake node. It executes commands, and the very scripts that servers execute.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use self::entry::{Content, Entry};
#[cfg(test)]
pub(crate) use self::inspect::pack;
use self::process::Process;

mod blocked;
mod commands;
mod entry;
#[cfg(test)]
mod inspect;
mod interpreter;
pub(crate) mod process;
#[cfg(test)]
mod tests;

/// Keys with a time to live, on the node's own clock: it shows the time since the Unix epoch.
#[derive(Clone)]
pub(crate) struct Store {
    keys: HashMap<String, Entry>,
    process: Process,
    /// The digests of the scripts that this process was sent.
    scripts: BTreeSet<&'static str>,
    /// The clients that listen, in the order in which they came.
    listeners: Vec<Listener>,
    /// Whether a bell has rung, so that those who listen have to be looked for.
    has_rung: bool,
}

/// A client that blocks until a bell rings.
#[derive(Clone)]
struct Listener {
    connection: usize,
    bell: String,
    /// On the node's own clock.
    until: Duration,
}

impl Store {
    pub(crate) fn of(process: Process) -> Self {
        Self {
            keys: HashMap::new(),
            process,
            scripts: BTreeSet::new(),
            listeners: Vec::new(),
            has_rung: false,
        }
    }

    /// Begins another life of the process; the keys stay.
    pub(crate) fn restart(&mut self, now: Duration) {
        self.process.restart(now);
        self.scripts.clear();
    }

    pub(crate) fn forget(&mut self) {
        self.keys.clear();
    }

    pub(crate) fn get(&mut self, key: &str, now: Duration) -> Option<&mut Entry> {
        self.sweep(key, now);
        self.keys.get_mut(key)
    }

    pub(crate) fn put(&mut self, key: &str, value: &str, until: Duration) {
        let content = Content::Text(value.to_owned());
        self.keys.insert(key.to_owned(), Entry { content, until });
    }

    pub(crate) fn value(&mut self, key: &str, now: Duration) -> Option<String> {
        let text = self.get(key, now)?.text().ok()?;
        Some(text.to_owned())
    }

    fn sweep(&mut self, key: &str, now: Duration) {
        if self.keys.get(key).is_some_and(|entry| entry.until <= now) {
            self.keys.remove(key);
        }
    }
}
