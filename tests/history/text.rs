//! Events and violations as text.

use std::collections::HashSet;
use std::fmt::Write;

use crate::checker::Violation;
use crate::event::{Event, Nanos, What};
use crate::history::History;

/// How many lines there are at most.
const MOST_LINES: usize = 200;

/// A time for people.
pub(crate) fn seconds(at: Nanos) -> String {
    format!("{}.{:09}", at / 1_000_000_000, at % 1_000_000_000)
}

/// What happened, for people.
pub(crate) fn words(what: &What) -> String {
    let until = |end: &Option<crate::Span>| {
        end.map_or("already over".to_owned(), |end| {
            format!("valid to {}", seconds(end.low))
        })
    };
    match what {
        What::Asks {
            who, on, adopts, ..
        } => match adopts {
            Some(leased) => format!("{who} adopts {on} with {}", leased.token),
            None => format!("{who} asks for {on}"),
        },
        What::Gets {
            token,
            fencing,
            slot,
            end,
            origin,
            ..
        } => {
            let fencing = fencing.map_or(String::new(), |fencing| {
                format!(", fencing token {fencing}")
            });
            let slot = slot.map_or(String::new(), |slot| format!(", slot {slot}"));
            format!(
                "gets it ({origin:?}), {}, token {token}{fencing}{slot}",
                until(end)
            )
        }
        What::Fails { why, .. } => format!("does not get it: {why:?}"),
        What::Extends { ttl, .. } => format!("extends it by {}", seconds(*ttl)),
        What::Extended { end, .. } => format!("is extended: {}", until(end)),
        What::NotExtended { why, .. } => format!("is not extended: {why:?}"),
        What::Keeps { .. } => "is renewed in the background from now on".to_owned(),
        What::Moves { end, .. } => format!("is valid to {} now", seconds(*end)),
        What::Looks { says, .. } => match says {
            Some(_) => format!("looks: {}", until(says)),
            None => "looks: not valid".to_owned(),
        },
        What::Hooks { .. } => "has a hook from now on".to_owned(),
        What::Lost { why, .. } => format!("is told of its loss: {why:?}"),
        What::Releases { way, .. } => format!("is given back: {way:?}"),
        What::Released { says, .. } => format!("has been given back: {says:?}"),
        What::Rests { until, .. } => format!("rests until {}", seconds(*until)),
        What::Node { node, does } => format!("n{node} {does:?}"),
        What::Client { client, does } => format!("c{client} {does:?}"),
    }
}

/// The events of the calls that the violation is about, and what happened to nodes and clients meanwhile. If it is about no
/// calls, all that happened before it.
#[must_use]
pub fn text(history: &History, violation: &Violation) -> String {
    let events = history.in_order();
    let about: HashSet<_> = violation.calls.iter().copied().collect();
    let is_about = |event: &Event| event.what.call().is_some_and(|call| about.contains(&call));
    let from = events.iter().find(|event| is_about(event));
    let from = from.map_or(0, |event| event.at);
    let lines: Vec<String> = events
        .iter()
        .filter(|event| {
            is_about(event)
                || ((about.is_empty() || event.what.call().is_none())
                    && (from..=violation.at).contains(&event.at))
        })
        .map(|event| {
            let call = event.what.call();
            let call = call.map_or(String::new(), |call| format!("call {}: ", call.0));
            format!("{} {call}{}", seconds(event.at), words(&event.what))
        })
        .collect();
    let left_out = lines.len().saturating_sub(MOST_LINES);
    let mut text = format!(
        "{} {:?}: {violation}\n",
        seconds(violation.at),
        violation.rule
    );
    if left_out > 0 {
        writeln!(text, "({left_out} lines before)").unwrap_or_default();
    }
    for line in lines.iter().skip(left_out) {
        text.push_str(line);
        text.push('\n');
    }
    text
}
