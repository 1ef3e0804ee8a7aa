//! Which process has managers: not the child of a fork of one that has.
//!
//! A fork copies the memory of the process, and of its threads only the one that forks. `parking_lot` has a table of all
//! threads that wait for something, and the threads of a manager's pools are in it for most of their time. In the child,
//! their stacks are given to other threads or to nobody, and a thread that waits there follows the table to where they were:
//! it spins for ever, or the child crashes. So a manager is not built there at all.

use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::Error;

/// The process that has had managers, or one that it was forked from; zero while there is none. No lock, because another
/// thread may have it during the fork.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// Notes that this process is going to have threads of a manager.
///
/// # Errors
///
/// [`Error::Forked`] where a process had some that this one is forked from.
pub(crate) fn claim() -> Result<(), Error> {
    let id = process::id();
    match OWNER.compare_exchange(0, id, Ordering::AcqRel, Ordering::Acquire) {
        Err(owner) if owner != id => Err(Error::Forked),
        Ok(_) | Err(_) => Ok(()),
    }
}
