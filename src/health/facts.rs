//! What is known about one node.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::info::Info;
use super::marker::{Marker, MarkerState};
use crate::error::{NodeError, Vote};
use crate::fencing::Rules;

/// What one node's server tells about itself, and what came of a lock that was tried there.
#[derive(Clone, Default)]
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
    /// All sections, one after the other.
    pub(super) info: Info,
    pub(super) marker: Option<Marker>,
    /// The time of the node's wall clock, and its offset from this client's.
    pub(super) time: Option<(u64, ClockOffset)>,
}

/// One fact, as programs read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fact {
    Text(String),
    Number(i64),
}

/// By how much the wall clock of a node is ahead of this client's.
///
/// The node read its clock between the sending of the command and the receipt of the answer. The offset is to the
/// middle of that time, and the uncertainty is half of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ClockOffset {
    /// Negative where the node's clock is behind.
    pub(super) ahead_us: i64,
    pub(super) uncertainty_us: i64,
}

impl Facts {
    pub(crate) fn new(node: Arc<str>) -> Self {
        Self {
            node,
            ..Self::default()
        }
    }

    /// All facts in the order and under the names of [`Health::fact`](super::Health::fact), which says what they are. A
    /// fact is none if the node did not answer, the user's ACL hides it, the server does not have it, or its value makes
    /// no sense. Texts are the server's own, of at most 64 characters, with what can't be printed escaped as in a Rust
    /// string.
    pub(super) fn all(&self) -> [(&'static str, Option<Fact>); 17] {
        let (info, clock, marker) = (&self.info, self.clock(), self.marker());
        let (server, version) = info.server();
        let (role, master) = info.role();
        let error = self.failure().or(self.refusal.as_ref());
        let text = |text: Option<String>| text.map(Fact::Text);
        let round_trip = self.round_trip.map(|time| Fact::number(time.as_micros()));
        [
            ("state", text(Some(self.state().into()))),
            ("error", text(error.map(ToString::to_string))),
            ("round_trip_us", round_trip),
            ("server", text(server)),
            ("version", text(version)),
            ("mode", text(info.mode())),
            ("role", text(role)),
            ("master", text(master)),
            ("run_id", text(info.run_id().map(Into::into))),
            ("uptime_s", info.uptime_s().map(Fact::number)),
            ("eviction", text(info.eviction())),
            ("persistence", text(info.persistence().map(Into::into))),
            ("clock_ahead_us", clock.map(|it| Fact::Number(it.ahead_us))),
            (
                "clock_uncertainty_us",
                clock.map(|it| Fact::Number(it.uncertainty_us)),
            ),
            ("quarantine", text(marker.quarantine.map(Into::into))),
            (
                "quarantine_remaining_ms",
                marker.remaining_ms.map(Fact::number),
            ),
            ("settings", text(marker.settings)),
        ]
    }

    pub(super) fn clock(&self) -> Option<ClockOffset> {
        self.time.map(|(_, offset)| offset)
    }

    pub(super) fn marker(&self) -> MarkerState {
        let now_us = self.time.map(|(node_us, _)| node_us);
        let state = |marker: &Marker| marker.state(self.info.run_id(), now_us);
        self.marker.as_ref().map(state).unwrap_or_default()
    }

    pub(super) fn state(&self) -> &'static str {
        match (self.failure(), &self.refusal) {
            (Some(NodeError::TimedOut), _) => "timed_out",
            (Some(_), _) => "failed",
            (None, Some(_)) => "refuses",
            (None, None) => "up",
        }
    }

    /// Whether the node answers, without an error that a lock would get as well.
    pub(super) fn answers(&self) -> bool {
        self.failure().is_none() && self.refusal.is_none()
    }

    /// Why the node gave no answer, or no further one. A server counts as silent if none of its answers can be parsed.
    pub(super) fn failure(&self) -> Option<&NodeError> {
        let nonsense = self.unreadable.as_ref();
        let nonsense = nonsense.filter(|_| self.round_trip.is_none());
        self.silence.as_ref().or(nonsense)
    }

