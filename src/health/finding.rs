//! All findings: the condition, the severity, the message and the advice of each.

use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use self::Severity::{Critical, Notice, Warning};
use super::facts::{ClockOffset, Facts, Quarantine};
use crate::error::NodeError;
use crate::fencing::Rules;

/// Clocks that certainly differ by more than this are not synchronised.
const LARGEST_CLOCK_OFFSET: Duration = Duration::from_secs(1);

/// A problem, or something that could not be examined. Its `Display` is one line: the nodes, the message and the
/// advice.
///
/// ```
/// # use redlatch::LockManager;
/// # use redlatch::fake::FakeNode;
/// # let nodes = FakeNode::cluster(3);
/// # nodes[1].refuse();
/// # let manager = LockManager::builder().fakes(&nodes).build()?;
/// for finding in &manager.health()?.findings {
///     if finding.code == "unreachable" {
///         println!("restart {}", finding.nodes.join(" and "));
///     }
///     println!("{}: {finding}", finding.severity);
/// }
/// # Ok::<(), redlatch::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Finding {
    /// The kind of finding, for programs. A code keeps its meaning; later versions may have more of them.
    ///
    /// - Critical: `no_majority`, `same_server`, `replica`, `evicts`.
    /// - Warnings: `unreachable`, `refuses`, `untried`, `not_released`, `not_standalone`, `unknown_role`, `fails_to_save`,
    ///   `forgets`, `clock_differs`, `quarantined`, `settings_differ`, `unreadable`.
    /// - Notices: `marked`, `hidden`.
    ///
    /// `docs/operations.md` says what each of them means.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// The nodes that it is about, as `host:port` or as the path of a socket; empty if it is about all nodes together.
    pub nodes: Vec<Arc<str>>,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub advice: String,
}

/// How bad a finding is. The order is that of the variants, so the worst of several is their `max`.
///
/// ```
/// use redlatch::Severity;
///
/// assert!(Severity::Critical > Severity::Warning);
/// assert_eq!(Severity::Critical.to_string(), "critical");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Severity {
    /// Nothing is wrong.
    Ok,
    /// Worth knowing, but no reason to act now: something could not be examined.
    Notice,
    /// Locks work and are exclusive, but an outage is closer than it should be.
    Warning,
    /// No locks can be taken, or two holders of one lock are possible.
    Critical,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.nodes.is_empty() {
            write!(f, "{}: ", self.nodes.join(", "))?;
        }
        write!(f, "{}; {}", self.message, self.advice)
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Critical => "critical",
        })
    }
}

/// All findings about the nodes, the worst first, for a client with these rules, or without rules for one of the
/// classic protocol.
pub(super) fn find(
    nodes: &[Facts],
    own: Option<&Rules>,
    (voters, quorum): (usize, usize),
) -> Vec<Finding> {
    let of_all = no_majority(voters, quorum)
        .into_iter()
        .chain(same_servers(nodes))
        .chain(settings_differ(nodes, own))
        .chain(forgets(nodes, own))
        .chain(marked(nodes, own));
    let of_each = nodes.iter().flat_map(|node| {
        let found = [
            replica(node),
            unknown_role(node),
            evicts(node),
            unreachable(node),
            refuses(node, own),
            untried(node),
            not_released(node),
            not_standalone(node),
            fails_to_save(node),
            clock_differs(node),
            quarantined(node, own),
            unreadable(node),
            hidden(node),
        ];
        found.into_iter().flatten().map(|finding| Finding {
            nodes: vec![Arc::clone(&node.node)],
            ..finding
        })
    });
    let mut findings: Vec<Finding> = of_all.chain(of_each).collect();
    findings.sort_by_key(|finding| Reverse(finding.severity));
    findings
}

fn no_majority(voters: usize, quorum: usize) -> Option<Finding> {
    if voters >= quorum {
        return None;
    }
    let message = format!("no lock can be taken: {quorum} nodes have to vote, and {voters} can");
    let advice = "fix the nodes that the other findings name";
    Some(finding("no_majority", Critical, message, advice))
}

/// One finding for each server that is named more than once.
fn same_servers(nodes: &[Facts]) -> impl Iterator<Item = Finding> {
    nodes.iter().enumerate().filter_map(|(i, node)| {
        let run_id = node.run_id.as_deref()?;
        let is_same = |other: &Facts| node.is_same_server(other);
        let same = names(nodes, is_same);
        if same.len() == 1 || nodes.iter().take(i).any(is_same) {
            return None;
        }
        let message = format!("one server (run_id {run_id}), which would vote more than once");
        let advice = "name each server once, in every client";
        Some(Finding {
            nodes: same,
            ..finding("same_server", Critical, message, advice)
        })
    })
}

