//! The slots of semaphores: which of them guards of this manager have, and which of them an attempt asks for.

use std::collections::HashMap;
use std::sync::Arc;

use super::sync::Mutex;
use crate::clock::Timestamp;
use crate::error::Error;
use crate::lease::state::LeaseState;

/// The most permits of a semaphore. A look asks for all slots.
const MOST_PERMITS: u32 = 256;

/// How many slots are asked for in succession, without a wait in between.
const MOST_ATTEMPTS: usize = 8;

/// Refuses a number of permits that no semaphore can have.
pub(crate) fn check_permits(permits: u32) -> Result<(), Error> {
    let reason = match permits {
        0 => "nobody would ever get one; ask for at least 1",
        1..=MOST_PERMITS => return Ok(()),
        _ => "the most are 256; ask for fewer, or split the work into several semaphores",
    };
    let reason = reason.to_owned();
    Err(Error::InvalidPermits { permits, reason })
}

/// The order in which these slots are asked for: from a random one on, so that contenders begin at different slots.
pub(crate) fn in_turn(mut slots: Vec<u32>, random: u32) -> Vec<u32> {
    let random = usize::try_from(random).unwrap_or_default();
    let first = random.checked_rem(slots.len()).unwrap_or_default();
    slots.rotate_left(first);
    slots.truncate(MOST_ATTEMPTS);
    slots
}

/// The slots that guards of a manager have, by the names of their semaphores.
pub(crate) struct Slots {
    taken: Mutex<HashMap<Arc<str>, Vec<Arc<LeaseState>>>>,
    process: u32,
}

/// A slot that a guard of this manager has. Its drop, after the release, frees it for the threads of this manager.
pub(crate) struct Seat {
    slots: Arc<Slots>,
    lease: Arc<LeaseState>,
}

impl Slots {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            taken: Mutex::new(HashMap::new()),
            process: std::process::id(),
        })
    }

    pub(crate) fn take(self: &Arc<Self>, lease: &Arc<LeaseState>) -> Seat {
        let mut taken = self.taken.lock();
        let of_semaphore = taken.entry(Arc::clone(&lease.resource)).or_default();
        of_semaphore.push(Arc::clone(lease));
        Seat {
            slots: Arc::clone(self),
            lease: Arc::clone(lease),
        }
    }

    /// Those of the slots that no guard of this manager has. A guard has its slot until its validity ends.
    pub(crate) fn without_own(
        &self,
        semaphore: &str,
        slots: impl Iterator<Item = u32>,
        now: Timestamp,
    ) -> Vec<u32> {
        let taken = self.taken.lock();
        let own = taken.get(semaphore).map_or(&[][..], Vec::as_slice);
        let has =
            |lease: &Arc<LeaseState>, slot| lease.slot() == Some(slot) && now < lease.deadline();
        let is_own = |slot: &u32| own.iter().any(|lease| has(lease, *slot));
        slots.filter(|slot| !is_own(slot)).collect()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        // In a forked child, the mutex may stay locked by a thread of the parent.
        if std::process::id() != self.slots.process {
            return;
        }
        let mut taken = self.slots.taken.lock();
        if let Some(of_semaphore) = taken.get_mut(&self.lease.resource) {
            of_semaphore.retain(|lease| !Arc::ptr_eq(lease, &self.lease));
            if of_semaphore.is_empty() {
                taken.remove(&self.lease.resource);
            }
        }
    }
}
