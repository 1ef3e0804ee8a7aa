//! Writers that wait hold new readers back.

use crate::wire::resp::Reply;

use super::access::Access;
use super::world::State;

impl State {
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
