//! The order of fencing tokens.

use crate::wire::resp::Reply;

use super::access::Access;
use super::clocks::Nanos;
use super::world::State;
use crate::guard::LockGuard;

impl State {
    /// Notes what a node of the fenced protocol has said, beside yes and no.
    pub(super) fn count_answer(&mut self, reply: &Reply) {
        let Reply::Array(items) = reply else {
            return;
        };
        if let [_, asked @ Reply::Array(_)] = items.as_slice() {
            // That of a pass.
            return self.count_answer(asked);
        }
        match items.first() {
            Some(Reply::Bulk(word)) if word == b"STALE" => self.count("a larger token"),
            Some(Reply::Bulk(word)) if word == b"CLOSED" => self.count("abstained"),
            Some(Reply::Bulk(word)) => {
                let word = String::from_utf8_lossy(word);
                self.fail(format!("a node says {word}"));
            }
            _ => (),
        }
    }

    /// No two guards have the same fencing token, and who began when another had been returned has the larger one.
    pub(super) fn check_order(
        &mut self,
        (client, on): (usize, &Access),
        began: Nanos,
        guard: &LockGuard,
    ) {
        let Some(token) = guard.fencing_token() else {
            return;
        };
        if on.is_read() {
            return self.fail(format!("c{client} reads with the fencing token {token}"));
        }
        let resources = on.resources().iter();
        let mut before = resources.flat_map(|resource| &self.witness.fencing[*resource]);
        let wrong = before
            .find(|(returned, other)| *other == token || (*returned <= began && *other > token));
        if let Some((_, other)) = wrong {
            let other = *other;
            self.require(false, || {
                format!("c{client} has {on} with the fencing token {token}, and {other} was before")
            });
        }
        let now = self.now;
        for resource in on.resources() {
            self.witness.fencing[*resource].push((now, token));
        }
    }
}
