//! What happened around a violation, as text for people.

use std::collections::HashSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::checker::Violation;
use crate::event::{Asks, Event, Nanos, Span, What};

/// How many lines there are at most.
const MOST_LINES: usize = 200;

fn seconds(at: Nanos) -> String {
    format!("{}.{:09}", at / 1_000_000_000, at % 1_000_000_000)
}

fn until(end: Option<Span>) -> String {
    end.map_or("already over".to_owned(), |end| {
        format!("valid to {}", seconds(end.low))
    })
}

fn words(what: &What) -> String {
    match what {
        What::Asks(Asks {
            who, on, adopts, ..
        }) => match adopts {
            Some(leased) => format!("{who} adopts {on} with {}", leased.token),
            None => format!("{who} asks for {on}"),
        },
        What::Gets(given) => {
            let (end, token) = (until(given.end), &given.token);
            let fencing = given.fencing.map(|fencing| format!(", fencing {fencing}"));
            let slot = given.slot.map(|slot| format!(", slot {slot}"));
            let (fencing, slot) = (fencing.unwrap_or_default(), slot.unwrap_or_default());
            format!("gets it, {end}, token {token}{fencing}{slot}")
        }
        What::Fails(why) => format!("does not get it: {why:?}"),
        What::Extends(ttl) => format!("extends it by {}", seconds(*ttl)),
        What::Extended(end) => format!("is extended: {}", until(*end)),
        What::NotExtended(why) => format!("is not extended: {why:?}"),
        What::Keeps => "is renewed in the background from now on".to_owned(),
        What::Moves { end, .. } => format!("is valid to {} now", seconds(*end)),
        What::Looks(says) => format!("looks: {}", until(*says)),
        What::Hooks => "has a hook from now on".to_owned(),
        What::Lost(why) => format!("is told of its loss: {why:?}"),
        What::Releases => "is given back".to_owned(),
        What::Released(says) => format!("has been given back: {says:?}"),
        What::Rests(until) => format!("rests until {}", seconds(*until)),
        What::Dies(client) => format!("c{client} dies"),
        What::Beside(text) => text.clone(),
    }
}

/// The events of the calls that the violation is about, but for looks that find nothing, and what happened to nodes and clients
/// meanwhile. If it is about no calls, all that happened before it. The events are in the order of time.
#[must_use]
pub fn text<'a>(events: impl IntoIterator<Item = &'a Event>, violation: &Violation) -> String {
    let about: HashSet<_> = violation.calls.iter().copied().collect();
    let is_about = |event: &Event| event.call.is_some_and(|call| about.contains(&call));
    let mut has_begun = about.is_empty();
    let mut lines = Vec::new();
    for event in events {
        has_begun |= is_about(event);
        let is_meanwhile =
            (about.is_empty() || event.call.is_none()) && has_begun && event.at <= violation.at;
        let finds_nothing = event.at < violation.at && matches!(event.what, What::Looks(Some(_)));
        if (is_about(event) || is_meanwhile) && !finds_nothing {
            let call = event.call.map(|call| format!("call {}: ", call.0));
            let (at, call) = (seconds(event.at), call.unwrap_or_default());
            lines.push(format!("{at} {call}{}", words(&event.what)));
        }
    }
    let left_out = lines.len().saturating_sub(MOST_LINES);
    let (at, rule) = (seconds(violation.at), violation.rule);
    let mut text = format!("{at} {rule:?}: {violation}\n");
    if left_out > 0 {
        writeln!(text, "({left_out} lines before)").unwrap_or_default();
    }
    for line in lines.iter().skip(left_out) {
        text.push_str(line);
        text.push('\n');
    }
    text
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
