//! `redlatch status`, `health` and `unlock`, with output for people or as JSON.

use std::fmt::Display;

use redlatch::{Error, LockStatus, Severity};
use serde_json::{Value, json};

use crate::arguments::{Health, Status, Unlock};
use crate::config;
use crate::failure::{Failure, LOST, UNAVAILABLE, USAGE};
use crate::json;
use crate::log_lines;
use crate::name::Name;
use crate::nodes;
use crate::output;
use crate::run::protocol;

/// The lock is nobody's, as `status` says it.
const FREE: u8 = 1;

/// The lock rests: it was given back, and nobody gets it yet.
const RESTING: u8 = 3;

/// Returns 0 if the lock is held, 1 if it is free, 3 if it rests.
pub(crate) fn status(arguments: &Status) -> Result<u8, Failure> {
    log_lines::start(&arguments.servers);
    let config = config::load(arguments.servers.config.as_deref())?;
    // The status does not depend on the protocol: both use the same key.
    let manager = nodes::manager(&arguments.servers, &config, protocol(false, &config))?;
    let name = arguments.name.as_str();
    if let Some(permits) = arguments.max {
        let status = manager.semaphore_status(name, permits)?;
        show(arguments, &status, || json::of_semaphore(name, &status))?;
        let codes: Vec<u8> = status.slots.iter().map(code).collect();
        // Whoever asks gets the one that is free, whatever the others are.
        return Ok(if codes.contains(&FREE) {
            FREE
        } else {
            codes.into_iter().max().unwrap_or(UNAVAILABLE)
        });
    }
    let status = manager.status(name)?;
    show(arguments, &status, || json::of_status(name, &status))?;
    Ok(code(&status))
}

/// Prints the status as the user wants it.
fn show(
    arguments: &Status,
    status: &impl Display,
    as_json: impl FnOnce() -> Value,
) -> Result<(), Failure> {
    if arguments.form.json {
        output::print(&format!("{}\n", as_json()))
    } else if arguments.quiet {
        Ok(())
    } else {
        output::print(&format!("{}: {status}\n", arguments.name))
    }
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

/// Returns 0 to 2, as plugins of monitoring systems do.
pub(crate) fn health(arguments: &Health) -> Result<u8, Failure> {
    log_lines::start(&arguments.servers);
    let config = config::load(arguments.servers.config.as_deref())?;
    let protocol = protocol(arguments.fenced, &config);
    let manager = nodes::manager(&arguments.servers, &config, protocol)?;
    let health = manager.health()?;
    if arguments.form.json {
        output::print(&format!("{}\n", json!(health)))?;
    } else {
        output::print(&format!("{}\n", health.to_string().trim_end()))?;
    }
    Ok(match health.severity {
        Severity::Ok | Severity::Notice => 0,
        Severity::Warning => 1,
        Severity::Critical | _ => 2,
    })
}

/// Returns 0 if the lock was held with the token and is released.
pub(crate) fn unlock(arguments: &Unlock) -> Result<u8, Failure> {
    log_lines::start(&arguments.servers);
    let config = config::load(arguments.servers.config.as_deref())?;
    let protocol = protocol(arguments.fenced, &config);
    let manager = nodes::manager(&arguments.servers, &config, protocol)?;
    let name = &arguments.name;
    let result = match arguments.slot {
        None => manager.release(name.as_str(), &arguments.token),
        Some(slot) => manager.release_slot(name.as_str(), slot, &arguments.token),
    };
    let why = result
        .as_ref()
        .err()
        .map(|error| release_failure(name, error));
    if arguments.form.json {
        let object = json::of_release(name.as_str(), &result, why.as_deref());
        output::print(&format!("{object}\n"))?;
    }
    match result {
        Ok(()) if arguments.form.json => Ok(0),
        Ok(()) => {
            output::print(&format!("{name}: given back\n"))?;
            Ok(0)
        }
        Err(Error::Lost { .. }) => {
            let why = why.unwrap_or_default();
            let advice = match arguments.slot {
                None => format!(
                    "see 'redlatch status {name}'; a permit needs its --slot, and a reader's token is its REDLATCH_TOKEN"
                ),
                Some(slot) => format!(
                    "see 'redlatch status --max {} {name}'",
                    slot.saturating_add(1)
                ),
            };
            Err(Failure::new(LOST, format!("{why}; {advice}")))
        }
        Err(error @ Error::Unavailable { .. }) => Err(error.into()),
        Err(error) => Err(Failure {
            code: USAGE,
            ..error.into()
        }),
    }
}

/// The reason in other words than the library's: the token may never have been the holder's, so no lock was lost.
fn release_failure(name: &Name, error: &Error) -> String {
    let Error::Lost { cause, .. } = error else {
        return error.to_string();
    };
    let nodes: Vec<String> = cause.nodes().iter().map(ToString::to_string).collect();
    format!("{name} is not held with this token: {}", nodes.join("; "))
}
