//! What a guard is on: a resource, several of them, or one together with other readers.

use std::fmt;

use super::plan::Plan;

/// What a guard is on, or what a call asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    /// In order, and one at least.
    resources: Vec<usize>,
    company: Company,
}

/// Who else may have a resource at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Company {
    Nobody,
    Readers,
}

impl Access {
    /// A lock, or a slot.
    pub(crate) fn to(resource: usize) -> Self {
        Self::to_all([resource])
    }

    /// A lock on several resources.
    pub(crate) fn to_all(resources: impl IntoIterator<Item = usize>) -> Self {
        let mut resources: Vec<usize> = resources.into_iter().collect();
        resources.sort_unstable();
        resources.dedup();
        Self {
            resources,
            company: Company::Nobody,
        }
    }

    /// A read lock.
    pub(crate) fn to_read(resource: usize) -> Self {
        Self {
            company: Company::Readers,
            ..Self::to(resource)
        }
    }

    pub(crate) fn resources(&self) -> &[usize] {
        &self.resources
    }

    pub(crate) fn is_read(&self) -> bool {
        self.company == Company::Readers
    }

    /// The resource of an ordinary lock: only such a lock goes from thread to thread.
    pub(crate) fn only(&self) -> Option<usize> {
        match self.resources.as_slice() {
            [resource] if !self.is_read() => Some(*resource),
            _ => None,
        }
    }

    /// The first resource that nobody can have in both ways at the same time.
    pub(crate) fn excludes(&self, other: &Self) -> Option<usize> {
        if self.is_read() && other.is_read() {
            return None;
        }
        let mut resources = self.resources.iter();
        resources
            .find(|resource| other.resources.contains(resource))
            .copied()
    }

    /// The keys on each node.
    pub(super) fn keys(&self, plan: &Plan) -> Vec<String> {
        let resources = self.resources.iter();
        resources.map(|resource| plan.key(*resource)).collect()
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, resource) in self.resources.iter().enumerate() {
            let comma = if i == 0 { "" } else { "+" };
            write!(f, "{comma}r{resource}")?;
        }
        match self.company {
            Company::Nobody => Ok(()),
            Company::Readers => f.write_str(" to read"),
        }
    }
}

#[test]
fn readers_share_and_nobody_else_does() {
    let (lock, other) = (Access::to(1), Access::to(2));
    let (read, both) = (Access::to_read(1), Access::to_all([2, 1]));
    assert_eq!(read.excludes(&Access::to_read(1)), None);
    assert_eq!(read.excludes(&Access::to_read(2)), None);
    for alone in [&lock, &both] {
        assert_eq!(read.excludes(alone), Some(1));
        assert_eq!(alone.excludes(&read), Some(1));
        assert_eq!(alone.excludes(&lock), Some(1));
        assert_eq!(lock.excludes(alone), Some(1));
    }
    assert_eq!(lock.excludes(&other), None);
    assert_eq!(read.excludes(&other), None);
    assert_eq!(both.excludes(&other), Some(2));
    assert_eq!(both.excludes(&Access::to_all([3, 0])), None);
    assert_eq!(
        [lock.only(), read.only(), both.only()],
        [Some(1), None, None]
    );
}
