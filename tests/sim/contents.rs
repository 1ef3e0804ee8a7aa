//! What a node has under a key: nothing, the value of a holder, or the entries of readers. And what a command must not do
//! to it.

use super::prelude::*;

/// What is under a key, as far as it has not expired.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    /// The entry of the holder, or the entries of all readers.
    entries: Vec<Entry>,
    /// When the key expires, by the node's clock.
    until: Duration,
}

/// What a holder, or a reader, has under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) token: String,
    pub(crate) until: Duration,
}

/// What a command is about.
#[derive(Clone, Copy)]
pub(crate) struct Own<'a> {
    pub(crate) token: &'a str,
    /// The token of the lock that the command ends, too.
    pub(crate) ends: Option<&'a str>,
}

const DELETED: &str = "deleted what another holder has";
const CHANGED: &str = "changed the time of what another holder has";
const SET: &str = "set what is another's";
const SHORTENED: &str = "shortened what it was to extend";
const MISTIMED: &str = "left a key that ends at another time";

impl Contents {
    /// A key that expires then, with the entries that are left. Without any, it is as good as nothing.
    pub(crate) fn new(entries: Vec<Entry>, until: Duration) -> Self {
        if entries.is_empty() {
            return Self::default();
        }
        Self { entries, until }
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(crate) fn entry(&self, token: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.token == token)
    }

    pub(crate) fn has(&self, token: &str) -> bool {
        self.entry(token).is_some()
    }

    /// What a command has done that it must not do, if it has turned the content `before` into this one.
    pub(crate) fn wrong_since(&self, before: &Self, own: Own<'_>) -> Option<&'static str> {
        let is_own = |entry: &&Entry| entry.token == own.token || own.ends == Some(&*entry.token);
        let others = before.entries.iter().filter(|entry| !is_own(entry));
        for theirs in others {
            match self.entry(&theirs.token) {
                None => return Some(DELETED),
                Some(entry) if entry != theirs => return Some(CHANGED),
                Some(_) => {}
            }
        }
        let rest = format!("rest:{}", own.token);
        let mut new = self.entries.iter();
        if new.any(|entry| !before.has(&entry.token) && !is_own(&entry) && entry.token != rest) {
            return Some(SET);
        }
        if own.ends.is_none()
            && let Some(mine) = before.entry(own.token)
            && self
                .entry(own.token)
                .is_none_or(|entry| entry.until < mine.until)
        {
            return Some(SHORTENED);
        }
        let last = self.entries.iter().map(|entry| entry.until).max();
        (self.until != last.unwrap_or_default()).then_some(MISTIMED)
    }
}

#[test]
fn whoever_touches_what_another_has_is_seen() {
    // Each entry with its end, and the end of the key last.
    let set = |text: &str| {
        let mut entries: Vec<Entry> = Vec::new();
        for entry in text.split(' ') {
            let (token, until) = entry.split_once('=').unwrap();
            let until = Duration::from_secs(until.parse().unwrap());
            let token = token.to_owned();
            entries.push(Entry { token, until });
        }
        let key = entries.pop().unwrap();
        Contents::new(entries, key.until)
    };
    let token = "mine";
    let [own, end, pass] = [None, Some("mine"), Some("before")].map(|ends| Own { token, ends });
    for (before, after, own, wrong) in [
        ("key=0", "mine=1 key=1", own, ""),
        ("other=5 key=5", "other=5 mine=3 key=5", own, ""),
        ("other=5 mine=3 key=5", "other=5 mine=8 key=8", own, ""),
        ("other=5 mine=8 key=8", "other=5 key=5", end, ""),
        ("mine=3 key=3", "rest:mine=9 key=9", end, ""),
        ("before=1 key=1", "mine=3 key=3", pass, ""),
        ("before=1 key=1", "mine=3 key=3", own, DELETED),
        ("rest:mine=9 key=9", "key=0", end, DELETED),
        ("other=5 mine=3 key=5", "mine=5 key=5", end, DELETED),
        ("other=5 key=5", "other=9 mine=3 key=9", own, CHANGED),
        ("other=5 mine=3 key=5", "other=4 mine=3 key=4", end, CHANGED),
        ("other=5 key=5", "other=5 third=1 key=5", own, SET),
        (
            "other=5 mine=8 key=8",
            "other=5 mine=3 key=5",
            own,
            SHORTENED,
        ),
        ("other=5 mine=3 key=5", "other=5 key=5", own, SHORTENED),
        ("other=5 mine=3 key=5", "other=5 key=9", end, MISTIMED),
        ("other=5 key=5", "other=5 mine=3 key=3", own, MISTIMED),
    ] {
        let found = set(after).wrong_since(&set(before), own);
        assert_eq!(found.unwrap_or_default(), wrong, "{before}, then {after}");
    }
}
