//! The verbs: what nodes say to acquires, extensions, releases and passes, what they have under keys, and what they reply to any other
//! command. Each goes to all nodes that are asked before any reply is read: one round trip for all.

use std::mem::swap;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::Node;
use super::attempt::Attempt;
use super::command::{self, MarkerAction};
use super::key_report::{KeyReport, KeyReports, Page, Payload};
use super::request::Verb;
pub(crate) use super::round::Asked;
use super::round::{ask, ask_each, ask_one};
use crate::clock::Timestamp;
use crate::error::{NodeError, Vote};
use crate::fencing::Rules;
use crate::wire::pack::Packed;
use crate::wire::resp::Reply;

/// Asks these nodes for their votes on an attempt. Writes the report of each node over the one that was there.
pub(crate) fn acquire(asked: Asked<'_>, attempt: &Attempt, reports: &mut KeyReports) {
    ask(asked, &attempt.packed, Verb::Take(attempt.clone()), reports);
    asked.one_vote_each(reports);
}

/// Opens or closes nodes of the fenced protocol, or asks whether they are fresh.
pub(crate) fn open_all(asked: Asked<'_>, rules: &Arc<Rules>, action: MarkerAction) -> KeyReports {
    let command = command::open(rules, action);
    let mut reports = asked.unasked();
    ask(asked, &command, Verb::Open(Arc::clone(rules)), &mut reports);
    asked.one_vote_each(&mut reports);
    reports
}

/// Sends the packed extensions of several locks, with one write to each node.
///
/// Ignores breakers, and makes a new connection if the pool is used up. Connections have to be made by `connect_by`, or within a
/// node timeout. Returns the reports on each lock, in order.
pub(crate) fn extend_all(
    asked: Asked<'_>,
    commands: &[Packed],
    connect_by: Timestamp,
) -> Vec<KeyReports> {
    let mut all: Vec<KeyReports> = commands.iter().map(|_| asked.unasked()).collect();
    ask_each(asked, commands, Verb::Keep { connect_by }, &mut all);
    for reports in &mut all {
        asked.one_vote_each(reports);
    }
    all
}

/// Sends a packed release.
///
/// The first node that is up, where clients wait, is the last one of the first majority. The client that it wakes finds a majority
/// free, even if this thread is stopped at that moment; and it is not kept waiting for longer than that.
///
/// Ignores breakers, and connects beside a pool that is used up: a node that has our key must get the release. Where a node has not
/// answered, the release is repeated in the background, for as long as the key may live. Nobody else can have a lock with
/// these values, so a repetition may come at any time.
pub(crate) fn release_all(asked: Asked<'_>, command: &Packed, life: Duration) -> KeyReports {
    let mut released = asked.unasked();
    ask(asked, command, Verb::Drop, &mut released);
    conclude(asked, &mut released, |node| {
        node.release_later(command.to_repeat(), node.now(), life);
    });
    released
}

/// As [`release_all`], for releases of several values of one lock, of which a key has one at most. Calls `repeat` for each node that has
/// not answered.
pub(crate) fn release_and(
    asked: Asked<'_>,
    commands: &[Packed],
    repeat: impl Fn(&Arc<Node>),
) -> KeyReports {
    let mut all: Vec<KeyReports> = commands.iter().map(|_| asked.unasked()).collect();
    ask_each(asked, commands, Verb::Drop, &mut all);
    let mut released = asked.unasked();
    for (index, report) in released.iter_mut().enumerate() {
        let of_node = all.iter_mut().filter_map(|reports| reports.get_mut(index));
        // A silence counts before refusals. The first of several refusals counts, because nothing has changed between them.
        let rank = |report: &&mut KeyReport| (!report.vote.is_granted(), !report.is_silent());
        if let Some(first) = of_node.min_by_key(rank) {
            swap(report, first);
        }
    }
    conclude(asked, &mut released, repeat);
    released
}

/// Judges the reports on a release. Calls `repeat` for each node that has not answered.
fn conclude(asked: Asked<'_>, released: &mut KeyReports, repeat: impl Fn(&Arc<Node>)) {
    for (index, node) in asked.each() {
        if let Some(report) = released.get_mut(index) {
            if report.is_silent() {
                repeat(node);
            }
            note_repetition(report);
        }
    }
    asked.one_vote_each(released);
}

/// If the connection broke and the release was sent twice, the first one may have deleted the key. A missing key, another client's, or
/// one that is no lock, then says nothing.
fn note_repetition(report: &mut KeyReport) {
    if (report.vote.is_gone() || report.vote.is_no_lock())
        && let Some(rare) = &mut report.rare
        && let Some(failure) = rare.first_failure.take()
    {
        report.vote = Vote::Failed(failure).into();
    }
}