fn settings_differ(nodes: &[Facts], own: Option<&Rules>) -> Option<Finding> {
    own?;
    let settings = |node: &Facts| Some((Arc::clone(&node.node), node.settings.clone()?));
    let (nodes, settings): (Vec<_>, Vec<_>) = nodes.iter().filter_map(settings).unzip();
    let first = settings.first()?;
    if settings.iter().all(|other| other == first) {
        return None;
    }
    let each = nodes.iter().zip(&settings);
    let each: Vec<String> = each
        .map(|(node, has)| format!("{node} has {has}"))
        .collect();
    let each = each.join(", ");
    let message = format!("the clients have different settings (nodes, quorum, max_ttl): {each}");
    let advice = "give all clients the same";
    Some(Finding {
        nodes,
        ..finding("settings_differ", Warning, message, advice)
    })
}

/// Only for the classic protocol: there, nothing keeps a node that has forgotten its keys from voting twice.
fn forgets(nodes: &[Facts], own: Option<&Rules>) -> Option<Finding> {
    let has_no_aof = |node: &Facts| matches!(node.persistence, Some("off" | "rdb"));
    let nodes = names(nodes, |node| has_no_aof(node) && node.can_vote(None));
    if own.is_some() || nodes.is_empty() {
        return None;
    }
    let message =
        "without an append-only file a restart forgets locks, which others may then get as well";
    let advice = "set appendonly yes and appendfsync always, or let a server that went down stay down for the longest \
                  ttl, or use the fenced protocol";
    Some(Finding {
        nodes,
        ..finding("forgets", Warning, message, advice)
    })
}

fn marked(nodes: &[Facts], own: Option<&Rules>) -> Option<Finding> {
    let is_marked = |state| !matches!(state, Quarantine::NoMarker | Quarantine::Unreadable);
    let nodes = names(nodes, |node| node.quarantine.is_some_and(is_marked));
    if own.is_some() || nodes.is_empty() {
        return None;
    }
    let message = "clients that fence have been here";
    let advice = "to see what they meet, look with the fenced protocol (redlatch health --fenced)";
    Some(Finding {
        nodes,
        ..finding("marked", Notice, message, advice)
    })
}

fn replica(node: &Facts) -> Option<Finding> {
    if !node.is_replica() {
        return None;
    }
    let message = match (node.role.as_deref(), &node.master) {
        (Some("replica"), Some(master)) => format!("a replica of {master}"),
        (Some("replica"), None) => "a replica".into(),
        _ => "an active-replica, which shares its locks".into(),
    };
    let advice = "make it an independent master (REPLICAOF NO ONE), without automatic failover";
    Some(finding("replica", Critical, message, advice))
}

fn evicts(node: &Facts) -> Option<Finding> {
    let policy = node.eviction.as_deref().filter(|p| *p != "noeviction")?;
    let message = format!("deletes keys, and so locks, when its memory is full ({policy})");
    let advice =
        "run CONFIG SET maxmemory-policy noeviction, and set the same in its configuration";
    Some(finding("evicts", Critical, message, advice))
}

fn unreachable(node: &Facts) -> Option<Finding> {
    let error = node.failure();
    let advice = match error {
        Some(NodeError::TimedOut) => {
            "check whether its process hangs, its machine is up, and the network is faster than node_timeout"
        }
        Some(NodeError::Connect { .. }) => "start the server, or fix its address or the network",
        Some(NodeError::Login { .. }) => {
            "fix the user, the password or the database that the client gives"
        }
        Some(NodeError::NoCredentials { .. }) => {
            "find out why the program's credentials callback gives none"
        }
        Some(NodeError::InCluster) => "give the node a server of its own",
        Some(NodeError::PoolExhausted) => "nothing is known about the node; look again",
        Some(NodeError::Protocol { .. }) => "check that it is a Redis server",
        Some(_) | None => "look at the server's log",
    };
    Some(finding("unreachable", Warning, error?.to_string(), advice))
}

/// The node answers with an error that a lock would get as well, or gave no vote to the lock that was tried, or its facts rule
/// out a vote for a client with these rules.
fn refuses(node: &Facts, own: Option<&Rules>) -> Option<Finding> {
    let objection = own.and_then(|rules| node.objection(rules));
    let refusal = node.refusal.clone().filter(|_| node.failure().is_none());
    let error = refusal.or(objection)?;
    let (message, advice) = if error.is_silence() {
        // It has answered all questions, which change nothing.
        (
            "answers questions, and no request for a lock within the node timeout".into(),
            "check whether its writes are paused (CLIENT PAUSE), and whether its disk is fast enough for appendfsync",
        )
    } else {
        let advice = "no lock can be taken there until that is fixed";
        (error.to_string(), advice)
    };
    Some(finding("refuses", Warning, message, advice))
}

