//! How the runs of one subject are drawn: each kind of them is a deployment, a workload and troubles of its own.

use super::preempt::Preemption;
use super::prelude::*;
use crate::Fanout;
use crate::fencing::FENCE_IDLE;

/// What clients do while the storm lasts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Workload {
    #[default]
    Drawn,
    /// One writes now and then, and all others read without a pause.
    Stream,
    /// All want one lock, for a short time each.
    Woken,
    /// Locks are taken before and after pauses of a day.
    Idle,
    /// New nodes are opened, before anything is forgotten.
    New,
    /// One keeps a lock throughout.
    Kept,
}

/// Until when calls of `open_nodes` begin; and until when the last of them has ended, and nothing of it is on its way any more.
pub(super) const OPENED: Nanos = 2 * SECOND;
pub(super) const SETTLED: Nanos = 8 * SECOND;

/// How long after a wait in vain a client looks again, where a release is to wake it.
pub(super) const LOOKS_AGAIN: Duration = Duration::from_secs(1);

fn drawn_by(seed: u64, subject: u64) -> fastrand::Rng {
    fastrand::Rng::with_seed(seed ^ (subject << 32))
}

/// Mostly the published algorithm.
fn either(rng: &mut fastrand::Rng) -> Kind {
    pick(rng, &[Kind::Sound, Kind::Sound, Kind::Fenced])
}

impl Plan {
    /// Two or three clients of three threads each want one lock, and one node after the other is stopped, so that a majority needs both
    /// of the others.
    pub(super) fn relay(seed: u64) -> Self {
        let rng = &mut drawn_by(seed, 1);
        let kind = pick(rng, &[Kind::Sound, Kind::Fenced]);
        let size = (3, rng.usize(2..=3), 3);
        let mut plan = Self::with(seed, kind, size, rng.fork()).without_replacements();
        plan.resources = 1;
        plan.lossless = false;
        let longest = plan.longest_ttl();
        plan.weather.tail = rng.u32(100_000..=400_000);
        plan.weather.longest = (longest / 2).max(nanos(plan.node_timeout) * 3);
        plan.storm = plan.storm.min((3 * longest).max(10 * SECOND));
        plan.episodes.clear();
        let mut start = 0;
        while start < plan.storm {
            let end = (start + rng.u64(MILLI..=longest)).min(plan.storm);
            let node = rng.usize(0..3);
            plan.strikes(start..end, Trouble::Hang { node });
            start = end + rng.u64(MILLI..=longest);
        }
        if kind == Kind::Fenced {
            plan = plan.with_wall_clocks_apart();
        }
        plan
    }

    /// Few clients of many threads. Each thread has a lock of its own, and there are others for all.
    pub(super) fn crowd(seed: u64) -> Self {
        let rng = &mut fastrand::Rng::with_seed(seed ^ 0xc20_3d5);
        let kind = either(rng);
        let (nodes, clients) = (pick(rng, &[5, 5, 3, 3, 1]), pick(rng, &[1, 1, 2]));
        let workers = pick(rng, &[3, 5, 8]);
        let plan = Self::with(seed, kind, (nodes, clients, workers), rng.fork());
        let mut plan = plan.without_replacements().within(10 * SECOND);
        plan.resources = clients * workers + rng.usize(1..=2);
        // A fast link with two lanes, or a slow one with more.
        if rng.bool() {
            plan.weather.delay = (20 * MICRO, 20 * MICRO + rng.u64(5 * MICRO..=40 * MICRO));
        } else {
            let slow = nanos(plan.node_timeout) / 12;
            plan.weather.delay = (slow / 2, slow);
        }
        let they_die = !plan.lossless && rng.bool();
        plan.crowds = Some(if they_die { rng.u32(100..=5_000) } else { 0 });
        let mut start = rng.u64(0..=plan.storm / 10);
        // A release that waits in a node without its script would leave its key there, until that expires.
        while !plan.lossless && rng.u8(0..8) > 0 && start < plan.storm {
            let node = rng.usize(0..nodes);
            plan.strikes(start..start, Trouble::ForgetScripts { node });
            start += rng.u64(MILLI..=plan.storm / 10);
        }
        plan
    }

