//! What nodes vote about a lock: acquires, extensions, releases and passes. Each goes to all nodes that are asked before any reply is
//! read: one round trip for all.

use std::slice;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::Node;
use super::answer::{Answer, Trace};
use super::command::{self, MarkerAction};
use super::reply::{Said, Woken};
use super::request::Attempt;
use super::request::{Request, Verb};
use super::round::{exchange, exchange_all, exchange_each};
use crate::error::{NodeError, NodeReport, NodeReports, Vote, one_vote_each};
use crate::fencing::Rules;
use crate::wire::pack::Packed;

/// How many extensions go in one write, and their bytes. More would take longer than a node timeout, on the server and on a link of
/// 10 Mbit/s.
pub(crate) const MOST_AT_ONCE: usize = 128;
pub(crate) const MOST_BYTES: usize = 40 * 1024;

/// The length of a packed extension without the name of its lock, in bytes: about the digest of the script and its arguments.
pub(crate) const EXTENSION: usize = 300;

/// What each of its keys takes beside the name: the prefix and the lengths.
pub(crate) const KEY: usize = 32;

/// A node's answer to an acquire.
pub(crate) struct Ballot {
    pub(crate) report: NodeReport,
    /// What the attempt may have left on the node.
    pub(crate) trace: Trace,
}

/// The ballots of all nodes, in the canonical order.
pub(crate) type Ballots = SmallVec<[Ballot; 5]>;

/// The result of a release, or of an extension.
#[derive(Default)]
pub(crate) struct Released {
    /// A report of each node, in order. Nodes that are not asked have no key of this lock.
    pub(crate) nodes: NodeReports,
    /// For which resources a client waits. A release has woken it.
    pub(crate) woken: Woken,
}

/// The result of a pass at one node that was asked.
pub(crate) struct Passed {
    /// Whether the node does not tell what has become of the key.
    pub(crate) is_silent: bool,
    /// What the node says of the attempt that rode with the release.
    pub(crate) ballot: Ballot,
}

impl Ballot {
    /// Whether the node may have a key of this attempt, which then has to be released.
    pub(crate) fn may_have_key(&self) -> bool {
        self.trace == Trace::Possible
    }

    /// Whether the node was left out because its breaker is open.
    pub(crate) fn is_left_out(&self) -> bool {
        self.report.vote.is_left_out()
    }
}

impl Node {
    /// Asks the node for its vote.
    pub(crate) fn acquire(&self, attempt: &Attempt) -> Ballot {
        self.ballot(exchange(self, &attempt.request()))
    }

    /// The ballot of a node that is not asked.
    pub(crate) fn unasked(&self, why_not: Vote) -> Ballot {
        Ballot {
            report: self.report(why_not, Duration::ZERO, None),
            trace: Trace::None,
        }
    }

    /// The ballot of the attempt that rode with a release.
    fn ballot_of_pass(&self, answer: &Answer) -> Ballot {
        let (vote, trace) = match &answer.result {
            Ok(Said::Passed(_, _, Some(vote))) => (Vote::clone(vote), answer.trace),
            Ok(_) => (Vote::NotAsked, Trace::None),
            Err(error) => (Vote::Failed(error.clone()), answer.trace),
        };
        let report = self.report(vote, answer.elapsed, answer.server.clone());
        Ballot { report, trace }
    }

    fn ballot(&self, answer: Answer) -> Ballot {
        let trace = answer.trace;
        let report = self.report_of(Some(answer)).0;
        Ballot { report, trace }
    }

    /// The report on an answer, with whom a release has woken; or that the node was not asked.
    fn report_of(&self, answer: Option<Answer>) -> (NodeReport, Woken) {
        let Some(answer) = answer else {
            let unasked = self.unasked(Vote::NotAsked);
            return (unasked.report, Woken::default());
        };
        let failed = |error| (Vote::Failed(error), Woken::default());
        let (vote, woken) = answer.result.map_or_else(failed, Said::vote);
        let report = self.report(vote, answer.elapsed, answer.server);
        (report, woken)
    }
}

impl Attempt {
    fn request(&self) -> Request<'_> {
        Request::new(&self.packed, Verb::Take(self.repair.clone()))
    }
}

/// Asks these nodes for their votes. Returns a ballot for each node that is asked.
pub(crate) fn acquire_all<'n>(
    nodes: impl Iterator<Item = (&'n Node, bool)>,
    attempt: &Attempt,
) -> SmallVec<[Option<Ballot>; 5]> {
    exchange_all(nodes, &attempt.request())
        .map(|(node, answer)| answer.map(|answer| node.ballot(answer)))
        .collect()
}

/// Opens or closes nodes of the fenced protocol, or asks whether they are fresh.
pub(crate) fn open_all<'n>(
    nodes: impl Iterator<Item = &'n Node>,
    rules: &Arc<Rules>,
    action: MarkerAction,
) -> Vec<NodeReport> {
    let command = command::open(rules, action);
    let request = Request::new(&command, Verb::Open(Arc::clone(rules)));
    let answers = exchange_all(nodes.map(|node| (node, true)), &request);
    let reports = answers.map(|(node, answer)| node.report_of(answer).0);
    let mut reports: Vec<NodeReport> = reports.collect();
    one_vote_each(&mut reports);
    reports
}

