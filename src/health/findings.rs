//! The table of all findings, with what each of them says.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use self::Search::{All, Each};
use super::facts::{ClockOffset, Facts, voters};
use super::finding::Finding;
use super::finding::Severity::{self, Critical, Notice, Warning};
use crate::error::NodeError;
use crate::fencing::Rules;
use crate::quorum::quorum;

/// How a finding is looked for, for a client with these rules, or without rules for one of the classic protocol.
pub(super) enum Search {
    /// In all nodes together.
    All(fn(&[Facts], Option<&Rules>) -> Vec<Found>),
    /// In each node.
    Each(fn(&Facts, Option<&Rules>) -> Option<Found>),
}

/// What a finding says, and of which nodes.
pub(super) struct Found {
    nodes: Vec<Arc<str>>,
    message: String,
    advice: String,
}

/// All findings: the code, the severity, and the condition with its texts.
pub(super) const FINDINGS: [(&str, Severity, Search); 18] = [
    ("no_majority", Critical, All(no_majority)),
    ("same_server", Critical, All(same_servers)),
    ("settings_differ", Warning, All(settings_differ)),
    ("forgets", Warning, All(forgets)),
    ("marked", Notice, All(marked)),
    ("replica", Critical, Each(replica)),
    ("unknown_role", Warning, Each(unknown_role)),
    ("evicts", Critical, Each(evicts)),
    ("unreachable", Warning, Each(unreachable)),
    ("refuses", Warning, Each(refuses)),
    ("untried", Warning, Each(untried)),
    ("not_released", Warning, Each(not_released)),
    ("not_standalone", Warning, Each(not_standalone)),
    ("fails_to_save", Warning, Each(fails_to_save)),
    ("clock_differs", Warning, Each(clock_differs)),
    ("quarantined", Warning, Each(quarantined)),
    ("unreadable", Warning, Each(unreadable)),
    ("hidden", Notice, Each(hidden)),
];

/// All findings, the worst first; of the same severity, in the order of the table.
pub(super) fn find(nodes: &[Facts], own: Option<&Rules>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (code, severity, search) in FINDINGS {
        let found = match search {
            All(search) => search(nodes, own),
            Each(search) => {
                let found = |node| Some(search(node, own)?.of([node]));
                nodes.iter().filter_map(found).collect()
            }
        };
        findings.extend(found.into_iter().map(|found| Finding {
            code,
            severity,
            nodes: found.nodes,
            message: found.message,
            advice: found.advice,
        }));
    }
    findings.sort_by_key(|finding| Reverse(finding.severity));
    findings
}

impl Found {
    fn of<'n>(self, nodes: impl IntoIterator<Item = &'n Facts>) -> Self {
        let nodes = nodes.into_iter().map(|node| Arc::clone(&node.node));
        Self {
            nodes: nodes.collect(),
            ..self
        }
    }
}

fn found(message: impl Into<String>, advice: impl Into<String>) -> Found {
    Found {
        nodes: Vec::new(),
        message: message.into(),
        advice: advice.into(),
    }
}

fn no_majority(nodes: &[Facts], own: Option<&Rules>) -> Vec<Found> {
    let (voters, quorum) = (voters(nodes, own), quorum(nodes.len()));
    if voters >= quorum {
        return Vec::new();
    }
    let message = format!("no lock can be taken: {quorum} nodes have to vote, and {voters} can");
    vec![found(message, "fix the nodes that the other findings name")]
}

/// One finding for each server that is named more than once.
fn same_servers(nodes: &[Facts], _: Option<&Rules>) -> Vec<Found> {
    let mut servers: BTreeMap<&str, Vec<&Facts>> = BTreeMap::new();
    for node in nodes {
        if let Some(run_id) = node.text("run_id") {
            servers.entry(run_id).or_default().push(node);
        }
    }
    let shared = servers.into_iter().filter(|(_, nodes)| nodes.len() > 1);
    let found = shared.map(|(run_id, nodes)| {
        let message = format!("one server (run_id {run_id}), which would vote more than once");
        found(message, "name each server once, in every client").of(nodes)
    });
    found.collect()
}