    /// What comes is cut into records, as with TLS. A reply may have come in part; too many records without data end a wait before its
    /// time, and the use of an idle connection; to connect takes longer.
    pub(super) fn sealed(seed: u64) -> Self {
        let rng = &mut drawn_by(seed, 3);
        let kind = either(rng);
        let nodes = pick(rng, &[5, 3, 3, 1]);
        let size = (nodes, rng.usize(2..=4), pick(rng, &[1, 2, 3]));
        Self {
            sealed: rng.u32(10_000..=300_000),
            // What is taken for late was undone, or was not given back.
            lossless: false,
            ..Self::with(seed, kind, size, rng.fork())
        }
    }

    /// Every other client has fencing tokens. Those judge the nodes by their markers, and the others know of none.
    pub(super) fn mixed(seed: u64) -> Self {
        let rng = &mut drawn_by(seed, 4);
        let nodes = pick(rng, &[5, 5, 3, 3, 1, 4]);
        let size = (nodes, rng.usize(2..=4), pick(rng, &[1, 1, 2]));
        let mut plan = Self::with(seed, Kind::Mixed, size, rng.fork()).with_slower_rates();
        if rng.bool() {
            plan = plan.with_wall_clocks_apart();
        }
        let first = rng.bool();
        let clients = 0..plan.clients;
        plan.fenced = clients.map(|client| (client % 2 == 0) == first).collect();
        match rng.u8(0..4) {
            0 => plan.with_sharing(),
            1 => plan.with_permits(),
            2 => Self {
                rests: true,
                ..plan
            },
            _ => plan,
        }
    }

    /// Clients open new nodes, several at once and in any weather. As `open_nodes` asks for, nothing is forgotten before that.
    pub(super) fn opening(seed: u64) -> Self {
        let rng = &mut drawn_by(seed, 5);
        let size = (
            pick(rng, &[5, 3, 3, 1]),
            rng.usize(2..=3),
            pick(rng, &[1, 2]),
        );
        let plan = Self::with(seed, Kind::Fenced, size, rng.fork());
        let mut plan = plan.without_replacements();
        plan.workload = Workload::New;
        plan.node_timeout = plan.node_timeout.min(Duration::from_millis(50));
        plan.storm = plan.storm.max(SETTLED + 4 * plan.longest_ttl());
        // Neither a client nor a message may be late by so much that a node has forgotten meanwhile.
        plan.weather.pause = 0;
        plan.weather.longest = nanos(plan.node_timeout) * 3;
        plan.episodes.retain(|episode| {
            episode.start > SETTLED
                || matches!(
                    episode.trouble,
                    Trouble::Hang { .. }
                        | Trouble::Crash { keeps: true, .. }
                        | Trouble::Disconnect { .. }
                        | Trouble::SetWall { .. }
                )
        });
        let early = plan.episodes.iter_mut();
        for episode in early.filter(|episode| episode.start <= SETTLED) {
            episode.end = episode.end.min(SETTLED - SECOND);
            episode.start = episode.start.min(episode.end);
        }
        plan
    }

