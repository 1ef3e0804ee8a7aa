//! What nodes say to attempts: beside yes and no, what the fenced protocol has; and that a writer waits, which holds new readers back.

use super::access::Access;
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

    /// A client has read the reply to an attempt.
    pub(super) fn is_answered(&mut self, asked: Option<String>, reply: Option<&Reply>) {
        let (Some(token), Some(Reply::Array(items))) = (asked, reply) else {
            return;
        };
        if let [Reply::Int(_), Reply::Int(-1)] = items.as_slice() {
            self.count("a reader is held back for a writer");
            self.witness.held_back.insert(token);
        }
    }

    /// A guard is returned to whoever made the attempt with this token.
    pub(super) fn passes_nobody(&mut self, client: usize, on: &Access, token: &str) {
        if self.witness.held_back.contains(token) {
            self.fail(format!(
                "c{client} has {on}, and a node told it that a writer waits"
            ));
        }
    }
}
