//! What can be said on the command line.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::bounds::{LONG_TTL_MS, TTL_MS};

/// How long the calm at the end lasts: longer than the longest ttl, and than a recovery may take.
pub(crate) const CALM: Duration = Duration::from_secs(6);
const SHORTEST: u64 = 10;
/// How long a run takes, unless it is said; and how long it takes at most until a violation is found that has to be found.
const USUAL: u64 = 60;

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
    pub(crate) verbose: bool,
}

impl Options {
    pub(crate) fn parse(arguments: &[String]) -> Option<Self> {
        let mut seconds = USUAL;
        let mut options = Self {
            length: Duration::ZERO,
            seed: fastrand::u64(0..1_000_000_000),
            clients: Clients::Classic,
            planted: false,
            clocks: false,
            verbose: false,
        };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--seconds" => seconds = words.next()?.parse().ok()?,
                "--seed" => options.seed = words.next()?.parse().ok()?,
                "--fenced" => options.clients = Clients::Fenced,
                "--mixed" => options.clients = Clients::Mixed,
                "--forget" => options.planted = true,
                "--without-quarantine" => {
                    options.clients = Clients::Fenced;
                    options.planted = true;
                }
                "--verbose" => options.verbose = true,
                _ => return None,
            }
        }
        options.length = Duration::from_secs(seconds);
        (seconds >= SHORTEST).then_some(options)
    }

    /// The times to live that workers ask for, in milliseconds.
    pub(crate) fn ttl_ms(&self) -> RangeInclusive<u64> {
        if self.planted { LONG_TTL_MS } else { TTL_MS }
    }

    /// The option for this kind.
    pub(crate) fn switch(&self) -> &'static str {
        match self.clients {
            Clients::Classic => "",
            Clients::Fenced => "--fenced",
            Clients::Mixed => "--mixed",
        }
    }

    /// In one word.
    pub(crate) fn name(&self) -> &'static str {
        match (self.clients, self.planted) {
            (Clients::Classic, false) => "classic",
            (Clients::Fenced, false) => "fenced",
            (Clients::Mixed, _) => "mixed",
            (Clients::Classic, true) => "forget",
            (Clients::Fenced, true) => "without-quarantine",
        }
    }

    /// In words.
    pub(crate) fn kind(&self) -> &'static str {
        match (self.clients, self.planted) {
            (Clients::Classic, false) => "classic",
            (Clients::Fenced, false) => "fenced",
            (Clients::Mixed, _) => "mixed",
            (Clients::Classic, true) => "servers forget",
            (Clients::Fenced, true) => "fenced, without quarantine",
        }
    }
}
