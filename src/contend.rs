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

use crate::clock::nap;
use crate::sync;

/// A quick hash of names, without a seed.
#[derive(Default)]
pub(crate) struct Quick(u64);

impl std::hash::Hasher for Quick {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        let mut last = [0; 8];
        last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        for word in words.iter().chain([&last]) {
            let mixed = self.0 ^ u64::from_ne_bytes(*word);
            self.0 = mixed.wrapping_mul(0xf135_7aea_2e62_a9c5).rotate_left(23);
        }
    }

    fn write_u8(&mut self, _: u8) {}

    fn finish(&self) -> u64 {
        let mixed = (self.0 ^ (self.0 >> 32)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 29)
    }
}
