//! What is known about one node.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{NodeError, Vote};
use crate::fencing::Rules;

/// What one node's server tells about itself.
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
    /// Whether the server says that its last write to disk failed.
    pub(super) fails_to_save: bool,
    /// The shortest time that an answer took, with up to 2 ms for each other node that was slower.
    pub(super) round_trip: Option<Duration>,
    /// The facts in the order and under the names of [`Health::fact`](super::Health::fact), which says what they are. A
    /// fact is `None` if the node did not answer, the user's ACL hides it, the server does not have it, or its value makes
    /// no sense. Texts are the server's own, of at most 64 characters, with what can't be printed escaped as in a Rust
    /// string.
    pub(super) told: Vec<Told>,
}

/// The name of a fact, and the fact, if it is known.
pub(super) type Told = (&'static str, Option<Fact>);

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
    /// All facts under the names that are promised to programs, without the name of the node.
    pub(super) fn all(&self) -> impl Iterator<Item = Told> {
        let error = self.failure().or(self.refusal.as_ref());
        let of_answers = [
            ("state", Some(Fact::text(self.state()))),
            ("error", error.map(Fact::text)),
            (
                "round_trip_us",
                self.round_trip.map(|time| Fact::number(time.as_micros())),
            ),
        ];
        of_answers.into_iter().chain(self.told.iter().cloned())
    }

    fn told(&self, name: &str) -> Option<&Fact> {
        let (_, fact) = self.told.iter().find(|(other, _)| *other == name)?;
        fact.as_ref()
    }

    /// What the server tells under this name, if that is a text.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        match self.told(name)? {
            Fact::Text(text) => Some(text),
            Fact::Number(_) => None,
        }
    }

    /// What the server tells under this name, if that is a number.
    pub(super) fn number(&self, name: &str) -> Option<i64> {
        match self.told(name)? {
            Fact::Number(number) => Some(*number),
            Fact::Text(_) => None,
        }
    }

    pub(super) fn clock(&self) -> Option<ClockOffset> {
        Some(ClockOffset {
            ahead_us: self.number("clock_ahead_us")?,
            uncertainty_us: self.number("clock_uncertainty_us")?,
        })
    }

    /// For how much longer the node is in quarantine, if it is.
    pub(super) fn remaining_quarantine(&self) -> Option<Duration> {
        let remaining_ms = self.number("quarantine_remaining_ms")?;
        Some(Duration::from_millis(remaining_ms.unsigned_abs()))
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
        let is_open = matches!(self.text("quarantine"), Some("open") | None);
        let may_vote = |rules| is_open && self.objection(rules).is_none();
        let is_sentinel = self.text("mode") == Some("sentinel");
        self.answers() && !self.is_replica() && !is_sentinel && own.is_none_or(may_vote)
    }

    /// Whether a lock is to be tried at the node, by a client with these rules, or without rules by one of the classic protocol:
    /// where it may vote, as far as is known. With fencing, also only where the marker is that of the process and of such
    /// clients: elsewhere, a request for a lock writes a marker.
    pub(crate) fn is_to_be_tried(&self, own: Option<&Rules>) -> bool {
        self.can_vote(own) && (own.is_none() || self.text("settings").is_some())
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
        matches!(self.text("role"), Some("replica" | "active_replica"))
    }

    /// Why the node gives no vote to a client with these rules and a right clock, for reasons other than quarantine.
    pub(super) fn objection(&self, rules: &Rules) -> Option<NodeError> {
        if !self.answers() {
            return None;
        }
        if self.text("run_id").is_none() {
            let reason = "INFO has shown none".into();
            return Some(NodeError::Unidentified { reason });
        }
        let other = |theirs: &&str| **theirs != *rules.config;
        if let Some(theirs) = self.text("settings").filter(other) {
            return Some(NodeError::ConfigMismatch {
                ours: rules.config.clone(),
                theirs: theirs.into(),
            });
        }
        let clock = self.clock()?;
        let is_too_far = clock.ahead_us < 0 && clock.at_least() > rules.quarantine;
        is_too_far.then(|| NodeError::ClockSkew {
            difference: clock.by(),
            node_is_ahead: false,
            allowed: rules.skew,
        })
    }

    pub(super) fn is_same_server(&self, other: &Self) -> bool {
        let run_id = self.text("run_id");
        run_id.is_some() && run_id == other.text("run_id")
    }
}

/// How many nodes can vote; nodes that are the same server have one vote.
pub(super) fn voters(nodes: &[Facts], own: Option<&Rules>) -> usize {
    let mut voters: Vec<&Facts> = Vec::with_capacity(nodes.len());
    for node in nodes.iter().filter(|node| node.can_vote(own)) {
        if !voters.iter().any(|other| node.is_same_server(other)) {
            voters.push(node);
        }
    }
    voters.len()
}

impl Fact {
    pub(super) fn text(value: impl fmt::Display) -> Self {
        Self::Text(value.to_string())
    }

    /// The number, or the largest that there is.
    pub(super) fn number(value: impl TryInto<i64>) -> Self {
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

    pub(super) fn facts(clock: Option<Self>) -> [Told; 2] {
        let (ahead, uncertainty) = clock.map(|c| (c.ahead_us, c.uncertainty_us)).unzip();
        [
            ("clock_ahead_us", ahead.map(Fact::Number)),
            ("clock_uncertainty_us", uncertainty.map(Fact::Number)),
        ]
    }

    /// The difference, whichever clock is ahead.
    pub(super) fn by(self) -> Duration {
        Duration::from_micros(self.ahead_us.unsigned_abs())
    }

    pub(super) fn uncertainty(self) -> Duration {
        Duration::from_micros(self.uncertainty_us.unsigned_abs())
    }

    /// The least difference that is certain.
    pub(super) fn at_least(self) -> Duration {
        self.by().saturating_sub(self.uncertainty())
    }
}

impl fmt::Display for ClockOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.ahead_us < 0 { '-' } else { '+' };
        write!(
            f,
            "{sign}{:.1?} \u{b1}{:.1?}",
            self.by(),
            self.uncertainty()
        )
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
