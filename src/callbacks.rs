//! Calls of the program's own code from inside the library: its hooks, logger, subscriber and credentials callback.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs code that may panic, such as a program's hook or logger, and goes on after a panic.
pub(crate) fn despite_panics(job: impl FnOnce()) {
    unless_it_panics(job);
}

/// As [`despite_panics`], and returns the result; none after a panic.
pub(crate) fn unless_it_panics<T>(job: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(job)) {
        Ok(made) => Some(made),
        Err(payload) => {
            // The panic hook has reported the panic already. The drop of its payload could panic again.
            #[expect(clippy::mem_forget, reason = "a leak, in place of the next panic")]
            std::mem::forget(payload);
            None
        }
    }
}
