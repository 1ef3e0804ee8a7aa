//! Every deployment of up to five nodes, against what the words mean when they are taken literally.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails, as it should"
)]

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::facts::{ClockOffset, Quarantine};
use super::*;
use crate::error::NodeError;

/// A node of which nothing is wrong, with a server of its own.
pub(super) fn good(name: &str) -> Facts {
    Facts {
        node: name.into(),
        silence: None,
        refusal: None,
        untried: None,
        not_released: None,
        round_trip: Some(Duration::from_micros(250)),
        server: Some("redis".into()),
        version: Some("7.0.15".into()),
        mode: Some("standalone".into()),
        role: Some("master".into()),
        master: None,
        run_id: Some(format!("{name:a<40}")),
        uptime: Some(Duration::from_secs(3)),
        eviction: Some("noeviction".into()),
        persistence: Some("aof"),
        clock: Some(ClockOffset::of(
            1_000_000,
            1_000_125,
            Duration::from_micros(250),
        )),
        quarantine: Some(Quarantine::NoMarker),
        settings: None,
        fails_to_save: false,
        hidden: Vec::new(),
        unreadable: None,
    }
}

/// A node that did not answer, for this reason; or that did, and says nothing.
pub(super) fn silent(name: &str, silence: impl Into<Option<NodeError>>) -> Facts {
    Facts {
        silence: silence.into(),
        round_trip: None,
        server: None,
        version: None,
        mode: None,
        role: None,
        run_id: None,
        uptime: None,
        eviction: None,
        persistence: None,
        clock: None,
        quarantine: None,
        ..good(name)
    }
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
            Self::Shared => Facts {
                run_id: Some("shared".into()),
                ..node
            },
            Self::Replica => Facts {
                role: Some("replica".into()),
                ..node
            },
            Self::Down => silent(&name, NodeError::TimedOut),
            Self::Loading => Facts {
                refusal: Some(loading()),
                ..node
            },
            Self::Open => Facts {
                quarantine: Some(Quarantine::Open),
                ..node
            },
            Self::InQuarantine => Facts {
                quarantine: Some(Quarantine::Quarantined {
                    remaining: Duration::from_secs(5),
                }),
                ..node
            },
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
