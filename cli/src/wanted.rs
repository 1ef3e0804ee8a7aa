//! What `run` and `hold` lock: one name, a permit, several names at once, or a name together with other readers.

use std::fmt;

use redlatch::{Error, LockManager, LockStatus};

use crate::failure::Failure;
use crate::name::Name;

/// How many of several names a message has.
const MOST_SHOWN: usize = 3;

/// What is locked. It is shown as it stands in messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
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

impl<'a> Wanted<'a> {
    /// A lock, or a permit of so many.
    pub(crate) fn one(name: &'a Name, permits: Option<u32>) -> Self {
        let kind = permits.map_or(Kind::Lock, Kind::Permit);
        Self { name, kind }
    }

    /// The same name, together with these; none of them leaves it as it is.
    pub(crate) fn also(self, names: &'a [Name]) -> Result<Self, Failure> {
        if names.is_empty() {
            return Ok(self);
        }
        if let Some(name) = [self.name]
            .into_iter()
            .chain(names)
            .find(|name| has_line_break(name))
        {
            return Err(Failure::usage(format!(
                "the name {name} can't be used with --also, because REDLATCH_RESOURCES has a name a line; choose one \
                 without a line break"
            )));
        }
        let kind = Kind::Also(names);
        Ok(Self { kind, ..self })
    }

    pub(crate) fn shared(self) -> Self {
        let kind = Kind::Shared;
        Self { kind, ..self }
    }

    /// How many permits there are, if it is one.
    pub(crate) fn permits(&self) -> Option<u32> {
        if let Kind::Permit(permits) = self.kind {
            Some(permits)
        } else {
            None
        }
    }

    /// What is done with it, as the end of a sentence.
    pub(crate) fn purpose(&self) -> &'static str {
        match self.kind {
            Kind::Shared => " to share",
            Kind::Lock | Kind::Permit(_) | Kind::Also(_) => "",
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

    /// The name that the library has named.
    pub(crate) fn named(&self, resource: &str) -> &'a Name {
        self.names()
            .find(|name| name.as_str() == resource)
            .unwrap_or(self.name)
    }

    /// The status of the lock; of several, that of the first that another holder has.
    pub(crate) fn status(&self, manager: &LockManager) -> (&'a Name, Result<LockStatus, Error>) {
        let statuses = self
            .names()
            .map(|name| (name, manager.status(name.as_str())));
        let mut first = None;
        for (name, status) in statuses {
            let is_in_the_way = !matches!(status, Ok(LockStatus::Free { .. }));
            if is_in_the_way {
                return (name, status);
            }
            first.get_or_insert((name, status));
        }
        first.unwrap_or_else(|| (self.name, manager.status(self.name.as_str())))
    }
}

fn has_line_break(name: &Name) -> bool {
    name.as_str().contains(['\n', '\r'])
}

impl fmt::Display for Wanted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.names().take(MOST_SHOWN).map(Name::to_string).collect();
        f.write_str(&names.join(", "))?;
        let more = self.names().count().saturating_sub(MOST_SHOWN);
        if more > 0 {
            write!(f, " and {more} more")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<Name> {
        names
            .iter()
            .map(|name| Name::parse(name).unwrap())
            .collect()
    }

    #[test]
    fn the_first_names_are_shown_and_how_many_more_there_are() {
        let all = names(&["a", "b b", "c", "d", "e"]);
        let shown = |count: usize| {
            let (first, also) = all[..count].split_first().unwrap();
            Wanted::one(first, None).also(also).unwrap().to_string()
        };
        assert_eq!(shown(1), "a");
        assert_eq!(shown(2), "a, \"b b\"");
        assert_eq!(shown(3), "a, \"b b\", c");
        assert_eq!(shown(5), "a, \"b b\", c and 2 more");
    }

    #[test]
    fn a_name_that_is_more_than_a_line_is_refused_among_several_alone() {
        let all = names(&["a", "b\nc"]);
        for (first, also) in [(&all[0], &all[1..]), (&all[1], &all[..1])] {
            let failure = Wanted::one(first, None).also(also).unwrap_err();
            assert!(failure.message.contains("\"b\\nc\""), "{}", failure.message);
        }
        assert_eq!(
            Wanted::one(&all[1], None)
                .also(&[])
                .unwrap()
                .names()
                .count(),
            1
        );
    }
}
