//! `redlatch status`: what each server has under the key of a lock, who holds the lock, and the line to end it.

use std::fmt::Write as _;

use redlatch::LockStatus;

use crate::arguments::Status;
use crate::durations;
use crate::failure::{Failure, UNAVAILABLE};
use crate::json;
use crate::nodes;
use crate::output;
use crate::state::{self, State, is_ours};
use crate::table::{Cell, Overflow, Table};
use crate::text::{self, columns, count, shell_word, typed_name};

/// The lock is nobody's.
const FREE: u8 = 1;

/// The lock rests: it was given back, and nobody gets it yet.
const RESTING: u8 = 3;

/// Returns 0 if the lock is held, 1 if it is free, 3 if it rests.
pub(crate) fn status(arguments: &Status) -> Result<u8, Failure> {
    // The status does not depend on the protocol: both use the same key.
    let manager = nodes::asking(&arguments.servers, false)?;
    let name = arguments.name.as_str();
    let (json, shown, code) = match arguments.max {
        None => {
            let status = manager.status(name)?;
            let shown = of_lock(arguments, &status);
            (json::of_status(name, &status), shown, code(&status))
        }
        Some(permits) => {
            let status = manager.semaphore_status(name, permits)?;
            let codes: Vec<u8> = status.iter().map(code).collect();
            // Whoever asks gets the one that is free, whatever the others are.
            let worst = codes.iter().copied().max().unwrap_or(UNAVAILABLE);
            let code = if codes.contains(&FREE) { FREE } else { worst };
            (
                json::of_semaphore(name, &status),
                of_semaphore(arguments, &status),
                code,
            )
        }
    };
    if arguments.form.json {
        output::print(&format!("{json}\n"))?;
    } else if !arguments.quiet {
        output::print(&shown)?;
    }
    Ok(code)
}

/// The exit code for a lock, or for a slot.
fn code(status: &LockStatus) -> u8 {
    match status {
        LockStatus::Held { .. } | LockStatus::Read { .. } => 0,
        LockStatus::Resting { .. } => RESTING,
        LockStatus::Free { .. } => FREE,
        LockStatus::Blocked { .. } | LockStatus::Unknown { .. } => UNAVAILABLE,
    }
}

fn of_lock(arguments: &Status, status: &LockStatus) -> String {
    let state = State::of(status);
    let rows = status.nodes().iter();
    let table = Table {
        head: vec!["NODE", "KEY", "LEFT", "HOLDER"],
        rows: rows
            .map(|report| state::row(report, state.token.as_deref()))
            .collect(),
        overflow: Overflow::Wrap,
    };
    let (on, of) = state.nodes;
    let word = state.tone.paint(state.word);
    let name = &arguments.name;
    let table = table.show(text::width());
    let nodes = format!(" on {on} of {}", count(of, "node"));
    let is_counted = matches!(state.word, "held" | "read" | "rests" | "free");
    let nodes = if is_counted { nodes } else { String::new() };
    let mut shown = format!("{table}\n{name}: {word}{nodes}\n");
    let mut fact = |title: &str, fact: &str| {
        shown.push_str(&Cell::plain(title).before(7, fact, text::width()));
    };
    match state.word {
        "held" => fact("holder", &state.who),
        "rests" if !state.who.is_empty() => fact("done by", &state.who),
        "read" => fact("readers", &state.who),
        "blocked" | "unknown" => fact("why", &state.who),
        _ => {}
    }
    if let Some(since) = state.since {
        let (since, ago) = (state::since(since), state::ago(since));
        fact(
            "since",
            &format!("{}{ago}", since.trim_start_matches("since ")),
        );
    }
    if let Some(left) = state.left {
        let until = if state.word == "held" {
            ", unless it is renewed"
        } else {
            ""
        };
        fact("for", &format!("another {}{until}", durations::rough(left)));
    }
    if status.is_wanted() {
        fact("waiting", "somebody, so the next one comes at once");
    }
    if let Some(token) = &state.token {
        // It is whole, because it is for copying. The library has escaped what can't be shown.
        let token_shown = if token.is_empty() {
            "an empty value"
        } else {
            token
        };
        writeln!(shown, "token    {token_shown}").ok();
        shown.push_str(&unlock(arguments, token, None));
    }
    shown
}

fn of_semaphore(arguments: &Status, status: &[LockStatus]) -> String {
    let slots: Vec<State> = status.iter().map(State::of).collect();
    let rows = slots.iter().enumerate().map(|(slot, state)| {
        let (on, of) = state.nodes;
        let [word, left, who] = state.cells();
        vec![
            Cell::plain(&slot.to_string()),
            word,
            left,
            Cell::plain(&format!("{on}/{of}")),
            who,
        ]
    });
    let table = Table {
        head: vec!["SLOT", "STATE", "LEFT", "NODES", "HOLDER"],
        rows: rows.collect(),
        overflow: Overflow::Wrap,
    };
    let resting = slots.iter().filter(|state| state.word == "rests").count();
    let resting = if resting > 0 {
        format!(", {resting} resting")
    } else {
        String::new()
    };
    let mut shown = format!(
        "{}\n{}: {} of {} held{resting}\n",
        table.show(text::width()),
        arguments.name,
        state::held(status),
        slots.len()
    );
    for (slot, state) in slots.iter().enumerate() {
        if let Some(token) = &state.token {
            shown.push_str(&unlock(arguments, token, Some(slot)));
        }
    }
    shown
}

/// The line to copy for who wants to end it. Where it is too long, it breaks so that a shell reads it as one.
fn unlock(arguments: &Status, token: &str, slot: Option<usize>) -> String {
    let Status { name, servers, .. } = arguments;
    if !is_ours(token) {
        let why = "by hand: this is no value of redlatch, so it may be no lock; see 'redlatch unlock --help'";
        return Cell::plain("unlock").before(7, why, text::width());
    }
    let slot = slot.map_or(String::new(), |slot| format!(" --slot {slot}"));
    let command = format!("redlatch unlock{}{slot}", servers.typed());
    // The token stands behind '=', because it may begin with a dash.
    let rest = format!(
        "--token={} {}",
        shell_word(token),
        typed_name(name.as_str())
    );
    let room = text::width().saturating_sub(10);
    let is_short = columns(&command).saturating_add(columns(&rest)) <= room;
    let space = if is_short { " " } else { " \\\n           " };
    format!("unlock   {command}{space}{rest}\n")
}
