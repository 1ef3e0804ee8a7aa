//! Waiting: the threads of this manager wait in a queue, and the first of them waits for other processes, at one node.
//!
//! `spec` is what a call asks for. `waiting` says what the call does next, by what it reads in a `refusal`; `arbiter` has its looks at
//! that node, and `queue` its turn among the threads. `courtesy` remembers other clients, and `held` the locks of this manager.

pub(crate) mod arbiter;
pub(crate) mod cancel;
pub(crate) mod courtesy;
pub(crate) mod held;
pub(crate) mod queue;
#[cfg(test)]
#[path = "../tests/rooms/contend/queue_answers.rs"]
mod queue_answers;
#[cfg(test)]
#[path = "../tests/rooms/contend/queue_model.rs"]
mod queue_model;
mod refusal;
pub(crate) mod spec;
pub(crate) mod waiting;

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};

use crate::clock::nap;
use crate::sync;

/// Values by hashes, which are not hashed again.
pub(crate) type ByHash<T> = HashMap<u64, T, BuildHasherDefault<KnownHash>>;

#[derive(Default)]
pub(crate) struct KnownHash(u64);

impl Hasher for KnownHash {
    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Hashes of names. Nobody can choose two names that have one hash, because nobody knows the keys of these hashes.
#[derive(Default)]
pub(crate) struct Hashes(RandomState);

impl Hashes {
    pub(crate) fn of(&self, name: &str) -> u64 {
        self.0.hash_one(name)
    }
}
