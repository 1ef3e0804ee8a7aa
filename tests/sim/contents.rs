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
    /// When it ends, by the node's clock.
    pub(crate) until: Duration,
}

/// What a command is about.
#[derive(Clone, Copy)]
pub(crate) struct Own<'a> {
    /// The token that it has.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn readers(entries: &[(&str, u64)]) -> Contents {
        let last = entries.iter().map(|(_, until)| *until).max();
        let entries = entries.iter().map(|(token, until)| Entry {
            token: (*token).into(),
            until: at(*until),
        });
        Contents::readers(entries.collect(), at(last.unwrap_or(0)))
    }

    const MINE: Own<'_> = Own {
        token: "mine",
        ends: None,
    };

    const END: Own<'_> = Own {
        token: "mine",
        ends: Some("mine"),
    };

    #[test]
    fn a_reader_comes_extends_and_goes_beside_others() {
        let alone = readers(&[("other", 5)]);
        let both = readers(&[("other", 5), ("mine", 3)]);
        let longer = readers(&[("other", 5), ("mine", 8)]);
        let nothing = Contents::default();
        for (before, after, own) in [
            (&nothing, readers(&[("mine", 1)]), MINE),
            (&alone, both.clone(), MINE),
            (&both, longer.clone(), MINE),
            (&both, both.clone(), MINE),
            (&longer, alone.clone(), END),
            (&readers(&[("mine", 1)]), nothing.clone(), END),
            (&alone, alone.clone(), END),
        ] {
            assert_eq!(after.wrong_since(before, own), None, "{before:?} {after:?}");
        }
    }

    #[test]
    fn whoever_touches_the_entry_of_another_is_seen() {
        let both = readers(&[("other", 5), ("mine", 3)]);
        for (after, what) in [
            (readers(&[("mine", 3)]), "deleted what another holder has"),
            (Contents::default(), "deleted what another holder has"),
            (
                Contents::value("mine", at(5)),
                "deleted what another holder has",
            ),
            (
                readers(&[("other", 9), ("mine", 3)]),
                "changed the time of what another holder has",
            ),
            (
                readers(&[("other", 4), ("mine", 3)]),
                "changed the time of what another holder has",
            ),
            (
                readers(&[("other", 5), ("mine", 3), ("third", 1)]),
                "set what is another's",
            ),
        ] {
            for own in [MINE, END] {
                assert_eq!(after.wrong_since(&both, own), Some(what), "{after:?}");
            }
        }
    }

    #[test]
    fn an_extension_that_shortens_and_a_key_that_outlives_its_readers_are_seen() {
        let both = readers(&[("other", 5), ("mine", 3)]);
        let shorter = readers(&[("other", 5), ("mine", 2)]);
        let gone = readers(&[("other", 5)]);
        let late = Contents::readers(gone.entries().to_vec(), at(9));
        let early = Contents::readers(both.entries().to_vec(), at(3));
        let shortened = Some("shortened what it was to extend");
        assert_eq!(shorter.wrong_since(&both, MINE), shortened);
        assert_eq!(gone.wrong_since(&both, MINE), shortened);
        let ends = Some("left a key that ends at another time");
        assert_eq!(late.wrong_since(&both, END), ends);
        assert_eq!(early.wrong_since(&both, MINE), ends);
    }

    #[test]
    fn a_lock_is_set_rests_is_passed_on_and_is_given_back() {
        let nothing = Contents::default();
        let mine = Contents::value("mine", at(3));
        let rest = Contents::value("rest:mine", at(9));
        let pass = Own {
            token: "mine",
            ends: Some("before"),
        };
        let before = Contents::value("before", at(1));
        assert_eq!(mine.wrong_since(&nothing, MINE), None);
        assert_eq!(rest.wrong_since(&mine, END), None);
        assert_eq!(nothing.wrong_since(&mine, END), None);
        assert_eq!(mine.wrong_since(&before, pass), None);
        assert!(mine.wrong_since(&before, MINE).is_some());
        assert!(nothing.wrong_since(&rest, END).is_some());
    }
}
