//! `redlatch list`: the locks that are held, as a table, or each in a line of JSON as soon as it is found.

use std::time::Duration;

use redlatch::{Error, ListedLock, LockManager};

use crate::arguments::List;
use crate::clock;
use crate::failure::Failure;
use crate::json;
use crate::name::Name;
use crate::nodes;
use crate::output::{self, Reader};
use crate::state::{State, is_of_redlatch};
use crate::table::{Cell, Overflow, Table};
use crate::text::{self, count};

/// How often the progress is shown. A list that takes no longer has none.
const EVERY: Duration = Duration::from_millis(300);

/// Returns 0 if the list is complete. Ctrl-C ends it by its default effect, because nothing has to be given back.
pub(crate) fn list(arguments: &List) -> Result<u8, Failure> {
    // The list does not depend on the protocol: both use the same keys.
    let manager = nodes::asking(&arguments.servers, false)?;
    let locks = manager.locks_with_progress(&arguments.prefix, progress())?;
    let mut found = Vec::new();
    let mut foreign = 0_usize;
    let mut missing = None;
    for lock in locks {
        match lock {
            Ok(lock) if !arguments.all && !is_of_redlatch(&lock.status) => {
                foreign = foreign.saturating_add(1);
            }
            Ok(lock) if arguments.form.json => {
                let line = format!("{}\n", json::of_listed(&lock));
                if output::print_more(&line)? == Reader::Gone {
                    return Ok(0);
                }
            }
            Ok(lock) => found.push(lock),
            Err(error) => missing = Some(error),
        }
    }
    output::clear_line();
    if !arguments.form.json && !found.is_empty() {
        output::print(&table(found).show(text::width()))?;
    }
    if foreign > 0 {
        let keys = count(foreign, "key");
        output::complain(&format!(
            "left out: {keys} with a value that is not one of redlatch; --all lists what other programs have as well"
        ));
    }
    missing.map_or(Ok(0), |error: Error| Err(error.into()))
}

/// All locks, sorted, as far as they are found.
pub(crate) fn collect(manager: &LockManager) -> Result<Vec<ListedLock>, Error> {
    let locks = manager.locks("")?;
    let locks = locks.filter(|lock| {
        !lock
            .as_ref()
            .is_ok_and(|lock| !is_of_redlatch(&lock.status))
    });
    let mut locks: Vec<ListedLock> = locks.collect::<Result<_, _>>()?;
    sort(&mut locks);
    Ok(locks)
}

fn sort(locks: &mut [ListedLock]) {
    locks.sort_by(|a, b| (&a.resource, a.slot).cmp(&(&b.resource, b.slot)));
}

fn table(mut locks: Vec<ListedLock>) -> Table {
    sort(&mut locks);
    let rows = locks.iter().map(|lock| {
        let name = name(&lock.resource, lock.slot);
        row(&name, &State::of(&lock.status))
    });
    Table {
        head: HEAD.to_vec(),
        rows: rows.collect(),
        overflow: Overflow::Wrap,
    }
}

pub(crate) const HEAD: [&str; 5] = ["NAME", "STATE", "LEFT", "NODES", "HOLDER"];

/// The row of a lock.
pub(crate) fn row(name: &str, state: &State) -> Vec<Cell> {
    let (on, of) = state.nodes;
    let [word, left, who] = state.cells();
    let nodes = Cell::plain(&format!("{on}/{of}"));
    vec![Cell::plain(name), word, left, nodes, who]
}

/// A name as it is shown, with the slot of a semaphore.
pub(crate) fn name(resource: &str, slot: Option<u32>) -> String {
    let name = Name::parse(resource).map_or(resource.to_owned(), |name| name.to_string());
    match slot {
        Some(slot) => format!("{name} slot {slot}"),
        None => name,
    }
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
