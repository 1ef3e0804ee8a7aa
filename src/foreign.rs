//! Code of the program that runs inside the library: its hooks and its logger.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs what may panic, such as a program's hook or its logger, where things have to go on.
pub(crate) fn in_any_case(job: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(job)) {
        // The panic hook has reported it, and there is nobody here to be told. To drop what came with it might panic again.
        #[expect(clippy::mem_forget, reason = "a leak, in place of the next panic")]
        std::mem::forget(payload);
    }
}
