//! The verbs: what nodes say to acquires, extensions, releases and passes, what they have under keys, and what they reply to any other
//! command. Each goes to all nodes that are asked before any reply is read: one round trip for all.

use std::cell::OnceCell;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::Node;
use super::command::{self, MarkerAction};
use super::reply::{Answer, Leftover, Page, Row, Said, Woken};
use super::request::{Attempt, Verb};
use super::round::{Heard, ask, ask_all, ask_each};
use crate::clock::Timestamp;
use crate::error::{NodeError, NodeReport, NodeReports, Vote, one_vote_each};
use crate::fencing::Rules;
use crate::value::Content;
use crate::wire::pack::Packed;
use crate::wire::resp::Reply;

/// A node's answer to an acquire.
pub(crate) struct Ballot {
    pub(crate) report: NodeReport,
    /// What the attempt may have left on the node.
    pub(crate) leftover: Leftover,
}

/// The ballots of all nodes, in the canonical order.
pub(crate) type Ballots = SmallVec<[Ballot; 5]>;

/// The result of a release, or of an extension.
#[derive(Default)]
pub(crate) struct Outcome {
    /// A report of each node, in order. Nodes that are not asked have no key of this lock.
    pub(crate) nodes: NodeReports,
    /// For which resources a client waits. A release has woken it.
    pub(crate) waiting: Woken,
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
        matches!(self.leftover, Leftover::Possible)
    }

    /// Whether the node was left out because its breaker is open.
    pub(crate) fn is_left_out(&self) -> bool {
        self.report.vote.is_left_out()
    }
}

impl Node {
    /// Asks the node for its vote.
    pub(crate) fn acquire(&self, attempt: &Attempt) -> Ballot {
        let verb = Verb::Take(attempt.repair.clone());
        let answer = ask(self, &attempt.packed, &verb);
        self.ballot(Some(answer)).0
    }

    /// The ballot of a node that is not asked.
    pub(crate) fn unasked(&self, why_not: Vote) -> Ballot {
        Ballot {
            report: self.report(why_not, Duration::ZERO, None),
            leftover: Leftover::None,
        }
    }

    /// What the node has answered, or that it was not asked; and whom a release has woken.
    fn ballot(&self, answer: Option<Answer>) -> (Ballot, Woken) {
        let Some(answer) = answer else {
            return (self.unasked(Vote::NotAsked), Woken::default());
        };
        let failed = |error| (Vote::Failed(error), Woken::default());
        let (vote, woken) = answer.result.map_or_else(failed, Said::vote);
        let report = self.report(vote, answer.elapsed, answer.server);
        let leftover = answer.leftover;
        (Ballot { report, leftover }, woken)
    }

    /// The ballot of the attempt that rode with a release.
    fn ballot_of_pass(&self, answer: &Answer) -> Ballot {
        let (vote, leftover) = match &answer.result {
            Ok(Said::Passed(_, _, Some(vote))) => (Vote::clone(vote), answer.leftover.clone()),
            Ok(_) => (Vote::NotAsked, Leftover::None),
            Err(error) => (Vote::Failed(error.clone()), answer.leftover.clone()),
        };
        let report = self.report(vote, answer.elapsed, answer.server.clone());
        Ballot { report, leftover }
    }

    /// Makes the step from `cursor` of a scan for the keys that match a pattern. Returns the page, or why there is none, and the
    /// report of the node.
    pub(crate) fn scan(&self, cursor: u64, pattern: &str) -> (Result<Page, NodeError>, NodeReport) {
        let answer = ask(self, &command::scan(cursor, pattern), &Verb::Scan);
        let page = match answer.result {
            Ok(Said::Page(page)) => Ok(page),
            Ok(Said::Vote(Vote::Failed(error), _)) | Err(error) => Err(error),
            Ok(_) => Err(Said::misplaced()),
        };
        let report = self.report(Vote::NotAsked, answer.elapsed, answer.server);
        (page, report)
    }
}

/// Asks these nodes for their votes. Returns a ballot for each node that is asked.
pub(crate) fn acquire_all<'n>(
    nodes: impl Iterator<Item = (&'n Node, bool)>,
    attempt: &Attempt,
) -> SmallVec<[Option<Ballot>; 5]> {
    ask_all(nodes, &attempt.packed, &Verb::Take(attempt.repair.clone()))
        .map(|(node, answer)| Some(node.ballot(Some(answer?)).0))
        .collect()
}

/// Opens or closes nodes of the fenced protocol, or asks whether they are fresh.
pub(crate) fn open_all<'n>(
    nodes: impl Iterator<Item = &'n Node>,
    rules: &Arc<Rules>,
    action: MarkerAction,
) -> Vec<NodeReport> {
    let command = command::open(rules, action);
    let verb = Verb::Open(Arc::clone(rules));
    let answers = ask_all(nodes.map(|node| (node, true)), &command, &verb);
    let reports = answers.map(|(node, answer)| node.ballot(answer).0.report);
    let mut reports: Vec<NodeReport> = reports.collect();
    one_vote_each(&mut reports);
    reports
}

