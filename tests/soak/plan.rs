//! Pure: the kinds of faults, and which of them come when, all of it decided by the seed.

use std::collections::HashMap;

use fastrand::Rng;

use crate::options::{GROUPS, Kind, LONGEST_TTL_MS, OFF_MS, Options, SERVERS, WORKERS};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    StopServers,
    /// Servers are killed, and come back without memory after the longest ttl.
    LoseMemory,
    /// Servers are killed, or end in good order, and come back at once with all their data.
    KeepMemory,
    /// Servers are killed, and come back at once without memory.
    Wipe,
    /// Servers are killed, and come back at once with the data of a moment before.
    GoBack,
    Flush,
    /// A replica that has heard nothing for a while takes the place of its killed master, under its address.
    Promote,
    StopWorker,
    KillWorker,
    /// Between a group of workers and some servers, all bytes are held back, and passed on in the end.
    Partition,
    /// All connections are reset, once.
    Reset,
    /// Connections are reset, and new ones as well.
    Refuse,
    /// Commands arrive, replies don't; in the end the connections are reset.
    LoseReplies,
    /// Commands are lost; in the end the connections are reset.
    LoseRequests,
}

/// The deck of faults that is dealt again and again: each so often.
const ALL: [(Class, usize); 9] = [
    (Class::StopServers, 3),
    (Class::KeepMemory, 2),
    (Class::StopWorker, 3),
    (Class::KillWorker, 2),
    (Class::Partition, 4),
    (Class::Reset, 2),
    (Class::Refuse, 1),
    (Class::LoseReplies, 2),
    (Class::LoseRequests, 1),
];
/// Where all clients are fenced, nodes forget, and vote again at once. Otherwise nodes that forget stay away.
const FENCED: [(Class, usize); 4] = [
    (Class::Wipe, 3),
    (Class::GoBack, 2),
    (Class::Flush, 2),
    (Class::Promote, 2),
];
const CLASSIC: [(Class, usize); 1] = [(Class::LoseMemory, 2)];

impl Class {
    /// Whether the proxy makes this fault.
    pub(crate) fn is_of_links(self) -> bool {
        self >= Self::Partition
    }
}

/// A fault with its beginning, its end and what it strikes.
#[derive(Clone, Debug)]
pub(crate) struct Episode {
    pub(crate) class: Class,
    pub(crate) from_ms: u64,
    pub(crate) to_ms: u64,
    /// What it strikes: servers, or one worker.
    pub(crate) targets: Vec<usize>,
    /// For a fault of links, the group of workers whose links it strikes.
    pub(crate) group: usize,
    /// How far the clock is ahead of the true time when a server comes back without its data.
    pub(crate) ahead_ms: i64,
}

/// What a server that lost its memory stays away for beyond the longest ttl, at least.
const MARGIN_MS: u64 = 250;
/// From this length on, a plan has each of the faults that its run has.
const COMPLETE_MS: u64 = 20_000;

/// The faults of a run.
pub(crate) fn of(options: &Options) -> Vec<Episode> {
    let length_ms = options.faults_ms();
    let mut rng = Rng::with_seed(options.seed);
    if options.is_planted() {
        return forgetful(&mut rng, length_ms);
    }
    let memory = if options.kind == Kind::Fenced {
        &FENCED[..]
    } else {
        &CLASSIC
    };
    let faults = ALL.iter().chain(memory);
    let deck: Vec<Class> = faults.flat_map(|&(class, n)| vec![class; n]).collect();
    loop {
        let plan = deal(&mut rng, &deck, length_ms);
        let has = |class: &Class| plan.iter().any(|episode| episode.class == *class);
        if length_ms < COMPLETE_MS || deck.iter().all(has) {
            return plan;
        }
    }
}

/// Deals out a deck of faults, again and again. Two faults don't meddle with one thing.
fn deal(rng: &mut Rng, all: &[Class], length_ms: u64) -> Vec<Episode> {
    // Until when each server of each group, each server itself, and each worker is struck already.
    let mut taken: HashMap<(usize, usize), u64> = HashMap::new();
    let (mut plan, mut deck, mut time) = (Vec::new(), Vec::new(), 500);
    while time < length_ms {
        if deck.is_empty() {
            deck = all.to_vec();
            rng.shuffle(&mut deck);
        }
        let class = deck.pop().unwrap();
        let (count, span) = extent(rng, class);
        let group = rng.usize(0..GROUPS);
        let (set, size) = match class {
            class if class.is_of_links() => (group, SERVERS),
            Class::StopWorker | Class::KillWorker => (GROUPS, WORKERS),
            _ => (GROUPS + 1, SERVERS),
        };
        let is_free = |target: &usize| taken.get(&(set, *target)).is_none_or(|until| *until < time);
        let free: Vec<usize> = (0..size).filter(is_free).collect();
        let (targets, to_ms) = (rng.choose_multiple(free, count), time + span);
        if !targets.is_empty() && to_ms <= length_ms {
            // A pause, in case the driver is late.
            taken.extend(targets.iter().map(|target| ((set, *target), to_ms + 50)));
            plan.push(Episode {
                class,
                from_ms: time,
                to_ms,
                targets,
                group,
                ahead_ms: rng.i64(-OFF_MS..=OFF_MS),
            });
        }
        time += rng.u64(120..=550);
    }
    plan
}

/// A majority at least loses its memory and is back at once, which no lock survives: neither one without the delay that
/// the algorithm asks for, nor a fenced one without quarantine.
fn forgetful(rng: &mut Rng, length_ms: u64) -> Vec<Episode> {
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
            ahead_ms: 0,
        });
        time += rng.u64(300..=700);
    }
    plan
}

/// How many a fault strikes, and for how long.
fn extent(rng: &mut Rng, class: Class) -> (usize, u64) {
    // Mostly a minority of the servers, at times all of them.
    let some = [1, 1, 1, 1, 1, 1, 2, 2, 3, SERVERS][rng.usize(0..10)];
    // What two holders come of, where nodes that forget give their votes, is a majority that forgets.
    let often_many = [1, 1, 1, 1, 2, 2, 3, 3, 3, SERVERS][rng.usize(0..10)];
    match class {
        Class::StopServers => (some, rng.u64(60..=2_000)),
        Class::LoseMemory => (some, LONGEST_TTL_MS + MARGIN_MS + rng.u64(0..=1_000)),
        Class::Wipe | Class::KeepMemory => (often_many, rng.u64(1..=300)),
        // What is forgotten comes between the beginning and the end.
        Class::GoBack => (often_many, rng.u64(200..=1_500)),
        Class::Promote => (often_many.min(3), rng.u64(200..=1_500)),
        Class::Flush => (often_many, 1),
        Class::StopWorker => (1, rng.u64(30..=2 * LONGEST_TTL_MS)),
        Class::KillWorker => (1, 1),
        Class::Partition => (rng.usize(1..=5), rng.u64(100..=2_000)),
        Class::Reset => (rng.usize(1..=5), 1),
        Class::Refuse | Class::LoseReplies | Class::LoseRequests => (some, rng.u64(100..=1_500)),
    }
}