fn settings_differ(nodes: &[Facts], own: Option<&Rules>) -> Vec<Found> {
    let mut known: Vec<(&Facts, &str)> = Vec::new();
    for node in nodes {
        known.extend(node.text("settings").map(|settings| (node, settings)));
    }
    let first = known.first().map(|(_, settings)| *settings);
    if own.is_none() || known.iter().all(|(_, settings)| Some(*settings) == first) {
        return Vec::new();
    }
    let each = known
        .iter()
        .map(|(node, has)| format!("{} has {has}", node.node));
    let each = each.collect::<Vec<_>>().join(", ");
    let message = format!("the clients have different settings (nodes, quorum, max_ttl): {each}");
    let nodes = known.iter().map(|(node, _)| *node);
    vec![found(message, "give all clients the same").of(nodes)]
}

/// Only for the classic protocol: there, nothing keeps a node that has forgotten its keys from voting twice.
fn forgets(nodes: &[Facts], own: Option<&Rules>) -> Vec<Found> {
    let has_no_aof = |node: &Facts| matches!(node.text("persistence"), Some("off" | "rdb"));
    let message =
        "without an append-only file a restart forgets locks, which others may then get as well";
    let advice = "set appendonly yes and appendfsync always, or let a server that went down stay down for the longest \
                  ttl, or use the fenced protocol";
    of_classic(
        nodes,
        own,
        |node| has_no_aof(node) && node.can_vote(None),
        found(message, advice),
    )
}

fn marked(nodes: &[Facts], own: Option<&Rules>) -> Vec<Found> {
    let is_marked = |state: &str| !matches!(state, "no_marker" | "unreadable");
    let is_marked = |node: &Facts| node.text("quarantine").is_some_and(is_marked);
    let advice = "to see what they meet, look with the fenced protocol (redlatch health --fenced)";
    of_classic(
        nodes,
        own,
        is_marked,
        found("clients that fence have been here", advice),
    )
}

/// One finding for all nodes for which `is_it` holds, for a client of the classic protocol.
fn of_classic(
    nodes: &[Facts],
    own: Option<&Rules>,
    is_it: impl Fn(&Facts) -> bool,
    found: Found,
) -> Vec<Found> {
    let nodes = nodes.iter().filter(|node| own.is_none() && is_it(node));
    let found = found.of(nodes);
    if found.nodes.is_empty() {
        Vec::new()
    } else {
        vec![found]
    }
}

fn replica(node: &Facts, _: Option<&Rules>) -> Option<Found> {
    let message = match (node.text("role")?, node.text("master")) {
        ("replica", Some(master)) => format!("a replica of {master}"),
        ("replica", None) => "a replica".into(),
        ("active_replica", _) => "an active-replica, which shares its locks".into(),
        _ => return None,
    };
    let advice = "make it an independent master (REPLICAOF NO ONE), without automatic failover";
    Some(found(message, advice))
}

/// A node with an unknown role counts as one that can vote.
fn unknown_role(node: &Facts, _: Option<&Rules>) -> Option<Found> {
    let role = node.text("role").filter(|role| *role != "master")?;
    let message = format!("has the role {role}, which redlatch does not know");
    let advice = "check that it is an independent master";
    (!node.is_replica()).then(|| found(message, advice))
}

fn evicts(node: &Facts, _: Option<&Rules>) -> Option<Found> {
    let policy = node
        .text("eviction")
        .filter(|policy| *policy != "noeviction")?;
    let message = format!("deletes keys, and so locks, when its memory is full ({policy})");
    let advice =
        "run CONFIG SET maxmemory-policy noeviction, and set the same in its configuration";
    Some(found(message, advice))
}

fn unreachable(node: &Facts, _: Option<&Rules>) -> Option<Found> {
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
    Some(found(error?.to_string(), advice))
}

