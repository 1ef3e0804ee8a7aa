//! `redlatch list`: the locks that are held, as a table, or each in a line of JSON as soon as it is found.

use std::time::Duration;

use redlatch::{Error, ListedLock, LockManager};
use serde_json::json;

use crate::arguments::List;
use crate::clock;
use crate::failure::Failure;
use crate::json;
use crate::name;
use crate::nodes;
use crate::output::{self, Reader};
use crate::state::{self, State, is_of_redlatch};
use crate::table::Overflow;
use crate::text::{self, count};

/// How often the progress is shown. A list that takes no longer has none.
const EVERY: Duration = Duration::from_millis(300);

/// Returns 0 if the list is complete. Ctrl-C ends it by its default effect, because nothing has to be released.
pub(crate) fn list(arguments: &List) -> Result<u8, Failure> {
    // The list does not depend on the protocol: both use the same keys.
    let manager = nodes::asking(&arguments.servers, false)?;
    let locks = manager.locks_with_progress(&arguments.prefix, progress())?;
    let (mut found, mut foreign, mut missing) = (Vec::new(), 0_usize, None);
    for lock in locks {
        match lock {
            Ok(lock) if !arguments.all && !is_of_redlatch(&lock.status) => {
                foreign = foreign.saturating_add(1);
            }
            Ok(lock) if arguments.json => {
                if output::print_more(&json::line(&json!(lock)))? == Reader::Gone {
                    return Ok(0);
                }
            }
            Ok(lock) => found.push(lock),
            Err(error) => missing = Some(error),
        }
    }
    output::clear_line();
    if !found.is_empty() {
        let width = text::width();
        output::print(&state::table("NAME", &named(found), Overflow::Wrap, width))?;
    }
    if foreign > 0 {
        let keys = count(foreign, "key");
        output::complain(&format!(
            "left out: {keys} with a value that is not one of redlatch; --all lists what other programs have as well"
        ));
    }
    missing.map_or(Ok(0), |error: Error| Err(error.into()))
}

/// All locks, sorted, with their names.
pub(crate) fn collect(manager: &LockManager) -> Result<Vec<(String, State)>, Error> {
    let mut locks: Vec<ListedLock> = manager.locks("")?.collect::<Result<_, _>>()?;
    locks.retain(|lock| is_of_redlatch(&lock.status));
    Ok(named(locks))
}

/// The locks, sorted, with their names as they are shown: with the slot of a semaphore.
fn named(mut locks: Vec<ListedLock>) -> Vec<(String, State)> {
    locks.sort_by(|a, b| (&a.resource, a.slot).cmp(&(&b.resource, b.slot)));
    let named = locks.iter().map(|lock| {
        let slot = lock.slot.map(|slot| format!(" slot {slot}"));
        let name = name::shown(&lock.resource) + &slot.unwrap_or_default();
        (name, State::of(&lock.status))
    });
    named.collect()
}

/// Shows how far the list is, where somebody watches.
fn progress() -> impl FnMut(f64) + Send {
    let (is_watched, mut shown) = (output::is_watched(), clock::now());
    move |share| {
        let now = clock::now();
        if is_watched && now.saturating_duration_since(shown) >= EVERY {
            shown = now;
            output::show_line(&format!("{:.0} % of the keys are looked at", share * 100.0));
        }
    }
}
