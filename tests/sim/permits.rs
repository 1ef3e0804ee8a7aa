//! The semaphore of a run. Each of its slots is what a lock is in another run: a resource, whose holders exclude each other.
//! The clients ask for any of them.

use super::access::Access;
use super::plan::{Plan, pick};
use super::witness::key;
use crate::{LockGuard, LockManager, LockRequest};

#[derive(Clone, Debug)]
pub(crate) struct Permits {
    /// How many each client asks for.
    pub(super) asked: Vec<u32>,
    /// What the largest of these numbers should be.
    pub(super) agreed: u32,
}

/// The name of the only semaphore.
const SEMAPHORE: &str = "s";

impl Plan {
    /// A run in which all clients want permits of one semaphore. Some think that it has fewer than others do.
    pub(crate) fn with_permits(self) -> Self {
        let mut rng = fastrand::Rng::with_seed(self.seed ^ 0x5e3a);
        let agreed = pick(&mut rng, &[1, 2, 2, 3, 3, 4]);
        let is_mixed = rng.u8(0..4) == 0;
        let draw = |client: usize| {
            let is_smaller = is_mixed && client > 0;
            if is_smaller {
                rng.u32(1..=agreed)
            } else {
                agreed
            }
        };
        let asked = (0..self.clients).map(draw).collect();
        let plan = self.of(Permits { asked, agreed });
        Self {
            // Slots rest as locks do.
            rests: rng.bool(),
            ..plan
        }
    }

    /// As [`Self::with_permits`], and one client asks for one more than all others.
    pub(crate) fn with_a_permit_too_many(self) -> Self {
        let mut asked = vec![2; self.clients];
        asked[0] = 3;
        self.of(Permits { asked, agreed: 2 })
    }

    fn of(self, permits: Permits) -> Self {
        let most = permits.asked.iter().max().copied().unwrap_or_default();
        Self {
            resources: usize::try_from(most).unwrap(),
            permits: Some(permits),
            // Those who hurry then take a lock beside all others.
            replaced: Vec::new(),
            ..self
        }
    }

    /// The key of a lock or a slot.
    pub(crate) fn key(&self, resource: usize) -> String {
        match self.permits {
            Some(_) => format!("{SEMAPHORE}:redlatch:slot:{resource}"),
            None => key(resource),
        }
    }

    /// A request for a lock, or for any slot.
    pub(super) fn request<'a>(
        &self,
        client: usize,
        manager: &'a LockManager,
        name: &'a str,
    ) -> LockRequest<'a> {
        match &self.permits {
            Some(permits) => manager.semaphore(SEMAPHORE, permits.asked[client]),
            None => manager.request(name),
        }
    }
}

/// Which of the slots a guard has; or what was asked for.
pub(super) fn given(guard: &LockGuard, asked: &Access) -> Access {
    guard.slot().map_or_else(
        || asked.clone(),
        |slot| Access::to(usize::try_from(slot).unwrap()),
    )
}
