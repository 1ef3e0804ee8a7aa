//! What tests and simulations see of a store, and change in it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Store;
use super::entry::{Content, Entry, Kind, end_of_ms, whole_ms, within};

impl Store {
    /// Takes the keys of an earlier moment.
    pub(crate) fn go_back(&mut self, earlier: Self) {
        self.keys = earlier.keys;
    }

    /// Which process has the keys.
    pub(crate) fn run_id(&self) -> String {
        self.process.run_id()
    }

    /// As `SCRIPT FLUSH`.
    pub(crate) fn forget_scripts(&mut self) {
        self.scripts.clear();
    }

    /// What is under each key that has not ended, in the order of Redis, and its time to live in ms.
    pub(crate) fn contents(&self, now: Duration) -> BTreeMap<String, (Vec<String>, i64)> {
        let entries = self.keys.iter().filter(|(_, entry)| entry.until > now);
        let shown = |(key, entry): (&String, &Entry)| {
            (key.clone(), (parts(&entry.content), entry.pttl(now)))
        };
        entries.map(shown).collect()
    }

    /// The readers of a lock that have not ended, and when the last ms of each begins, on the node's own clock: in that ms, the
    /// end of another reader may delete the key. None if it is not read.
    pub(crate) fn readers(
        &mut self,
        lock: &str,
        now: Duration,
    ) -> Option<impl Iterator<Item = (&str, Duration)>> {
        let now_ms = whole_ms(now);
        self.get(lock, now)?;
        let Content::Members(Kind::Sorted, readers) = &self.keys.get(lock)?.content else {
            return None;
        };
        let readers = readers.iter().filter(move |(_, end)| **end > now_ms);
        let last_ms = |end: &i64| end_of_ms(end.saturating_sub(1));
        Some(readers.map(move |(value, end)| (value.as_str(), last_ms(end))))
    }
}

/// As a server lists it.
fn parts(content: &Content) -> Vec<String> {
    match content {
        Content::Text(text) => vec![text.clone()],
        Content::Members(Kind::Set, members) => members.keys().cloned().collect(),
        Content::List(elements) => elements.iter().cloned().collect(),
        Content::Members(Kind::Sorted, members) => within(members, &(i64::MIN..=i64::MAX))
            .into_iter()
            .map(|(score, member)| format!("{score} {member}"))
            .collect(),
    }
}

pub(crate) fn pack(words: &[impl redis::ToRedisArgs]) -> Vec<u8> {
    let mut command = redis::Cmd::new();
    for word in words {
        command.arg(word);
    }
    command.get_packed_command()
}
