//! What happened around a violation, as text for people.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::checker::Violation;
use crate::event::{Event, What};

/// How many lines there are at most.
const MOST_LINES: usize = 200;

/// The events of the calls that the violation is about, but for looks that find nothing, and what happened to nodes and clients
/// meanwhile. If it is about no calls, all that happened before it. The events are in the order of time.
#[must_use]
pub fn text<'a>(events: impl IntoIterator<Item = &'a Event>, violation: &Violation) -> String {
    let Violation {
        rule, at, calls, ..
    } = violation;
    let about: HashSet<_> = calls.iter().collect();
    let is_about = |event: &Event| event.call.as_ref().is_some_and(|it| about.contains(it));
    let mut has_begun = about.is_empty();
    let mut lines = Vec::new();
    for event in events {
        has_begun |= is_about(event);
        let is_meanwhile =
            (about.is_empty() || event.call.is_none()) && has_begun && event.at <= *at;
        let finds_nothing = event.at < *at && matches!(event.what, What::Looks(Some(_)));
        if (is_about(event) || is_meanwhile) && !finds_nothing {
            let call = event.call.map(|call| format!(" call {}:", call.0));
            let call = call.unwrap_or_default();
            lines.push(format!("{}{call} {:?}\n", event.at, event.what));
        }
    }
    let left_out = lines.len().saturating_sub(MOST_LINES);
    let shown = lines.split_off(left_out).concat();
    format!(
        "{at} {rule:?}: {}\n({left_out} lines before)\n{shown}",
        violation.text
    )
}

/// Writes the text of a violation to `target/histories`, under this name, and returns where it is.
///
/// # Errors
///
/// If the file can't be written.
pub fn write<'a>(
    name: &str,
    events: impl IntoIterator<Item = &'a Event>,
    violation: &Violation,
) -> io::Result<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/histories");
    fs::create_dir_all(&folder)?;
    let path = folder.canonicalize()?.join(format!("{name}.txt"));
    fs::write(&path, text(events, violation))?;
    Ok(path)
}
