//! The pool of r2d2, and slots that come out of it.

use std::convert::Infallible;
use std::ops::{Deref, DerefMut};

use r2d2::{ManageConnection, PooledConnection};

use super::Slot;

/// A slot in use.
pub(crate) enum SlotInUse {
    /// A slot of the pool.
    Pooled(PooledConnection<Slots>),
    /// A slot beside the pool, for one exchange; an empty one where there is no other yet.
    Extra(Slot),
}

impl Default for SlotInUse {
    fn default() -> Self {
        Self::Extra(Slot::default())
    }
}

impl Deref for SlotInUse {
    type Target = Slot;

    fn deref(&self) -> &Slot {
        match self {
            Self::Pooled(slot) => slot,
            Self::Extra(slot) => slot,
        }
    }
}

impl DerefMut for SlotInUse {
    fn deref_mut(&mut self) -> &mut Slot {
        match self {
            Self::Pooled(slot) => slot,
            Self::Extra(slot) => slot,
        }
    }
}

/// Makes empty slots for r2d2.
#[derive(Debug)]
pub(crate) struct Slots;

impl ManageConnection for Slots {
    type Connection = Slot;
    type Error = Infallible;

    fn connect(&self) -> Result<Slot, Infallible> {
        Ok(Slot::default())
    }

    fn is_valid(&self, _: &mut Slot) -> Result<(), Infallible> {
        Ok(())
    }

    /// Called at check-in. A reply that is still to come would answer the command of the next user, so the connection is
    /// closed. The slot itself stays good.
    fn has_broken(&self, slot: &mut Slot) -> bool {
        if let Some(connection) = &slot.connection
            && !connection.is_idle()
        {
            slot.close();
        }
        false
    }
}
