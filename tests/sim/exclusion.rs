//! At most one holder of a lock, and of a slot; and at most as many of a semaphore as there are permits.
//!
//! In a run with a semaphore each slot is what a lock is in another run: a resource, whose holders exclude each other. The
//! clients ask for any of them.

use super::access::Access;
use super::claims::Claim;
use super::permits::Permits;
use super::plan::{Plan, pick};
use super::witness::key;
use super::world::State;
use crate::{LockGuard, LockManager, LockRequest};

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

fn two_holders(a: &Claim, b: &Claim, resource: usize) -> String {
    let (first, second) = (a.client, b.client);
    match (a.on.is_read(), b.on.is_read()) {
        (true, _) => format!("two holders: c{first} reads r{resource}, which c{second} has"),
        (_, true) => format!("two holders: c{second} reads r{resource}, which c{first} has"),
        _ => format!("two holders: c{first} and c{second} both have r{resource}"),
    }
}

impl State {
    /// Nobody else has the resource.
    pub(super) fn check_exclusion(&mut self, id: u64) {
        let now = self.now;
        let Some(mine) = self.witness.guards.iter().find(|claim| claim.id == id) else {
            return;
        };
        let mut others = self.witness.guards.iter();
        let other = others.find_map(|other| {
            let resource = other.on.excludes(&mine.on)?;
            (other.id != id && other.until > now).then_some((other, resource))
        });
        let mut others = self.witness.guards.iter();
        let is_shared = others.any(|other| {
            let is_same = other.on == mine.on && mine.on.is_read();
            other.id != id && is_same && other.until > now
        });
        if let Some((other, resource)) = other.filter(|_| mine.until > now) {
            let words = two_holders(mine, other, resource);
            return self.fail(words);
        }
        if is_shared {
            self.count("readers at the same time");
        }
        self.check_rests();
        self.check_permits();
    }

    /// No more permits are held than there are.
    fn check_permits(&mut self) {
        let Some(agreed) = self.plan.permits.as_ref().map(|permits| permits.agreed) else {
            return;
        };
        let guards = self.witness.guards.iter();
        let held = guards.filter(|claim| claim.until > self.now).count();
        let most = usize::try_from(agreed).unwrap();
        if held > most {
            self.fail(format!("too many holders: {held} of {most} permits"));
        }
        if held == most && most > 1 {
            self.count("all permits at once");
        }
    }
}
