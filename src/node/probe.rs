//! Probes a node that failed, in the background, until it answers.

use std::sync::Weak;

use super::breaker::Probe;
use super::request::{Kind, Request, Rule};
use super::round::exchange;
use super::{Node, command};
use crate::wire::resp::Reply;

impl Node {
    pub(super) fn schedule(&self, probe: Probe) {
        let me = Weak::clone(&self.me);
        self.timers.after(probe.after, move || {
            if let Some(node) = me.upgrade() {
                node.probe(probe);
            }
        });
    }

    /// Sends a real command, because a stopped server still accepts connections.
    fn probe(&self, probe: Probe) {
        if !self.breaker.wants(probe) {
            return;
        }
        let command = command::probe();
        let rule = Rule::new(|reply, _| is_alive(reply).is_some(), 0);
        let answer = exchange(self, &Request::new(&command, Kind::Brief, rule));
        if answer.result.is_err()
            && let Some(next) = self.breaker.probe_failed(probe)
        {
            self.schedule(next);
        }
    }
}

/// Reads the reply to a probe. A server that refuses the probe with an error is alive too.
pub(super) fn is_alive(reply: &Reply) -> Option<()> {
    match reply {
        Reply::Int(1) | Reply::Error(_) => Some(()),
        Reply::Nil
        | Reply::Okay
        | Reply::Text(_)
        | Reply::Int(_)
        | Reply::Bulk(_)
        | Reply::Array(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::resp::ServerError;

    #[test]
    fn a_server_that_answers_or_refuses_is_alive_and_one_that_says_anything_else_is_not() {
        let refusal = Reply::Error(ServerError::new("LOADING wait"));
        for (reply, expected) in [
            (Reply::Int(1), Some(())),
            (refusal, Some(())),
            (Reply::Int(0), None),
            (Reply::Nil, None),
            (Reply::Okay, None),
            (Reply::Array(Vec::new()), None),
        ] {
            assert_eq!(is_alive(&reply), expected, "{reply:?}");
        }
    }
}
