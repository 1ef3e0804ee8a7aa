//! The keys of a fake node. It executes commands, and the very scripts that servers execute.

#[cfg(test)]
use std::collections::BTreeMap;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

pub(crate) use self::entry::{Content, Entry};
use self::process::Process;

mod blocked;
mod commands;
mod entry;
mod interpreter;
pub(crate) mod process;
#[cfg(test)]
mod tests;

/// Keys with a time to live, on the node's own clock.
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

    /// Takes the keys of an earlier moment.
    #[cfg(test)]
    pub(crate) fn go_back(&mut self, earlier: Self) {
        self.keys = earlier.keys;
    }

    /// Which process has the keys.
    #[cfg(test)]
    pub(crate) fn run_id(&self) -> String {
        self.process.run_id()
    }

    pub(crate) fn forget(&mut self) {
        self.keys.clear();
    }

    /// As `SCRIPT FLUSH`.
    #[cfg(test)]
    pub(crate) fn forget_scripts(&mut self) {
        self.scripts.clear();
    }

    /// What is under each key that has not ended, in the order of Redis, and its time to live in ms.
    #[cfg(test)]
    pub(crate) fn contents(&self, now: Duration) -> BTreeMap<String, (Vec<String>, i64)> {
        let entries = self.keys.iter().filter(|(_, entry)| entry.until > now);
        let shown = |(key, entry): (&String, &Entry)| {
            (key.clone(), (entry.content.parts(), entry.pttl(now)))
        };
        entries.map(shown).collect()
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

    /// The readers of a lock that have not ended, and when the last ms of each begins, on the node's own clock: in that ms, the
    /// end of another reader may delete the key. None if it is not read.
    #[cfg(test)]
    pub(crate) fn readers(
        &mut self,
        lock: &str,
        now: Duration,
    ) -> Option<impl Iterator<Item = (&str, Duration)>> {
        let now_ms = self.process.wall_ms(now);
        self.get(lock, now)?;
        let Content::Members(entry::Kind::Sorted, readers) = &self.keys.get(lock)?.content else {
            return None;
        };
        let readers = readers.iter().filter(move |(_, end)| **end > now_ms);
        let last_ms = |end: i64| self.process.after(end.saturating_sub(1));
        Some(readers.map(move |(value, end)| (value.as_str(), last_ms(*end))))
    }

    fn sweep(&mut self, key: &str, now: Duration) {
        if self.keys.get(key).is_some_and(|entry| entry.until <= now) {
            self.keys.remove(key);
        }
    }
}

#[cfg(test)]
pub(crate) fn pack(words: &[impl redis::ToRedisArgs]) -> Vec<u8> {
    let mut command = redis::Cmd::new();
    for word in words {
        command.arg(word);
    }
    command.get_packed_command()
}
