//! The JSON for programs: what the library serialises, and what the command adds. The keys are a promise; unknown
//! values are `null`.

use std::fmt::Write as _;

use redlatch::{Error, LockGuard, LockStatus};
use serde_json::{Value, json};

use crate::state;
use crate::text::is_printable;

/// Returns a line of JSON. Characters that change what a terminal shows are escaped, because programs print the line there.
pub(crate) fn line(value: &Value) -> String {
    let mut line = String::new();
    for c in value.to_string().chars() {
        if c.is_ascii_graphic() || c == ' ' || is_printable(c) {
            line.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a String can't fail.
                write!(line, "\\u{unit:04x}").ok();
            }
        }
    }
    line + "\n"
}

pub(crate) fn of_status(name: &str, status: &LockStatus) -> Value {
    let mut object = json!(status);
    if let Some(fields) = object.as_object_mut() {
        fields.insert("resource".to_owned(), name.into());
    }
    object
}

/// `permits` is null if the user gave no number.
pub(crate) fn of_semaphore(name: &str, permits: Option<u32>, slots: &[LockStatus]) -> Value {
    json!({
        "resource": name,
        "permits": permits,
        "held": state::held(slots),
        "slots": slots,
    })
}

pub(crate) fn of_guard(held: &LockGuard) -> Value {
    json!({
        "resource": held.resource(),
        "slot": held.slot(),
        "token": held.token(),
        "fencing_token": held.fencing_token(),
    })
}

/// The result of `unlock`; `released` is unknown if too few servers answered, and false without a result.
pub(crate) fn of_release(
    name: &str,
    result: Option<&Result<(), Error>>,
    why: Option<&str>,
) -> Value {
    let (outcome, released) = match result {
        Some(Ok(())) => ("released", Some(true)),
        Some(Err(Error::Lost { .. })) => ("not_held", Some(false)),
        Some(Err(Error::Unconfirmed { .. } | Error::NotALock { .. })) => ("unknown", None),
        Some(Err(_)) | None => ("refused", Some(false)),
    };
    json!({
        "resource": name,
        "outcome": outcome,
        "released": released,
        "error": why,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_nothing_that_a_terminal_heeds_and_is_read_as_what_was_written() {
        let harmful = "\u{1b}\u{7f}\u{85}\u{9b}31m\u{202e}\u{2066}\u{2028}\u{e0001}\n";
        let line = line(&json!({ "é日\"": [harmful] }));
        let escaped = r"\u007f\u0085\u009b31m\u202e\u2066\u2028\udb40\udc01\n";
        assert!(line.contains(escaped), "{line}");
        assert!(
            line.starts_with("{\"é日\\\"\":") && line.ends_with("}\n"),
            "{line}"
        );
        let read: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["é日\""][0], harmful);
    }
}
