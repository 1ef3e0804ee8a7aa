//! What a node has under a key: nothing, the value of a holder, or the entries of readers. And what a command must not do
//! to it.

use std::time::Duration;

/// What is under a key, as far as it has not expired.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    /// The entry of the holder, or the entries of all readers.
    entries: Vec<Entry>,
    /// When the key expires, by the node's clock.
    until: Duration,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Nothing,
    Value,
    Readers,
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

impl Contents {
    pub(crate) fn value(token: &str, until: Duration) -> Self {
        let token = token.to_owned();
        Self {
            entries: vec![Entry { token, until }],
            until,
            kind: Kind::Value,
        }
    }

    /// A set of readers that expires then, of whom these are left. Without any, it is as good as nothing.
    pub(crate) fn readers(entries: Vec<Entry>, until: Duration) -> Self {
        if entries.is_empty() {
            return Self::default();
        }
        Self {
            entries,
            until,
            kind: Kind::Readers,
        }
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
                None => return Some("deleted what another holder has"),
                Some(entry) if entry != theirs => {
                    return Some("changed the time of what another holder has");
                }
                Some(_) => {}
            }
        }
        let rest = format!("rest:{}", own.token);
        let mut new = self.entries.iter();
        if new.any(|entry| !before.has(&entry.token) && !is_own(&entry) && entry.token != rest) {
            return Some("set what is another's");
        }
        if own.ends.is_none()
            && let Some(mine) = before.entry(own.token)
            && self
                .entry(own.token)
                .is_none_or(|entry| entry.until < mine.until)
        {
            return Some("shortened what it was to extend");
        }
        let last = self.entries.iter().map(|entry| entry.until).max();
        (self.until != last.unwrap_or_default()).then_some("left a key that ends at another time")
    }
}

#[test]
fn whoever_touches_what_another_has_is_seen() {
    let at = Duration::from_secs;
    let set = |entries: &[(&str, u64)], until| {
        let entries = entries.iter().map(|(token, until)| Entry {
            token: (*token).into(),
            until: at(*until),
        });
        Contents::readers(entries.collect(), at(until))
    };
    let [nothing, other] = [set(&[], 0), set(&[("other", 5)], 5)];
    let [both, longer] = [3, 8].map(|end| set(&[("other", 5), ("mine", end)], end.max(5)));
    let value = |token, until| Contents::value(token, at(until));
    let token = "mine";
    let [own, end, pass] = [None, Some("mine"), Some("before")].map(|ends| Own { token, ends });
    let deleted = Some("deleted what another holder has");
    let changed = Some("changed the time of what another holder has");
    let (short, late) = (
        "shortened what it was to extend",
        "left a key that ends at another time",
    );
    for (before, after, own, wrong) in [
        (&nothing, set(&[("mine", 1)], 1), own, None),
        (&other, both.clone(), own, None),
        (&both, longer.clone(), own, None),
        (&longer, other.clone(), end, None),
        (&nothing, value("mine", 3), own, None),
        (&value("mine", 3), value("rest:mine", 9), end, None),
        (&value("before", 1), value("mine", 3), pass, None),
        (&value("before", 1), value("mine", 3), own, deleted),
        (&value("rest:mine", 9), nothing.clone(), end, deleted),
        (&both, set(&[("mine", 3)], 3), own, deleted),
        (&both, value("mine", 5), end, deleted),
        (&both, set(&[("other", 9), ("mine", 3)], 9), own, changed),
        (&both, set(&[("other", 4), ("mine", 3)], 4), end, changed),
        (
            &other,
            set(&[("other", 5), ("third", 1)], 5),
            own,
            Some("set what is another's"),
        ),
        (&longer, both.clone(), own, Some(short)),
        (&both, other.clone(), own, Some(short)),
        (&both, set(&[("other", 5)], 9), end, Some(late)),
        (&both, set(&[("other", 5), ("mine", 3)], 3), own, Some(late)),
    ] {
        assert_eq!(
            after.wrong_since(before, own),
            wrong,
            "{before:?} {after:?}"
        );
    }
}