/// Sends the packed extensions of several locks, with one write to each node.
///
/// Ignores breakers, and makes a new connection if the pool is used up. Connections have to be made by `connect_by`, or within a
/// node timeout. Returns what the nodes say of each lock, in order.
pub(crate) fn extend_all<'n>(
    nodes: impl Iterator<Item = (&'n Node, bool)>,
    commands: &[Packed],
    connect_by: Timestamp,
) -> Vec<Outcome> {
    let heard = ask_each(nodes, commands, &Verb::Keep { connect_by }).into_iter();
    let heard = heard.map(|one| (one.node, one.answers.into_iter()));
    let mut heard: SmallVec<[_; 5]> = heard.collect();
    let next = |_| {
        let mut extended = Outcome::default();
        for (node, answers) in &mut heard {
            let (ballot, woken) = node.ballot(answers.next());
            extended.add(ballot.report, woken);
        }
        one_vote_each(&mut extended.nodes);
        extended
    };
    commands.iter().map(next).collect()
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
) -> Outcome {
    let repeated = OnceCell::new();
    release_and(nodes, slice::from_ref(command), |node| {
        let release = repeated.get_or_init(|| command.to_repeat());
        node.owe(Arc::clone(release), node.now(), life);
    })
}

/// As [`release_all`], for releases of several values of one lock, of which a key has one at most; with something else to do about a
/// node that has not answered.
pub(crate) fn release_and<'n>(
    nodes: impl Iterator<Item = (&'n Node, bool)>,
    commands: &[Packed],
    repeat: impl Fn(&Node),
) -> Outcome {
    let mut released = Outcome::default();
    for Heard { node, answers } in ask_each(nodes, commands, &Verb::Drop) {
        if answers.iter().any(Answer::is_silent) {
            repeat(node);
        }
        // Of several refusals, the first counts, because nothing has changed between them.
        let is_granted = |answer: &Answer| matches!(&answer.result, Ok(Said::Vote(vote, _)) if vote.is_granted());
        let rank = |answer: &Answer| (!is_granted(answer), !answer.is_silent());
        released.add_release(node, answers.into_iter().min_by_key(rank));
    }
    one_vote_each(&mut released.nodes);
    released
}

impl Outcome {
    /// Adds what a node says; that it was not asked, without an answer. If the connection broke and the release was sent twice, the
    /// first one may have deleted the key. A missing key, another client's, or one that is no lock, then says nothing.
    fn add_release(&mut self, node: &Node, mut answer: Option<Answer>) {
        let failure = answer.as_mut().and_then(|it| it.first_failure.take());
        let (Ballot { mut report, .. }, woken) = node.ballot(answer);
        if report.vote.is_gone() || report.vote.is_no_lock() {
            report.vote = failure.map_or(report.vote, |failure| Vote::Failed(*failure));
        }
        self.add(report, woken);
    }

    fn add(&mut self, report: NodeReport, woken: Woken) {
        self.waiting = self.waiting.or(woken);
        self.nodes.push(report);
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
) -> (Outcome, Vec<Option<Passed>>) {
    let verb = Verb::Pass(attempt.repair.clone());
    let mut released = Outcome::default();
    let mut passed = Vec::new();
    for (node, answer) in ask_all(nodes, command, &verb) {
        passed.push(answer.as_ref().map(|answer| Passed {
            is_silent: answer.is_silent(),
            ballot: node.ballot_of_pass(answer),
        }));
        released.add_release(node, answer);
    }
    one_vote_each(&mut released.nodes);
    (released, passed)
}

/// What a node has under a key.
#[derive(Debug, Clone)]
pub(crate) struct Sight {
    pub(crate) report: NodeReport,
    /// The value, if the node shows one.
    pub(crate) content: Option<Content>,
    /// Whether it is that of a reader who was looked for.
    pub(crate) is_reader: bool,
}

/// Sends a packed question about keys to every node that is asked. Takes no connection beside a pool that is used up, but waits for one
/// as an acquire does. Returns what each node that is asked has under each key, in order.
pub(crate) fn show_all<'n>(
    nodes: impl Iterator<Item = (&'n Node, bool)>,
    command: &Packed,
) -> Vec<Option<Vec<Sight>>> {
    let sights = |node: &Node, answer: Answer| {
        let rows = match answer.result {
            Ok(Said::Shown(rows)) => rows,
            Ok(_) => Vec::new(),
            Err(error) => vec![Row::from(Vote::Failed(error)); command.keys],
        };
        let sight = |row: Row| Sight {
            report: NodeReport {
                is_wanted: row.has_waiter,
                ..node.report(row.vote, answer.elapsed, answer.server.clone())
            },
            content: row.content,
            is_reader: row.is_reader,
        };
        rows.into_iter().map(sight).collect()
    };
    ask_all(nodes, command, &Verb::Show)
        .map(|(node, answer)| Some(sights(node, answer?)))
        .collect()
}

/// Sends a command of any kind to every node that is asked. Returns the answer of each node that is asked, with a reply that is an
/// error or that `is_answer` accepts.
///
/// Ignores breakers, because its purpose is to find out what is wrong with a node. Takes no connection beside a pool that is
/// used up.
pub(crate) fn raw_all<'n>(
    nodes: impl Iterator<Item = (&'n Node, bool)>,
    command: &Packed,
    is_answer: fn(&Reply) -> bool,
) -> Vec<Option<Answer>> {
    let verb = Verb::Raw(is_answer);
    let answers = ask_all(nodes, command, &verb);
    answers.map(|(_, answer)| answer).collect()
}
