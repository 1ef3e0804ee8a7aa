//! Every deployment of up to five nodes, against what the words mean when they are taken literally; and each finding.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails, as it should"
)]

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::error::NodeError;

/// A node of which nothing is wrong, with a server of its own.
pub(super) fn good(name: &str) -> NodeHealth {
    NodeHealth {
        node: name.into(),
        reach: Reach::Answers,
        round_trip: Some(Duration::from_micros(250)),
        server: Some("redis".into()),
        version: Some("7.0.15".into()),
        mode: Some("standalone".into()),
        role: Role::Master,
        run_id: Some(format!("{name:a<40}")),
        uptime: Some(Duration::from_secs(3)),
        eviction: Some("noeviction".into()),
        persistence: Some(Persistence::Off),
        clock: Some(ClockDifference::of(
            1_000_000,
            1_000_125,
            Duration::from_micros(250),
        )),
        quarantine: Quarantine::NoMarker,
        settings: None,
        fails_to_save: false,
        hidden: Vec::new(),
        unreadable: None,
    }
}

/// A node that could not be asked.
pub(super) fn silent(name: &str, reach: Reach) -> NodeHealth {
    NodeHealth {
        reach,
        round_trip: None,
        server: None,
        version: None,
        mode: None,
        role: Role::Unknown,
        run_id: None,
        uptime: None,
        eviction: None,
        persistence: None,
        clock: None,
        quarantine: Quarantine::Unknown,
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
    /// It does not say what it is.
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

    fn node(self, place: usize) -> NodeHealth {
        let name = format!("n{place}");
        let node = good(&name);
        match self {
            Self::Good => node,
            Self::Shared => NodeHealth {
                run_id: Some("shared".into()),
                ..node
            },
            Self::Replica => NodeHealth {
                role: Role::Replica { master: None },
                ..node
            },
            Self::Down => silent(&name, Reach::TimedOut),
            Self::Loading => NodeHealth {
                reach: Reach::Refuses(loading()),
                ..node
            },
            Self::Open => NodeHealth {
                quarantine: Quarantine::Open,
                ..node
            },
            Self::InQuarantine => NodeHealth {
                quarantine: Quarantine::Quarantined {
                    remaining: Duration::from_secs(5),
                },
                ..node
            },
            Self::Mute => silent(&name, Reach::Answers),
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
            let health = health(deployment);
            let count = |is: Is| deployment.iter().filter(|other| **other == is).count();
            let marked = count(Is::Open) + count(Is::InQuarantine) > 0;
            // Without a marker among others that have one, it may have forgotten.
            let unmarked = if marked {
                0
            } else {
                count(Is::Good) + count(Is::Shared).min(1)
            };
            let voters = unmarked + count(Is::Open) + count(Is::Mute);
            let margin = if 2 * voters > nodes {
                let failures = (0..=voters).rev().find(|n| 2 * (voters - n) > nodes);
                Margin::Survives {
                    failures: failures.unwrap(),
                }
            } else {
                let missing = (1..=nodes + 1).find(|n| 2 * (voters + n) > nodes);
                Margin::NoMajority {
                    missing: missing.unwrap(),
                }
            };
            assert_eq!(health.voters, voters, "{deployment:?}\n{health}");
            assert_eq!(health.margin(), margin, "{deployment:?}\n{health}");
            seen.insert(format!("{margin}"));

            let is_critical = matches!(margin, Margin::NoMajority { .. })
                || count(Is::Shared) > 1
                || count(Is::Replica) > 0;
            let is_warning = voters < nodes;
            let severity = match (is_critical, is_warning) {
                (true, _) => Severity::Critical,
                (false, true) => Severity::Warning,
                (false, false) => Severity::Ok,
            };
            assert_eq!(health.severity(), severity, "{deployment:?}\n{health}");
            let order = health.findings.iter().map(Finding::severity);
            assert!(order.is_sorted_by(|a, b| a >= b));
        });
    }
    assert_eq!(seen.len(), 6, "{seen:?}");
}

