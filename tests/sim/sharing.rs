//! Runs in which resources are not only locked: some calls read or write them, and others want several at once.

use super::access::Access;
use super::client::Worker;
use super::plan::{Plan, pick};
use super::world::State;

/// In which way a call wants what it asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Lock,
    Read,
    Write,
    /// Several resources, all or none.
    All,
}

/// How likely each way is, by how often it stands here.
pub(crate) type Sharing = &'static [Way];

const MIXTURES: [Sharing; 5] = [
    &[Way::Lock, Way::Read, Way::Write, Way::All],
    &[Way::Read, Way::Read, Way::Read, Way::Write],
    &[Way::Lock, Way::All, Way::All],
    &[Way::Read, Way::Read, Way::Lock],
    &[Way::Read, Way::Read, Way::Read, Way::Write, Way::All],
];

impl Plan {
    /// The same troubles, and other work.
    pub(super) fn with_sharing(mut self) -> Self {
        // Numbers of its own, so that the troubles of a seed are what they are without it.
        let mut rng = fastrand::Rng::with_seed(self.seed ^ 0x5a_a4ed);
        let rng = &mut rng;
        if self.crowds.is_none() {
            let set_aside = usize::from(!self.replaced.is_empty());
            self.resources = pick(rng, &[1, 2, 2, 3, 4]) + set_aside;
        }
        self.sharing = Some(pick(rng, &MIXTURES));
        self.rests = rng.u8(0..4) == 0;
        self
    }
}

impl State {
    pub(super) fn counts(&mut self, on: &Access) {
        if on.is_read() {
            self.count("a read lock");
        } else if on.resources().len() > 1 {
            self.count("several resources");
        }
    }
}

impl Worker {
    /// One of those that are held for as long as any lock is.
    fn usual_resource(&mut self) -> usize {
        let set_aside = usize::from(!self.plan.replaced.is_empty());
        self.rng.usize(0..self.plan.resources - set_aside)
    }

    /// What to ask for next. Nothing is drawn where all calls are for locks, so that it changes nothing about a seed.
    pub(super) fn draw_wanted(&mut self) -> (Way, Access) {
        let resource = self.usual_resource();
        self.draw_wanted_of(resource)
    }

    /// The same, about this resource at least.
    pub(super) fn draw_wanted_of(&mut self, resource: usize) -> (Way, Access) {
        let Some(sharing) = self.plan.sharing else {
            return (Way::Lock, Access::to(resource));
        };
        let way = pick(&mut self.rng, sharing);
        (way, self.draw_access(way, resource))
    }

    /// A lock of its own, in some way; or a read lock that others want as well.
    pub(super) fn draw_wanted_in_a_crowd(&mut self, own: usize) -> (Way, Access) {
        let Some(sharing) = self.plan.sharing else {
            return (Way::Lock, Access::to(own));
        };
        let own_ones = self.plan.clients * self.plan.workers;
        match pick(&mut self.rng, sharing) {
            Way::Read => {
                let resource = self.rng.usize(own_ones..self.plan.resources);
                (Way::Read, Access::to_read(resource))
            }
            Way::All => {
                let more = self.rng.usize(0..self.plan.resources);
                (Way::All, Access::to_all([own, more]))
            }
            way @ (Way::Lock | Way::Write) => (way, Access::to(own)),
        }
    }

    fn draw_access(&mut self, way: Way, resource: usize) -> Access {
        match way {
            Way::Lock | Way::Write => Access::to(resource),
            Way::Read => Access::to_read(resource),
            Way::All => {
                let more = self.rng.usize(1..=3);
                let more: Vec<usize> = (0..more).map(|_| self.usual_resource()).collect();
                Access::to_all(more.into_iter().chain([resource]))
            }
        }
    }
}
