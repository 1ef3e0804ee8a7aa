//! The locks that the guards of a manager have.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::sync::Mutex;
use crate::clock::Timestamp;
use crate::lease::state::LeaseState;

/// The locks of guards by their numbers, until their guards give them back.
#[derive(Default)]
pub(crate) struct Held(Mutex<BTreeMap<u64, Arc<LeaseState>>>);

impl Held {
    pub(crate) fn add(&self, lease: &Arc<LeaseState>) {
        self.0.lock().insert(lease.number, Arc::clone(lease));
    }

    pub(crate) fn remove(&self, lease: &LeaseState) {
        // The caller has another reference, so this drops no lease under the mutex.
        self.0.lock().remove(&lease.number);
    }

    /// Those of the slots that no guard of this manager has. A guard has its slot until its validity ends.
    pub(crate) fn free_slots(
        &self,
        semaphore: &str,
        slots: impl IntoIterator<Item = u32>,
        now: Timestamp,
    ) -> Vec<u32> {
        let held = self.0.lock();
        let of_semaphore = held.values().filter(|lease| &**lease.name() == semaphore);
        let valid = of_semaphore.filter(|lease| now < lease.deadline());
        let taken: Vec<_> = valid
            .map(|lease| lease.claim.resource.kind.slot())
            .collect();
        let slots = slots.into_iter();
        slots.filter(|slot| !taken.contains(&Some(*slot))).collect()
    }

    /// Counts and logs the locks whose validity has ended and whose guards have not noticed. A guard that the program has forgotten
    /// never notices.
    pub(crate) fn note_ends(&self, now: Timestamp) {
        let held = self.0.lock();
        let all = held.values();
        let ended = all.filter(|lease| lease.deadline() <= now).cloned();
        let mut ended: Vec<_> = ended.collect();
        drop(held);
        ended.sort_by_key(|lease| lease.since);
        for lease in ended {
            // Without the mutex, because the program's logger may use a lock.
            drop(lease.loss_by(now));
        }
    }

    /// How many locks there are.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.0.lock().len()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::claim::{Claim, Kind};
    use crate::clock::{FakeClock, at};
    use crate::node::Leftover::Possible;

    /// A permit with this slot of `job`.
    pub(in crate::contend) fn lease(slot: u32, until: Timestamp) -> Arc<LeaseState> {
        let claim = Claim::of_kind("job", Kind::Slot(slot));
        Arc::new(LeaseState::on(
            &FakeClock::new(),
            claim,
            [const { Possible }; 3],
            until,
        ))
    }

    #[test]
    fn a_slot_is_taken_until_its_guard_is_gone_or_its_validity_is_over() {
        let held = Held::default();
        let free = |name, now| held.free_slots(name, 0..3, now);
        let [first, second] = [lease(0, at(10)), lease(2, at(20))];
        held.add(&first);
        held.add(&second);
        assert_eq!(free("job", at(9)), [1]);
        assert_eq!(free("other", at(9)), [0, 1, 2]);
        assert_eq!(free("job", at(10)), [0, 1]);
        held.remove(&first);
        assert_eq!((free("job", at(9)), held.count()), (vec![0, 1], 1));
        held.remove(&second);
        assert_eq!(free("job", at(9)), [0, 1, 2]);
        assert!(held.0.lock().is_empty());
    }
}
