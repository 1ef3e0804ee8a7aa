//! The troubles, and the beginning and the end of each.

use redlatch_history::What;

use super::clocks::Nanos;
use super::wall::Offset;
use super::world::State;

/// A time of trouble.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Episode {
    pub(crate) start: Nanos,
    pub(crate) end: Nanos,
    pub(crate) trouble: Trouble,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Trouble {
    /// The node's process is stopped: it takes what arrives and executes it when it goes on.
    Hang { node: usize },
    /// The node's process ends and comes up again, with its keys or without.
    Crash { node: usize, keeps: bool },
    /// The node ends all its connections, and what is on its way on them is lost.
    Disconnect { node: usize },
    /// The client's process is stopped.
    Freeze { client: usize },
    /// Nothing gets from the client to the node or back; it comes later, or never.
    Partition {
        client: usize,
        node: usize,
        holds: bool,
    },
    /// The node forgets what came since the beginning, and is another process then: it was restored from a snapshot, or
    /// a replica that lags was promoted.
    GoBack { node: usize },
    /// All keys of the node are deleted.
    Flush { node: usize },
    /// The scripts of the node are deleted.
    ForgetScripts { node: usize },
    /// The node is gone for good, and an empty server takes its place, whose wall clock is behind by that much.
    Replace { node: usize, lag: Nanos },
    /// The node's clock jumps ahead.
    Jump { node: usize, by: Nanos },
    /// The node's clock is set back, so that its keys live longer.
    SetBack { node: usize, by: Nanos },
    /// The wall clock of the client is set wrong by that, and later as it was.
    SetWall { client: usize, ahead: Offset },
    /// Everything stands still for so long.
    Idle { by: Nanos },
}

impl Trouble {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Hang { .. } => "node stopped",
            Self::Crash { keeps: true, .. } => "node died and remembers",
            Self::Crash { keeps: false, .. } => "node died and forgets",
            Self::Disconnect { .. } => "connections ended",
            Self::Freeze { .. } => "client stopped",
            Self::Partition { .. } => "cut",
            Self::GoBack { .. } => "node went back",
            Self::Flush { .. } => "node flushed",
            Self::ForgetScripts { .. } => "scripts flushed",
            Self::Replace { .. } => "node replaced",
            Self::Jump { .. } => "clock jump",
            Self::SetBack { .. } => "a node's clock is set back",
            Self::SetWall { .. } => "a wall clock is set",
            Self::Idle { .. } => "a pause of a day",
        }
    }
}

impl State {
    pub(super) fn begin(&mut self, episode: usize) {
        let episode = self.plan.episodes[episode];
        self.count(episode.trouble.name());
        self.note(|| format!("trouble begins: {:?}", episode.trouble));
        self.records(None, What::Beside(format!("begins: {:?}", episode.trouble)));
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
                self.clients[client].stands_still(self.now..episode.end);
            }
            // Looked up in the plan by whoever sends something.
            Trouble::Partition { .. } => {}
            Trouble::Jump { node, by } => self.nodes[node].clock.jump(by),
            Trouble::SetBack { node, by } => self.nodes[node].clock.is_set_back(by),
            Trouble::SetWall { client, ahead } => self.sets_wall(client, ahead),
            Trouble::Idle { by } => self.stands_still_for(by),
            Trouble::GoBack { node } => self.nodes[node].save(),
            Trouble::Flush { node } => self.nodes[node].flush(self.now),
            Trouble::ForgetScripts { node } => self.nodes[node].forget_scripts(),
        }
    }

    pub(super) fn end(&mut self, episode: usize) {
        let trouble = self.plan.episodes[episode].trouble;
        self.note(|| format!("trouble ends: {trouble:?}"));
        self.records(None, What::Beside(format!("ends: {trouble:?}")));
        match trouble {
            Trouble::Hang { node } => {
                for (connection, message) in self.nodes[node].go_on() {
                    self.execute(connection, &message);
                }
                self.unblock(node);
            }
            Trouble::Crash { node, .. } => self.nodes[node].come_up(self.now),
            Trouble::Replace { node, lag } => self.nodes[node].is_replaced(lag, self.now),
            Trouble::GoBack { node } => {
                self.nodes[node].go_back(self.now);
                self.disconnect(node);
            }
            Trouble::SetWall { client, .. } => self.resets_wall(client),
            Trouble::Disconnect { .. }
            | Trouble::Idle { .. }
            | Trouble::Freeze { .. }
            | Trouble::Partition { .. }
            | Trouble::Flush { .. }
            | Trouble::ForgetScripts { .. }
            | Trouble::Jump { .. }
            | Trouble::SetBack { .. } => {}
        }
    }
}
