//! What is known about one node.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{NodeError, Vote};
use crate::fencing::Rules;

/// What one node's server tells about itself.
///
/// A field is `None` if the node did not answer, the user's ACL hides it, the server does not have it, or its value
/// makes no sense. Texts are the server's own, of at most 64 characters, with what can't be printed escaped as in a
/// Rust string.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    pub(super) node: Arc<str>,
    /// Why the node gave no further answers.
    pub(super) silence: Option<NodeError>,
    /// An error answer that a lock would get as well, such as `LOADING` or `NOAUTH`; or why the lock that was tried got no vote.
    pub(super) refusal: Option<NodeError>,
    /// Why the user may not try a lock.
    pub(super) untried: Option<NodeError>,
    /// Why the lock that was tried could not be given back.
    pub(super) not_released: Option<NodeError>,
    /// The error of an answer that can't be parsed.
    pub(super) unreadable: Option<NodeError>,
    /// The commands that the user may not use, or that the server does not have.
    pub(super) hidden: Vec<&'static str>,
    /// The shortest time that an answer took, with up to 2 ms for each other node that was slower.
    pub(super) round_trip: Option<Duration>,
    /// `redis`, `valkey`, `KeyDB`, `Dragonfly`, or what it calls itself.
    pub(super) server: Option<String>,
    /// The server's own version; that of `KeyDB` is the one it gives for Redis.
    pub(super) version: Option<String>,
    /// `standalone`, as it should be, or `cluster` or `sentinel`.
    pub(super) mode: Option<String>,
    /// `master`, as it should be, `replica`, `active_replica` (of `KeyDB`: it shares its locks), or what it calls itself.
    pub(super) role: Option<String>,
    /// The master of a replica as `host:port`.
    pub(super) master: Option<String>,
    /// Identifies the process; a restart changes it. A server without a `run_id` (Dragonfly) is identified by its
    /// `master_replid`, if it is a master.
    pub(super) run_id: Option<String>,
    pub(super) uptime: Option<Duration>,
    /// What happens when the memory is full: `noeviction`, as it should be, or what deletes keys.
    pub(super) eviction: Option<String>,
    /// What the server writes to disk: `off`, `rdb`, `aof` or `aof+rdb`. `INFO` does not tell how often it flushes.
    pub(super) persistence: Option<&'static str>,
    /// Whether the server says that its last write to disk failed.
    pub(super) fails_to_save: bool,
    pub(super) clock: Option<ClockOffset>,
    pub(super) quarantine: Option<Quarantine>,
    /// The settings of the clients that wrote the marker; `None` unless the marker is of the present process.
    pub(super) settings: Option<String>,
}

/// By how much the wall clock of a node is ahead of this client's.
///
/// The node read its clock between the sending of the command and the receipt of the answer. The offset is to the
/// middle of that time, and the uncertainty is half of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ClockOffset {
    /// Negative where the node's clock is behind.
    pub(super) ahead_us: i64,
    pub(super) uncertainty: Duration,
}

/// What a node's marker, the key `<key_prefix>redlatch:node`, says to clients of the fenced protocol, which wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quarantine {
    /// No client of the fenced protocol has used the node, or the node has lost its data. Its quarantine begins with
    /// the next lock.
    NoMarker,
    /// The marker is of the present process, and the node may vote.
    Open,
    /// The marker is of the present process, which may have forgotten locks: the node does not vote yet.
    Quarantined { remaining: Duration },
    /// The marker is of an earlier process, or was copied from another server: quarantine begins with the next lock.
    OtherProcess,
    /// The value of the key is no marker: the node does not vote until the key is deleted.
    Unreadable,
}

/// One fact, as programs read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fact {
    Text(String),
    Number(i64),
}

impl Facts {
    /// Whether the node answers, without an error that a lock would get as well.
    pub(super) fn answers(&self) -> bool {
        self.failure().is_none() && self.refusal.is_none()
    }

    /// Why the node gave no answer, or no further one. A server counts as silent if none of its answers can be parsed.
    pub(super) fn failure(&self) -> Option<&NodeError> {
        let nonsense = || {
            self.unreadable
                .as_ref()
                .filter(|_| self.round_trip.is_none())
        };
        self.silence.as_ref().or_else(nonsense)
    }

    /// Whether the node can vote, as far as its answers tell, for a client with these rules, or without rules for one
    /// of the classic protocol.
    pub(super) fn can_vote(&self, own: Option<&Rules>) -> bool {
        let is_sentinel = self.mode.as_deref() == Some("sentinel");
        let is_closed = !matches!(self.quarantine, Some(Quarantine::Open) | None);
        let is_open = |rules| !is_closed && self.objection(rules).is_none();
        self.answers() && !self.is_replica() && !is_sentinel && own.is_none_or(is_open)
    }

    /// Whether a lock is to be tried at the node, by a client with these rules, or without rules by one of the classic protocol:
    /// where it may vote, as far as is known. With fencing, also only where the marker is that of the process and of such
    /// clients: elsewhere, a request for a lock writes a marker.
    pub(crate) fn is_to_be_tried(&self, own: Option<&Rules>) -> bool {
        self.can_vote(own) && (own.is_none() || self.settings.is_some())
    }

