//! Pure: which faults come when, all of it decided by the seed.

use fastrand::Rng;

use crate::bounds::{LONGEST_TTL_MS, OFF_MS, SERVERS, WORKERS};
use crate::class::Class;
use crate::options::Options;

/// What a server that lost its memory stays away for beyond the longest ttl, at least.
const MARGIN_MS: u64 = 250;
/// From this length on, a plan has each of the faults that its run has.
pub(crate) const COMPLETE_MS: u64 = 30_000;

/// A fault with its beginning, its end and what it strikes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Episode {
    pub(crate) class: Class,
    pub(crate) from_ms: u64,
    pub(crate) to_ms: u64,
    /// What it strikes: servers, or one worker.
    pub(crate) targets: Vec<usize>,
    /// For a fault of links, the group of workers whose links it strikes.
    pub(crate) group: usize,
    /// The time of a delay in each direction, or the span by which a clock is set back.
    pub(crate) by_ms: u64,
    /// How far the clock is ahead of the true time when a server comes back without its data, or another takes its place.
    pub(crate) ahead_ms: i64,
}

/// Plans faults for a run that suffers for `length_ms`; `groups` is how many groups of workers have links of their own.
pub(crate) fn make(options: &Options, length_ms: u64, groups: usize) -> Vec<Episode> {
    let classes = Class::of(options);
    let mut rng = Rng::with_seed(options.seed);
    loop {
        let plan = deal(&mut rng, &classes, length_ms, groups);
        let has = |class: &Class| plan.iter().any(|episode| episode.class == *class);
        if length_ms < COMPLETE_MS || classes.iter().all(has) {
            return plan;
        }
    }
}

/// Deals out a deck of faults, again and again.
fn deal(rng: &mut Rng, classes: &[Class], length_ms: u64, groups: usize) -> Vec<Episode> {
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
            deck = classes
                .iter()
                .flat_map(|&class| vec![class; class.weight()])
                .collect();
            rng.shuffle(&mut deck);
        }
        if let Some(class) = deck.pop()
            && let Some(episode) = episode(rng, &mut taken, class, time)
            && episode.to_ms <= length_ms
        {
            plan.push(episode);
        }
        time += rng.u64(120..=550);
    }
    plan
}

/// A majority at least loses its memory and is back at once, which no lock survives: neither one without the delay that
/// the algorithm asks for, nor a fenced one without quarantine.
pub(crate) fn forgetful(seed: u64, length_ms: u64) -> Vec<Episode> {
    let mut rng = Rng::with_seed(seed);
    let mut plan = Vec::new();
    let mut time = 1_000;
    while time + 2 <= length_ms {
        let count = rng.usize(3..=SERVERS);
        plan.push(Episode {
            class: Class::Wipe,
            from_ms: time,
            to_ms: time + 1,
            targets: rng.choose_multiple(0..SERVERS, count),
            group: 0,
            by_ms: 0,
            ahead_ms: 0,
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
    let (count, length_ms) = extent(rng, class);
    let untils = if class.is_of_links() {
        &mut taken.links[group]
    } else if matches!(class, Class::StopWorker | Class::KillWorker) {
        &mut taken.workers
    } else {
        &mut taken.servers
    };
    let free: Vec<usize> = (0..untils.len()).filter(|&i| untils[i] < from_ms).collect();
    let targets = rng.choose_multiple(free, count);
    // Half a partition from a majority would be one from a minority.
    if targets.is_empty() || (class == Class::PartitionFromMajority && targets.len() < 3) {
        return None;
    }
    let to_ms = from_ms + length_ms;
    for &target in &targets {
        // A pause, in case the driver is late.
        untils[target] = to_ms + 50;
    }
    Some(Episode {
        class,
        from_ms,
        to_ms,
        targets,
        group,
        by_ms: match class {
            Class::SetBack => rng.u64(20..=600),
            _ => rng.u64(3..=40),
        },
        ahead_ms: rng.i64(-OFF_MS..=OFF_MS),
    })
}

/// How many a fault strikes, and for how long.
fn extent(rng: &mut Rng, class: Class) -> (usize, u64) {
    // Mostly a minority of the servers, at times all of them.
    let some = match rng.u32(0..20) {
        0..12 => 1,
        12..17 => 2,
        17..19 => 3,
        _ => SERVERS,
    };
    // What two holders come of, where nodes that forget give their votes, is a majority that forgets.
    let often_many = match rng.u32(0..10) {
        0..4 => 1,
        4..6 => 2,
        6..9 => 3,
        _ => SERVERS,
    };
    match class {
        Class::StopServers => (some, rng.u64(60..=2_000)),
        Class::LoseMemory => (some, LONGEST_TTL_MS + MARGIN_MS + rng.u64(0..=1_000)),
        Class::Wipe | Class::KeepMemory => (often_many, rng.u64(1..=300)),
        // What is forgotten comes between the beginning and the end.
        Class::GoBack => (often_many, rng.u64(200..=1_500)),
        Class::Promote => (often_many.min(3), rng.u64(200..=1_500)),
        Class::Flush => (often_many, 1),
        Class::SetBack => (some, 1),
        Class::RunFast => (some, rng.u64(500..=3_000)),
        Class::StopWorker => (1, rng.u64(30..=2 * LONGEST_TTL_MS)),
        Class::KillWorker => (1, 1),
        Class::PartitionFromMinority => (rng.usize(1..=2), rng.u64(100..=2_500)),
        Class::PartitionFromMajority => (rng.usize(3..=5), rng.u64(100..=2_000)),
        Class::Delay => (rng.usize(1..=5), rng.u64(200..=2_000)),
        Class::Reset => (rng.usize(1..=5), 1),
        Class::Refuse | Class::LoseReplies | Class::LoseRequests => (some, rng.u64(100..=1_500)),
    }
}
