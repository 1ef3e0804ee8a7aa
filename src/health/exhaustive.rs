//! Every deployment of up to five nodes, against what the words mean when they are taken literally.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails, as it should"
)]

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::answers::Interview;
use super::facts::{ClockOffset, Fact};
use super::*;
use crate::error::NodeError;

impl Facts {
    /// The same, except that the server tells this.
    pub(super) fn with(mut self, name: &str, fact: impl Into<Option<Fact>>) -> Self {
        let told = self.told.iter_mut().find(|(other, _)| *other == name);
        told.unwrap().1 = fact.into();
        self
    }

    pub(super) fn with_text(self, name: &str, text: &str) -> Self {
        self.with(name, Fact::text(text))
    }

    pub(super) fn with_clock(self, clock: ClockOffset) -> Self {
        self.with("clock_ahead_us", Fact::Number(clock.ahead_us))
            .with("clock_uncertainty_us", Fact::Number(clock.uncertainty_us))
    }
}

/// A node of which nothing is wrong, with a server of its own.
pub(super) fn good(name: &str) -> Facts {
    let mut node = silent(name, None);
    node.round_trip = Some(Duration::from_micros(250));
    for (fact, text) in [
        ("server", "redis"),
        ("version", "7.0.15"),
        ("mode", "standalone"),
        ("role", "master"),
        ("run_id", &format!("{name:a<40}")),
        ("eviction", "noeviction"),
        ("persistence", "aof"),
        ("quarantine", "no_marker"),
    ] {
        node = node.with_text(fact, text);
    }
    let elapsed = Duration::from_micros(250);
    node.with("uptime_s", Fact::Number(3))
        .with_clock(ClockOffset::of(1_000_000, 1_000_125, elapsed))
}

/// A node that did not answer, for this reason; or that did, and says nothing.
pub(super) fn silent(name: &str, silence: impl Into<Option<NodeError>>) -> Facts {
    let mut node = Interview::default().into_facts(name.into());
    node.silence = silence.into();
    node
}

pub(super) fn refused() -> NodeError {
    NodeError::Connect {
        source: Arc::new(io::ErrorKind::ConnectionRefused.into()),
    }
}

pub(super) fn loading() -> NodeError {
    NodeError::Refused {
        code: "LOADING".into(),
        message: "wait".into(),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Is {
    Good,
    /// All of these are one server.
    Shared,
    Replica,
    Down,
    Loading,
    Open,
    InQuarantine,
    /// It answers, and hides its role and everything else.
    Mute,
}

impl Is {
    const ALL: [Self; 8] = [
        Self::Good,
        Self::Shared,
        Self::Replica,
        Self::Down,
        Self::Loading,
        Self::Open,
        Self::InQuarantine,
        Self::Mute,
    ];

    fn node(self, place: usize) -> Facts {
        let name = format!("n{place}");
        let node = good(&name);
        match self {
            Self::Good => node,
            Self::Shared => node.with_text("run_id", "shared"),
            Self::Replica => node.with_text("role", "replica"),
            Self::Down => silent(&name, NodeError::TimedOut),
            Self::Loading => Facts {
                refusal: Some(loading()),
                ..node
            },
            Self::Open => node.with_text("quarantine", "open"),
            Self::InQuarantine => node
                .with_text("quarantine", "quarantined")
                .with("quarantine_remaining_ms", Fact::Number(5_000)),
            Self::Mute => silent(&name, None),
        }
    }
}

fn each_deployment(nodes: usize, check: &mut impl FnMut(&[Is])) {
    let mut deployment = vec![Is::Good; nodes];
    for number in 0..Is::ALL.len().pow(u32::try_from(nodes).unwrap()) {
        let mut rest = number;
        for is in &mut deployment {
            *is = Is::ALL[rest % Is::ALL.len()];
            rest /= Is::ALL.len();
        }
        check(&deployment);
    }
}

#[test]
fn those_that_can_vote_less_the_quorum_are_the_failures_that_are_survived() {
    let mut seen = HashSet::new();
    for nodes in 1..=5 {
        each_deployment(nodes, &mut |deployment| {
            let count = |is: Is| deployment.iter().filter(|other| **other == is).count();
            let marked = count(Is::Open) + count(Is::InQuarantine);
            // Markers don't matter to a manager of the classic protocol.
            let voters = count(Is::Good) + count(Is::Shared).min(1) + marked + count(Is::Mute);
            let worth = if marked > 0 {
                Severity::Notice
            } else {
                Severity::Ok
            };
            seen.insert(assert_judged(deployment, None, voters, worth));
            // A manager of the fenced protocol has the votes of nodes whose marker is open, and no others.
            let rules = rules();
            let voters = count(Is::Open);
            seen.insert(assert_judged(
                deployment,
                Some(&rules),
                voters,
                Severity::Ok,
            ));
        });
    }
    assert_eq!(seen.len(), 6, "{seen:?}");
}

/// Returns what the verdict says of the margin.
#[track_caller]
fn assert_judged(deployment: &[Is], own: Option<&Rules>, voters: usize, well: Severity) -> String {
    let nodes = deployment.len();
    let count = |is: Is| deployment.iter().filter(|other| **other == is).count();
    let has_majority = 2 * voters > nodes;
    let margin = if has_majority {
        let failures = (0..=voters).rev().find(|n| 2 * (voters - n) > nodes);
        i64::try_from(failures.unwrap()).unwrap()
    } else {
        let missing = (1..=nodes + 1).find(|n| 2 * (voters + n) > nodes);
        -i64::try_from(missing.unwrap()).unwrap()
    };
    let health = health(deployment, own);
    assert_eq!(health.voters, voters, "{deployment:?}\n{health}");
    assert_eq!(health.margin, margin, "{deployment:?}\n{health}");

    let is_critical = !has_majority || count(Is::Shared) > 1 || count(Is::Replica) > 0;
    let is_warning = voters < nodes;
    let severity = match (is_critical, is_warning) {
        (true, _) => Severity::Critical,
        (false, true) => Severity::Warning,
        (false, false) => well,
    };
    assert_eq!(health.severity, severity, "{deployment:?}\n{health}");
    let order = health.findings.iter().map(|finding| finding.severity);
    assert!(order.is_sorted_by(|a, b| a >= b));
    let shown = health.to_string();
    let (_, said) = shown.rsplit_once(": ").unwrap();
    said.to_owned()
}

/// The rules of a manager of the fenced protocol.
pub(super) fn rules() -> Rules {
    Rules::new("", 5, Duration::from_hours(1), Duration::from_secs(36))
}

fn health(deployment: &[Is], own: Option<&Rules>) -> Health {
    let nodes = deployment.iter().enumerate();
    Health::of(nodes.map(|(place, is)| is.node(place)).collect(), own)
}

#[test]
fn no_nodes_are_no_majority() {
    let health = Health::of(Vec::new(), None);
    assert_eq!(health.margin, -1);
}
