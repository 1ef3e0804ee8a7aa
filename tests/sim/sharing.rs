//! Runs in which resources are not only locked: some calls read or write them, and others want several at once.

use super::access::Access;
use super::client::Worker;
use super::kinds::drawn_as;
use super::plan::{Kind, Plan, pick};
use super::run::{Until, none_breaks_a_promise, run_many};
use super::world::State;
use super::{a_third_of_the_seeds, fewer_seeds};

/// In which way a call wants what it asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Lock,
    Read,
    Write,
    /// Several resources, all or none.
    All,
}

/// What is counted of locks that are not ordinary ones.
#[derive(Clone, Copy)]
pub(super) enum Did {
    Take,
    Renew,
    Adopt,
    Lose,
    Refused,
}

impl Did {
    /// What it is called of read locks, and of locks on several resources.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Take => ("a read lock", "several resources"),
            Self::Renew => ("a read lock renewed", "several resources renewed"),
            Self::Adopt => ("a read lock adopted", "several resources adopted"),
            Self::Lose => ("a read lock lost", "several resources lost"),
            Self::Refused => ("a read lock refused", "several resources refused"),
        }
    }
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
    /// Of both protocols, some of them with crowds.
    pub(super) fn shared(seed: u64) -> Self {
        let plan = match seed % 8 {
            0..=3 => Self::draw(seed, Kind::Sound),
            4 | 5 => Self::draw(seed, Kind::Fenced),
            _ => Self::crowd(seed),
        };
        plan.with_sharing()
    }

    /// Mostly readers, and nodes that forget.
    pub(super) fn shared_and_forgotten(seed: u64) -> Self {
        Self {
            sharing: Some(&[Way::Read, Way::Read, Way::Write, Way::All]),
            rests: false,
            looks: false,
            ..Self::draw(seed, Kind::Amnesia).with_sharing()
        }
    }

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
        self.looks = self.kind == Kind::Sound && rng.u8(0..6) == 0;
        self
    }
}

impl State {
    pub(super) fn counts(&mut self, on: &Access, did: Did) {
        let (read, several) = did.words();
        if on.is_read() {
            self.count(read);
        } else if on.resources().len() > 1 {
            self.count(several);
        }
    }
}

impl Worker {
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

/// What has to happen in 200 seeds.
const SEEN: [&str; 16] = [
    "a lock on several resources rests",
    "a read lock",
    "a read lock adopted",
    "a read lock lost",
    "a read lock refused",
    "a read lock renewed",
    "a reader is held back for a writer",
    "a key set again",
    "led for others",
    "passed to the next thread",
    "readers at the same time",
    "several resources",
    "several resources adopted",
    "several resources lost",
    "several resources refused",
    "several resources renewed",
];

/// Readers, writers, locks, and locks on several resources, with both protocols and in crowds.
#[test]
fn no_seed_of_shared_locks_breaks_a_promise() {
    let total = none_breaks_a_promise("shared", a_third_of_the_seeds(), Plan::shared);
    assert!(total.acquired > 20 * total.runs, "{total}");
    assert!(total.extended > 2 * total.runs, "{total}");
    assert!(total.refused > 5 * total.runs, "{total}");
    let expected = if total.runs < 130 { &[][..] } else { &SEEN };
    total.has_seen(expected);
}

/// The witness is not blind: two holders are seen, and readers beside a writer.
#[test]
fn nodes_that_forget_are_seen_to_let_a_writer_in_among_readers() {
    let draw = drawn_as("shared-amnesia");
    let total = run_many(fewer_seeds(), Until::TheEnd, draw);
    println!("shared, Amnesia: {total}");
    let broken = total.violations.iter();
    let others = broken.filter(|(_, what)| !what.starts_with("two holders"));
    assert_eq!(others.collect::<Vec<_>>(), Vec::<&(u64, String)>::new());
    let seen = u64::try_from(total.violations.len()).unwrap();
    assert!(seen > total.runs / 10, "{total}");
    let mut broken = total.violations.iter();
    assert!(broken.any(|(_, what)| what.contains(" reads ")), "{total}");
}
