//! The commands of the fenced protocol.

use std::time::Duration;

use super::command::Keys;
use crate::fencing::{FENCE_IDLE, FencingToken, Rules};
use crate::wire::pack::{Packed, Word, millis};
use crate::wire::scripts::fenced as scripts;

/// The keys of a lock, and the value that its holder has there.
type KeysAndValue<'a> = (&'a Keys, &'a [u8]);

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
        let key = keys.first();
        let counter = Rules::fence(key);
        let keys = self.keys(key, &counter);
        let arguments = self.words_of_acquire(value, ttl, again);
        let rest = [&keys[..], &arguments].concat();
        Packed::call("acquire", &scripts::ACQUIRE_SCRIPT, &rest)
    }

    /// Gives the lock with this value back, and asks for it again as `next`, which is of the same key.
    pub(super) fn pass(
        &self,
        (keys, value): KeysAndValue<'_>,
        next: (&Self, &[u8]),
        ttl: Duration,
    ) -> Packed {
        let key = keys.first();
        let counter = Rules::fence(key);
        let keys = self.keys(key, &counter);
        let (next, next_value) = next;
        let release = self.words_of_release(value);
        let acquire = next.words_of_acquire(next_value, ttl, true);
        let rest = [&keys[..], &release, &acquire].concat();
        Packed::call("pass", &scripts::PASS_SCRIPT, &rest)
    }

    /// Extends the key, or sets it again if it is gone and no other client can have had the lock.
    pub(super) fn extend(&self, (keys, value): KeysAndValue<'_>, ttl: Duration) -> Packed {
        let key = keys.first();
        let counter = Rules::fence(key);
        let arguments = [
            value.into(),
            millis(ttl),
            u64::from(self.token).into(),
            millis(FENCE_IDLE),
        ];
        let rest = [&self.keys(key, &counter)[..], &arguments].concat();
        Packed::call("extend", &scripts::EXTEND_SCRIPT, &rest)
    }

    /// Releases the key, and leaves a tombstone in the counter: a late command of this attempt is then refused.
    pub(super) fn release(&self, (keys, value): KeysAndValue<'_>) -> Packed {
        let key = keys.first();
        let counter = Rules::fence(key);
        let head = ["2".into(), key.into(), counter.as_str().into()];
        let rest = [&head[..], &self.words_of_release(value)].concat();
        Packed::call("release", &scripts::RELEASE_SCRIPT, &rest)
    }

    /// As [`Self::release`], but nobody gets the lock for this time.
    pub(super) fn rest(&self, (keys, value): KeysAndValue<'_>, ttl: Duration) -> Packed {
        let key = keys.first();
        let counter = Rules::fence(key);
        let head = ["2".into(), key.into(), counter.as_str().into()];
        let arguments = self.words_of_release(value);
        let rest = [&head[..], &arguments, &[millis(ttl)]].concat();
        Packed::call("rest", &scripts::REST_SCRIPT, &rest)
    }

    /// The number of keys, and the keys: the lock, the counter and the marker.
    fn keys<'a>(&'a self, key: &'a str, counter: &'a str) -> [Word<'a>; 4] {
        let marker = self.rules.marker.as_str();
        ["3".into(), key.into(), counter.into(), marker.into()]
    }

    fn words_of_release<'a>(&self, value: &'a [u8]) -> [Word<'a>; 4] {
        [
            value.into(),
            self.token.tombstone().into(),
            millis(self.rules.quarantine),
            millis(FENCE_IDLE),
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
            if again { "1" } else { "0" }.into(),
            u64::from(self.reserve).into(),
        ]
    }
}
