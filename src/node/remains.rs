//! What remains at a node when nobody asks it for anything. For the simulation.

use super::Node;

impl Node {
    /// What remains although it should not, if anything does.
    pub(crate) fn remains(&self) -> Option<String> {
        let name = &self.name;
        if !self.lanes.are_idle() || !self.common_lanes.are_idle() {
            return Some(format!("a lane or a job at {name}"));
        }
        if !self.listeners.are_none() {
            return Some(format!("one who listens at {name}"));
        }
        if self.gate.is_torn() {
            return Some(format!(
                "a try at the gate of {name}, or a gate that differs from its copy"
            ));
        }
        let is_torn = self.breaker.is_torn();
        is_torn.then(|| {
            format!("a breaker at {name} that is open and has no failure, or the other way round")
        })
    }
}