/// The node answers with an error that a lock would get as well, or gave no vote to the lock that was tried, or its facts rule
/// out a vote for a client with these rules.
fn refuses(node: &Facts, own: Option<&Rules>) -> Option<Found> {
    let objection = own.and_then(|rules| node.objection(rules));
    let refusal = node.refusal.clone().filter(|_| node.failure().is_none());
    let error = refusal.or(objection)?;
    if error.is_silence() {
        // It has answered all questions, which change nothing.
        return Some(found(
            "answers questions, and no request for a lock within the node timeout",
            "check whether its writes are paused (CLIENT PAUSE), and whether its disk is fast enough for appendfsync",
        ));
    }
    let advice = "no lock can be taken there until that is fixed";
    Some(found(error.to_string(), advice))
}

/// Another user may get locks.
fn untried(node: &Facts, _: Option<&Rules>) -> Option<Found> {
    let error = node.untried.as_ref()?;
    let message = format!("could not try whether it gives locks: {error}");
    let advice = "this user can take none there; look as the user of the programs that lock, or allow this one to try";
    Some(found(message, advice))
}

fn not_released(node: &Facts, _: Option<&Rules>) -> Option<Found> {
    let error = node.not_released.as_ref()?;
    let message = format!("gave a lock that could not be given back: {error}");
    let advice = "until that is fixed, a lock stays there for its ttl, however soon it is released";
    Some(found(message, advice))
}

fn not_standalone(node: &Facts, _: Option<&Rules>) -> Option<Found> {
    let mode = node.text("mode").filter(|mode| *mode != "standalone")?;
    let advice = "give each node a server of its own, in mode standalone";
    Some(found(format!("runs in mode {mode}"), advice))
}

fn fails_to_save(node: &Facts, _: Option<&Rules>) -> Option<Found> {
    let message = "its last write to disk failed, after which a server may refuse locks (MISCONF)";
    let advice = "look at its log, and at the space on its disk";
    node.fails_to_save.then(|| found(message, advice))
}

/// Clocks that certainly differ by more than a second are not synchronised.
fn clock_differs(node: &Facts, _: Option<&Rules>) -> Option<Found> {
    let is_off = |clock: &ClockOffset| clock.at_least() > Duration::from_secs(1);
    let clock = node.clock().filter(is_off)?;
    let advice =
        "set up time synchronization (NTP) on both, and let it slew the clock, not step it";
    Some(found(
        format!("its clock is {clock} from this client's"),
        advice,
    ))
}

/// The node abstains for clients of the fenced protocol.
fn quarantined(node: &Facts, own: Option<&Rules>) -> Option<Found> {
    const NEXT: &str = "it may have forgotten locks, and its quarantine begins with the next lock";
    const TAKE_ONE: &str =
        "take a lock; the node votes again by itself when the quarantine is over";
    own.filter(|_| node.answers())?;
    if let Some(remaining) = node.remaining_quarantine() {
        let message = format!(
            "in quarantine for another {remaining:.0?}, because it may have forgotten locks"
        );
        return Some(found(message, "wait; the node votes again by itself"));
    }
    Some(match node.text("quarantine")? {
        "no_marker" => found(format!("has no marker: {NEXT}"), TAKE_ONE),
        "other_process" => found(
            format!("its marker is of another process: {NEXT}"),
            TAKE_ONE,
        ),
        "unreadable" => found(
            "the key of its marker holds something else, so it does not vote",
            "find out who wrote the key, then delete it; after a quarantine the node votes again",
        ),
        _ => return None,
    })
}

fn unreadable(node: &Facts, _: Option<&Rules>) -> Option<Found> {
    let error = node.unreadable.as_ref().filter(|_| node.answers())?;
    let advice = "check that it is a Redis server, and that nothing in between changes its answers";
    Some(found(error.to_string(), advice))
}

/// An ACL hides a fact, or a command is renamed. A node without usable answers has its own finding instead.
fn hidden(node: &Facts, _: Option<&Rules>) -> Option<Found> {
    let is_hidden = node.answers() && !node.hidden.is_empty();
    let advice = format!("to see it, allow the user {}", node.hidden.join(" and "));
    is_hidden.then(|| found("does not tell everything", advice))
}
