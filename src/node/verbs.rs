//! The verbs: what nodes say to acquires, extensions, releases and passes, what they have under keys, and what they reply to any other
//! command. Each goes to all nodes that are asked before any reply is read: one round trip for all.

use std::sync::Arc;
use std::time::Duration;

use super::Node;
use super::asked::Asked;
use super::attempt::Attempt;
use super::command::{self, MarkerAction};
use super::key_report::{KeyReport, KeyReports, Page, Payload};
use super::request::Verb;
use super::round::{ask, ask_each, ask_one, ask_over};
use crate::clock::Timestamp;
use crate::error::{NodeError, Vote};
use crate::fencing::Rules;
use crate::wire::pack::Packed;
use crate::wire::resp::Reply;

/// Asks these nodes for their votes on an attempt. Writes the report of each node over the one that was there.
pub(crate) fn acquire(asked: Asked<'_>, attempt: &Arc<Attempt>, reports: &mut KeyReports) {
    ask_over(
        asked,
        &attempt.packed,
        Verb::Take(Arc::clone(attempt)),
        reports,
    );
    asked.one_vote_each(reports);
}

/// Opens or closes nodes of the fenced protocol, or asks whether they are fresh.
pub(crate) fn open_all(asked: Asked<'_>, rules: &Arc<Rules>, action: MarkerAction) -> KeyReports {
    let command = command::open(rules, action);
    let mut reports = ask(asked, &command, Verb::Open(Arc::clone(rules)));
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
    let mut all = ask_each(asked, commands, Verb::Keep { connect_by });
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
    let released = ask(asked, command, Verb::Drop);
    conclude(asked, released, |node| {
        node.release_later(command.to_repeat(), node.now(), life);
    })
}

/// As [`release_all`], for releases of several values of one lock, of which a key has one at most. Calls `repeat` for each node that has
/// not answered.
pub(crate) fn release_and(
    asked: Asked<'_>,
    commands: &[Packed],
    repeat: impl Fn(&Arc<Node>),
) -> KeyReports {
    // A silence counts before refusals. The first of several refusals counts, because nothing has changed between them.
    let rank = |report: &KeyReport| (!report.vote.is_granted(), !report.is_silent());
    let mut all = ask_each(asked, commands, Verb::Drop).into_iter();
    let mut released = all.next().unwrap_or_else(|| asked.unasked());
    for others in all {
        for (report, other) in released.iter_mut().zip(others) {
            if rank(&other) < rank(report) {
                *report = other;
            }
        }
    }
    conclude(asked, released, repeat)
}

/// Judges the reports on a release. Calls `repeat` for each node that has not answered.
fn conclude(asked: Asked<'_>, mut released: KeyReports, repeat: impl Fn(&Arc<Node>)) -> KeyReports {
    for (node, report) in asked.with(&mut released) {
        if report.is_silent() {
            repeat(node);
        }
        note_repetition(report);
    }
    asked.one_vote_each(&mut released);
    released
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

/// Sends a packed pass to every node that is asked, in the order of a release. Writes what each node says of the attempt over the
/// report in `next` that was there. Returns what the nodes say of the release, and the indexes of the nodes that do not say what
/// has become of the key.
///
/// As a release, it ignores breakers, and connects beside a pool that is used up. As an acquire, it is undone where no reply
/// comes.
pub(crate) fn pass_all(
    asked: Asked<'_>,
    command: &Packed,
    attempt: &Arc<Attempt>,
    next: &mut KeyReports,
) -> (KeyReports, Vec<usize>) {
    let mut released = ask(asked, command, Verb::Pass(Arc::clone(attempt)));
    let mut silent = Vec::new();
    let both = asked.with(&mut released).zip(asked.with(next));
    for (index, ((_, release), (_, next))) in asked.indexes.iter().zip(both) {
        if release.is_silent() {
            silent.push(*index);
        }
        *next = release.next_report();
        note_repetition(release);
    }
    asked.one_vote_each(&mut released);
    asked.one_vote_each(next);
    (released, silent)
}

/// Sends a packed question about keys to every node that is asked. Takes no connection beside a pool that is used up, but waits for one
/// as an acquire does. Returns what each node that is asked has under each key, in order.
pub(crate) fn show_all(asked: Asked<'_>, command: &Packed) -> Vec<Vec<KeyReport>> {
    let mut reports = ask(asked, command, Verb::Show);
    let keys = |(_, report): (_, &mut KeyReport)| {
        let Payload::Keys(mut keys) = report.take_payload() else {
            return vec![report.clone(); command.keys];
        };
        for key in &mut keys {
            (key.since, key.at) = (report.since, report.at);
            key.server.clone_from(&report.server);
        }
        keys
    };
    asked.with(&mut reports).map(keys).collect()
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
    ask(asked, command, Verb::Raw(is_answer))
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
        let page = if let Payload::Page(page) = report.take_payload() {
            Ok(page)
        } else {
            Err(report.error())
        };
        (page, report)
    }
}
