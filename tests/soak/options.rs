//! What can be said on the command line, and how large everything is: servers, workers, resources, times to live.

use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::time::Duration;

use redlatch::{Builder, LockManager, Protocol};

pub(crate) const SERVERS: usize = 5;
pub(crate) const WORKERS: usize = 6;
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

const USAGE: &str = "usage: soak [--fenced | --mixed | --forget | --without-quarantine] [--seconds N] [--seed N]
  --fenced              workers speak the fenced protocol, and servers forget; else they speak the classic one
  --mixed               half of the workers speak the one, half of them the other
  --forget              classic, and servers come back at once without memory: fails unless two holders are found
  --without-quarantine  fenced, and servers that forget are told to vote at once: fails unless two holders are found
  --seconds N           how long it takes, 10 at least, 60 unless given; the two that look for two holders end with the first
  --seed N              decides the plan of the faults; drawn unless given";

/// Which protocols the workers speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clients {
    Classic,
    Fenced,
    /// Half of the workers are fenced, half are classic.
    Mixed,
}

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) length: Duration,
    pub(crate) seed: u64,
    pub(crate) clients: Clients,
    /// Servers forget, and nothing keeps their votes from counting. The run is over when two hold one lock.
    pub(crate) planted: bool,
    /// The wall clocks of servers can be set.
    pub(crate) clocks: bool,
}

impl Options {
    /// Says what can be said where it is something else.
    pub(crate) fn parse(arguments: &[String]) -> Option<Self> {
        let parsed = Self::read(arguments).filter(|options| options.length.as_secs() >= 10);
        if parsed.is_none() {
            eprintln!("{USAGE}");
        }
        parsed
    }

    fn read(arguments: &[String]) -> Option<Self> {
        let mut options = Self {
            length: Duration::from_secs(60),
            seed: fastrand::u64(0..1_000_000_000),
            clients: Clients::Classic,
            planted: false,
            clocks: false,
        };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--seconds" => options.length = Duration::from_secs(words.next()?.parse().ok()?),
                "--seed" => options.seed = words.next()?.parse().ok()?,
                "--fenced" => options.clients = Clients::Fenced,
                "--mixed" => options.clients = Clients::Mixed,
                "--forget" => options.planted = true,
                "--without-quarantine" => {
                    (options.clients, options.planted) = (Clients::Fenced, true);
                }
                _ => return None,
            }
        }
        Some(options)
    }

    /// The times to live that workers ask for, in milliseconds. Where two holders must be found, they last while servers come back,
    /// however slow the machine is.
    pub(crate) fn ttl_ms(&self) -> RangeInclusive<u64> {
        if self.planted {
            3_000..=8_000
        } else {
            300..=LONGEST_TTL_MS
        }
    }

    /// What kind of run it is, in one word.
    pub(crate) fn kind(&self) -> &'static str {
        match (self.clients, self.planted) {
            (Clients::Classic, false) => "classic",
            (Clients::Fenced, false) => "fenced",
            (Clients::Mixed, _) => "mixed",
            (Clients::Classic, true) => "forget",
            (Clients::Fenced, true) => "without-quarantine",
        }
    }

    /// The command that makes the same faults again.
    pub(crate) fn command(&self) -> String {
        let kind = match self.kind() {
            "classic" => String::new(),
            kind => format!(" --{kind}"),
        };
        let (seconds, seed) = (self.length.as_secs(), self.seed);
        format!("cargo test --release --test soak --{kind} --seconds {seconds} --seed {seed}")
    }

    pub(crate) fn faults_ms(&self) -> u64 {
        u64::try_from(self.length.saturating_sub(CALM).as_millis()).unwrap()
    }
}

/// The nodes as the workers of a group name them.
pub(crate) fn urls(host: Ipv4Addr, ports: &[u16]) -> Vec<String> {
    let url = |port| format!("redis://{host}:{port}");
    ports.iter().map(url).collect()
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
