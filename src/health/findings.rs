//! The table of all findings, with what each of them says.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::answers::Trouble;
use super::facts::{Facts, voters};
use super::finding::{Finding, Severity};
use super::stranger::Stranger;
use super::survey::Survey;
use crate::error::NodeError;
use crate::fencing::Rules;
use crate::quorum::{is_reached, quorum};
use crate::shown::span;

/// Makes `find` of the table: for each finding its code and severity, then what is found and of which nodes, then its message and its
/// advice. It is for a client with the rules `own`, or without rules for one of the classic protocol.
macro_rules! findings {
    ($nodes:ident, $own:ident, $survey:ident: $($code:ident $severity:ident, $it:pat in $found:expr => $message:literal, $advice:expr;)*) => {
        /// All findings, the worst first; of the same severity, in the order of the table.
        pub(super) fn find($nodes: &[Facts], $own: Option<&Rules>, $survey: &Survey) -> Vec<Finding> {
            let mut findings = Vec::new();
            $(findings.extend($found.into_iter().map(|(nodes, $it)| Finding {
                code: stringify!($code),
                severity: Severity::$severity,
                nodes: nodes.into_iter().map(|node: &Facts| Arc::clone(&node.node)).collect(),
                message: format!($message),
                advice: $advice.into(),
            }));)*
            findings.sort_by_key(|finding| Reverse(finding.severity));
            findings
        }

        #[cfg(test)]
        const CODES: &[(&str, Severity)] = &[$((stringify!($code), Severity::$severity)),*];
    };
}