    /// Some clients' clocks are ahead by as much as is allowed, and those of the others behind by nearly as much as counters are kept.
    /// The first take the lock before each pause, and the others after it.
    pub(super) fn idle(seed: u64) -> Self {
        let rng = &mut drawn_by(seed, 6);
        let size = (pick(rng, &[5, 3, 1]), rng.usize(2..=4), 1);
        let plan = Self::with(seed, Kind::Fenced, size, rng.fork());
        let mut plan = plan.without_replacements().in_good_weather(rng);
        plan.workload = Workload::Idle;
        plan.resources = 1;
        plan.ttls = vec![Duration::from_millis(rng.u64(2_000..=10_000))];
        plan.retry = (Duration::from_millis(5), Duration::from_millis(20));
        // Over days, different rates would drive the clocks apart.
        plan.node_rates.fill(0);
        plan.client_rates.fill(0);
        let (longest, idle) = (plan.longest_ttl(), nanos(FENCE_IDLE));
        let ahead = i64::try_from(longest - 10 * MILLI).unwrap();
        for (client, wall) in plan.wall_ahead.iter_mut().enumerate() {
            // A client further behind follows no token that is so far ahead of its clock.
            let behind = i64::try_from(idle - rng.u64(0..=longest)).unwrap();
            *wall = if client % 2 > 0 { -behind } else { ahead };
        }
        plan.is_beyond = true;
        let mut start = SECOND;
        for _ in 0..3 {
            // No longer than the tokens of before are ahead of the servers' clocks.
            let by = idle + rng.u64(0..=longest / 2);
            plan.strikes(start..start + by, Trouble::Idle { by });
            start += by + 2 * longest + SECOND;
        }
        plan.storm = start;
        plan
    }

    /// One thread writes now and then, and those of all clients read again and again. Nothing goes wrong.
    pub(super) fn stream(seed: u64) -> Self {
        let rng = &mut drawn_by(seed, 7);
        let size = (pick(rng, &[5, 5, 3, 1]), rng.usize(1..=4), 3);
        let plan = Self::with(seed, either(rng), size, rng.fork());
        let mut plan = plan.without_replacements().in_good_weather(rng);
        plan.workload = Workload::Stream;
        plan.ttls = vec![Duration::from_secs(20)];
        plan.node_timeout = Duration::from_millis(500);
        plan.retry = (Duration::from_millis(50), Duration::from_millis(100));
        plan.resources = pick(rng, &[1, 1, 2]);
        plan
    }

    pub(super) fn woken(seed: u64) -> Self {
        let rng = &mut drawn_by(seed, 8);
        let nodes = pick(rng, &[5, 5, 3, 1]);
        let size = (nodes, rng.usize(2..=5), pick(rng, &[1, 1, 2]));
        let plan = Self::with(seed, either(rng), size, rng.fork());
        let mut plan = plan.without_replacements().in_good_weather(rng);
        plan.workload = Workload::Woken;
        plan.resources = 1;
        let fanout = pick(rng, &[Fanout::Sequential, Fanout::Overlapped]);
        plan.fanouts.fill(fanout);
        plan.ttls = vec![LOOKS_AGAIN * 20];
        plan.retry = (LOOKS_AGAIN, LOOKS_AGAIN * 2);
        plan
    }

    /// Servers without persistence are restarted one after the other, twice around, while a client keeps a lock. Each is away for longer
    /// than every ttl, and comes back empty; then the locks have time to heal. In half of the runs, one stands still while the lock is
    /// taken. Nothing else goes wrong.
    pub(super) fn rolling(seed: u64) -> Self {
        let rng = &mut drawn_by(seed, 9);
        let nodes = pick(rng, &[3, 5]);
        let mut plan = Self::with(seed, Kind::Sound, (nodes, 3, 1), rng.fork());
        let longest = plan.longest_ttl();
        let (lowest, highest) = plan.weather.delay;
        let timeout = plan.node_timeout.min(Duration::from_nanos(longest / 8));
        plan = plan.in_good_weather(rng);
        plan.workload = Workload::Kept;
        plan.lossless = false;
        plan.node_timeout = timeout;
        plan.weather.delay = (lowest.min(longest / 200), highest.min(longest / 100));
        if seed.is_multiple_of(2) {
            let node = usize::try_from(seed / 2).unwrap() % nodes;
            plan.strikes(0..2 * nanos(timeout), Trouble::Hang { node });
        }
        let mut start = longest + SECOND;
        for node in (0..nodes).chain(0..nodes) {
            let end = start + longest + longest / 50 + 5 * MILLI;
            plan.strikes(start..end, Trouble::Crash { node, keeps: false });
            start = end + longest;
        }
        plan.storm = start + longest;
        plan
    }

