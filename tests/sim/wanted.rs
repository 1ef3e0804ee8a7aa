//! What calls are for: one lock, or also permits of a semaphore, read locks and several resources. And how a call is made.

use super::asking::Asked;
use super::prelude::*;
use super::witness::key;

/// The semaphore of a run. Each of its slots is what a lock is in another run: a resource, whose holders exclude each other.
/// The clients ask for any of them.
#[derive(Clone, Debug)]
pub(super) struct Permits {
    /// How many each client asks for.
    asked: Vec<u32>,
    /// What the largest of these numbers should be.
    pub(super) agreed: u32,
}

const SEMAPHORE: &str = "s";

/// How likely each way is, by how often it stands here.
pub(super) type Sharing = &'static [Way];

const MIXTURES: [Sharing; 5] = [
    &[Way::Lock, Way::Read, Way::Write, Way::All],
    &[Way::Read, Way::Read, Way::Read, Way::Write],
    &[Way::Lock, Way::All, Way::All],
    &[Way::Read, Way::Read, Way::Lock],
    &[Way::Read, Way::Read, Way::Read, Way::Write, Way::All],
];

impl Plan {
    /// A run in which all clients want permits of one semaphore. Some think that it has fewer than others do.
    pub(super) fn with_permits(self) -> Self {
        let mut rng = fastrand::Rng::with_seed(self.seed ^ 0x5e3a);
        let agreed = pick(&mut rng, &[1, 2, 2, 3, 3, 4]);
        let is_mixed = rng.u8(0..4) == 0;
        let draw = |client: usize| match client {
            1.. if is_mixed => rng.u32(1..=agreed),
            _ => agreed,
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
    pub(super) fn with_a_permit_too_many(self) -> Self {
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

    /// The same troubles, and other work.
    pub(super) fn with_sharing(mut self) -> Self {
        // Numbers of its own, so that the troubles of a seed are what they are without it.
        let rng = &mut fastrand::Rng::with_seed(self.seed ^ 0x5a_a4ed);
        if self.crowds.is_none() {
            let set_aside = usize::from(!self.replaced.is_empty());
            self.resources = pick(rng, &[1, 2, 2, 3, 4]) + set_aside;
        }
        self.sharing = Some(pick(rng, &MIXTURES));
        self.rests = rng.u8(0..4) == 0;
        self
    }

    pub(super) fn key(&self, resource: usize) -> String {
        match self.permits {
            Some(_) => format!("{SEMAPHORE}:redlatch:slot:{resource}"),
            None => key(resource),
        }
    }

    pub(super) fn keys(&self, on: &On) -> Vec<String> {
        let resources = on.places.iter();
        resources.map(|resource| self.key(*resource)).collect()
    }

    /// By how much a call may be late whose time is over: the attempt that is under way goes on to its end, with its
    /// release, and so does the last one. Each command takes two node timeouts and a connection at most, which
    /// takes four.
    pub(super) fn lateness(&self, timeout: Duration) -> Nanos {
        let nodes = u64::try_from(self.nodes).unwrap();
        let attempts = 4 * 6 * nodes * nanos(self.node_timeout);
        // The clocks of clients go at rates of their own.
        attempts + nanos(timeout) / 100 + 50 * MILLI
    }
}

impl Worker {
    /// Asks for a lock. The witness knows of the call until it ends, and then of the guard.
    pub(super) fn ask(&self, on: &On, wish: &Wish) -> Result<Held, Error> {
        self.ask_by(on, wish, || Some(self.call(on, wish))).unwrap()
    }

    /// The same by a call that may come to nothing, because its thread panics.
    pub(super) fn ask_by(
        &self,
        on: &On,
        wish: &Wish,
        call: impl FnOnce() -> Asked,
    ) -> Option<Result<Held, Error>> {
        let result = self.world.while_asking(on, wish, call)?;
        Some(result.map(|guard| self.has(guard, on, wish)))
    }

    pub(super) fn call(&self, on: &On, wish: &Wish) -> Result<LockGuard, Error> {
        let Some(permits) = &self.plan.permits else {
            let names: Vec<String> = on.places.iter().map(|resource| key(*resource)).collect();
            return wish.ask(&self.manager, on.way, &names, 0);
        };
        let permits = permits.asked[self.id];
        wish.ask(&self.manager, Way::Permit, &[SEMAPHORE.to_owned()], permits)
    }

    /// It was given this guard by its wish: for what it asked for, or for one of the slots.
    fn has(&self, guard: LockGuard, on: &On, wish: &Wish) -> Held {
        let slot = guard.slot().map(|slot| usize::try_from(slot).unwrap());
        let on = slot.map_or_else(|| on.clone(), |slot| On::new(Way::Lock, [slot]));
        let claim = self.world.acquired(self.id, &on, &guard, wish.ttl);
        if let Some(keep) = wish.keep {
            self.is_kept(claim, keep);
        }
        if let Some(minimum) = wish.at_least.filter(|_| !on.is_read()) {
            self.world.has_a_minimum(self.id, &guard, minimum);
        }
        Held { claim, on, guard }
    }

    /// One of those that are held for as long as any lock is.
    pub(super) fn usual_resource(&mut self) -> usize {
        let set_aside = usize::from(!self.plan.replaced.is_empty());
        self.rng.usize(0..self.plan.resources - set_aside)
    }

    /// What to ask for, of this resource at least. No way is drawn where all calls are for locks, so that it changes nothing about a seed.
    pub(super) fn draw_wanted_of(&mut self, resource: usize) -> On {
        let way = self.draw_way();
        let more = match way {
            Way::All => self.rng.usize(1..=3),
            Way::Lock | Way::Read | Way::Write | Way::Permit => 0,
        };
        let more: Vec<usize> = (0..more).map(|_| self.usual_resource()).collect();
        On::new(way, more.into_iter().chain([resource]))
    }

    fn draw_way(&mut self) -> Way {
        let sharing = self.plan.sharing;
        sharing.map_or(Way::Lock, |sharing| pick(&mut self.rng, sharing))
    }

    /// A lock of its own, in some way; or a read lock that others want as well.
    pub(super) fn draw_wanted_in_a_crowd(&mut self, own: usize) -> On {
        let own_ones = self.plan.clients * self.plan.workers;
        match self.draw_way() {
            Way::Read => {
                let resource = self.rng.usize(own_ones..self.plan.resources);
                On::new(Way::Read, [resource])
            }
            Way::All => {
                let more = self.rng.usize(0..self.plan.resources);
                On::new(Way::All, [own, more])
            }
            way @ (Way::Lock | Way::Write | Way::Permit) => On::new(way, [own]),
        }
    }

    pub(super) fn refused(&self, error: &Error) {
        let mut state = self.world.state();
        state.count("refused");
        if matches!(error, Error::TooSlow { .. }) {
            state.count("too slow");
        }
        let id = self.id;
        state.note(|| format!("c{id} does not get it: {error}"));
        if !error.is_transient() || matches!(error, Error::NotALock { .. }) {
            state.fail(format!("c{id} got an error that makes no sense: {error}"));
        }
    }
}
