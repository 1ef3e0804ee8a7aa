//! What a seed stands for: the deployment, the network, the workload, and the troubles to come.

use super::preempt::Preemption;
use super::prelude::*;
use super::trouble::episodes;
use super::wanted::{Permits, Sharing};
use crate::fencing::Rules;
use crate::{Fanout, quorum};

/// What a run is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Every assumption of the algorithm holds, so every promise has to.
    #[default]
    Sound,
    /// Nodes restart at once and without memory: two holders at once are to be expected.
    Amnesia,
    /// The fenced protocol, and nodes that forget: every promise has to hold nevertheless.
    Fenced,
    /// The clocks of nodes jump ahead: two holders at once are to be expected.
    Jumps,
    /// Clients of both protocols on the same resources, while every assumption of the published algorithm holds.
    Mixed,
}

impl Kind {
    pub(crate) fn is_sound(self) -> bool {
        matches!(self, Self::Sound | Self::Fenced | Self::Mixed)
    }

    /// Whether nodes forget no lock before it has ended.
    pub(crate) fn nodes_remember(self) -> bool {
        matches!(self, Self::Sound | Self::Mixed)
    }
}

/// Who is named as the holder of a client's locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Labels {
    Nobody,
    /// The client, whichever of its threads has the lock.
    Client,
    /// The thread that has the lock.
    Thread,
}

/// What happens to messages while there is trouble.
#[derive(Clone, Debug, Default)]
pub(crate) struct Weather {
    /// The usual time of a message on its way.
    pub(crate) delay: (Nanos, Nanos),
    /// How likely a message takes far longer, in a million; and how long at most.
    pub(crate) tail: u32,
    pub(crate) longest: Nanos,
    /// How likely a request, or a reply, and all that follows it on its connection, is lost, in a million.
    pub(crate) lost_request: u32,
    pub(crate) lost_reply: u32,
    /// How likely a command can't be written by its deadline, and a connection can't be made, in a million.
    pub(crate) stuck: u32,
    /// How likely a client stands still for a moment, or for long, before a step, in a million.
    pub(crate) stumble: u32,
    pub(crate) pause: u32,
    pub(crate) longest_pause: Nanos,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) kind: Kind,
    pub(crate) nodes: usize,
    pub(crate) clients: usize,
    /// The threads of each client that take locks; they share its manager.
    pub(crate) workers: usize,
    /// In which order each client asks the nodes for a lock.
    pub(crate) fanouts: Vec<Fanout>,
    /// Which clients have fencing tokens.
    pub(crate) fenced: Vec<bool>,
    /// How likely a connection behaves at a moment as only one with TLS does, in a million; never if it is zero.
    pub(crate) sealed: u32,
    pub(crate) labels: Vec<Labels>,
    pub(crate) resources: usize,
    /// Set if the resources are the slots of a semaphore.
    pub(crate) permits: Option<Permits>,
    /// Set if the resources are also read, or wanted together.
    pub(crate) sharing: Option<Sharing>,
    pub(crate) workload: Workload,
    pub(crate) ttls: Vec<Duration>,
    pub(crate) node_timeout: Duration,
    pub(crate) retry: (Duration, Duration),
    /// By how much each clock runs too fast, in millionths.
    pub(crate) node_rates: Vec<i64>,
    pub(crate) client_rates: Vec<i64>,
    /// By how much the wall clock of each client is behind.
    pub(crate) client_lags: Vec<Nanos>,
    /// By how much the wall clock of each client alone is ahead at the beginning, and whether that is more than is allowed.
    pub(crate) wall_ahead: Vec<Offset>,
    pub(crate) is_beyond: bool,
    /// By how much the clock of a node is set back in all, at most.
    pub(crate) set_back: Nanos,
    /// Whether nothing is ever lost, so that no key may be left behind, however late it comes.
    pub(crate) lossless: bool,
    /// Whether clients hold some of their locks for a time at least.
    pub(crate) rests: bool,
    /// If all threads of a client take locks of their own at the same time: how likely one of them panics in the middle of
    /// a step, in a million.
    pub(crate) crowds: Option<u32>,
    /// How threads are preempted at locks and atomics, if they are.
    pub(crate) preemption: Option<Preemption>,
    pub(crate) weather: Weather,
    pub(crate) episodes: Vec<Episode>,
    pub(crate) replaced: Vec<Nanos>,
    pub(crate) storm: Nanos,
}

/// How long a message is on its way at least.
pub(crate) const SHORTEST_DELAY: Nanos = 20 * MICRO;

/// Any two clocks at these rates differ by less than 1 % in their speed.
pub(super) const FASTEST: i64 = 4_950;

