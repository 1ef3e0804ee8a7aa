//! The beginning and the end of each trouble.

use super::plan::Trouble;
use super::world::State;

impl State {
    pub(super) fn begin(&mut self, episode: usize) {
        let episode = self.plan.episodes[episode];
        self.count(episode.trouble.name());
        self.note(|| format!("trouble begins: {:?}", episode.trouble));
        match episode.trouble {
            Trouble::Hang { node } => self.nodes[node].hang(),
            Trouble::Crash { node, keeps } => {
                self.nodes[node].crash(keeps);
                self.disconnect(node);
            }
            Trouble::Replace { node, .. } => {
                self.nodes[node].crash(false);
                self.disconnect(node);
            }
            Trouble::Disconnect { node } => {
                self.nodes[node].disconnect();
                self.disconnect(node);
            }
            Trouble::Freeze { client } => {
                let until = &mut self.clients[client].stopped_until;
                *until = episode.end.max(*until);
                self.clients[client].stood += episode.end.saturating_sub(self.now);
            }
            // Looked up in the plan by whoever sends something.
            Trouble::Partition { .. } => {}
            Trouble::Jump { node, by } => self.nodes[node].clock.jump(by),
            Trouble::GoBack { node } => self.nodes[node].save(),
            Trouble::Flush { node } => self.nodes[node].flush(),
            Trouble::ForgetScripts { node } => self.nodes[node].forget_scripts(),
        }
    }

    pub(super) fn end(&mut self, episode: usize) {
        let trouble = self.plan.episodes[episode].trouble;
        self.note(|| format!("trouble ends: {trouble:?}"));
        match trouble {
            Trouble::Hang { node } => {
                for (connection, message) in self.nodes[node].go_on() {
                    self.execute(connection, &message);
                }
            }
            Trouble::Crash { node, .. } => self.nodes[node].come_up(self.now),
            Trouble::Replace { node, lag } => self.nodes[node].is_replaced(lag, self.now),
            Trouble::GoBack { node } => {
                self.nodes[node].go_back(self.now);
                self.disconnect(node);
            }
            Trouble::Disconnect { .. }
            | Trouble::Freeze { .. }
            | Trouble::Partition { .. }
            | Trouble::Flush { .. }
            | Trouble::ForgetScripts { .. }
            | Trouble::Jump { .. } => {}
        }
    }
}