    /// Records what came of the lock that was tried: of asking for it, and of giving it back.
    pub(crate) fn note_trial(&mut self, asked: Vote, given_back: Vote) {
        match (asked, given_back) {
            (Vote::Failed(error), _) if error.is_broken() => self.silence = Some(error),
            (Vote::Failed(error), _) if error.is_forbidden() => self.untried = Some(error),
            (Vote::Failed(error), _) => self.refusal = Some(error),
            (Vote::Granted, Vote::Failed(error)) if error.is_broken() || error.is_silence() => {
                self.silence = Some(error);
            }
            (Vote::Granted, Vote::Failed(error)) => self.not_released = Some(error),
            // Where it is held, another URL of the server has got it; where its token is stale, a larger one would get it.
            _ => {}
        }
    }

    pub(super) fn is_replica(&self) -> bool {
        matches!(self.role.as_deref(), Some("replica" | "active_replica"))
    }

    /// Why the node gives no vote to a client with these rules and a right clock, for reasons other than quarantine.
    pub(super) fn objection(&self, rules: &Rules) -> Option<NodeError> {
        if !self.answers() {
            return None;
        }
        if self.run_id.is_none() {
            let reason = "INFO has shown none".into();
            return Some(NodeError::Unidentified { reason });
        }
        if let Some(theirs) = self.settings.as_ref().filter(|s| **s != rules.config) {
            return Some(NodeError::ConfigMismatch {
                ours: rules.config.clone(),
                theirs: theirs.clone(),
            });
        }
        let is_too_far =
            |clock: &ClockOffset| clock.ahead_us < 0 && clock.at_least() > rules.quarantine;
        self.clock
            .filter(is_too_far)
            .map(|clock| NodeError::ClockSkew {
                difference: clock.by(),
                node_is_ahead: false,
                allowed: rules.skew,
            })
    }

    pub(super) fn is_same_server(&self, other: &Self) -> bool {
        self.run_id.is_some() && self.run_id == other.run_id
    }

    pub(super) fn state(&self) -> &'static str {
        match (self.failure(), &self.refusal) {
            (Some(NodeError::TimedOut), _) => "timed_out",
            (Some(_), _) => "failed",
            (None, Some(_)) => "refuses",
            (None, None) => "up",
        }
    }

    /// All facts by the names that are promised to programs, without the name of the node.
    pub(super) fn named(&self) -> [(&'static str, Option<Fact>); 17] {
        let text = |text: &Option<String>| text.clone().map(Fact::Text);
        let error = self.failure().or(self.refusal.as_ref());
        let remaining = match self.quarantine {
            Some(Quarantine::Quarantined { remaining }) => Some(number(remaining.as_millis())),
            _ => None,
        };
        let uptime = self.uptime.map(|uptime| number(uptime.as_secs().into()));
        let ahead = self.clock.map(|clock| Fact::Number(clock.ahead_us));
        let uncertainty = self.clock.map(|clock| clock.uncertainty);
        [
            ("state", Some(word(self.state()))),
            ("error", error.map(word)),
            ("round_trip_us", self.round_trip.map(micros)),
            ("server", text(&self.server)),
            ("version", text(&self.version)),
            ("mode", text(&self.mode)),
            ("role", text(&self.role)),
            ("master", text(&self.master)),
            ("run_id", text(&self.run_id)),
            ("uptime_s", uptime),
            ("eviction", text(&self.eviction)),
            ("persistence", self.persistence.map(word)),
            ("clock_ahead_us", ahead),
            ("clock_uncertainty_us", uncertainty.map(micros)),
            (
                "quarantine",
                self.quarantine.map(|state| word(state.word())),
            ),
            ("quarantine_remaining_ms", remaining),
            ("settings", text(&self.settings)),
        ]
    }
}

fn word(value: impl fmt::Display) -> Fact {
    Fact::Text(value.to_string())
}

fn number(value: u128) -> Fact {
    Fact::Number(i64::try_from(value).unwrap_or(i64::MAX))
}

fn micros(span: Duration) -> Fact {
    number(span.as_micros())
}

impl ClockOffset {
    /// The offset of a node's clock that showed `node_us` at some moment within the `elapsed` time before the client's
    /// clock showed `client_us`. Both are microseconds since the Unix epoch.
    pub(super) fn of(node_us: u64, client_us: u64, elapsed: Duration) -> Self {
        let uncertainty = elapsed.checked_div(2).unwrap_or_default();
        let half_us = u64::try_from(uncertainty.as_micros()).unwrap_or(u64::MAX);
        let middle_us = client_us.saturating_sub(half_us);
        let by_us = i64::try_from(node_us.abs_diff(middle_us)).unwrap_or(i64::MAX);
        let is_behind = node_us < middle_us;
        Self {
            ahead_us: if is_behind {
                by_us.saturating_neg()
            } else {
                by_us
            },
            uncertainty,
        }
    }

    /// The difference, whichever clock is ahead.
    pub(super) fn by(self) -> Duration {
        Duration::from_micros(self.ahead_us.unsigned_abs())
    }

    /// The least difference that is certain.
    pub(super) fn at_least(self) -> Duration {
        self.by().saturating_sub(self.uncertainty)
    }
}

impl Quarantine {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::NoMarker => "no_marker",
            Self::Open => "open",
            Self::Quarantined { .. } => "quarantined",
            Self::OtherProcess => "other_process",
            Self::Unreadable => "unreadable",
        }
    }
}

impl fmt::Display for ClockOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.ahead_us < 0 { '-' } else { '+' };
        write!(f, "{sign}{:.1?} \u{b1}{:.1?}", self.by(), self.uncertainty)
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Number(number) => write!(f, "{number}"),
        }
    }
}
