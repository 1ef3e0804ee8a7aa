//! The times of trouble that a seed draws.

use std::time::Duration;

use super::clocks::{MILLI, Nanos, SECOND};
use super::plan::{Kind, nanos, pick};
use super::trouble::{Episode, Trouble};

pub(super) fn episodes(rng: &mut fastrand::Rng, fleet: &Fleet) -> Vec<Episode> {
    let menu = menu(rng, fleet);
    if menu.is_empty() {
        return Vec::new();
    }
    let apart = pick(rng, &[SECOND / 2, 2 * SECOND, 8 * SECOND]);
    let mut episodes = Vec::new();
    let mut start = rng.u64(0..=apart * 2);
    while start < fleet.storm {
        let mut lasts = exponential(rng, fleet.longest_ttl / 2);
        let node = rng.usize(0..fleet.nodes);
        let client = rng.usize(0..fleet.clients);
        let trouble = match pick(rng, &menu) {
            'h' => Trouble::Hang { node },
            'k' => Trouble::Crash { node, keeps: true },
            'c' => {
                // The algorithm asks for it: whatever the node has forgotten has expired by now, on any clock.
                lasts += fleet.longest_ttl + fleet.longest_ttl / 50 + 5 * MILLI;
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
                by: rng.u64(0..=fleet.longest_ttl * 2),
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
            (start + lasts).min(fleet.storm)
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

/// What the troubles of a run depend on.
pub(super) struct Fleet {
    pub(super) nodes: usize,
    pub(super) clients: usize,
    pub(super) longest_ttl: Nanos,
    pub(super) storm: Nanos,
    pub(super) lossless: bool,
    pub(super) kind: Kind,
}

/// The troubles of this run, a letter each, some of them more than once.
fn menu(rng: &mut fastrand::Rng, fleet: &Fleet) -> Vec<char> {
    let possible: &[char] = match (fleet.kind, fleet.lossless) {
        (Kind::Amnesia, _) => &['a', 'a', 'a', 'h', 'f'],
        (Kind::Fenced, _) => &['a', 'a', 'b', 'b', 'x', 'h', 'k', 'd', 'f', 'p', 'p'],
        (Kind::Jumps, _) => &['j', 'j', 'j', 'h', 'f'],
        (Kind::Sound | Kind::Mixed, true) => &['h', 'h'],
        (Kind::Sound | Kind::Mixed, false) => &['h', 'h', 'k', 'c', 'd', 'd', 'f', 'p', 'p'],
    };
    match fleet.kind {
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