/// Another user may get locks.
fn untried(node: &Facts) -> Option<Finding> {
    let error = node.untried.as_ref()?;
    let message = format!("could not try whether it gives locks: {error}");
    let advice = "this user can take none there; look as the user of the programs that lock, or allow this one to try";
    Some(finding("untried", Warning, message, advice))
}

fn not_released(node: &Facts) -> Option<Finding> {
    let error = node.not_released.as_ref()?;
    let message = format!("gave a lock that could not be given back: {error}");
    let advice = "until that is fixed, a lock stays there for its ttl, however soon it is released";
    Some(finding("not_released", Warning, message, advice))
}

fn not_standalone(node: &Facts) -> Option<Finding> {
    let mode = node.mode.as_deref().filter(|mode| *mode != "standalone")?;
    let message = format!("runs in mode {mode}");
    let advice = "give each node a server of its own, in mode standalone";
    Some(finding("not_standalone", Warning, message, advice))
}

/// A node with an unknown role counts as one that can vote.
fn unknown_role(node: &Facts) -> Option<Finding> {
    let role = node.role.as_deref().filter(|role| *role != "master")?;
    if node.is_replica() {
        return None;
    }
    let message = format!("has the role {role}, which redlatch does not know");
    let advice = "check that it is an independent master";
    Some(finding("unknown_role", Warning, message, advice))
}

fn fails_to_save(node: &Facts) -> Option<Finding> {
    if !node.fails_to_save {
        return None;
    }
    let message = "its last write to disk failed, after which a server may refuse locks (MISCONF)";
    let advice = "look at its log, and at the space on its disk";
    Some(finding("fails_to_save", Warning, message, advice))
}

fn clock_differs(node: &Facts) -> Option<Finding> {
    let is_off = |clock: &ClockOffset| clock.at_least() > LARGEST_CLOCK_OFFSET;
    let clock = node.clock.filter(is_off)?;
    let message = format!("its clock is {clock} from this client's");
    let advice =
        "set up time synchronization (NTP) on both, and let it slew the clock, not step it";
    Some(finding("clock_differs", Warning, message, advice))
}

/// The node abstains for clients of the fenced protocol.
fn quarantined(node: &Facts, own: Option<&Rules>) -> Option<Finding> {
    const NEXT: &str = "it may have forgotten locks, and its quarantine begins with the next lock";
    const TAKE_ONE: &str =
        "take a lock; the node votes again by itself when the quarantine is over";
    own.filter(|_| node.answers())?;
    let (message, advice) = match node.quarantine? {
        Quarantine::Open => return None,
        Quarantine::Quarantined { remaining } => (
            format!(
                "in quarantine for another {remaining:.0?}, because it may have forgotten locks"
            ),
            "wait; the node votes again by itself",
        ),
        Quarantine::NoMarker => (format!("has no marker: {NEXT}"), TAKE_ONE),
        Quarantine::OtherProcess => (
            format!("its marker is of another process: {NEXT}"),
            TAKE_ONE,
        ),
        Quarantine::Unreadable => (
            "the key of its marker holds something else, so it does not vote".into(),
            "find out who wrote the key, then delete it; after a quarantine the node votes again",
        ),
    };
    Some(finding("quarantined", Warning, message, advice))
}

fn unreadable(node: &Facts) -> Option<Finding> {
    let error = node.unreadable.as_ref().filter(|_| node.answers())?;
    let advice = "check that it is a Redis server, and that nothing in between changes its answers";
    Some(finding("unreadable", Warning, error.to_string(), advice))
}

/// An ACL hides a fact, or a command is renamed. A node without usable answers has its own finding instead.
fn hidden(node: &Facts) -> Option<Finding> {
    if !node.answers() || node.hidden.is_empty() {
        return None;
    }
    let advice = format!("to see it, allow the user {}", node.hidden.join(" and "));
    let message = "does not tell everything";
    Some(finding("hidden", Notice, message, advice))
}

/// The names of the nodes for which `is_it` holds.
fn names(nodes: &[Facts], is_it: impl Fn(&Facts) -> bool) -> Vec<Arc<str>> {
    let nodes = nodes.iter().filter(|node| is_it(node));
    nodes.map(|node| Arc::clone(&node.node)).collect()
}

/// A finding about all nodes together.
fn finding(
    code: &'static str,
    severity: Severity,
    message: impl Into<String>,
    advice: impl Into<String>,
) -> Finding {
    Finding {
        code,
        severity,
        nodes: Vec::new(),
        message: message.into(),
        advice: advice.into(),
    }
}
