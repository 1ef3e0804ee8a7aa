//! Refuses a manager in the child of a fork of a process that has had managers.
//!
//! A fork copies the memory of the process, but only the thread that forks. `parking_lot` has a table of all waiting
//! threads, and the threads of a manager's pools are in it for most of the time. In the child, their stacks are reused
//! or gone. A thread that waits in the child follows the table to them, and spins without end or crashes. So no manager
//! can be built there.

use std::process;
use std::sync::atomic::Ordering;

use crate::error::Error;
use crate::sync::AtomicU32;

/// The id of the process that has had managers, which a forked child inherits. Zero if no process has had one. It is an atomic,
/// because another thread could hold a mutex during the fork.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// Marks this process as one that has managers.
///
/// # Errors
///
/// [`Error::Forked`] if this process was forked from one that has had managers.
pub(crate) fn claim() -> Result<(), Error> {
    let id = process::id();
    match OWNER.compare_exchange(0, id, Ordering::AcqRel, Ordering::Acquire) {
        Err(owner) if owner != id => Err(Error::Forked),
        Ok(_) | Err(_) => Ok(()),
    }
}
