//! The entry points of the fuzz targets in `fuzz/`. They exist for `cargo fuzz` only, and are no part of the API.

use std::time::Duration;

use crate::node::reply_path::{self, answer::RawAnswer};

/// Sends bytes to a fake node: as they are, or as words between line breaks that are packed as a client does.
pub fn command(input: &[u8]) {
    let now = Duration::from_secs(1_700_000_000);
    match input.split_first() {
        Some((b'w', words)) => crate::fake::check_words(words, now),
        _ => crate::fake::check_bytes(input, now),
    }
}

/// Lets a server answer with bytes, in the packets that the first of them say.
pub fn reply(input: &[u8]) {
    if let Some(answer) = RawAnswer::from_input(input) {
        reply_path::check(&answer);
    }
}
