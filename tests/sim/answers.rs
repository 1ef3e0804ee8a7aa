//! What nodes of the fenced protocol may say.

use super::world::State;
use crate::wire::resp::Reply;

impl State {
    /// Notes what a node of the fenced protocol has said, beside yes and no.
    pub(super) fn count_answer(&mut self, reply: &Reply) {
        let Reply::Array(items) = reply else {
            return;
        };
        if let [_, asked @ Reply::Array(_)] = items.as_slice() {
            // The token of a pass.
            return self.count_answer(asked);
        }
        match items.first() {
            Some(Reply::Bulk(word)) if word == b"STALE" => self.count("a larger token"),
            Some(Reply::Bulk(word)) if word == b"SKEW" => self.is_told_of_skew(),
            Some(Reply::Bulk(word)) if word == b"CLOSED" => self.count("abstained"),
            Some(Reply::Bulk(word)) => {
                let word = String::from_utf8_lossy(word);
                self.fail(format!("a node says {word}"));
            }
            _ => (),
        }
    }
}