    /// Whether the node can vote, as far as its answers tell, for a client with these rules, or without rules for one
    /// of the classic protocol.
    pub(super) fn can_vote(&self, own: Option<&Rules>) -> bool {
        let is_open = || matches!(self.marker().quarantine, Some("open") | None);
        let may_vote = |rules| is_open() && self.objection(rules).is_none();
        let is_sentinel = self.info.mode().as_deref() == Some("sentinel");
        self.answers() && !self.is_replica() && !is_sentinel && own.is_none_or(may_vote)
    }

    /// Whether a lock is to be tried at the node, by a client with these rules, or without rules by one of the classic protocol:
    /// where it may vote, as far as is known. With fencing, also only where the marker is that of the process and of such
    /// clients: elsewhere, a request for a lock writes a marker.
    pub(crate) fn is_to_be_tried(&self, own: Option<&Rules>) -> bool {
        self.can_vote(own) && (own.is_none() || self.marker().settings.is_some())
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
        let (role, _) = self.info.role();
        matches!(role.as_deref(), Some("replica" | "active_replica"))
    }

    /// Why the node gives no vote to a client with these rules and a right clock, for reasons other than quarantine.
    pub(super) fn objection(&self, rules: &Rules) -> Option<NodeError> {
        if !self.answers() {
            return None;
        }
        if self.info.run_id().is_none() {
            let reason = "INFO has shown none".into();
            return Some(NodeError::Unidentified { reason });
        }
        let settings = self.marker().settings;
        if let Some(theirs) = settings.filter(|theirs| *theirs != *rules.config) {
            return Some(NodeError::ConfigMismatch {
                ours: rules.config.clone(),
                theirs,
            });
        }
        let clock = self.clock()?;
        let is_too_far = clock.ahead_us < 0 && clock.at_least() > rules.quarantine;
        is_too_far.then(|| NodeError::ClockSkew {
            difference: micros(clock.ahead_us),
            node_is_ahead: false,
            allowed: rules.skew,
        })
    }
}

/// How many nodes can vote; nodes that are the same server have one vote.
pub(super) fn voters(nodes: &[Facts], own: Option<&Rules>) -> usize {
    let voters = nodes.iter().filter(|node| node.can_vote(own));
    let (known, unknown): (Vec<_>, Vec<_>) = voters
        .map(|node| node.info.run_id())
        .partition(Option::is_some);
    let servers: HashSet<_> = known.into_iter().collect();
    servers.len().saturating_add(unknown.len())
}

impl Fact {
    /// The number, or the largest that there is.
    fn number(value: impl TryInto<i64>) -> Self {
        Self::Number(value.try_into().unwrap_or(i64::MAX))
    }
}

impl ClockOffset {
    /// The offset of a node's clock that showed `node_us` at some moment within the `elapsed` time before the client's
    /// clock showed `client_us`. Both are microseconds since the Unix epoch.
    pub(super) fn of(node_us: u64, client_us: u64, elapsed: Duration) -> Self {
        let signed = |micros: u128| i64::try_from(micros).unwrap_or(i64::MAX);
        let uncertainty_us = signed(elapsed.as_nanos().div_ceil(2_000));
        let middle_us = signed(client_us.into()).saturating_sub(uncertainty_us);
        Self {
            ahead_us: signed(node_us.into()).saturating_sub(middle_us),
            uncertainty_us,
        }
    }

    /// The least difference that is certain.
    pub(super) fn at_least(self) -> Duration {
        micros(self.ahead_us).saturating_sub(micros(self.uncertainty_us))
    }
}

fn micros(signed: i64) -> Duration {
    Duration::from_micros(signed.unsigned_abs())
}

/// What a server wrote is shown as far as it makes sense.
impl fmt::Debug for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts = self.all();
        f.debug_map()
            .entries([("node", &self.node)])
            .entries(facts)
            .finish()
    }
}

impl fmt::Display for ClockOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.ahead_us < 0 { '-' } else { '+' };
        let (by, uncertainty) = (micros(self.ahead_us), micros(self.uncertainty_us));
        write!(f, "{sign}{by:.1?} \u{b1}{uncertainty:.1?}")
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
