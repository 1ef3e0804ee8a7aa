//! The slots of a semaphore. Slots beyond its permits are looked at as well, because no server knows the number of permits.

use redlatch::{Error, LockManager, LockStatus};

use crate::name::Name;
use crate::output;

/// The most permits of a semaphore.
const MOST: u32 = 256;

/// Returns the slots of a semaphore with this number of permits. Without a number, returns the slots up to the last one in use.
///
/// Prints a warning if a slot beyond the permits is in use, because then another client gives a larger number. The look takes four
/// round trips, because each of them is about 64 keys.
pub(crate) fn slots(
    manager: &LockManager,
    name: &Name,
    permits: Option<u32>,
) -> Result<Vec<LockStatus>, Error> {
    let mut slots = manager.semaphore_status(name.as_str(), MOST)?;
    let is_free =
        |slot: &LockStatus| matches!(slot, LockStatus::Free { .. } | LockStatus::Unknown { .. });
    let used = slots.iter().rposition(|slot| !is_free(slot));
    let used = used.map_or(0, |last| last.saturating_add(1));
    let shown = permits.map_or(Ok(used), usize::try_from).unwrap_or(used);
    if used > shown {
        let last = used.saturating_sub(1);
        output::complain(&format!(
            "{name}: slot {last} is in use, so another client has a larger --max than {shown}; give the same number everywhere"
        ));
    }
    slots.truncate(shown);
    Ok(slots)
}

/// Returns the slots in use if the key of the lock is free, because clients with `--max` leave that key alone.
pub(crate) fn beside(lock: &LockStatus, manager: &LockManager, name: &Name) -> Vec<LockStatus> {
    if matches!(lock, LockStatus::Free { .. }) {
        // Ignore the error, because a name that is too long for a semaphore has no permits.
        return slots(manager, name, None).unwrap_or_default();
    }
    Vec::new()
}
