//! `redlatch status`: what each server has under the key of a lock, who holds the lock, and the line to end it.

use redlatch::LockStatus;

use crate::arguments::Status;
use crate::clock;
use crate::durations;
use crate::failure::{Failure, UNAVAILABLE};
use crate::json;
use crate::nodes;
use crate::output;
use crate::state::{self, State, is_ours};
use crate::table::{Cell, Overflow, paint, table};
use crate::text::{self, columns, count, shell_word, typed_name};

/// The lock is nobody's.
const FREE: u8 = 1;

/// The lock rests: it was released, and nobody gets it yet.
const RESTING: u8 = 3;

/// The width of the titles of facts.
const TITLE: usize = 7;

/// Returns 0 if the lock is held, 1 if it is free, 3 if it rests.
pub(crate) fn status(arguments: &Status) -> Result<u8, Failure> {
    // The status does not depend on the protocol: both use the same key.
    let manager = nodes::asking(&arguments.servers, false)?;
    let name = arguments.name.as_str();
    let (json, slots) = match arguments.max {
        None => {
            let status = manager.status(name)?;
            (json::of_status(name, &status), vec![status])
        }
        Some(permits) => {
            let slots = manager.semaphore_status(name, permits)?;
            (json::of_semaphore(name, &slots), slots)
        }
    };
    if arguments.json {
        output::print(&format!("{json}\n"))?;
    } else if !arguments.quiet {
        let shown = match (arguments.max, &slots[..]) {
            (None, [status]) => of_lock(arguments, status),
            _ => of_semaphore(arguments, &slots),
        };
        output::print(&shown)?;
    }
    // Whoever asks gets the one that is free, whatever the others are.
    let codes = || slots.iter().map(code);
    let worst = codes().max().unwrap_or(UNAVAILABLE);
    Ok(codes().find(|code| *code == FREE).unwrap_or(worst))
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
    let (state, width) = (State::of(status), text::width());
    let nodes = status.nodes().iter();
    let rows = nodes.map(|report| state::row(report, state.token.as_deref()));
    let head = ["NODE", "KEY", "LEFT", "HOLDER"];
    let table = table(&head, rows.collect(), Overflow::Wrap, width);
    let (on, of) = state.nodes;
    let nodes = match state.word {
        "blocked" | "unknown" => String::new(),
        _ => format!(" on {on} of {}", count(of, "node")),
    };
    let (name, word) = (&arguments.name, paint(state.tone, state.word));
    let mut shown = format!("{table}\n{name}: {word}{nodes}\n");
    let mut tell = |title, fact: &str| {
        if !fact.is_empty() {
            shown.push_str(&Cell::plain(title).before(TITLE, fact, width));
        }
    };
    let (title, renewed) = match state.word {
        "held" => ("holder", ", unless it is renewed"),
        "rests" => ("done by", ""),
        "read" => ("readers", ""),
        _ => ("why", ""),
    };
    tell(title, &state.who);
    // Another machine has said since when, whose clock may be ahead.
    let ago = |since| clock::wall().duration_since(since).ok();
    let ago = state.since.and_then(ago).map(durations::rough);
    let ago = ago.map_or(String::new(), |ago| format!(" ({ago} ago)"));
    tell("since", &(state.since("") + &ago));
    if let Some(left) = state.left.map(durations::rough) {
        tell("for", &format!("another {left}{renewed}"));
    }
    match status.margin() {
        Some(0) => tell("margin", "no further server may fail, or the lock is lost"),
        Some(more) => tell(
            "margin",
            &format!(
                "{} may fail before the lock is lost",
                count(more, "more server")
            ),
        ),
        None => {}
    }
    if status.is_wanted() {
        tell("waiting", "somebody, so the next one comes at once");
    }
    if let Some(token) = &state.token {
        // It is whole, because it is for copying. The library has escaped what can't be shown.
        let token_shown = if token.is_empty() {
            "an empty value"
        } else {
            token
        };
        let unlock = unlock(arguments, token, None);
        shown = format!("{shown}token    {token_shown}\n{unlock}");
    }
    shown
}

fn of_semaphore(arguments: &Status, status: &[LockStatus]) -> String {
    let slots = status.iter().map(State::of).enumerate();
    let slots: Vec<_> = slots
        .map(|(slot, state)| (slot.to_string(), state))
        .collect();
    let table = state::table("SLOT", &slots, Overflow::Wrap, text::width());
    let rests = slots.iter().filter(|(_, state)| state.word == "rests");
    let resting = match rests.count() {
        0 => String::new(),
        resting => format!(", {resting} resting"),
    };
    let unlocks: String = slots
        .iter()
        .filter_map(|(slot, state)| Some(unlock(arguments, state.token.as_ref()?, Some(slot))))
        .collect();
    let (name, held, all) = (&arguments.name, state::held(status), slots.len());
    format!("{table}\n{name}: {held} of {all} held{resting}\n{unlocks}")
}

/// The line to copy for who wants to end it. Where it is too long, it breaks so that a shell reads it as one.
fn unlock(arguments: &Status, token: &str, slot: Option<&String>) -> String {
    let Status { name, servers, .. } = arguments;
    if !is_ours(token) {
        let why = "by hand: this is no value of redlatch, so it may be no lock; see 'redlatch unlock --help'";
        return Cell::plain("unlock").before(TITLE, why, text::width());
    }
    let slot = slot.map_or(String::new(), |slot| format!(" --slot {slot}"));
    let command = format!("redlatch unlock{}{slot}", servers.typed());
    // The token stands behind '=', because it may begin with a dash.
    let (token, name) = (shell_word(token), typed_name(name.as_str()));
    let rest = format!("--token={token} {name}");
    let room = text::width().saturating_sub(10);
    let is_short = columns(&command).saturating_add(columns(&rest)) <= room;
    let space = if is_short { " " } else { " \\\n           " };
    format!("unlock   {command}{space}{rest}\n")
}
