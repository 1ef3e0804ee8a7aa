//! The entry point of the fuzz target in `fuzz/`. It exists for `cargo fuzz` only, and is no part of the API.

use crate::node::reply_path::{RawAnswer, check};

/// Lets a server answer with bytes, in the packets that the first of them say.
pub fn reply(input: &[u8]) {
    if let Some(answer) = RawAnswer::from_input(input) {
        check(&answer);
    }
}
