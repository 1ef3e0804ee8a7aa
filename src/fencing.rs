//! Pure: fencing tokens, the proposals of a manager, and the settings that all clients of the fenced protocol have to
//! share.
//!
//! The protocol is described, step by step, in `docs/protocol.md`.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::quorum;
use crate::sync::AtomicU64;

/// The protocol by which a manager takes locks.
///
/// Both protocols use the same key with the same value, so managers of either kind, and the ports of Redlock to other
/// languages, exclude each other. The crate's `docs/safety.md` tells which protocol promises what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Protocol {
    /// The published Redlock: `SET key token NX PX ttl`.
    ///
    /// A node that forgets its keys can give its vote twice, and a holder that is paused may write late.
    #[default]
    Classic,
    /// Redlock with fencing tokens, and with nodes that abstain while they may have forgotten a lock.
    ///
    /// The same number of round trips, by scripts in place of `SET`. A node has a counter for each resource, which a
    /// grant raises to the proposed token. It also has a marker, which shows that the node was restarted, promoted,
    /// rolled back or flushed: then the node abstains for `max_ttl` and the drift. The nodes of a brand-new deployment
    /// have no marker yet and abstain as well, unless [`LockManager::open_nodes`](crate::LockManager::open_nodes) is
    /// called once.
    ///
    /// The clocks of clients and nodes may differ by `max_ttl`, and a node's clock must not be set back together with a loss
    /// of its keys. The order of tokens depends on clocks in no other way.
    Fenced,
}

/// A number that grows with each acquisition of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FencingToken(u64);

impl FencingToken {
    /// No number that the scripts take is longer.
    pub(crate) const LARGEST: u64 = 9_999_999_999_999_999;

    /// The unknown token, of a lock whose value alone is known. No lock ever has it.
    pub(crate) const UNKNOWN: Self = Self(0);

    pub(crate) fn new(number: u64) -> Self {
        Self(number)
    }

    /// The value that a release leaves in the counter, so that late commands of the same attempt are refused. Zero asks
    /// for the present value plus one.
    pub(crate) fn tombstone(self) -> u64 {
        if self == Self::UNKNOWN {
            return 0;
        }
        self.0.saturating_add(1)
    }
}

impl From<FencingToken> for u64 {
    fn from(token: FencingToken) -> Self {
        token.0
    }
}

/// A hybrid logical clock, after Kulkarni and others: the wall clock in microseconds, but larger than every earlier
/// proposal and every counter seen.
#[derive(Debug, Default)]
pub(crate) struct Proposals {
    last: AtomicU64,
}

impl Proposals {
    /// The token of an attempt.
    pub(crate) fn next(&self, wall_micros: u64) -> FencingToken {
        let next = |last: u64| FencingToken(last.saturating_add(1).max(wall_micros));
        let last = self
            .last
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |last| {
                // The next token has to be larger than the value that the release of this one leaves in the counter.
                Some(next(last).tombstone())
            });
        next(last.unwrap_or_else(|last| last))
    }

    /// Notes a node's counter, so that the next proposal is above it.
    pub(crate) fn saw(&self, counter: u64) {
        self.last.fetch_max(counter, Ordering::AcqRel);
    }

    /// Goes back to the wall clock, after a proposal that was too far ahead.
    pub(crate) fn reset(&self) {
        self.last.store(0, Ordering::Release);
    }
}

/// The settings that all clients have to share, and the key of the marker that has them.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    /// The key of the node's marker.
    pub(crate) marker: String,
    /// The fingerprint of the settings that must not differ: number of nodes, quorum, longest ttl, quarantine, how long
    /// counters are kept, and the version of the protocol.
    pub(crate) config: String,
    /// How long a node abstains that may have forgotten locks: until the last of them has ended, and longer than
    /// `skew`. A token may be ahead of a node's clock by the same span. If a server is replaced, the clock of the new one
    /// may be behind by `skew`. Nevertheless every token of the old server is smaller than the end of the new server's
    /// quarantine.
    pub(crate) quarantine: Duration,
    /// By how much any two of the clocks, of clients and servers, may differ.
    pub(crate) skew: Duration,
}

impl Rules {
    pub(crate) fn new(key_prefix: &str, nodes: usize, max_ttl: Duration, drift: Duration) -> Self {
        let sum = max_ttl.saturating_add(drift).as_millis().saturating_add(1);
        let quarantine = Duration::from_millis(u64::try_from(sum).unwrap_or(u64::MAX));
        Self {
            marker: format!("{key_prefix}{MARKER}"),
            config: format!(
                "{nodes}:{}:{}:{}:{}:{VERSION}",
                quorum::quorum(nodes),
                max_ttl.as_millis(),
                quarantine.as_millis(),
                FENCE_IDLE.as_millis()
            ),
            quarantine,
            skew: max_ttl,
        }
    }

    /// The key of the counter of the lock with this key.
    pub(crate) fn fence(key: &str) -> String {
        format!("{key}{FENCE}")
    }
}

/// The key of a node's marker, after the key prefix.
pub(crate) const MARKER: &str = "redlatch:node";
/// The suffix that makes the key of the counter from the key of a lock.
pub(crate) const FENCE: &str = ":fence";

/// The version of the scripts. Clients with different versions must not share nodes.
const VERSION: &str = "v2";

/// How long a counter is kept after the last request for its resource.
pub(crate) const FENCE_IDLE: Duration = Duration::from_secs(24 * 60 * 60);

#[cfg(test)]
mod replaced;
#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn proposals_are_the_wall_clock_but_above_all_before() {
        let proposals = Proposals::default();
        let next = |wall| u64::from(proposals.next(wall));
        assert_eq!(
            [next(100), next(100), next(50), next(200)],
            [100, 102, 104, 200]
        );
        proposals.saw(500);
        proposals.saw(300);
        assert_eq!([next(200), next(600)], [501, 600]);
        assert_eq!(
            next(601),
            602,
            "a token that is its predecessor's tombstone"
        );
        proposals.reset();
        assert_eq!(next(200), 200);
    }

    #[test]
    fn threads_never_propose_the_same() {
        let proposals = Proposals::default();
        let take = || (0..1000).map(|_| proposals.next(7)).collect::<Vec<_>>();
        let all: HashSet<FencingToken> = std::thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(take));
            let each = threads.into_iter().map(|thread| thread.join().unwrap());
            each.flatten().collect()
        });
        assert_eq!(all.len(), 4000);
    }

    #[test]
    fn the_fingerprint_has_what_must_not_differ() {
        let max_ttl = Duration::from_secs(10);
        let rules = Rules::new("p:", 5, max_ttl, quorum::drift(max_ttl, 0.01));
        assert_eq!(rules.marker, "p:redlatch:node");
        assert_eq!(rules.config, "5:3:10000:10103:86400000:v2");
    }
}
