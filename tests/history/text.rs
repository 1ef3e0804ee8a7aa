//! What happened around a violation, as text for people.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use crate::checker::Violation;
use crate::event::{Asks, Event, Nanos, Span, What};

/// How many lines there are at most.
const MOST_LINES: usize = 2_000;

/// A time as people read it, with nine digits.
#[must_use]
pub fn seconds(at: Nanos) -> String {
    format!("{}.{:09}", at / 1_000_000_000, at % 1_000_000_000)
}

fn until(end: Option<Span>) -> String {
    match end {
        None => "over".to_owned(),
        Some(Span { low, high }) if low == high => format!("valid to {}", seconds(low)),
        Some(Span { low, high }) => format!("valid to {}..{}", seconds(low), seconds(high)),
    }
}

fn words(what: &What) -> String {
    let span = |nanos: &Nanos| format!("{:?}", Duration::from_nanos(*nanos));
    let fenced = |number: Option<u64>| number.map(|it| format!(", fencing {it}"));
    match what {
        What::Asks(Asks {
            client,
            on,
            ttl,
            adopts,
        }) => {
            let ttl = ttl.as_ref().map(|ttl| format!(" for {}", span(ttl)));
            let lease = adopts.as_ref().map(|leased| {
                let fencing = fenced(leased.fencing).unwrap_or_default();
                format!(" by the lease of {}{fencing}", leased.token)
            });
            let (ttl, lease) = (ttl.unwrap_or_default(), lease.unwrap_or_default());
            format!("c{client} wants {on}{ttl}{lease}")
        }
        What::Gets(given) => {
            let fencing = fenced(given.fencing).unwrap_or_default();
            let slot = given.slot.map(|slot| format!(", slot {slot}"));
            let (token, slot) = (&given.token, slot.unwrap_or_default());
            format!("HOLDS {token}, {}{fencing}{slot}", until(given.end))
        }
        What::Fails(why) => format!("fails: {why:?}"),
        What::Extends(ttl) => format!("extends by {}", span(ttl)),
        What::Extended(end) => format!("extended, {}", until(*end)),
        What::NotExtended(why) => format!("not extended: {why:?}"),
        What::Moves { end, is_limited } => {
            let limited = if *is_limited { ", limited" } else { "" };
            format!("moves, {}{limited}", until(Some(Span::exactly(*end))))
        }
        What::Looks(end) => format!("looks, {}", until(*end)),
        What::Lost(why) => format!("told of its loss: {why:?}"),
        What::Released(says) => format!("released: {says:?}"),
        What::Rests(until) => format!("rests to {}", seconds(*until)),
        What::Dies(client) => format!("c{client} dies"),
        What::Beside(text) => text.clone(),
        What::Keeps | What::Hooks | What::Releases => format!("{what:?}").to_lowercase(),
    }
}

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
        let finds_nothing = event.at != *at && matches!(event.what, What::Looks(Some(_)));
        if (is_about(event) || is_meanwhile) && !finds_nothing {
            let call = event.call.map(|call| format!(" call {}:", call.0));
            let call = call.unwrap_or_default();
            let (at, words) = (seconds(event.at), words(&event.what));
            lines.push(format!("{at:>14}{call} {words}\n"));
        }
    }
    let left_out = lines.len().saturating_sub(MOST_LINES);
    let shown = lines.split_off(left_out).concat();
    let (at, text) = (seconds(*at), &violation.text);
    format!("{at:>14} {rule:?}: {text}\n({left_out} lines before)\n{shown}")
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
