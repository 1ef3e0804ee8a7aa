//! Pure: what a lock is on.

use std::sync::Arc;

/// The most resources that one lock can be on. A script on 64 keys takes a server about as long as a renewal of 64 locks.
pub(crate) const MOST_RESOURCES: usize = 64;

/// How many names of several resources stand in messages.
const MOST_NAMED: usize = 3;

/// The names of several resources, in order.
pub(crate) type Names = Arc<[Arc<str>]>;

/// What a lock is on, beside the name in its messages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) enum Subject {
    /// The resource, which nobody else has meanwhile.
    #[default]
    Lock,
    /// A slot of the semaphore with the name of the resource.
    Slot(u32),
    /// The resource, together with other readers.
    Read,
    /// These resources, in order.
    Several(Names),
}

impl Subject {
    /// The names, if it is several resources.
    pub(crate) fn names(&self) -> Option<&Names> {
        if let Self::Several(names) = self {
            Some(names)
        } else {
            None
        }
    }

    /// The slot, if it is one.
    pub(crate) fn slot(&self) -> Option<u32> {
        if let Self::Slot(slot) = self {
            Some(*slot)
        } else {
            None
        }
    }

    /// The names of the resources, in order. `resource` is the name in the messages.
    pub(crate) fn resources<'s>(&'s self, resource: &'s str) -> Vec<&'s str> {
        match self {
            Self::Several(names) => names.iter().map(|name| &**name).collect(),
            Self::Lock | Self::Slot(_) | Self::Read => vec![resource],
        }
    }
}

/// The names of several resources as they stand in messages.
pub(crate) fn shown(names: &[Arc<str>]) -> Arc<str> {
    let (first, more) = names.split_at_checked(MOST_NAMED).unwrap_or((names, &[]));
    let mut text = first.join(", ");
    if !more.is_empty() {
        text = format!("{text} and {} more", more.len());
    }
    text.into()
}
