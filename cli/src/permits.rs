//! The slots of a semaphore, also those beyond its permits: no server knows how many permits there are.

use redlatch::{Error, LockManager, LockStatus};

use crate::name::Name;
use crate::output;

/// The most permits of a semaphore.
const MOST: u32 = 256;

/// The slots of a semaphore with so many permits. Without a number, the slots up to the last one that is not free, or none.
///
/// Says so if a slot is in use that the semaphore does not have: another client gives a larger number, so more holders have a
/// permit than this one expects. It costs four round trips, because a look is at 64 keys.
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

/// The slots in use where the lock itself is free: clients with `--max` leave its key alone.
pub(crate) fn beside(lock: &LockStatus, manager: &LockManager, name: &Name) -> Vec<LockStatus> {
    if matches!(lock, LockStatus::Free { .. }) {
        // A name may be too long for a semaphore, which nobody has then.
        return slots(manager, name, None).unwrap_or_default();
    }
    Vec::new()
}
