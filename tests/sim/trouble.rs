//! The troubles: when a seed has them, and the beginning and the end of each.

use super::prelude::*;
use super::witness::key;
use crate::fencing::Rules;

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
            Trouble::Hang { node } => self.nodes[node].hung += 1,
            Trouble::Crash { node, .. } | Trouble::Replace { node, .. } => {
                let keeps = matches!(episode.trouble, Trouble::Crash { keeps: true, .. });
                self.nodes[node].crash(keeps);
                self.disconnect(node);
            }
            Trouble::Disconnect { node } => {
                self.nodes[node].disconnect();
                self.disconnect(node);
            }
            Trouble::Freeze { client } => {
                let until = &mut self.clients[client].stopped_until;
                *until = episode.end.max(*until);
                self.clients[client].stills.push(self.now..episode.end);
            }
            // Looked up in the plan by whoever sends something.
            Trouble::Partition { .. } => {}
            Trouble::Jump { node, by } => self.nodes[node].clock.epoch += by,
            Trouble::SetBack { node, by } => self.nodes[node].clock.epoch -= by,
            Trouble::SetWall { client, ahead } => self.clients[client].wall_ahead = ahead,
            Trouble::Idle { by } => self.stands_still_for(by),
            Trouble::GoBack { node } => self.nodes[node].save(),
            Trouble::Flush { node } => self.nodes[node].flush(self.now),
            Trouble::ForgetScripts { node } => self.nodes[node].store.forget_scripts(),
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
            // To what it showed at the beginning.
            Trouble::SetWall { client, .. } => {
                self.clients[client].wall_ahead = self.plan.wall_ahead[client];
            }
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

    /// Puts off by this span all that is under way, and all waits.
    fn stands_still_for(&mut self, by: Nanos) {
        let began = self.now;
        self.now += by;
        for client in &mut self.clients {
            client.stills.push(began..self.now);
        }
        let now = self.now;
        let counter = Rules::fence(&key(0));
        let is_gone = |node: &mut Node| node.contents(&counter, now).entries().is_empty();
        if self.nodes.iter_mut().all(is_gone) {
            self.count("a counter is gone");
        }
    }
}

/// The times of trouble that a seed draws.
pub(super) fn episodes(rng: &mut fastrand::Rng, plan: &Plan) -> Vec<Episode> {
    let menu = menu(rng, plan);
    if menu.is_empty() {
        return Vec::new();
    }
    let longest = plan.longest_ttl();
    let apart = pick(rng, &[SECOND / 2, 2 * SECOND, 8 * SECOND]);
    let mut episodes = Vec::new();
    let mut start = rng.u64(0..=apart * 2);
    while start < plan.storm {
        let mut lasts = exponential(rng, longest / 2);
        let node = rng.usize(0..plan.nodes);
        let client = rng.usize(0..plan.clients);
        let trouble = match pick(rng, &menu) {
            'h' => Trouble::Hang { node },
            'k' => Trouble::Crash { node, keeps: true },
            'c' => {
                // The algorithm asks for it: whatever the node has forgotten has expired by now, on any clock.
                lasts += longest + longest / 50 + 5 * MILLI;
                Trouble::Crash { node, keeps: false }
            }
            'a' => {
                lasts = rng.u64(MILLI..=20 * MILLI);
                Trouble::Crash { node, keeps: false }
            }
            'd' => Trouble::Disconnect { node },
            'f' => Trouble::Freeze { client },
            'b' => Trouble::GoBack { node },
            'x' => Trouble::Flush { node },
            'j' => Trouble::Jump {
                node,
                by: rng.u64(0..=longest * 2),
            },
            _ => Trouble::Partition {
                client,
                node,
                holds: rng.bool(),
            },
        };
        // But for the end of a wait that the algorithm asks for, all troubles end with the storm.
        let is_wait = matches!(trouble, Trouble::Crash { keeps: false, .. });
        let end = if is_wait {
            start + lasts
        } else {
            (start + lasts).min(plan.storm)
        };
        episodes.push(Episode {
            start,
            end,
            trouble,
        });
        start += exponential(rng, apart);
    }
    episodes
}

/// The troubles of this run, a letter each, some of them more than once.
fn menu(rng: &mut fastrand::Rng, plan: &Plan) -> Vec<char> {
    let possible: &[char] = match (plan.kind, plan.lossless) {
        (Kind::Amnesia, _) => &['a', 'a', 'a', 'h', 'f'],
        (Kind::Fenced, _) => &['a', 'a', 'b', 'b', 'x', 'h', 'k', 'd', 'f', 'p', 'p'],
        (Kind::Jumps, _) => &['j', 'j', 'j', 'h', 'f'],
        (Kind::Sound | Kind::Mixed, true) => &['h', 'h'],
        (Kind::Sound | Kind::Mixed, false) => &['h', 'h', 'k', 'c', 'd', 'd', 'f', 'p', 'p'],
    };
    match plan.kind {
        Kind::Sound | Kind::Fenced | Kind::Mixed => {
            possible.iter().filter(|_| rng.bool()).copied().collect()
        }
        Kind::Amnesia | Kind::Jumps => possible.to_vec(),
    }
}

/// A time that is mostly short and now and then several times the mean.
fn exponential(rng: &mut fastrand::Rng, mean: Nanos) -> Nanos {
    let mean = Duration::from_nanos(mean.max(1)).as_secs_f64();
    let drawn = -mean * (1.0 - rng.f64()).ln();
    nanos(Duration::from_secs_f64(drawn.min(mean * 8.0)))
}