/// What the nodes say of a pass.
pub(crate) struct Passed {
    /// The reports on the release.
    pub(crate) released: KeyReports,
    /// The indexes of the nodes that do not say what has become of the key.
    pub(crate) silent: Vec<usize>,
}

/// Sends a packed pass to every node that is asked, in the order of a release. Writes what each node says of the attempt over the report
/// in `next` that was there.
///
/// As a release, it ignores breakers, and connects beside a pool that is used up. As an acquire, it is undone where no reply
/// comes.
pub(crate) fn pass_all(
    asked: Asked<'_>,
    command: &Packed,
    attempt: &Attempt,
    next: &mut KeyReports,
) -> Passed {
    let mut released = asked.unasked();
    ask(asked, command, Verb::Pass(attempt.clone()), &mut released);
    let mut silent = Vec::new();
    for index in asked.indexes {
        let (Some(release), Some(next)) = (released.get_mut(*index), next.get_mut(*index)) else {
            continue;
        };
        if release.is_silent() {
            silent.push(*index);
        }
        *next = release.next_report();
        note_repetition(release);
    }
    asked.one_vote_each(&mut released);
    asked.one_vote_each(next);
    Passed { released, silent }
}

/// Sends a packed question about keys to every node that is asked. Takes no connection beside a pool that is used up, but waits for one
/// as an acquire does. Returns what each node that is asked has under each key, in order.
pub(crate) fn show_all(asked: Asked<'_>, command: &Packed) -> Vec<Vec<KeyReport>> {
    let mut reports = asked.unasked();
    ask(asked, command, Verb::Show, &mut reports);
    let keys = |(index, mut report): (usize, KeyReport)| {
        if !asked.indexes.contains(&index) {
            return None;
        }
        Some(match report.take_payload() {
            Payload::Keys(mut keys) => {
                for key in &mut keys {
                    (key.since, key.at) = (report.since, report.at);
                    key.server.clone_from(&report.server);
                }
                keys
            }
            _ => vec![report; command.keys],
        })
    };
    reports.into_iter().enumerate().filter_map(keys).collect()
}

/// Sends a command of any kind to every node that is asked. Returns the reports, each with the reply: an error, or a reply that
/// `is_answer` accepts.
///
/// Ignores breakers, because its purpose is to find out what is wrong with a node. Takes no connection beside a pool that is
/// used up.
pub(crate) fn raw_all(
    asked: Asked<'_>,
    command: &Packed,
    is_answer: fn(&Reply) -> bool,
) -> KeyReports {
    let mut reports = asked.unasked();
    ask(asked, command, Verb::Raw(is_answer), &mut reports);
    reports
}

impl Asked<'_> {
    /// Leaves each server only its first vote: a server has one vote, even if several nodes are that server. A server may have
    /// voted in an earlier report, of a node that was not asked now.
    pub(crate) fn one_vote_each(self, reports: &mut [KeyReport]) {
        if are_of_different_servers(reports) {
            return;
        }
        for (order, index) in self.indexes.iter().enumerate() {
            let later = self.indexes.get(order..).unwrap_or_default();
            let Some(report) = reports.get(*index).filter(|it| it.vote.is_granted()) else {
                continue;
            };
            let Some(server) = report.server.as_deref() else {
                continue;
            };
            let mut others = self.nodes.iter().zip(&*reports).enumerate();
            let other = others.find(|(other, (_, report))| {
                report.vote.is_granted()
                    && report.server.as_deref() == Some(server)
                    && !later.contains(other)
            });
            let other = other.map(|(_, (node, _))| Arc::clone(node.name()));
            if let (Some(other), Some(report)) = (other, reports.get_mut(*index)) {
                report.vote = Vote::Failed(NodeError::SameServer { other }).into();
            }
        }
    }
}

/// Whether all nodes that granted are different servers for sure, because their run ids differ in the first bytes.
fn are_of_different_servers(reports: &[KeyReport]) -> bool {
    let mut before: SmallVec<[u64; 8]> = SmallVec::new();
    for report in reports {
        if report.vote.is_granted()
            && let Some(server) = &report.server
        {
            let start = server.as_bytes().first_chunk();
            let start = start.map_or(0, |start| u64::from_ne_bytes(*start));
            if before.contains(&start) {
                return false;
            }
            before.push(start);
        }
    }
    true
}

impl Node {
    /// Makes the step from `cursor` of a scan for the keys that match a pattern. Returns the page, or why there is none, and the
    /// report of the node.
    pub(crate) fn scan(
        self: &Arc<Self>,
        cursor: u64,
        pattern: &str,
    ) -> (Result<Page, NodeError>, KeyReport) {
        let mut report = ask_one(self, &command::scan(cursor, pattern), Verb::Scan);
        let page = match report.take_payload() {
            Payload::Page(page) => Ok(page),
            _ => Err(report.clone().error()),
        };
        (page, report)
    }
}
