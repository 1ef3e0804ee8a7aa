//! The JSON that programs read: what the library serialises, and what the command adds. Its keys are a promise; fields that
//! are not known are `null`.

use redlatch::{Error, LockStatus};
use serde_json::{Value, json};

pub(crate) fn of_status(name: &str, status: &LockStatus) -> Value {
    let mut object = json!(status);
    if let Some(fields) = object.as_object_mut() {
        fields.insert("resource".into(), name.into());
    }
    object
}

/// Whether the lock was given back is not known if too few servers answered.
pub(crate) fn of_release(name: &str, result: &Result<(), Error>, why: Option<&str>) -> Value {
    let (outcome, released) = match result {
        Ok(()) => ("released", Some(true)),
        Err(Error::Lost { .. }) => ("not_held", Some(false)),
        Err(Error::Unavailable { .. }) => ("unknown", None),
        Err(_) => ("refused", Some(false)),
    };
    json!({
        "resource": name,
        "outcome": outcome,
        "released": released,
        "error": why,
    })
}
