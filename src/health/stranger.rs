//! What a connection without a login may do.

use crate::wire::pack::{Packed, Word};
use crate::wire::resp::Reply;

/// What a connection without a login may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stranger {
    Writes,
    Reads,
    /// Commands that are about no key.
    Runs,
    Nothing,
}

impl Stranger {
    /// The commands whose replies show it. They are about a key that nobody has, and create no key.
    pub(crate) fn commands(key: &str) -> [Packed; 4] {
        let [del, key, set, x, xx, px, get, ping] =
            ["DEL", key, "SET", "x", "XX", "PX", "GET", "PING"].map(Word::from);
        [
            Packed::new("del", &[del, key]),
            Packed::new("set", &[set, key, x, xx, px, 1.into()]),
            Packed::new("get", &[get, key]),
            Packed::new("ping", &[ping]),
        ]
    }

    /// Reads the replies to the commands.
    pub(crate) fn of(replies: &[Reply]) -> Self {
        let may = |reply: &Reply| !matches!(reply, Reply::Error(_));
        match replies.iter().position(may) {
            Some(0 | 1) => Self::Writes,
            Some(2) => Self::Reads,
            // A connection that may flush can do more, but a flush can't be tried.
            Some(_) => Self::Runs,
            None => Self::Nothing,
        }
    }
}