impl Plan {
    pub(crate) fn draw(seed: u64, kind: Kind) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let nodes = pick(&mut rng, &[5, 5, 5, 5, 3, 3, 1, 2, 4, 7]);
        let clients = pick(&mut rng, &[4, 4, 4, 3, 2, 6]);
        let workers = pick(&mut rng, &[1, 1, 2]);
        Self::with(seed, kind, (nodes, clients, workers), rng)
    }

    pub(super) fn with(
        seed: u64,
        kind: Kind,
        (nodes, clients, workers): (usize, usize, usize),
        mut rng: fastrand::Rng,
    ) -> Self {
        let rng = &mut rng;
        let (lowest, highest) = pick(
            rng,
            &[(20, 200), (200, 2_000), (500, 5_000), (5_000, 10_000)],
        );
        let ttls = (0..rng.usize(1..=3))
            .map(|_| Duration::from_micros(rng.u64(lowest * 1000..=highest * 1000)))
            .collect::<Vec<_>>();
        let longest_ttl = ttls.iter().max().map_or(SECOND, |ttl| nanos(*ttl));
        let node_timeout = Duration::from_millis(match lowest {
            20 => rng.u64(3..=10),
            _ => pick(rng, &[5, 20, 50, 50, 200]),
        });
        let lossless = kind == Kind::Sound && rng.u8(0..3) == 0;
        let storm = rng.u64(10 * SECOND..=60 * SECOND).max(3 * longest_ttl);
        let weather = weather(rng, nanos(node_timeout), longest_ttl, lossless);
        let retry_min = rng.u64(1..=50);
        let rates = |rng: &mut fastrand::Rng, count: usize| {
            (0..count).map(|_| rng.i64(-FASTEST..=FASTEST)).collect()
        };
        let mut plan = Self {
            seed,
            kind,
            nodes,
            clients,
            workers,
            fenced: vec![kind == Kind::Fenced; clients],
            resources: pick(rng, &[1, 1, 1, 2, 3]),
            ttls,
            node_timeout,
            retry: (
                Duration::from_millis(retry_min),
                Duration::from_millis(retry_min + rng.u64(1..=200)),
            ),
            node_rates: rates(rng, nodes),
            client_rates: rates(rng, clients),
            client_lags: vec![0; clients],
            wall_ahead: vec![0; clients],
            lossless,
            weather,
            storm,
            ..Self::default()
        };
        plan.episodes = episodes(rng, &plan);
        // Last of all, so that they change nothing else about a seed.
        plan.fanouts = fanouts(rng, clients);
        plan.labels = labels(rng, clients);
        if kind != Kind::Fenced {
            return plan;
        }
        let plan = plan.with_slower_rates().with_replacements();
        if plan.replaced.is_empty() && seed.is_multiple_of(2) {
            return plan.with_wall_clocks_apart();
        }
        plan
    }

    /// What the managers of the fenced protocol agree on.
    pub(crate) fn rules(&self) -> Option<Rules> {
        let longest = Duration::from_nanos(self.longest_ttl());
        let drift = quorum::drift(longest, 0.01);
        let is_fenced = matches!(self.kind, Kind::Fenced | Kind::Mixed);
        is_fenced.then(|| Rules::new("", self.nodes, longest, drift))
    }

    /// Whether a node forgets a lock that has not ended.
    pub(crate) fn nodes_forget(&self) -> bool {
        let forgets = |trouble| {
            matches!(
                trouble,
                Trouble::Crash { keeps: false, .. }
                    | Trouble::GoBack { .. }
                    | Trouble::Flush { .. }
                    | Trouble::Replace { .. }
                    | Trouble::Jump { .. }
            )
        };
        let mut episodes = self.episodes.iter();
        !self.kind.nodes_remember() && episodes.any(|episode| forgets(episode.trouble))
    }

    pub(crate) fn longest_ttl(&self) -> Nanos {
        self.ttls.iter().max().map_or(0, |ttl| nanos(*ttl))
    }
}

/// One for all clients, or one for each.
fn fanouts(rng: &mut fastrand::Rng, clients: usize) -> Vec<Fanout> {
    let mut draw = || pick(rng, &[Fanout::Sequential, Fanout::Overlapped]);
    let all = draw();
    let is_mixed = draw() == draw();
    (0..clients)
        .map(|_| if is_mixed { draw() } else { all })
        .collect()
}

/// Mixed, so that clients meet holders with labels and without.
fn labels(rng: &mut fastrand::Rng, clients: usize) -> Vec<Labels> {
    let all = [Labels::Nobody, Labels::Client, Labels::Thread];
    (0..clients).map(|_| pick(rng, &all)).collect()
}

/// Each kind of bad weather is there in about half of the runs, so that rare ones meet a quiet background as well.
fn weather(
    rng: &mut fastrand::Rng,
    node_timeout: Nanos,
    longest_ttl: Nanos,
    lossless: bool,
) -> Weather {
    let mut maybe = |share: u32| if rng.bool() { rng.u32(0..=share) } else { 0 };
    let (tail, lost_request, lost_reply) = (maybe(100_000), maybe(30_000), maybe(30_000));
    let (stuck, stumble, pause) = (maybe(20_000), maybe(50_000), maybe(5_000));
    let unless_lossless = |share| if lossless { 0 } else { share };
    // In calm weather there is time to connect and to be answered: four times on the way.
    let twelfth = node_timeout / 12;
    let lowest = rng.u64(SHORTEST_DELAY..=twelfth.min(500 * MICRO));
    Weather {
        delay: (lowest, lowest + rng.u64(10 * MICRO..=twelfth)),
        tail,
        longest: pick(rng, &[node_timeout * 3, longest_ttl / 2, longest_ttl * 2]).max(MILLI),
        lost_request: unless_lossless(lost_request),
        lost_reply: unless_lossless(lost_reply),
        stuck: unless_lossless(stuck),
        // A release for which the time ran out while its client stood still may stay unsent.
        stumble: unless_lossless(stumble),
        pause: unless_lossless(pause),
        longest_pause: longest_ttl * 2,
    }
}

pub(crate) fn pick<T: Copy>(rng: &mut fastrand::Rng, from: &[T]) -> T {
    from[rng.usize(0..from.len())]
}

pub(crate) fn nanos(span: Duration) -> Nanos {
    u64::try_from(span.as_nanos()).unwrap()
}
