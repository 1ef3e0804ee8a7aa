//! Pure: what a lock is on.

use std::sync::Arc;

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
}
