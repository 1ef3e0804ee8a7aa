//! What `run` and `hold` lock: one name, a permit, several names at once, or a name together with other readers.

use std::fmt;

use redlatch::{Error, LockManager, LockStatus};

use crate::failure::Failure;
use crate::name::Name;

/// How many of several names a message has.
const MOST_SHOWN: usize = 3;

/// What is locked. It is shown as it stands in messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim<'a> {
    pub(crate) name: &'a Name,
    pub(crate) kind: Kind<'a>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind<'a> {
    Lock,
    /// One of so many permits.
    Permit(u32),
    /// The lock, together with others who share it.
    Shared,
    /// The lock, and those of these names.
    Also(&'a [Name]),
}

impl<'a> Claim<'a> {
    /// The same name, together with these; none of them leaves it as it is.
    pub(crate) fn also(self, names: &'a [Name]) -> Result<Self, Failure> {
        if names.is_empty() {
            return Ok(self);
        }
        let kind = Kind::Also(names);
        let claim = Self { kind, ..self };
        match claim
            .names()
            .find(|name| name.as_str().contains(['\n', '\r']))
        {
            None => Ok(claim),
            Some(name) => Err(Failure::usage(format!(
                "the name {name} can't be used with --also, because REDLATCH_RESOURCES has a name a line; choose one \
                 without a line break"
            ))),
        }
    }

    /// How many permits there are, if it is one.
    pub(crate) fn permits(&self) -> Option<u32> {
        if let Kind::Permit(permits) = self.kind {
            Some(permits)
        } else {
            None
        }
    }

    /// All names, as they were given.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'a Name> + Clone {
        let also = if let Kind::Also(names) = self.kind {
            names
        } else {
            &[]
        };
        [self.name].into_iter().chain(also)
    }

    /// The status of the lock; of several, that of the first that another holder has.
    pub(crate) fn status(&self, manager: &LockManager) -> (&'a Name, Result<LockStatus, Error>) {
        let look = |name: &'a Name| (name, manager.status(name.as_str()));
        let mut in_the_way = self.names().map(look);
        in_the_way
            .find(|(_, status)| !matches!(status, Ok(LockStatus::Free { .. })))
            .unwrap_or_else(|| look(self.name))
    }
}

impl fmt::Display for Claim<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.names().take(MOST_SHOWN).map(Name::to_string).collect();
        f.write_str(&names.join(", "))?;
        match self.names().count().saturating_sub(MOST_SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_names_are_shown_and_one_of_several_is_one_line() {
        let names = ["a", "b b", "c", "d", "e", "f\ng"].map(|name| Name::parse(name).unwrap());
        let claim = |name, also: std::ops::Range<usize>| {
            let kind = Kind::Lock;
            Claim { name, kind }.also(&names[also])
        };
        for (count, shown) in [
            (1, "a"),
            (2, "a, \"b b\""),
            (3, "a, \"b b\", c"),
            (5, "a, \"b b\", c and 2 more"),
        ] {
            assert_eq!(claim(&names[0], 1..count).unwrap().to_string(), shown);
        }
        for (name, also) in [(&names[0], 5..6), (&names[5], 0..1)] {
            let failure = claim(name, also).unwrap_err();
            assert!(failure.message.contains("\"f\\ng\""), "{}", failure.message);
        }
        claim(&names[5], 0..0).unwrap();
    }
}
