//! What is known about one node: the list of all facts, and what follows from them for locks.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::answers::{Answers, Limits, Time, Trouble, Troubles};
use super::info::Info;
use super::marker;
use super::stranger::Stranger;
use crate::error::{NodeError, Vote};
use crate::fencing::Rules;

/// What one node's server tells about itself, and what came of a lock that was tried there.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(super) node: Arc<str>,
    pub(super) troubles: Troubles,
    /// The commands that the user may not use, or that the server does not have.
    pub(super) hidden: Vec<&'static str>,
    /// Whether the last snapshot or write failed. By default, Redis then refuses writes.
    pub(super) fails_to_save: bool,
    /// What a connection without a login may do, if clients have one.
    pub(crate) stranger: Option<Stranger>,
    pub(super) limits: Limits,
    /// What the answers tell.
    told: Vec<Fact>,
}

/// The votes of a node on a trial lock: on the acquire and, if that was granted, on the extension and the release.
pub(crate) type Trial = [Vote; 3];

/// A name and a value, which is a number if the name ends with a unit.
type Fact = (&'static str, Option<String>);

impl Facts {
    /// The list of all facts under the names of [`Health::fact`](super::Health::fact), which says what they are; beside it
    /// `state` and `error`, which the lock that is tried may change. A fact is none if the node did not answer, the user's
    /// ACL hides it, the server does not have it, or its value makes no sense. Texts are the server's own, of at most 64
    /// characters, with what can't be printed escaped as in a Rust string.
    pub(crate) fn of(answers: Answers) -> Self {
        let (info, time, mut troubles) = (Info(&answers.info), answers.time, answers.troubles);
        let has_replied = answers.round_trip.is_some();
        // A server of which no answer can be parsed counts as silent.
        if !has_replied && let Some(error) = troubles.remove(&Trouble::Unreadable) {
            troubles.entry(Trouble::Silent).or_insert(error);
        }
        let (server, version) = info.server();
        let (role, master) = info.role();
        let run_id = info.run_id();
        let now_us = time.map(|time| time.node_us);
        let marker = answers.marker.as_ref();
        let marker = marker.map(|marker| marker::state(marker, run_id, now_us));
        let (quarantine, remaining_ms, settings) = marker.unwrap_or_default();
        let (ahead_us, uncertainty_us) = time.map(offset).unzip();
        let micros = |span: Option<Duration>| shown(span.map(|span| span.as_micros()));
        Self {
            node: answers.node,
            troubles,
            hidden: answers.hidden,
            fails_to_save: info.fails_to_save(),
            stranger: None,
            limits: answers.limits,
            told: vec![
                ("round_trip_us", micros(answers.round_trip)),
                ("connection_us", micros(answers.connection)),
                ("server", server),
                ("version", version),
                ("mode", info.text("redis_mode")),
                ("role", role),
                ("master", master),
                ("run_id", shown(run_id)),
                ("uptime_s", shown(info.number("uptime_in_seconds"))),
                ("eviction", info.eviction()),
                ("persistence", shown(info.persistence())),
                ("clock_ahead_us", shown(ahead_us)),
                ("clock_uncertainty_us", shown(uncertainty_us)),
                ("quarantine", shown(quarantine)),
                ("quarantine_remaining_ms", shown(remaining_ms)),
                ("settings", settings),
            ],
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = Fact> {
        let error = self.troubles.range(..=Trouble::Forbidden).next();
        let error = error.map(|(_, error)| error);
        let first = [
            ("state", shown(Some(self.state()))),
            ("error", shown(error)),
        ];
        first.into_iter().chain(self.told.iter().cloned())
    }

    /// A fact that the answers tell.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let mut told = self.told.iter();
        let fact = told.find(|(other, _)| *other == name);
        debug_assert!(fact.is_some(), "no fact is called {name}");
        fact?.1.as_deref()
    }

    /// Whether a fact is known and has one of these values.
    pub(super) fn is_one_of(&self, name: &str, values: &[&str]) -> bool {
        self.text(name).is_some_and(|value| values.contains(&value))
    }

    /// A fact that is a number; `i64::MAX` if it is larger.
    pub(super) fn number(&self, name: &str) -> Option<i64> {
        Some(self.text(name)?.parse().unwrap_or(i64::MAX))
    }

    /// A fact that is a span of time, without its sign.
    pub(super) fn span(&self, name: &str) -> Option<Duration> {
        Some(unit(name)?(self.number(name)?.unsigned_abs()))
    }

    /// The error that shows this trouble, if the node has it.
    pub(super) fn trouble(&self, trouble: Trouble) -> Option<&NodeError> {
        self.troubles.get(&trouble)
    }

    pub(super) fn state(&self) -> &'static str {
        match self.troubles.range(..=Trouble::Forbidden).next() {
            Some((Trouble::Silent, NodeError::TimedOut { .. })) => "timed_out",
            Some((Trouble::Silent, _)) => "failed",
            Some(_) => "refuses",
            None => "up",
        }
    }

    /// Whether the node answers, without an error that a lock of any user would get as well.
    pub(crate) fn answers(&self) -> bool {
        self.troubles.range(..=Trouble::Refuses).next().is_none()
    }

    /// Whether the answers of the node take longer than clients wait.
    pub(super) fn is_too_slow(&self) -> bool {
        self.span("round_trip_us") > Some(self.limits.answer)
    }

    pub(super) fn is_replica(&self) -> bool {
        self.is_one_of("role", &["replica", "active_replica"])
    }

    /// By how much the node's clock is ahead of this client's, and how much more or less that may be.
    pub(super) fn clock(&self) -> Option<String> {
        let is_behind = self.number("clock_ahead_us")? < 0;
        let sign = if is_behind { '-' } else { '+' };
        let by = self.span("clock_ahead_us")?;
        let uncertainty = self.span("clock_uncertainty_us")?;
        Some(format!("{sign}{by:.1?} \u{b1}{uncertainty:.1?}"))
    }

    /// By how much the clocks of node and client differ at least.
    pub(super) fn clocks_differ_by(&self) -> Option<Duration> {
        let uncertainty = self.span("clock_uncertainty_us")?;
        Some(self.span("clock_ahead_us")?.saturating_sub(uncertainty))
    }

    /// Whether the node can vote, as far as its answers tell, for a client with these rules, or without rules for one
    /// of the classic protocol.
    pub(super) fn can_vote(&self, own: Option<&Rules>) -> bool {
        let is_open = matches!(self.text("quarantine"), Some("open") | None);
        let may_vote = |rules| is_open && self.objection(rules).is_none();
        let is_master = !self.is_replica() && !self.is_one_of("mode", &["sentinel"]);
        let is_in_time = self.state() == "up" && !self.is_too_slow();
        is_in_time && is_master && own.is_none_or(may_vote)
    }

    /// Whether a lock is to be tried at the node, by a client with these rules, or without rules by one of the classic protocol:
    /// where it may vote, as far as is known. With fencing, also only where the marker is that of the process and of such
    /// clients: elsewhere, a request for a lock writes a marker.
    pub(crate) fn is_to_be_tried(&self, own: Option<&Rules>) -> bool {
        self.can_vote(own) && (own.is_none() || self.text("settings").is_some())
    }

    /// Whether a request for a lock is to begin the quarantine of a node that may have forgotten locks. A node without a marker may
    /// also be new, and the marker would name the settings of this client. So other nodes have to be in use with the same settings.
    pub(crate) fn is_to_begin(&self, own: Option<&Rules>, is_in_use: bool) -> bool {
        let state = self.text("quarantine").filter(|_| self.answers());
        own.is_some() && (state == Some("other_process") || state == Some("no_marker") && is_in_use)
    }

    /// Records that the quarantine has begun, if `trial` says so. The user may have no right to write the marker.
    pub(crate) fn note_begin(&mut self, trial: &Trial, own: &Rules) {
        let [Vote::Failed(NodeError::Quarantined { remaining, .. }), ..] = trial else {
            return;
        };
        for (name, value) in [
            ("quarantine", "quarantined".to_owned()),
            ("quarantine_remaining_ms", remaining.as_millis().to_string()),
            ("settings", own.config.clone()),
        ] {
            if let Some(fact) = self.told.iter_mut().find(|(other, _)| *other == name) {
                fact.1 = Some(value);
            }
        }
    }

    /// Records the result of the trial lock. If the lock is held, another URL of the same server has got it. If its token is stale,
    /// a larger token would get it. Neither is a trouble of the node.
    pub(crate) fn note_trial(&mut self, trial: &Trial) {
        let [taken, extended, released] = trial;
        let refused = taken.failure().map(|error| match error {
            error if error.is_broken() => (Trouble::Silent, error),
            error if error.forbids_a_key() => (Trouble::Untried, error),
            error if error.is_forbidden() => (Trouble::Forbidden, error),
            error => (Trouble::Refuses, error),
        });
        let later = [
            (Trouble::NotExtended, extended),
            (Trouble::NotReleased, released),
        ];
        let later = later.into_iter().filter_map(|(trouble, vote)| {
            let error = vote.failure().filter(|_| taken.is_granted())?;
            let is_gone = error.is_broken() || error.is_silence();
            Some((if is_gone { Trouble::Silent } else { trouble }, error))
        });
        let found = refused.into_iter().chain(later);
        self.troubles
            .extend(found.map(|(trouble, error)| (trouble, error.clone())));
    }

    /// Records the result of the trial read lock. The other trial lock met no trouble, so only the user's rights can make a
    /// difference.
    pub(crate) fn note_trial_of_reader(&mut self, trial: &Trial) {
        let mut failures = trial.iter().filter_map(Vote::failure);
        let forbidden = failures.find(|error| error.is_forbidden()).cloned();
        self.troubles
            .extend(forbidden.map(|error| (Trouble::NoReaders, error)));
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
        let other = self.text("settings").filter(|it| **it != *rules.config);
        if let Some(theirs) = other.map(Into::into) {
            let ours = rules.config.clone();
            return Some(NodeError::ConfigMismatch { ours, theirs });
        }
        let is_behind = self.number("clock_ahead_us")? < 0;
        let difference = self.span("clock_ahead_us")?;
        let is_too_far = is_behind && self.clocks_differ_by()? > rules.quarantine;
        is_too_far.then_some(NodeError::ClockSkew {
            difference,
            node_is_ahead: false,
            allowed: rules.skew,
        })
    }
}

/// Whether clients with these rules use some of the nodes, and no others do.
pub(crate) fn are_in_use(nodes: &[Facts], rules: &Rules) -> bool {
    let known = nodes.iter().filter_map(|node| node.text("settings"));
    known.clone().next().is_some() && known.clone().all(|known| *known == *rules.config)
}

/// How many nodes can vote; nodes that are the same server have one vote.
pub(crate) fn voters(nodes: &[Facts], own: Option<&Rules>) -> usize {
    let voters = nodes.iter().filter(|node| node.can_vote(own));
    let server = |node: &'_ Facts| node.text("run_id").unwrap_or(&node.node).to_owned();
    voters.map(server).collect::<HashSet<_>>().len()
}

fn shown(value: Option<impl ToString>) -> Option<String> {
    value.map(|value| value.to_string())
}

/// By how much the node's clock is ahead of this client's, negative where it is behind, and how much more or less that may be. The
/// offset is to the middle of the time within which the node read its clock, and the uncertainty is half of that time.
fn offset(time: Time) -> (i64, i64) {
    let signed = |micros: u128| i64::try_from(micros).unwrap_or(i64::MAX);
    let uncertainty_us = signed(time.elapsed.as_nanos().div_ceil(2_000));
    let middle_us = signed(time.client_us.into()).saturating_sub(uncertainty_us);
    let ahead_us = signed(time.node_us.into()).saturating_sub(middle_us);
    (ahead_us, uncertainty_us)
}

/// The unit that the name of a number ends with.
pub(super) fn unit(name: &str) -> Option<fn(u64) -> Duration> {
    match name.rsplit_once('_')?.1 {
        "us" => Some(Duration::from_micros),
        "ms" => Some(Duration::from_millis),
        "s" => Some(Duration::from_secs),
        _ => None,
    }
}