fn health(deployment: &[Is]) -> Health {
    let nodes = deployment.iter().enumerate();
    Health::of(nodes.map(|(place, is)| is.node(place)).collect(), None)
}

#[test]
fn no_nodes_are_no_majority() {
    let health = Health::of(Vec::new(), None);
    assert_eq!(health.margin(), Margin::NoMajority { missing: 1 });
}

/// The findings on one node among four that are well.
#[track_caller]
fn assert_found(node: NodeHealth, severity: Severity, expected: &[&str]) {
    let mut nodes: Vec<NodeHealth> = ["a", "b", "c", "d"].map(good).into();
    nodes.push(node);
    let health = Health::of(nodes, None);
    let lines: Vec<String> = health.findings.iter().map(ToString::to_string).collect();
    assert_eq!(lines, expected);
    assert_eq!(health.severity(), severity);
}

#[test]
fn a_finding_says_where_what_and_what_to_do() {
    use Severity::{Critical, Ok, Warning};
    let node = || good("h:1");
    assert_found(node(), Ok, &[]);
    let evicts = NodeHealth {
        eviction: Some("allkeys-lru".into()),
        ..node()
    };
    assert_found(
        evicts,
        Critical,
        &[
            "h:1: deletes keys, and so locks, when its memory is used up (allkeys-lru); \
           CONFIG SET maxmemory-policy noeviction, and the same in its configuration",
        ],
    );
    let master = Some("h:2".into());
    let replica = NodeHealth {
        role: Role::Replica { master },
        ..node()
    };
    assert_found(
        replica,
        Critical,
        &[
            "h:1: a replica of h:2; make it an independent master (REPLICAOF NO ONE), and not one that fails over",
        ],
    );
    let active = NodeHealth {
        role: Role::ActiveReplica,
        ..node()
    };
    assert_found(
        active,
        Critical,
        &["h:1: an active-replica, which shares its locks; \
           make it an independent master (REPLICAOF NO ONE), and not one that fails over"],
    );
    let shared = NodeHealth {
        run_id: good("a").run_id,
        ..node()
    };
    let id = good("a").run_id.unwrap();
    assert_found(
        shared,
        Critical,
        &[&format!(
            "a and h:1: one server (run_id {id}) that would vote more than once; \
             name each server once, in every client"
        )],
    );
    assert_found(
        silent("h:1", Reach::Failed(refused())),
        Warning,
        &["h:1: no connection: connection refused; \
           start the server, or mend its address or the way to it"],
    );
    assert_found(
        silent("h:1", Reach::TimedOut),
        Warning,
        &[
            "h:1: no answer within the node timeout; look whether its process hangs, its machine is up, \
           or the way to it is slower than node_timeout",
        ],
    );
}

#[test]
fn a_finding_that_is_no_outage_says_what_to_do_too() {
    use Severity::{Notice, Warning};
    let node = || good("h:1");
    let refuses = NodeHealth {
        reach: Reach::Refuses(loading()),
        hidden: vec!["INFO"],
        ..node()
    };
    assert_found(
        refuses,
        Warning,
        &[
            "h:1: the server answered LOADING wait (the server is loading its data: it votes once that is done); \
           no lock can be taken there until that is mended",
        ],
    );
    let hidden = NodeHealth {
        hidden: vec!["INFO", "TIME"],
        ..node()
    };
    assert_found(
        hidden,
        Notice,
        &["h:1: does not tell everything; to see it, allow the user INFO and TIME"],
    );
    let fails = NodeHealth {
        fails_to_save: true,
        ..node()
    };
    assert_found(
        fails,
        Warning,
        &[
            "h:1: its last write to disk failed, after which a server may refuse locks (MISCONF); \
           look at its log, and at the space on its disk",
        ],
    );
    let cluster = NodeHealth {
        mode: Some("cluster".into()),
        ..node()
    };
    assert_found(
        cluster,
        Warning,
        &["h:1: runs in mode cluster; give each node a server of its own, in mode standalone"],
    );
    let odd = NodeHealth {
        role: Role::Other("boss".into()),
        ..node()
    };
    assert_found(
        odd,
        Warning,
        &["h:1: has the role boss, which is unknown here; see that it is an independent master"],
    );
}

