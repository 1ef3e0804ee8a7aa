//! What a lock is on, and in which way it is taken.

use std::fmt;

use fastrand::Rng;
use redlatch_history as history;

use crate::options::{RESOURCES, SEMAPHORES};

/// In which way a lock is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// `lock` and its like.
    Lock,
    /// `write` and its like, which is the same for everybody else.
    Write,
    /// `read` and its like.
    Read,
    /// The locks on several resources at once.
    Several,
    /// The permits of semaphores.
    Permit,
}

/// The first of the places that are semaphores.
const FIRST_SEMAPHORE: u32 = 100;

impl Kind {
    pub(crate) const ALL: [Self; 5] = [
        Self::Lock,
        Self::Write,
        Self::Read,
        Self::Several,
        Self::Permit,
    ];

    /// The plural, for the count.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Lock => "locks",
            Self::Write => "write locks",
            Self::Read => "read locks",
            Self::Several => "locks on several resources",
            Self::Permit => "permits",
        }
    }
}

/// The resources in their order, one unless there are several, and the way; or the semaphore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct On {
    pub(crate) kind: Kind,
    pub(crate) resources: Vec<u32>,
}

impl On {
    pub(crate) fn one(kind: Kind, resource: u32) -> Self {
        Self {
            kind,
            resources: vec![resource],
        }
    }

    /// All that each worker takes when it is calm: each resource, and each semaphore, in each way.
    pub(crate) fn each() -> Vec<Self> {
        let mut all: Vec<Self> = (0..RESOURCES)
            .flat_map(|i| [Kind::Lock, Kind::Write, Kind::Read].map(|kind| Self::one(kind, i)))
            .collect();
        all.extend((1..RESOURCES).map(|i| Self {
            kind: Kind::Several,
            resources: vec![i - 1, i],
        }));
        all.extend((0..SEMAPHORES).map(|i| Self::one(Kind::Permit, i)));
        all
    }

    pub(crate) fn is_read(&self) -> bool {
        self.kind == Kind::Read
    }

    /// The names of the resources, as the manager gets them.
    pub(crate) fn names(&self) -> Vec<String> {
        let prefix = if self.kind == Kind::Permit {
            "permits "
        } else {
            ""
        };
        let names = self.resources.iter().map(|i| format!("{prefix}{i}"));
        names.collect()
    }

    /// As the judge knows it.
    pub(crate) fn to_history(&self) -> history::On {
        match self.kind {
            Kind::Read => history::On::read(self.resources[0]),
            Kind::Permit => history::On::permit(semaphore(self.resources[0])),
            Kind::Lock | Kind::Write | Kind::Several => {
                history::On::all(self.resources.iter().copied())
            }
        }
    }
}

/// The place of a semaphore.
pub(crate) fn semaphore(i: u32) -> u32 {
    FIRST_SEMAPHORE + i
}

impl fmt::Display for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.names().join(","))
    }
}

impl On {
    /// The next lock to ask for.
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let kind = *rng.choice(&Kind::ALL).unwrap();
        let (count, end) = match kind {
            Kind::Several => (rng.usize(2..=3), RESOURCES),
            Kind::Permit => (1, SEMAPHORES),
            Kind::Lock | Kind::Write | Kind::Read => (1, RESOURCES),
        };
        let mut resources = rng.choose_multiple(0..end, count);
        resources.sort_unstable();
        Self { kind, resources }
    }
}
