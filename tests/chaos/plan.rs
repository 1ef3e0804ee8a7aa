//! Pure: which faults come when, all of it decided by the seed.

use std::ops::RangeInclusive;

use fastrand::Rng;

pub(crate) const SERVERS: usize = 5;
pub(crate) const WORKERS: usize = 6;
pub(crate) const RESOURCES: u32 = 4;
/// The times to live that workers ask for, in milliseconds.
pub(crate) const TTL_MS: RangeInclusive<u64> = 300..=1_000;
pub(crate) const LONGEST_TTL_MS: u64 = 1_000;
/// What a server that lost its memory stays away for beyond the longest ttl, at least.
const MARGIN_MS: u64 = 250;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// Servers are stopped, and go on.
    StopServers,
    /// Servers are killed, and come back without memory after the longest ttl.
    KillServers,
    /// A worker is stopped, and goes on.
    StopWorker,
    /// A worker is killed, and another one takes its place.
    KillWorker,
    /// Between a group of workers and at most two servers, all bytes are held back, and passed on in the end.
    PartitionFromMinority,
    /// The same for three servers or more.
    PartitionFromMajority,
    /// Bytes come late.
    Delay,
    /// All connections are reset, once.
    Reset,
    /// Connections are reset and new ones refused.
    Refuse,
    /// Commands arrive, replies don't; in the end the connections are reset.
    LoseReplies,
    /// Commands are lost; in the end the connections are reset.
    LoseRequests,
}

impl Class {
    pub(crate) const ALL: [Self; 11] = [
        Self::StopServers,
        Self::KillServers,
        Self::StopWorker,
        Self::KillWorker,
        Self::PartitionFromMinority,
        Self::PartitionFromMajority,
        Self::Delay,
        Self::Reset,
        Self::Refuse,
        Self::LoseReplies,
        Self::LoseRequests,
    ];

    /// How often it is in the deck that is dealt again and again.
    fn weight(self) -> usize {
        match self {
            Self::Refuse | Self::LoseRequests => 1,
            Self::KillServers
            | Self::KillWorker
            | Self::PartitionFromMinority
            | Self::Delay
            | Self::Reset
            | Self::LoseReplies => 2,
            Self::StopServers | Self::StopWorker | Self::PartitionFromMajority => 3,
        }
    }

    /// The plural, for the count.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::StopServers => "stops of servers",
            Self::KillServers => "kills and restarts of servers",
            Self::StopWorker => "stops of workers",
            Self::KillWorker => "kills of workers",
            Self::PartitionFromMinority => "partitions from a minority",
            Self::PartitionFromMajority => "partitions from a majority",
            Self::Delay => "delays",
            Self::Reset => "resets",
            Self::Refuse => "refusals",
            Self::LoseReplies => "losses of replies",
            Self::LoseRequests => "losses of requests",
        }
    }
}

/// A fault with its beginning, its end and what it strikes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Episode {
    pub(crate) class: Class,
    pub(crate) from_ms: u64,
    pub(crate) to_ms: u64,
    /// What it strikes: servers, or one worker.
    pub(crate) targets: Vec<usize>,
    /// Whose links to the servers it strikes, for a fault of links.
    pub(crate) group: usize,
    /// For a delay, in each direction.
    pub(crate) delay_ms: u64,
}

/// Plans faults for a run of `length_ms`; `groups` is how many groups of workers have links of their own.
pub(crate) fn make(seed: u64, length_ms: u64, groups: usize) -> Vec<Episode> {
    let mut rng = Rng::with_seed(seed);
    let mut taken = Taken {
        servers: vec![0; SERVERS],
        workers: vec![0; WORKERS],
        links: vec![vec![0; SERVERS]; groups],
    };
    let mut plan = Vec::new();
    let mut deck = Vec::new();
    let mut time = 500;
    while time < length_ms {
        if deck.is_empty() {
            deck = Class::ALL
                .iter()
                .flat_map(|&class| vec![class; class.weight()])
                .collect();
            rng.shuffle(&mut deck);
        }
        if let Some(class) = deck.pop()
            && let Some(episode) = episode(&mut rng, &mut taken, class, time)
            && episode.to_ms <= length_ms
        {
            plan.push(episode);
        }
        time += rng.u64(120..=550);
    }
    plan
}

/// Kills without the delay that the algorithm asks for: a majority at least, and back at once.
pub(crate) fn forgetful(seed: u64, length_ms: u64) -> Vec<Episode> {
    let mut rng = Rng::with_seed(seed);
    let mut plan = Vec::new();
    let mut time = 1_000;
    while time + 2 <= length_ms {
        let count = rng.usize(3..=SERVERS);
        plan.push(Episode {
            class: Class::KillServers,
            from_ms: time,
            to_ms: time + 1,
            targets: rng.choose_multiple(0..SERVERS, count),
            group: 0,
            delay_ms: 0,
        });
        time += rng.u64(300..=700);
    }
    plan
}

/// Until when each thing is struck already, so that two faults don't meddle with one thing.
struct Taken {
    servers: Vec<u64>,
    workers: Vec<u64>,
    links: Vec<Vec<u64>>,
}

fn episode(rng: &mut Rng, taken: &mut Taken, class: Class, from_ms: u64) -> Option<Episode> {
    let group = rng.usize(0..taken.links.len());
    // Mostly a minority of the servers, at times all of them.
    let some = match rng.u32(0..20) {
        0..12 => 1,
        12..17 => 2,
        17..19 => 3,
        _ => SERVERS,
    };
    let (untils, count, length_ms) = match class {
        Class::StopServers => (&mut taken.servers, some, rng.u64(60..=2_000)),
        Class::KillServers => {
            let away = LONGEST_TTL_MS + MARGIN_MS + rng.u64(0..=1_000);
            (&mut taken.servers, some, away)
        }
        Class::StopWorker => (&mut taken.workers, 1, rng.u64(30..=2 * LONGEST_TTL_MS)),
        Class::KillWorker => (&mut taken.workers, 1, 1),
        Class::PartitionFromMinority => (
            &mut taken.links[group],
            rng.usize(1..=2),
            rng.u64(100..=2_500),
        ),
        Class::PartitionFromMajority => (
            &mut taken.links[group],
            rng.usize(3..=5),
            rng.u64(100..=2_000),
        ),
        Class::Delay => (
            &mut taken.links[group],
            rng.usize(1..=5),
            rng.u64(200..=2_000),
        ),
        Class::Reset => (&mut taken.links[group], rng.usize(1..=5), 1),
        Class::Refuse | Class::LoseReplies | Class::LoseRequests => {
            (&mut taken.links[group], some, rng.u64(100..=1_500))
        }
    };
    let free: Vec<usize> = (0..untils.len()).filter(|&i| untils[i] < from_ms).collect();
    let targets = rng.choose_multiple(free, count);
    // Half a partition from a majority would be one from a minority.
    if targets.is_empty() || (class == Class::PartitionFromMajority && targets.len() < 3) {
        return None;
    }
    let to_ms = from_ms + length_ms;
    for &target in &targets {
        // A little of peace, for the driver to be late.
        untils[target] = to_ms + 50;
    }
    Some(Episode {
        class,
        from_ms,
        to_ms,
        targets,
        group,
        delay_ms: rng.u64(3..=40),
    })
}