    /// The same, where the lock that is kept is a read lock, or one on several resources.
    pub(super) fn rolling_shared(seed: u64) -> Self {
        Self {
            resources: 2,
            rests: false,
            ..Self::rolling(seed).with_sharing()
        }
    }

    /// Of both protocols, some of them with crowds.
    pub(super) fn shared(seed: u64) -> Self {
        let plan = match seed % 8 {
            0..=3 => Self::draw(seed, Kind::Sound),
            4 | 5 => Self::draw(seed, Kind::Fenced),
            _ => Self::crowd(seed),
        };
        plan.with_sharing()
    }

    /// Mostly readers, and nodes that forget.
    pub(super) fn shared_and_forgotten(seed: u64) -> Self {
        Self {
            sharing: Some(&[Way::Read, Way::Read, Way::Write, Way::All]),
            rests: false,
            ..Self::draw(seed, Kind::Amnesia).with_sharing()
        }
    }

    /// Few clients of several threads that want the same locks, or of a crowd; in some the resources are shared, or permits.
    pub(super) fn preempted(seed: u64) -> Self {
        let rng = &mut fastrand::Rng::with_seed(seed ^ 0x9_cee3_97ed);
        let work = rng.u8(0..8);
        let mut plan = if work == 0 {
            Self::crowd(seed)
        } else {
            let (kind, nodes) = (either(rng), pick(rng, &[3, 3, 5, 1]));
            let size = (nodes, pick(rng, &[1, 1, 2]), pick(rng, &[2, 3, 5]));
            Self::with(seed, kind, size, rng.fork())
        };
        // A thread that panics would leave others stopped in the middle of its unwinding.
        plan.crowds = plan.crowds.map(|_| 0);
        plan = match work {
            1 | 2 => plan.with_sharing(),
            3 => plan.with_permits(),
            _ => plan,
        };
        plan.rests |= work == 4;
        let (longest, timeout) = (plan.longest_ttl(), nanos(plan.node_timeout));
        plan = plan.without_replacements();
        plan = plan.within((4 * longest).clamp(2 * SECOND, 10 * SECOND));
        let span = pick(rng, &[timeout / 8, timeout, timeout, longest / 2]);
        let patience = pick(rng, &[0, timeout, longest / 2, longest + longest / 4]);
        // What is sent too late may be left behind.
        let spans = if plan.lossless {
            (0, 0)
        } else {
            (span, patience)
        };
        plan.preemption = Some(Preemption::draw(rng, spans));
        plan
    }

    pub(super) fn strikes(&mut self, time: Range<Nanos>, trouble: Trouble) {
        self.episodes.push(Episode {
            start: time.start,
            end: time.end,
            trouble,
        });
    }

    /// The storm lasts no longer than that.
    fn within(mut self, longest: Nanos) -> Self {
        self.storm = self.storm.min(longest);
        let storm = self.storm;
        self.episodes.retain(|episode| episode.end <= storm);
        self
    }

    /// Nothing goes wrong for ten seconds.
    fn in_good_weather(mut self, rng: &mut fastrand::Rng) -> Self {
        self.lossless = self.kind == Kind::Sound;
        self.node_timeout = Duration::from_millis(50);
        let weather = &mut self.weather;
        weather.delay = (20 * MICRO, rng.u64(30 * MICRO..=2 * MILLI));
        weather.tail = 0;
        (weather.lost_request, weather.lost_reply) = (0, 0);
        (weather.stuck, weather.stumble, weather.pause) = (0, 0, 0);
        self.wall_ahead.fill(0);
        self.episodes.clear();
        self.storm = 10 * SECOND;
        self
    }
}
