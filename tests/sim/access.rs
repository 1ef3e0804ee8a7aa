//! What a guard is on: a resource, several of them, or one together with other readers.

use std::fmt;

use super::plan::Plan;

/// What a guard is on, or what a call asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    /// In order, and one at least.
    resources: Vec<usize>,
    /// Whether others may read them at the same time.
    is_read: bool,
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
            is_read: false,
        }
    }

    /// A read lock.
    pub(crate) fn to_read(resource: usize) -> Self {
        Self {
            is_read: true,
            ..Self::to(resource)
        }
    }

    pub(crate) fn resources(&self) -> &[usize] {
        &self.resources
    }

    pub(crate) fn is_read(&self) -> bool {
        self.is_read
    }

    /// The resource of an ordinary lock: only such a lock goes from thread to thread.
    pub(crate) fn only(&self) -> Option<usize> {
        match self.resources.as_slice() {
            [resource] if !self.is_read() => Some(*resource),
            _ => None,
        }
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
        f.write_str(if self.is_read { " to read" } else { "" })
    }
}
