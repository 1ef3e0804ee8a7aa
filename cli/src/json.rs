//! The JSON for programs: what the library serialises, and what the command adds. The keys are a promise; unknown
//! values are `null`.

use redlatch::{Error, ListedLock, LockGuard, LockStatus};
use serde_json::{Value, json};

use crate::state;

pub(crate) fn of_status(name: &str, status: &LockStatus) -> Value {
    with(json!(status), "resource", name.into())
}

fn with(mut object: Value, field: &str, value: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.insert(field.to_owned(), value);
    }
    object
}

pub(crate) fn of_semaphore(name: &str, slots: &[LockStatus]) -> Value {
    json!({
        "resource": name,
        "permits": slots.len(),
        "held": state::held(slots),
        "slots": slots,
    })
}

/// As [`of_status`], with the slot of a semaphore.
pub(crate) fn of_listed(lock: &ListedLock) -> Value {
    let object = of_status(&lock.resource, &lock.status);
    with(object, "slot", lock.slot.into())
}

pub(crate) fn of_guard(held: &LockGuard) -> Value {
    json!({
        "resource": held.resource(),
        "slot": held.slot(),
        "token": held.token(),
        "fencing_token": held.fencing_token(),
    })
}

/// The result of `unlock`; `released` is unknown if too few servers answered.
pub(crate) fn of_release(name: &str, result: &Result<(), Error>, why: Option<&str>) -> Value {
    let (outcome, released) = match result {
        Ok(()) => ("released", Some(true)),
        Err(Error::Lost { .. }) => ("not_held", Some(false)),
        Err(Error::Unconfirmed { .. } | Error::NotALock { .. }) => ("unknown", None),
        Err(_) => ("refused", Some(false)),
    };
    json!({
        "resource": name,
        "outcome": outcome,
        "released": released,
        "error": why,
    })
}
