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
        0 => "nobody would ever get one of 0; ask for at least 1".to_owned(),
        1..=MOST_PERMITS => return Ok(()),
        _ => format!(
            "{permits} are too many; ask for at most 256, or split the work into several semaphores"
        ),
    };
    Err(Error::invalid("permits", reason))
}

/// Refuses a slot that no semaphore can have.
pub(crate) fn check_slot(slot: u32) -> Result<(), Error> {
    if slot < MOST_PERMITS {
        return Ok(());
    }
    let reason =
        format!("no semaphore has slot {slot}; give one of 0 to 255, as its status shows it");
    Err(Error::invalid("slot", reason))
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
        let of_semaphore = taken.entry(Arc::clone(lease.name())).or_default();
        of_semaphore.push(Arc::clone(lease));
        Seat {
            slots: Arc::clone(self),
            lease: Arc::clone(lease),
        }
    }

    /// How many slots guards of this manager have.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.taken.lock().values().map(Vec::len).sum()
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
        let has = |lease: &Arc<LeaseState>, slot| {
            lease.claim.resource.kind.slot() == Some(slot) && now < lease.deadline()
        };
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
        if let Some(of_semaphore) = taken.get_mut(self.lease.name()) {
            of_semaphore.retain(|lease| !Arc::ptr_eq(lease, &self.lease));
            if of_semaphore.is_empty() {
                taken.remove(self.lease.name());
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;
    use crate::claim::{Claim, Kind};
    use crate::clock::{Clock, FakeClock};
    use crate::cluster::Owner;
    use crate::node::Trace;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_nanos(0).saturating_add(Duration::from_millis(ms))
    }

    /// A permit with this slot of `exports`.
    pub(in crate::contend) fn lease(slot: u32, until: Timestamp) -> Arc<LeaseState> {
        let clock = Clock::from(FakeClock::new());
        let claim = Claim::of_kind("exports", Kind::Slot(slot));
        let nodes = [Trace::Possible.into(); 3].into_iter().collect();
        let owner = Owner::new(&clock);
        Arc::new(LeaseState::new(&owner, claim, nodes, at(0)..until))
    }

    #[test]
    fn a_slot_is_taken_until_its_guard_is_gone_or_its_validity_is_over() {
        let slots = Slots::new();
        let free = |name, now| slots.without_own(name, 0..3, now);
        let first = slots.take(&lease(0, at(10)));
        let second = slots.take(&lease(2, at(20)));
        assert_eq!(free("exports", at(9)), [1]);
        assert_eq!(free("imports", at(9)), [0, 1, 2]);
        assert_eq!(free("exports", at(10)), [0, 1]);
        drop(first);
        assert_eq!(free("exports", at(9)), [0, 1]);
        assert_eq!(slots.taken.lock().get("exports").map(Vec::len), Some(1));
        drop(second);
        assert_eq!(free("exports", at(9)), [0, 1, 2]);
        assert!(slots.taken.lock().is_empty());
    }

    #[test]
    fn each_refused_number_of_permits_has_its_own_advice() {
        for (permits, advice) in [
            (0, Some("at least 1")),
            (1, None),
            (256, None),
            (257, Some("at most 256")),
        ] {
            let told = check_permits(permits).err().map(|error| error.to_string());
            let is_told = told
                .as_ref()
                .zip(advice)
                .map(|(told, advice)| told.contains(advice));
            assert_eq!(is_told, advice.map(|_| true), "{permits}: {told:?}");
            assert_eq!(told.is_some(), advice.is_some(), "{permits}");
        }
    }

    #[test]
    fn each_free_slot_may_be_the_first_one_that_is_asked_for_and_so_many_are() {
        for count in 1..=40_u32 {
            let slots: Vec<u32> = (0..count).map(|slot| slot.saturating_mul(3)).collect();
            let rounds = (0..count).map(|random| in_turn(slots.clone(), random));
            let rounds: Vec<Vec<u32>> = rounds.collect();
            for round in &rounds {
                assert_eq!(round.len(), slots.len().min(MOST_ATTEMPTS));
                let different: BTreeSet<&u32> = round.iter().collect();
                assert_eq!(different.len(), round.len(), "{round:?}");
            }
            let first: BTreeSet<u32> = rounds.iter().map(|round| round[0]).collect();
            assert!(first.into_iter().eq(slots), "{count}");
        }
        assert!(in_turn(Vec::new(), 7).is_empty());
    }
}
