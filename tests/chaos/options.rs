//! What can be said on the command line.

use std::time::Duration;

/// How long it is calm in the end: longer than the longest ttl, and than a recovery may take.
pub(crate) const CALM: Duration = Duration::from_secs(6);
const SHORTEST: u64 = 10;

#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) length: Duration,
    pub(crate) seed: u64,
    pub(crate) forget: bool,
    pub(crate) verbose: bool,
}

impl Options {
    pub(crate) fn parse(arguments: &[String]) -> Option<Self> {
        let mut seconds = None;
        let mut seed = None;
        let mut forget = false;
        let mut verbose = false;
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--seconds" => seconds = Some(words.next()?.parse::<u64>().ok()?),
                "--seed" => seed = Some(words.next()?.parse().ok()?),
                "--forget" => forget = true,
                "--verbose" => verbose = true,
                _ => return None,
            }
        }
        let seconds = seconds.unwrap_or(if forget { 20 } else { 60 });
        (seconds >= SHORTEST).then(|| Self {
            length: Duration::from_secs(seconds),
            seed: seed.unwrap_or_else(|| fastrand::u64(0..1_000_000_000)),
            forget,
            verbose,
        })
    }
}
