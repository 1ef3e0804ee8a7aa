//! What people are told when there is no lock.

use std::env;

use redlatch::{Error, LockStatus};

use crate::durations;
use crate::failure::Failure;
use crate::name::Name;
use crate::request::Request;
use crate::text::typed_name;

/// The variables in which a command finds what its `redlatch run` has locked.
pub(crate) const RESOURCE: &str = "REDLATCH_RESOURCE";
pub(crate) const RESOURCES: &str = "REDLATCH_RESOURCES";
pub(crate) const TOKEN: &str = "REDLATCH_TOKEN";

/// Why the request has failed with this error.
pub(crate) fn refusal(request: &Request<'_>, error: Error) -> Failure {
    if let Error::Held { resource, .. } = &error {
        let message = if request.lock.quiet {
            String::new()
        } else {
            held(request, &error, resource)
        };
        return Failure::new(request.lock.conflict_exit_code, message);
    }
    let Error::Invalid { field, reason, .. } = &error else {
        return error.into();
    };
    match *field {
        "ttl" if request.ttl_is_max_hold => Failure::usage(format!(
            "--max-hold {} can't be used, because the ttl is no longer than that: {reason}",
            durations::exact(request.ttl)
        )),
        "margin" => Failure::usage(format!("--grace can't be used: {reason} (--ttl)")),
        "at_least" => Failure::usage(format!("--at-least can't be used: {reason}")),
        _ => error.into(),
    }
}

/// Who is in the way, and what to do.
fn held(request: &Request<'_>, error: &Error, resource: &str) -> String {
    let waited = request.wait.map_or(String::new(), |wait| {
        format!(", after {} of waiting", durations::exact(wait))
    });
    let advice = match (held_by_parent(request), request.wait) {
        (Some(_), _) => LEAVE_OUT,
        (None, Some(_)) => "wait longer with --wait",
        (None, None) => "wait with --wait",
    };
    let mut names = request.names();
    let name = names.find(|name| name.as_str() == resource);
    let name = name.unwrap_or(&request.lock.name);
    let typed = typed_name(name.as_str());
    if let Some(permits) = request.lock.max {
        return format!(
            "none of the permits of {name}, {permits} in all, is free: each is held or rests{waited}; {advice}, or see \
             'redlatch status --max {permits} {typed}'"
        );
    }
    if error.is_resting() {
        // Whether the work was done, with --at-least-on-failure, is not known.
        let last = error.holder();
        let last = last.map(|it| format!(" after the run of {}", it.label));
        return format!(
            "the lock {name} rests{}: nobody gets it before its --at-least is over{waited}; see 'redlatch status {typed}' for \
             when that is",
            last.unwrap_or_default()
        );
    }
    let who = match (error.holder(), error.readers()) {
        (Some(holder), _) => format!("{holder} has"),
        (None, Some(1)) => "a reader has".to_owned(),
        (None, Some(readers)) => format!("{readers} readers have"),
        // The status does not show who waits.
        (None, None) if error.writer_waits() => {
            return format!(
                "a writer waits for the lock {name}, and comes first{waited}; {advice}"
            );
        }
        (None, None) => "another holder has".to_owned(),
    };
    format!("{who} the lock {name}{waited}; {advice}, or see 'redlatch status {typed}'")
}

/// What is said before a wait for a lock that a parent has.
pub(crate) fn in_vain(request: &Request<'_>) -> Option<String> {
    held_by_parent(request).map(|name| {
        format!(
            "a parent of this process has the lock {name} (redlatch run), and releases it when this one has ended: to wait \
             is in vain; {LEAVE_OUT}"
        )
    })
}

const LEAVE_OUT: &str = "leave the inner redlatch out, or give it another name";

/// The name that a `redlatch run` has locked to which this process belongs. Of a semaphore, there may be another permit. What a
/// command has left behind still has its variables, so the holder has to have their token. Of readers, servers tell none.
fn held_by_parent<'a>(request: &Request<'a>) -> Option<&'a Name> {
    let one = env::var(RESOURCE).ok();
    let all = env::var(RESOURCES).unwrap_or_default();
    let is_held = |name: &&Name| {
        one.as_deref() == Some(name.as_str()) || all.lines().any(|other| other == name.as_str())
    };
    let has_token = |name: &&Name| match request.manager.status(name.as_str()) {
        Ok(LockStatus::Held { token, .. }) => env::var(TOKEN).is_ok_and(|own| own == token),
        status => matches!(status, Ok(LockStatus::Read { .. })),
    };
    let name = request.names().find(is_held);
    name.filter(|_| request.lock.max.is_none())
        .filter(has_token)
}
