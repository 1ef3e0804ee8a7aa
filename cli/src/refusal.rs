//! What people are told when there is no lock.

use redlatch::{Error, NodeReport, Vote};

use crate::durations;
use crate::failure::Failure;
use crate::request::Request;
use crate::text::typed_name;

/// Why the request has failed with this error.
pub(crate) fn refusal(request: &Request<'_>, error: Error) -> Failure {
    if let Error::Held {
        resource, nodes, ..
    } = &error
    {
        return Failure::new(request.held_code, held(request, &error, (resource, nodes)));
    }
    let Error::Invalid { field, reason, .. } = &error else {
        return error.into();
    };
    match *field {
        "ttl" if request.hold_time.ttl_is_from_max_hold => Failure::usage(format!(
            "--max-hold {} can't be used, because the ttl is no longer than that: {reason}",
            durations::exact(request.hold_time.ttl)
        )),
        "at_least" => Failure::usage(format!("--at-least can't be used: {reason}")),
        _ => error.into(),
    }
}

/// Who is in the way, and what to do.
fn held(request: &Request<'_>, error: &Error, (resource, nodes): (&str, &[NodeReport])) -> String {
    let waited = request.wait.map_or(String::new(), |wait| {
        format!(", after {} of waiting", durations::exact(wait))
    });
    let advice = if request.wait.is_some() {
        "wait longer with --wait"
    } else {
        "wait with --wait"
    };
    let name = request.wanted.named(resource);
    let typed = typed_name(name.as_str());
    match request.wanted.permits() {
        None if error.is_resting() => {
            let done_by = error.holder().map(|holder| format!(" by {}", holder.label));
            let done_by = done_by.unwrap_or_default();
            format!(
                "the lock {name} rests: the work was done{done_by}, and nobody gets the lock before its --at-least is over{waited}; see 'redlatch status {typed}' for when that is"
            )
        }
        None => {
            let is_held = |report: &&NodeReport| {
                matches!(
                    report.vote,
                    Vote::Held { .. } | Vote::Read { .. } | Vote::WriterWaits { .. }
                )
            };
            let of = nodes.len();
            let count = nodes.iter().filter(is_held).count();
            let asked = format!("on {count} of {of} nodes, as far as they were asked{waited}");
            match who_has(error) {
                Some(has) => format!(
                    "{has} the lock {name} ({asked}); {advice}, or see 'redlatch status {typed}'"
                ),
                // The status does not show who waits.
                None => format!(
                    "one who wants it alone comes first at the lock {name} ({asked}); {advice}"
                ),
            }
        }
        Some(permits) => format!(
            "none of the permits of {name}, {permits} in all, is free: each is held or rests{waited}; {advice}, or see 'redlatch status --max {permits} {typed}'"
        ),
    }
}

/// The subject of the sentence, and its verb. None if nobody who has the lock is in the way, but one who waits for it.
fn who_has(error: &Error) -> Option<String> {
    match (error.holder(), error.readers()) {
        (Some(holder), _) => Some(format!("{holder} has")),
        (None, Some(1)) => Some("a reader has".to_owned()),
        (None, Some(readers)) => Some(format!("{readers} readers have")),
        (None, None) if error.writer_waits() => None,
        (None, None) => Some("another holder has".to_owned()),
    }
}
