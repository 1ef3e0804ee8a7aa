//! For how long the lock is taken.

use std::time::Duration;

use crate::durations;
use crate::failure::Failure;

/// The time to live where none is given.
const TTL: Duration = Duration::from_secs(30);

/// For how long the lock is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HoldTime {
    pub(crate) ttl: Duration,
    pub(crate) max_hold: Option<Duration>,
    /// Whether the ttl was not given, and is `max_hold` because that is shorter than the default.
    pub(crate) ttl_is_from_max_hold: bool,
}

impl HoldTime {
    /// Chooses the defaults.
    pub(crate) fn choose(
        ttl: Option<Duration>,
        max_hold: Option<Duration>,
    ) -> Result<Self, Failure> {
        let longest = max_hold.unwrap_or(TTL);
        let chosen = ttl.unwrap_or_else(|| TTL.min(longest));
        if max_hold.is_some_and(|max_hold| max_hold < chosen) {
            return Err(Failure::usage(format!(
                "--max-hold {} is shorter than --ttl {}; leave --ttl out, or ask for no more than --max-hold",
                durations::exact(longest),
                durations::exact(chosen)
            )));
        }
        Ok(Self {
            ttl: chosen,
            max_hold,
            ttl_is_from_max_hold: ttl.is_none() && max_hold == Some(chosen),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ttl_is_30_s_or_max_hold_if_that_is_shorter() {
        let seconds = |n: Option<u64>| n.map(Duration::from_secs);
        let choose = |ttl, max_hold| {
            let hold_time = HoldTime::choose(seconds(ttl), seconds(max_hold));
            hold_time
                .map(|hold_time| hold_time.ttl.as_secs())
                .map_err(|failure| failure.code)
        };
        assert_eq!(choose(None, None), Ok(30));
        assert_eq!(choose(None, Some(7200)), Ok(30));
        assert_eq!(choose(None, Some(5)), Ok(5));
        assert_eq!(choose(Some(60), None), Ok(60));
        assert_eq!(choose(Some(5), Some(5)), Ok(5));
        assert_eq!(choose(Some(6), Some(5)), Err(crate::failure::USAGE));
    }
}
