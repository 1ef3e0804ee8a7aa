//! What a connection without a login may do.

use crate::wire::pack::Packed;
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
    /// The commands that tell. They are about a key that nobody has, and create no key.
    pub(crate) fn commands(key: &str) -> [Packed; 4] {
        let words: [&[&str]; 4] = [
            &["DEL", key],
            &["SET", key, "x", "XX", "PX", "1"],
            &["GET", key],
            &["PING"],
        ];
        words.map(|words| {
            let words: Vec<_> = words.iter().map(|word| (*word).into()).collect();
            Packed::new("try", &words)
        })
    }

    /// Reads the replies to the commands.
    pub(crate) fn of(replies: &[Reply]) -> Self {
        let may = |reply: &Reply| !matches!(reply, Reply::Error(_));
        match replies.iter().position(may) {
            Some(0 | 1) => Self::Writes,
            Some(2) => Self::Reads,
            // Whether it may flush can't be tried.
            Some(_) => Self::Runs,
            None => Self::Nothing,
        }
    }
}