findings! { nodes, own, survey:
    no_majority Critical, it in too_few(nodes, own) =>
        "no lock can be taken: {it}", "fix the nodes that the other findings name";
    same_server Critical, run_id in same_servers(nodes) =>
        "one server (run_id {run_id}), which would vote more than once", "name each server once, in every client";
    settings_differ Warning, it in different_settings(nodes, own) =>
        "the clients have different settings (nodes, quorum, max_ttl): {it}", "give all clients the same";
    // With fencing, a node that has forgotten its keys does not vote twice.
    forgets Warning, () in those(nodes, |node| own.is_none() && node.can_vote(None) && node.is_one_of("persistence", &["off", "rdb"])) =>
        "without an append-only file a restart forgets locks, which others may then get as well",
        "set appendonly yes and appendfsync always, or let a server that went down stay down for the longest \
         ttl, or use the fenced protocol";
    marked Notice, () in those(nodes, |node| own.is_none() && node.is_one_of("quarantine", &["open", "quarantined", "other_process"])) =>
        "clients that fence have been here",
        "to see what they meet, look with the fenced protocol (redlatch health --fenced)";
    thin Warning, it in thin(nodes, survey) =>
        "{it}", "wait until they are released before you replace or stop a server";
    uncounted Notice, it in survey.why_not.clone().map(|it| (Vec::new(), it)) =>
        "it is not known for how many failures all held locks are safe: {it}",
        "'redlatch list' shows the nodes of each lock, to a user who may SCAN";
    replica Critical, it in each(nodes, replica) =>
        "{it}", "make it an independent master (REPLICAOF NO ONE), without automatic failover";
    // It counts as a node that can vote.
    unknown_role Warning, role in each(nodes, |node| other(node, "role", "master").filter(|_| !node.is_replica())) =>
        "has the role {role}, which redlatch does not know", "check that it is an independent master";
    evicts Critical, policy in each(nodes, |node| other(node, "eviction", "noeviction")) =>
        "deletes keys, and so locks, when its memory is full ({policy})",
        "run CONFIG SET maxmemory-policy noeviction, and set the same in its configuration";
    unreachable Warning, error in each(nodes, |node| node.trouble(Trouble::Silent)) =>
        "{error}", advice_on_silence(Some(error));
    slow Critical, it in each(nodes, |node| slow(node, "round_trip_us").filter(|_| node.is_too_slow() && are_too_slow(nodes))) =>
        "an answer takes {it}, so no majority answers in time", RAISE_NODE_TIMEOUT;
    slow Warning, it in each(nodes, |node| slow(node, "round_trip_us").filter(|_| !(node.is_too_slow() && are_too_slow(nodes)))) =>
        "an answer takes {it}", RAISE_NODE_TIMEOUT;
    slow Warning, it in each(nodes, |node| slow(node, "connection_us")) =>
        "a connection takes {it}",
        "raise connect_timeout (--connect-timeout) in every client to several times that";
    refuses Warning, error in each(nodes, |node| refusal(node, own).filter(|error| !error.is_silence())) =>
        "{error}", "no lock can be taken there until that is fixed";
    // It has answered all questions, which change nothing.
    refuses Warning, error in each(nodes, |node| refusal(node, own).filter(NodeError::is_silence)) =>
        "answers questions, but not a request for a lock: {error}",
        "check whether its writes are paused (CLIENT PAUSE), and whether its disk is fast enough for appendfsync";
    forbidden Critical, error in each(nodes, |node| node.trouble(Trouble::Forbidden)) =>
        "the user may not take a lock: {error}", "allow the command, or look as the user of the programs that lock";
    untried Warning, error in each(nodes, |node| node.trouble(Trouble::Untried)) =>
        "could not try whether it gives locks: {error}",
        "allow the key pattern of the key_prefix, or look as the user of the programs that lock";
    not_extended Warning, error in each(nodes, |node| node.trouble(Trouble::NotExtended)) =>
        "does not extend a lock: {error}",
        "until that is fixed, each lock that is kept alive for longer than its ttl loses this node; an extension needs EVAL, \
         GET, PTTL and PEXPIRE";
    not_released Warning, error in each(nodes, |node| node.trouble(Trouble::NotReleased)) =>
        "does not release a lock: {error}",
        "until that is fixed, a lock stays there for its ttl, however soon it is released";
    open_to_all Warning, () in those(nodes, |node| node.stranger == Some(Stranger::Writes)) =>
        "a connection without a login may write, and so delete locks",
        "close the user default (ACL SETUSER default reset), and keep a user for yourself";
    not_standalone Warning, mode in each(nodes, |node| other(node, "mode", "standalone")) =>
        "runs in mode {mode}", "give each node a server of its own, in mode standalone";
    fails_to_save Warning, () in each(nodes, |node| node.fails_to_save.then_some(())) =>
        "its last write to disk failed, after which a server may refuse locks (MISCONF)",
        "look at its log, and at the space on its disk";
    // Clocks that certainly differ by more than a second are not synchronised.
    clock_differs Warning, it in each(nodes, |node| node.clock().filter(|_| node.clocks_differ_by() > Some(SECOND))) =>
        "its clock is {it} from this client's",
        "set up time synchronization (NTP) on both, and let it slew the clock, not step it";
    // The node abstains for clients of the fenced protocol.
    quarantined Warning, left in each(nodes, |node| marker(node, own).and(node.span("quarantine_remaining_ms"))) =>
        "in quarantine for another {left:.0?}, because it may have forgotten locks", "wait; the node votes again by itself";
    quarantined Warning, it in each(nodes, |node| unmarked(node, own)) =>
        "{it}: it may have forgotten locks, and its quarantine begins with the next lock or renewal",
        "take a lock; the node votes again by itself when the quarantine is over";
    quarantined Warning, _ in each(nodes, |node| marker(node, own).filter(|state| *state == "unreadable")) =>
        "the key of its marker holds something else, so it does not vote",
        "find out who wrote the key, then delete it; after a quarantine the node votes again";
    unreadable Warning, error in each(nodes, |node| node.trouble(Trouble::Unreadable).filter(|_| node.answers())) =>
        "{error}", "check that it is a Redis server, and that nothing in between changes its answers";
    open_to_all Notice, () in those(nodes, |node| node.stranger == Some(Stranger::Reads)) =>
        "a connection without a login may read", "close the user default (ACL SETUSER default reset)";
    open_to_all Notice, () in those(nodes, |node| node.stranger == Some(Stranger::Runs)) =>
        "a connection without a login may run commands, perhaps FLUSHALL", "close the user default (ACL SETUSER default reset)";
    // A program that never reads may have a user without these rights.
    no_readers Notice, error in each(nodes, |node| node.trouble(Trouble::NoReaders)) =>
        "read locks fail (rw_lock, --shared): {error}",
        "if programs take them, allow TIME, TYPE, ZADD, ZREM, ZSCORE, ZCOUNT, ZRANGE, ZRANGEBYSCORE, ZREMRANGEBYSCORE, PEXPIREAT, and \
         with Protocol::Fenced INCR";
    // A node without usable answers has its own finding instead.
    hidden Notice, commands in each(nodes, |node| Some(node.hidden.join(" and ")).filter(|it| !it.is_empty() && node.answers())) =>
        "does not tell everything", format!("to see it, allow the user {commands}");
}

