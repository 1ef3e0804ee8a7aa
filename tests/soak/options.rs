//! What can be said on the command line, and how large everything is: servers, workers, resources, times to live.

use std::ops::RangeInclusive;
use std::time::Duration;

use redlatch::{Builder, LockManager, Protocol};

pub(crate) const SERVERS: usize = 5;
pub(crate) const WORKERS: usize = 6;
/// The workers of each have links of their own.
pub(crate) const GROUPS: usize = 2;
pub(crate) const RESOURCES: usize = 4;
pub(crate) const SEMAPHORES: usize = 2;
pub(crate) const PERMITS: u32 = 2;
pub(crate) const LONGEST_TTL_MS: u64 = 1_000;
/// How far the clock of a server may be off, to either side: with the fenced protocol, two clocks may differ by the longest ttl.
pub(crate) const OFF_MS: i64 = 480;
/// How long the calm at the end lasts: longer than the longest ttl, and than a recovery may take.
pub(crate) const CALM: Duration = Duration::from_secs(6);
/// What the keys of all workers begin with, and those of the last locks.
pub(crate) const PREFIX: &str = "soak:";
pub(crate) const LAST: &str = "last:";
/// The ttl of the last locks: beyond all that the driver waits for.
pub(crate) const LAST_TTL: Duration = Duration::from_mins(1);

pub(crate) const USAGE: &str = "usage: soak [--fenced | --mixed | --forget | --without-quarantine] [--seconds N] [--seed N]
  --fenced              workers speak the fenced protocol, and servers forget; else they speak the classic one
  --mixed               half of the workers speak the one, half of them the other
  --forget              classic, and servers come back at once without memory: fails unless two holders are found
  --without-quarantine  fenced, and servers that forget are told to vote at once: fails unless two holders are found
  --seconds N           how long it takes, 10 at least; 60 unless given; where two holders must be found, it ends with them
  --seed N              decides the plan of the faults; drawn unless given";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Classic,
    Fenced,
    Mixed,
    Forget,
    WithoutQuarantine,
}

const KINDS: [(&str, Kind); 5] = [
    ("classic", Kind::Classic),
    ("fenced", Kind::Fenced),
    ("mixed", Kind::Mixed),
    ("forget", Kind::Forget),
    ("without-quarantine", Kind::WithoutQuarantine),
];

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) kind: Kind,
    pub(crate) length: Duration,
    pub(crate) seed: u64,
    /// The wall clocks of servers can be set.
    pub(crate) clocks: bool,
}

impl Options {
    pub(crate) fn parse(arguments: &[String]) -> Option<Self> {
        let (mut kind, mut seconds) = (Kind::Classic, 60);
        let mut seed = fastrand::u64(0..1_000_000_000);
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--seconds" => seconds = words.next()?.parse().ok()?,
                "--seed" => seed = words.next()?.parse().ok()?,
                word => {
                    let word = word.strip_prefix("--")?;
                    kind = KINDS.iter().find(|(name, _)| *name == word)?.1;
                }
            }
        }
        (seconds >= 10).then_some(Self {
            kind,
            length: Duration::from_secs(seconds),
            seed,
            clocks: false,
        })
    }

    /// Whether servers forget, and nothing keeps their votes from counting.
    pub(crate) fn is_planted(&self) -> bool {
        matches!(self.kind, Kind::Forget | Kind::WithoutQuarantine)
    }

    pub(crate) fn protocol_of(&self, worker: usize) -> Protocol {
        match self.kind {
            Kind::Classic | Kind::Forget => Protocol::Classic,
            // Both protocols are in each group.
            Kind::Mixed if worker >= WORKERS / 2 => Protocol::Classic,
            Kind::Mixed | Kind::Fenced | Kind::WithoutQuarantine => Protocol::Fenced,
        }
    }

    pub(crate) fn has_fenced_workers(&self) -> bool {
        self.protocol_of(0) == Protocol::Fenced
    }

    /// The times to live that workers ask for, in milliseconds. Where two holders must be found, they last while servers come back,
    /// however slow the machine is.
    pub(crate) fn ttl_ms(&self) -> RangeInclusive<u64> {
        if self.is_planted() {
            3_000..=8_000
        } else {
            300..=LONGEST_TTL_MS
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        KINDS.iter().find(|(_, kind)| *kind == self.kind).unwrap().0
    }

    /// What makes the same faults again.
    pub(crate) fn command(&self) -> String {
        let (kind, seconds, seed) = (self.name(), self.length.as_secs(), self.seed);
        format!("cargo test --release --test soak -- --{kind} --seconds {seconds} --seed {seed}")
    }

    pub(crate) fn faults_ms(&self) -> u64 {
        u64::try_from(self.length.saturating_sub(CALM).as_millis()).unwrap()
    }
}

/// With the fenced protocol all have the same longest ttl, and it is the quarantine of a node, too. That of the last locks is
/// another, and so are their prefix and their markers.
pub(crate) fn builder(
    urls: &[String],
    prefix: &str,
    protocol: Protocol,
    longest_ms: u64,
) -> Builder {
    let builder = LockManager::builder().nodes(urls).key_prefix(prefix);
    if protocol == Protocol::Classic {
        return builder;
    }
    let longest = if prefix == LAST {
        LAST_TTL
    } else {
        Duration::from_millis(longest_ms)
    };
    builder.protocol(protocol).max_ttl(longest)
}
