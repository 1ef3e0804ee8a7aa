//! The locks that programs have, for the figures: a guard that was forgotten never says that its lock has ended.

use std::collections::HashMap;
use std::ptr;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::clock::Timestamp;
use crate::lease::state::LeaseState;

/// For how many locks there is always room once it is made.
const ROOM: usize = 64;

/// The locks of the guards that programs have got, by their addresses.
#[derive(Default)]
pub(crate) struct Held(Mutex<HashMap<usize, Arc<LeaseState>>>);

impl Held {
    pub(super) fn add(&self, lease: &Arc<LeaseState>) {
        self.0.lock().insert(address(lease), Arc::clone(lease));
    }

    pub(super) fn remove(&self, lease: &LeaseState) {
        let mut held = self.0.lock();
        let removed = held.remove(&address(lease));
        let needed = held.len().max(ROOM);
        if held.capacity() / 4 > needed {
            held.shrink_to(needed);
        }
        // Dropped after the mutex.
        drop(held);
        drop(removed);
    }

    /// Counts and logs the locks whose validity has ended and whose guards have not noticed.
    pub(crate) fn note_ends(&self, now: Timestamp) {
        let held = self.0.lock();
        let ended = held.values().filter(|lease| lease.deadline() <= now);
        let mut ended: Vec<_> = ended.map(Arc::clone).collect();
        drop(held);
        ended.sort_by_key(|lease| lease.since());
        for lease in ended {
            // Without the mutex, because the program's logger may use a lock.
            if lease.loss_at(now).is_some() {
                self.remove(&lease);
            }
        }
    }
}

fn address(lease: &LeaseState) -> usize {
    ptr::from_ref(lease).addr()
}