const SECOND: Duration = Duration::from_secs(1);

const RAISE_NODE_TIMEOUT: &str = "raise node_timeout (--node-timeout) in every client to several times that; programs and \
                                  the command have defaults of their own";

/// The nodes that a finding is about, and what it says of them.
type Found<'n, T> = (Vec<&'n Facts>, T);

/// What is found of each node by itself.
fn each<'n, T>(
    nodes: &'n [Facts],
    find: impl Fn(&'n Facts) -> Option<T>,
) -> impl Iterator<Item = Found<'n, T>> {
    let found = move |node| Some((vec![node], find(node)?));
    nodes.iter().filter_map(found)
}

/// One finding of all nodes for which `is_meant` is true, if there are any.
fn those(nodes: &[Facts], is_meant: impl Fn(&Facts) -> bool) -> Option<Found<'_, ()>> {
    let those: Vec<&Facts> = nodes.iter().filter(|node| is_meant(node)).collect();
    (!those.is_empty()).then_some((those, ()))
}

fn too_few<'n>(nodes: &[Facts], own: Option<&Rules>) -> Option<Found<'n, String>> {
    let (voters, quorum) = (voters(nodes, own), quorum(nodes.len()));
    let have = if quorum == 1 {
        "node has"
    } else {
        "nodes have"
    };
    let message = format!("{quorum} {have} to vote, and {voters} can");
    (voters < quorum).then_some((Vec::new(), message))
}

/// The locks that survive fewer failures than the nodes do, and the nodes that lack their keys.
fn thin<'n>(nodes: &'n [Facts], survey: &Survey) -> Option<Found<'n, String>> {
    let (lacking, message) = survey.thin(nodes.len())?;
    let lack = nodes.iter().filter(|node| lacking.contains(&node.node));
    Some((lack.collect(), message))
}

/// One finding for each server that is named more than once.
fn same_servers(nodes: &[Facts]) -> impl Iterator<Item = Found<'_, &str>> {
    let mut servers: BTreeMap<&str, Vec<&Facts>> = BTreeMap::new();
    for (node, run_id) in with(nodes, "run_id") {
        servers.entry(run_id).or_default().push(node);
    }
    let named = servers.into_iter().map(|(run_id, nodes)| (nodes, run_id));
    named.filter(|(nodes, _)| nodes.len() > 1)
}

fn different_settings<'n>(nodes: &'n [Facts], own: Option<&Rules>) -> Option<Found<'n, String>> {
    let known = with(nodes, "settings");
    let different: BTreeSet<&str> = known.clone().map(|(_, settings)| settings).collect();
    let has = |(node, settings): (&Facts, &str)| format!("{} has {settings}", node.node);
    let each: Vec<String> = known.clone().map(has).collect();
    let is_found = own.is_some() && different.len() > 1;
    is_found.then(|| (known.map(|(node, _)| node).collect(), each.join(", ")))
}

