//! Code of the program that runs inside the library: its hooks, its logger, its subscriber and its credentials.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs what may panic, such as a program's hook or its logger, where things have to go on.
pub(crate) fn in_any_case(job: impl FnOnce()) {
    unless_it_panics(job);
}

/// As [`in_any_case`], for what makes something.
pub(crate) fn unless_it_panics<T>(job: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(job)) {
        Ok(made) => Some(made),
        Err(payload) => {
            // The panic hook has reported it, and there is nobody here to be told. To drop what came with it might panic
            // again.
            #[expect(clippy::mem_forget, reason = "a leak, in place of the next panic")]
            std::mem::forget(payload);
            None
        }
    }
}
