//! The table of all findings, with what each of them says.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use self::Search::{All, Each};
use super::facts::{Facts, voters};
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
    fn of<'n>(mut self, nodes: impl IntoIterator<Item = &'n Facts>) -> Self {
        let names = nodes.into_iter().map(|node| Arc::clone(&node.node));
        self.nodes.extend(names);
        self
    }

    /// Of those among all nodes that are such, if there are any.
    fn where_any(self, nodes: &[Facts], is_such: impl Fn(&Facts) -> bool) -> Vec<Self> {
        let found = self.of(nodes.iter().filter(|node| is_such(node)));
        Vec::from_iter((!found.nodes.is_empty()).then_some(found))
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
    let have_to = if quorum == 1 {
        "node has to"
    } else {
        "nodes have to"
    };
    let message = format!("no lock can be taken: {quorum} {have_to} vote, and {voters} can");
    let found = found(message, "fix the nodes that the other findings name");
    Vec::from_iter((voters < quorum).then_some(found))
}

/// One finding for each server that is named more than once.
fn same_servers(nodes: &[Facts], _: Option<&Rules>) -> Vec<Found> {
    let mut servers: BTreeMap<&str, Vec<&Facts>> = BTreeMap::new();
    for node in nodes {
        if let Some(run_id) = node.info.run_id() {
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
    let known = nodes
        .iter()
        .filter_map(|node| Some((node, node.marker().settings?)));
    let known: Vec<(&Facts, String)> = known.collect();
    let different: BTreeSet<&String> = known.iter().map(|(_, settings)| settings).collect();
    if own.is_none() || different.len() < 2 {
        return Vec::new();
    }
    let each: Vec<String> = known
        .iter()
        .map(|(node, has)| format!("{} has {has}", node.node))
        .collect();
    let each = each.join(", ");
    let message = format!("the clients have different settings (nodes, quorum, max_ttl): {each}");
    let nodes = known.iter().map(|(node, _)| *node);
    vec![found(message, "give all clients the same").of(nodes)]
}

/// Only for the classic protocol: there, nothing keeps a node that has forgotten its keys from voting twice.
fn forgets(nodes: &[Facts], own: Option<&Rules>) -> Vec<Found> {
    let has_no_aof = |node: &Facts| matches!(node.info.persistence(), Some("off" | "rdb"));
    found(
        "without an append-only file a restart forgets locks, which others may then get as well",
        "set appendonly yes and appendfsync always, or let a server that went down stay down for the longest \
         ttl, or use the fenced protocol",
    )
    .where_any(nodes, |node| {
        own.is_none() && has_no_aof(node) && node.can_vote(None)
    })
}

fn marked(nodes: &[Facts], own: Option<&Rules>) -> Vec<Found> {
    let state = |node: &Facts| node.marker().quarantine;
    let is_marked =
        |node: &Facts| state(node).is_some_and(|it| it != "no_marker" && it != "unreadable");
    found(
        "clients that fence have been here",
        "to see what they meet, look with the fenced protocol (redlatch health --fenced)",
    )
    .where_any(nodes, |node| own.is_none() && is_marked(node))
}

fn replica(node: &Facts, _: Option<&Rules>) -> Option<Found> {
    let message = match node.info.role() {
        (Some(role), Some(master)) if role == "replica" => format!("a replica of {master}"),
        (Some(role), _) if role == "replica" => "a replica".into(),
        _ if node.is_replica() => "an active-replica, which shares its locks".into(),
        _ => return None,
    };
    let advice = "make it an independent master (REPLICAOF NO ONE), without automatic failover";
    Some(found(message, advice))
}

/// A node with an unknown role counts as one that can vote.
fn unknown_role(node: &Facts, _: Option<&Rules>) -> Option<Found> {
    let role = node.info.role().0.filter(|role| role != "master")?;
    let message = format!("has the role {role}, which redlatch does not know");
    let advice = "check that it is an independent master";
    (!node.is_replica()).then(|| found(message, advice))
}

fn evicts(node: &Facts, _: Option<&Rules>) -> Option<Found> {
    let policy = node.info.eviction().filter(|it| it != "noeviction")?;
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
    let mode = node.info.mode().filter(|mode| mode != "standalone")?;
    let advice = "give each node a server of its own, in mode standalone";
    Some(found(format!("runs in mode {mode}"), advice))
}

fn fails_to_save(node: &Facts, _: Option<&Rules>) -> Option<Found> {
    let message = "its last write to disk failed, after which a server may refuse locks (MISCONF)";
    let advice = "look at its log, and at the space on its disk";
    node.info.fails_to_save().then(|| found(message, advice))
}

/// Clocks that certainly differ by more than a second are not synchronised.
fn clock_differs(node: &Facts, _: Option<&Rules>) -> Option<Found> {
    let clock = node.clock()?;
    let message = format!("its clock is {clock} from this client's");
    let advice =
        "set up time synchronization (NTP) on both, and let it slew the clock, not step it";
    (clock.at_least() > Duration::from_secs(1)).then(|| found(message, advice))
}

/// The node abstains for clients of the fenced protocol.
fn quarantined(node: &Facts, own: Option<&Rules>) -> Option<Found> {
    const NEXT: &str = "it may have forgotten locks, and its quarantine begins with the next lock";
    own.filter(|_| node.answers())?;
    let marker = node.marker();
    let (message, advice) = match (marker.quarantine?, marker.remaining_ms) {
        ("quarantined", Some(ms)) => {
            let remaining = Duration::from_millis(ms);
            let why = "because it may have forgotten locks";
            (
                format!("in quarantine for another {remaining:.0?}, {why}"),
                "wait; the node votes again by itself",
            )
        }
        (state @ ("no_marker" | "other_process"), _) => {
            let marker = if state == "no_marker" {
                "has no marker"
            } else {
                "its marker is of another process"
            };
            (
                format!("{marker}: {NEXT}"),
                "take a lock; the node votes again by itself when the quarantine is over",
            )
        }
        ("unreadable", _) => (
            "the key of its marker holds something else, so it does not vote".into(),
            "find out who wrote the key, then delete it; after a quarantine the node votes again",
        ),
        _ => return None,
    };
    Some(found(message, advice))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Programs branch on the codes, and operators look them up.
    #[test]
    fn every_code_is_listed_with_its_severity() {
        let source = include_str!("finding.rs");
        let (_, listed) = source.split_once("The kind of finding").unwrap();
        let page = include_str!("../../docs/operations.md");
        for (code, severity, _) in FINDINGS {
            let heading = match severity {
                Critical => "Critical:",
                Warning => "Warnings:",
                Notice => "Notices:",
                Severity::Ok => panic!("{code}"),
            };
            let list = listed.split_once(heading).unwrap().1;
            let list = list.split_once('.').unwrap().0;
            assert!(list.contains(&format!("`{code}`")), "{code}");
            let row = format!("| `{code}` | {severity} | ");
            assert!(page.contains(&row), "docs/operations.md has no row {row}");
        }
    }
}
