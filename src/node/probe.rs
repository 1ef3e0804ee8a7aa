//! Probes a node that failed, in the background, until it answers.

use std::sync::Weak;

use super::breaker::Probe;
use super::request::{Request, Verb};
use super::round::exchange;
use super::{Node, command};

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
        let answer = exchange(self, &Request::new(&command, Verb::Probe));
        if answer.result.is_err()
            && let Some(next) = self.breaker.probe_failed(probe)
        {
            self.schedule(next);
        }
    }
}