/// The nodes of which a fact is known, each with the fact.
fn with<'n>(nodes: &'n [Facts], name: &str) -> impl Iterator<Item = (&'n Facts, &'n str)> + Clone {
    nodes
        .iter()
        .filter_map(move |node| Some((node, node.text(name)?)))
}

/// Whether no majority answers within the node timeout.
fn are_too_slow(nodes: &[Facts]) -> bool {
    let in_time = |node: &&Facts| node.trouble(Trouble::Silent).is_none() && !node.is_too_slow();
    !is_reached(nodes.len(), nodes.iter().filter(in_time).count())
}

/// How long an answer or a connection takes, if that is more than half of its limit.
fn slow(node: &Facts, name: &str) -> Option<String> {
    let (limit, option) = match name {
        "connection_us" => (node.limits.connection, "connect timeout"),
        _ => (node.limits.answer, "node timeout"),
    };
    let took = node.span(name)?;
    let is_more = took > limit.checked_div(2).unwrap_or_default();
    is_more.then(|| format!("{}, and the {option} is {limit:?}", span(took)))
}

/// A fact that is known and is not as it should be.
fn other<'n>(node: &'n Facts, name: &str, expected: &str) -> Option<&'n str> {
    node.text(name).filter(|value| *value != expected)
}

fn replica(node: &Facts) -> Option<String> {
    match (node.text("role")?, node.text("master")) {
        ("replica", Some(master)) => Some(format!("a replica of {master}")),
        ("replica", None) => Some("a replica".into()),
        ("active_replica", _) => Some("an active-replica, which shares its locks".into()),
        _ => None,
    }
}

fn advice_on_silence(error: Option<&NodeError>) -> &'static str {
    match error {
        Some(NodeError::TimedOut { .. }) => {
            "check whether its process hangs, its machine is up, and the network is faster than node_timeout"
        }
        Some(error) if error.is_of_tls() => {
            "make the URL and the certificates of server and client fit each other"
        }
        Some(NodeError::Connect { .. }) => "start the server, or fix its address or the network",
        Some(NodeError::Login { .. }) => {
            "fix the user, the password or the database that the client gives; a restart forgets users that are in no file"
        }
        Some(NodeError::NoCredentials { .. }) => {
            "find out why the program's credentials callback gives none"
        }
        Some(NodeError::InCluster) => "give the node a server of its own",
        Some(NodeError::PoolExhausted) => "nothing is known about the node; look again",
        Some(NodeError::Protocol { .. }) => "check that it is a Redis server",
        Some(_) | None => "look at the server's log",
    }
}

/// An error that a lock would get as well, or why the lock that was tried got no vote, or why these facts rule out a vote for a client
/// with these rules.
fn refusal(node: &Facts, own: Option<&Rules>) -> Option<NodeError> {
    let refusal = node.trouble(Trouble::Refuses).cloned();
    let refusal = refusal.filter(|_| node.trouble(Trouble::Silent).is_none());
    refusal.or_else(|| node.objection(own?))
}

/// What the marker of a node that answers says to a client of the fenced protocol.
fn marker<'n>(node: &'n Facts, own: Option<&Rules>) -> Option<&'n str> {
    own.filter(|_| node.answers()).and(node.text("quarantine"))
}

/// Why the quarantine of a node begins with the next lock.
fn unmarked(node: &Facts, own: Option<&Rules>) -> Option<&'static str> {
    match marker(node, own)? {
        "no_marker" => Some("has no marker"),
        "other_process" => Some("its marker is of another process"),
        _ => None,
    }
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
        for (code, severity) in CODES {
            let heading = match severity {
                Severity::Critical => "Critical:",
                Severity::Warning => "Warnings:",
                Severity::Notice => "Notices:",
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
