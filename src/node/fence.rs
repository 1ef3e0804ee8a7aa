//! The commands of the fenced protocol.

use std::time::Duration;

use super::command::{Keys, flag};
use crate::fencing::{FENCE_IDLE, FencingToken, Rules};
use crate::wire::pack::{Packed, Word, millis};
use crate::wire::scripts::{Script, fenced as scripts};

/// The keys of a lock, and the value that its holder has there.
type KeysAndValue<'a> = (&'a Keys, &'a [u8]);

/// Whether a script is told the marker of the node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Marker {
    Needed,
    NotNeeded,
}

/// What an attempt with the fenced protocol sends beside its key and value.
#[derive(Clone, Copy)]
pub(crate) struct Fence<'a> {
    pub(crate) rules: &'a Rules,
    /// The largest fencing token of the lock.
    pub(crate) token: FencingToken,
    /// How many tokens below it belong to the lock as well.
    pub(crate) reserve: u32,
}

impl Fence<'_> {
    /// Asks for the lock. With `again`, our own key counts as a vote, because the first command may have been executed.
    pub(super) fn acquire(
        &self,
        (keys, value): KeysAndValue<'_>,
        ttl: Duration,
        again: bool,
    ) -> Packed {
        let script = match keys {
            Keys::Lock(_) => &scripts::ACQUIRE_SCRIPT,
            Keys::All(_) => &scripts::ACQUIRE_ALL_SCRIPT,
            Keys::Read(_) => return self.read((keys, value), ttl, again),
        };
        let arguments = self.words_of_acquire(value, ttl, again);
        self.call(("acquire", script), (keys, Marker::Needed), &arguments)
    }

    /// Asks for a read lock, which has no token.
    fn read(&self, (keys, value): KeysAndValue<'_>, ttl: Duration, again: bool) -> Packed {
        let arguments = [
            value.into(),
            millis(ttl),
            flag(again),
            millis(self.rules.quarantine),
            self.rules.config.as_str().into(),
        ];
        let script = &scripts::READ_SCRIPT;
        self.call(("acquire", script), (keys, Marker::Needed), &arguments)
    }

    /// Gives the lock with this value back, and asks for it again as `next`, which is of the same key.
    pub(super) fn pass(
        &self,
        (keys, value): KeysAndValue<'_>,
        next: (&Self, &[u8]),
        ttl: Duration,
    ) -> Packed {
        let (next, next_value) = next;
        let release = self.words_of_release(value, FENCE_IDLE);
        let acquire = next.words_of_acquire(next_value, ttl, true);
        let arguments = [&release[..], &acquire].concat();
        let script = &scripts::PASS_SCRIPT;
        self.call(("pass", script), (keys, Marker::Needed), &arguments)
    }

    /// Extends the key, or sets it again if it is gone and no other client can have had the lock.
    pub(super) fn extend(&self, (keys, value): KeysAndValue<'_>, ttl: Duration) -> Packed {
        let arguments = [
            value.into(),
            millis(ttl),
            u64::from(self.token).into(),
            millis(FENCE_IDLE),
        ];
        let script = match keys {
            Keys::All(_) => &scripts::EXTEND_ALL_SCRIPT,
            Keys::Lock(_) | Keys::Read(_) => &scripts::EXTEND_SCRIPT,
        };
        self.call(("extend", script), (keys, Marker::Needed), &arguments)
    }

    /// Releases the key, and leaves a tombstone in the counter for this time: a late command of this attempt is then refused.
    pub(super) fn release(
        &self,
        (keys, value): KeysAndValue<'_>,
        undo: Option<Word<'_>>,
        kept: Duration,
    ) -> Packed {
        let script = match keys {
            Keys::All(_) => &scripts::RELEASE_ALL_SCRIPT,
            Keys::Lock(_) | Keys::Read(_) => &scripts::RELEASE_SCRIPT,
        };
        let words = self.words_of_release(value, kept).into_iter();
        let arguments: Vec<Word<'_>> = words.chain(undo).collect();
        self.call(("release", script), (keys, Marker::NotNeeded), &arguments)
    }

    /// As [`Self::release`], but nobody gets the lock for this time.
    pub(super) fn rest(&self, (keys, value): KeysAndValue<'_>, ttl: Duration) -> Packed {
        let script = match keys {
            Keys::All(_) => &scripts::REST_ALL_SCRIPT,
            Keys::Lock(_) | Keys::Read(_) => &scripts::REST_SCRIPT,
        };
        let arguments = self.words_of_release(value, FENCE_IDLE);
        let arguments = [&arguments[..], &[millis(ttl)]].concat();
        self.call(("rest", script), (keys, Marker::NotNeeded), &arguments)
    }

    /// Calls a script with the keys of each lock and its counter, and the marker if that is needed.
    fn call(
        &self,
        (name, script): (&'static str, &'static Script),
        (keys, marker): (&Keys, Marker),
        arguments: &[Word<'_>],
    ) -> Packed {
        let locks = keys.each();
        let counters: Vec<String> = locks.iter().map(|key| Rules::fence(key)).collect();
        let mut words: Vec<Word<'_>> = Vec::with_capacity(16);
        // The number of keys comes first, once it is known.
        words.push(0.into());
        for (lock, counter) in locks.iter().zip(&counters) {
            words.extend([Word::from(lock.as_str()), counter.as_str().into()]);
        }
        if marker == Marker::Needed {
            words.push(self.rules.marker.as_str().into());
        }
        let count = u64::try_from(words.len().saturating_sub(1)).unwrap_or(u64::MAX);
        if let Some(first) = words.first_mut() {
            *first = count.into();
        }
        words.extend_from_slice(arguments);
        Packed::call(name, script, &words).about(keys.names())
    }

    fn words_of_release<'a>(&self, value: &'a [u8], kept: Duration) -> [Word<'a>; 4] {
        [
            value.into(),
            self.token.tombstone().into(),
            millis(self.rules.quarantine),
            millis(kept),
        ]
    }

    fn words_of_acquire<'a>(
        &'a self,
        value: &'a [u8],
        ttl: Duration,
        again: bool,
    ) -> [Word<'a>; 8] {
        [
            value.into(),
            millis(ttl),
            u64::from(self.token).into(),
            millis(self.rules.quarantine),
            millis(FENCE_IDLE),
            self.rules.config.as_str().into(),
            flag(again),
            u64::from(self.reserve).into(),
        ]
    }
}