/// Sends the packed extensions of several locks, with one write to each node.
///
/// Ignores breakers, and connects beside a pool that is used up. Returns what the nodes say of each lock, in order.
pub(crate) fn extend_all<'n>(
    nodes: impl Iterator<Item = (&'n Node, bool)>,
    commands: &[Packed],
) -> Vec<Released> {
    let requests = commands
        .iter()
        .map(|command| Request::new(command, Verb::Keep));
    let requests: SmallVec<[Request<'_>; 1]> = requests.collect();
    let mut heard = exchange_each(nodes, &requests);
    let of_lock = |lock| {
        let mut extended = Released::default();
        for one in &mut heard {
            let answer = one.answers.get_mut(lock).and_then(Option::take);
            let (report, waiting) = one.node.report_of(answer);
            extended.note(report, waiting);
        }
        one_vote_each(&mut extended.nodes);
        extended
    };
    (0..commands.len()).map(of_lock).collect()
}

/// Sends a packed release.
///
/// The first node of the canonical order, where clients wait, is the last one of the first majority. The client that it
/// wakes finds a majority free, even if this thread is stopped at that moment; and it is not kept waiting for longer than
/// that.
///
/// Ignores breakers, and connects beside a pool that is used up: a node that has our key must get the release. Where a node has not
/// answered, the release is repeated in the background, for as long as the key may live. Nobody else can have a lock with
/// these values, so a repetition may come at any time.
pub(crate) fn release_all<'n>(
    nodes: impl Iterator<Item = (&'n Node, bool)>,
    command: &Packed,
    life: Duration,
) -> Released {
    release_and(nodes, slice::from_ref(command), |node| {
        node.owe(command.clone(), node.now(), life);
    })
}

/// As [`release_all`], for releases of several values of one lock, of which a key has one at most; with something else to do about a
/// node that has not answered.
pub(crate) fn release_and<'n>(
    nodes: impl Iterator<Item = (&'n Node, bool)>,
    commands: &[Packed],
    repeat: impl Fn(&Node),
) -> Released {
    let requests = commands
        .iter()
        .map(|command| Request::new(command, Verb::Drop));
    let requests: SmallVec<[Request<'_>; 1]> = requests.collect();
    let mut released = Released::default();
    for mut heard in exchange_each(nodes, &requests) {
        if heard.answers.iter().flatten().any(is_silent) {
            repeat(heard.node);
        }
        // Of several refusals, the first counts, because nothing has changed between them.
        let place = |is: fn(&Answer) -> bool| {
            let mut answers = heard.answers.iter();
            answers.position(|answer| answer.as_ref().is_some_and(is))
        };
        let telling = place(is_granted).or_else(|| place(is_silent));
        let answer = heard.answers.get_mut(telling.unwrap_or_default());
        let answer = answer.and_then(Option::take);
        released.add(heard.node, answer);
    }
    one_vote_each(&mut released.nodes);
    released
}

impl Released {
    /// Adds what a node says; nothing if it was not asked.
    fn add(&mut self, node: &Node, mut answer: Option<Answer>) {
        let failure = answer
            .as_mut()
            .and_then(|answer| answer.first_failure.take());
        let (mut report, woken) = node.report_of(answer);
        report.vote = final_vote(report.vote, failure);
        self.note(report, woken);
    }

    fn note(&mut self, report: NodeReport, woken: Woken) {
        self.woken = self.woken.or(woken);
        self.nodes.push(report);
    }
}

/// The vote of one node. If the connection broke and the release was sent twice, the first one may have deleted the key. A
/// missing key, another client's, or one that is no lock, then says nothing.
fn final_vote(vote: Vote, first_failure: Option<Box<NodeError>>) -> Vote {
    match (first_failure, &vote) {
        (Some(failure), vote) if vote.is_gone() || vote.is_no_lock() => Vote::Failed(*failure),
        _ => vote,
    }
}

/// Sends a release to a node that has not answered it before. Returns whether the node has now, or none without any reply.
pub(super) fn repeat(node: &Node, command: &Packed) -> Option<bool> {
    let answer = exchange(node, &Request::new(command, Verb::Drop));
    answer.result.is_ok().then(|| !is_silent(&answer))
}

fn is_granted(answer: &Answer) -> bool {
    matches!(&answer.result, Ok(Said::Vote(vote, _)) if vote.is_granted())
}

/// Whether the answer does not say what has become of the key. An error, as while a server loads its data, does not.
fn is_silent(answer: &Answer) -> bool {
    match &answer.result {
        Ok(Said::Vote(vote, _) | Said::Passed(vote, ..)) => vote.is_silent(),
        Ok(_) => false,
        Err(_) => true,
    }
}

/// Sends a packed pass to every node that is asked, in the order of a release.
///
/// As a release, it ignores breakers, and connects beside a pool that is used up. As an acquire, it is undone where no reply
/// comes. Returns what the nodes say of the release, and what each node that is asked says beside that.
pub(crate) fn pass_all<'n>(
    nodes: impl Iterator<Item = (&'n Node, bool)>,
    command: &Packed,
    attempt: &Attempt,
) -> (Released, Vec<Option<Passed>>) {
    let request = Request::new(command, Verb::Pass(attempt.repair.clone()));
    let mut released = Released::default();
    let mut passed = Vec::new();
    for (node, mut answer) in exchange_all(nodes, &request) {
        passed.push(answer.as_mut().map(|answer| Passed {
            is_silent: is_silent(answer),
            ballot: node.ballot_of_pass(answer),
        }));
        released.add(node, answer);
    }
    one_vote_each(&mut released.nodes);
    (released, passed)
}

#[cfg(test)]
mod tests;