#[test]
fn clocks_differ_when_they_certainly_do() {
    let second = 1_000_000;
    let node = |node_us, elapsed_ms| NodeHealth {
        clock: Some(ClockDifference::of(
            node_us,
            100 * second,
            Duration::from_millis(elapsed_ms),
        )),
        ..good("h:1")
    };
    // Half a second of the round trip may be either way.
    assert_found(node(101 * second, 1000), Severity::Ok, &[]);
    assert_found(node(101 * second, 0), Severity::Ok, &[]);
    assert_found(
        node(101 * second + 1, 0),
        Severity::Warning,
        &["h:1: its clock is +1.0s \u{b1}0.0ns from this client's; \
           set up time synchronization (NTP) on both, and let it slew the clock, not step it"],
    );
    assert_found(
        node(90 * second, 2000),
        Severity::Warning,
        &["h:1: its clock is -9.0s \u{b1}1.0s from this client's; \
           set up time synchronization (NTP) on both, and let it slew the clock, not step it"],
    );
    // Nothing of it overflows.
    for (node_us, client_us) in [(0, u64::MAX), (u64::MAX, 0), (u64::MAX, u64::MAX), (0, 0)] {
        let difference = ClockDifference::of(node_us, client_us, Duration::MAX);
        assert!(difference.by() <= Duration::from_micros(u64::MAX));
        assert!(!difference.to_string().is_empty());
    }
}

#[test]
fn a_node_that_clients_with_fencing_leave_out_says_for_how_long() {
    let fenced = |quarantine, settings: Option<&str>| NodeHealth {
        quarantine,
        settings: settings.map(str::to_owned),
        ..good("h:1")
    };
    let lines = |node: NodeHealth| -> Vec<String> {
        let open = ["a", "b"].map(|name| NodeHealth {
            quarantine: Quarantine::Open,
            settings: Some("3:2:5".into()),
            ..good(name)
        });
        let health = Health::of(open.into_iter().chain([node]).collect(), None);
        health.findings.iter().map(ToString::to_string).collect()
    };
    let remaining = Duration::from_secs(90);
    let next = "so it may have forgotten locks, and its quarantine begins with the next lock; \
                have one taken, it votes again by itself when that is over";
    for (quarantine, line) in [
        (Quarantine::Open, None),
        (Quarantine::Unknown, None),
        (
            Quarantine::Quarantined { remaining },
            Some(
                "in quarantine for another 90s, because it may have forgotten locks; \
                 wait, it votes again by itself"
                    .to_owned(),
            ),
        ),
        (
            Quarantine::NoMarker,
            Some(format!("it has no marker, {next}")),
        ),
        (
            Quarantine::OtherProcess,
            Some(format!("its marker is of another process, {next}")),
        ),
        (
            Quarantine::Unreadable,
            Some(
                "what is under the key of its marker is none, so it does not vote; \
                 find out who wrote it, then delete it: after a quarantine the node votes again"
                    .to_owned(),
            ),
        ),
    ] {
        let expected: Vec<String> = line
            .into_iter()
            .map(|line| format!("h:1: {line}"))
            .collect();
        assert_eq!(lines(fenced(quarantine, None)), expected);
    }
    assert_eq!(
        lines(fenced(Quarantine::Open, Some("5:3:5"))),
        [
            "a has 3:2:5, b has 3:2:5, h:1 has 5:3:5: the settings of the clients differ \
          (nodes, quorum, max_ttl); make them the same in all clients"
        ]
    );
}
