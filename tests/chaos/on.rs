//! What a lock is on, and in which way it is taken.

use std::fmt;

use fastrand::Rng;

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
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Lock, Self::Write, Self::Read, Self::Several];

    /// The plural, for the count.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Lock => "locks",
            Self::Write => "write locks",
            Self::Read => "read locks",
            Self::Several => "locks on several resources",
        }
    }

    fn letter(self) -> &'static str {
        match self {
            Self::Lock => "l",
            Self::Write => "w",
            Self::Read => "r",
            Self::Several => "s",
        }
    }
}

/// Who else may have a resource at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sharing {
    /// Nobody.
    Alone,
    /// Readers.
    Read,
}

/// The resources in their order, one unless there are several, and the way.
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

    pub(crate) fn is_read(&self) -> bool {
        self.sharing() == Sharing::Read
    }

    pub(crate) fn sharing(&self) -> Sharing {
        match self.kind {
            Kind::Read => Sharing::Read,
            Kind::Lock | Kind::Write | Kind::Several => Sharing::Alone,
        }
    }

    /// Whether one thread may hand it to the next one.
    pub(crate) fn is_ordinary(&self) -> bool {
        matches!(self.kind, Kind::Lock | Kind::Write)
    }

    /// The names of the resources, as the manager gets them.
    pub(crate) fn names(&self) -> Vec<String> {
        self.resources.iter().map(u32::to_string).collect()
    }

    /// The reverse of its text.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        let (letter, resources) = word.split_once(':')?;
        let kind = Kind::ALL.into_iter().find(|kind| kind.letter() == letter)?;
        let resources = resources.split(',').map(|number| number.parse().ok());
        Some(Self {
            kind,
            resources: resources.collect::<Option<_>>()?,
        })
    }
}

/// A word without blanks.
impl fmt::Display for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.letter(), self.names().join(","))
    }
}

/// How often a worker takes locks of each kind, beside those of the other kinds. Each kind is among them.
pub(crate) struct Weights([(Kind, u32); 4]);

impl Weights {
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        Self(Kind::ALL.map(|kind| match kind {
            Kind::Lock | Kind::Read => (kind, rng.u32(2..=6)),
            Kind::Write | Kind::Several => (kind, rng.u32(1..=4)),
        }))
    }

    /// The next lock to ask for, on some of the resources below `end`.
    pub(crate) fn next(&self, rng: &mut Rng, end: u32) -> On {
        let mut rest = rng.u32(0..self.0.iter().map(|(_, weight)| weight).sum());
        let chosen = self.0.iter().find(|(_, weight)| {
            let is_it = rest < *weight;
            rest = rest.saturating_sub(*weight);
            is_it
        });
        let &(kind, _) = chosen.unwrap();
        let count = if kind == Kind::Several {
            rng.usize(2..=3)
        } else {
            1
        };
        let mut resources = rng.choose_multiple(0..end, count);
        resources.sort_unstable();
        On { kind, resources }
    }
}
