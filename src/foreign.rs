//! Code of the program that runs inside the library: its hooks, its logger, its credentials.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs what may panic, such as a program's hook or its logger, where things have to go on.
pub(crate) fn in_any_case(job: impl FnOnce()) {
    // The panic hook has reported it, and there is nobody here to be told.
    let _panicked = unless_it_panics(job);
}

/// What a job of the program comes to. `None` means that it panicked.
pub(crate) fn unless_it_panics<T>(job: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(job)) {
        Ok(value) => Some(value),
        Err(payload) => {
            // To drop what came with it might panic again.
            #[expect(clippy::mem_forget, reason = "a leak, in place of the next panic")]
            std::mem::forget(payload);
            None
        }
    }
}
