//! `redlatch status`: what each server has under the key of a lock, who holds the lock, and the line to end it.

use std::time::Duration;

use redlatch::LockStatus;

use crate::arguments::Status;
use crate::clock;
use crate::durations;
use crate::failure::{Failure, UNAVAILABLE};
use crate::json;
use crate::nodes;
use crate::output;
use crate::permits;
use crate::request;
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
    let (manager, config) = nodes::asking_by(&arguments.servers, false)?;
    let name = arguments.name.as_str();
    let (alone, slots) = match arguments.max {
        None => {
            let status = manager.status(name)?;
            let slots = permits::beside(&status, &manager, &arguments.name);
            (Some(status), slots)
        }
        max => (None, permits::slots(&manager, &arguments.name, max)?),
    };
    let alone = alone.filter(|_| slots.is_empty());
    if arguments.json {
        let object = match &alone {
            Some(status) => json::of_status(name, status),
            None => json::of_semaphore(name, arguments.max, &slots),
        };
        output::print(&json::line(&object))?;
    } else if !arguments.quiet {
        output::print(&match &alone {
            Some(status) => of_lock(arguments, status, request::default_ttl(&config)),
            None => of_semaphore(arguments, &slots),
        })?;
    }
    let codes = || alone.iter().chain(&slots).map(code);
    let is_free = |code: &u8| *code == FREE;
    // A client gets the slot that is free, whatever the others are.
    if alone.is_some() || arguments.max.is_some() {
        let worst = codes().max().unwrap_or(UNAVAILABLE);
        return Ok(codes().find(is_free).unwrap_or(worst));
    }
    // Without the number of permits, a free slot may be beyond them.
    Ok(codes().filter(|code| !is_free(code)).min().unwrap_or(FREE))
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

fn of_lock(arguments: &Status, status: &LockStatus, ttl: Duration) -> String {
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
    let title = match state.word {
        "held" => "holder",
        "rests" => "done by",
        "read" => "readers",
        _ => "why",
    };
    tell(title, &state.who);
    // Another machine has said since when, whose clock may be ahead.
    let ago = |since| clock::wall().duration_since(since).ok();
    let ago = state.since.and_then(ago).map(durations::rough);
    let ago = ago.map_or(String::new(), |ago| format!(" ({ago} ago)"));
    tell("since", &(state.since("") + &ago));
    if let Some(left) = state.left {
        let renewed = match state.word {
            "held" => renewed(left, ttl),
            _ => String::new(),
        };
        tell(
            "for",
            &format!("another {}{renewed}", durations::rough(left)),
        );
    }
    tell("margin", &status.margin().map_or(String::new(), margin));
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

/// For how many more failures the lock is safe.
fn margin(servers: usize) -> String {
    if servers == 0 {
        return "no further server may fail, or the lock is lost".to_owned();
    }
    let more = count(servers, "more server");
    format!("{more} may fail before the lock is lost")
}

/// Says when the holder renews the lock. No server knows the ttl of the holder, so the text names the default ttl that is assumed.
fn renewed(left: Duration, ttl: Duration) -> String {
    let third = ttl.checked_div(3).unwrap_or_default();
    let due = ttl.saturating_sub(third);
    // A renewal takes some time.
    let is_late = left < due.saturating_sub(ttl.checked_div(30).unwrap_or_default());
    let (told, due) = (durations::exact(ttl), durations::rough(due));
    if is_late {
        return format!("; the default ttl of {told} would have been renewed at {due}");
    }
    let than_default = if left > ttl {
        format!("its ttl is longer than the default of {told}")
    } else {
        format!("the default ttl of {told} is renewed at {due}")
    };
    format!(", unless it is renewed; {than_default}")
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
    let is_held = match arguments.max {
        Some(_) => format!("{held} of {all} held{resting}"),
        None => format!(
            "a semaphore, {} held{resting}; give its --max to see all slots",
            count(held, "permit")
        ),
    };
    format!("{table}\n{name}: {is_held}\n{unlocks}")
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
