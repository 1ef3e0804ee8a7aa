//! One command to all nodes before any reply is read: release, and what else needs no order.

use std::sync::Arc;
use std::time::Duration;

use crate::wire::resp::Reply;

use super::call::Call;
use super::command::Packed;
use super::{Node, refused};
use crate::error::{NodeError, NodeReport, Vote, one_vote_each};

/// How long the reading of replies stays with a node that has not answered while others may have.
const PATIENCE: Duration = Duration::from_millis(2);

/// What came of a release.
pub(crate) struct Released {
    /// What each node said, in order; those that are not asked have nothing of this lock.
    pub(crate) nodes: Vec<NodeReport>,
    /// Whether a node has woken somebody who waits for the lock.
    pub(crate) has_woken: bool,
}

/// Sends a packed release to every node that is asked, before it reads any reply: one round trip for all. The first one
/// of the canonical order, which those who wait ask, comes last.
///
/// Neither a breaker nor a pool without a free connection stands in its way: a node that has our key must hear of it.
pub(crate) fn release_all<'n>(
    nodes: impl DoubleEndedIterator<Item = (&'n Node, bool)> + Clone,
    command: &Packed,
) -> Released {
    let insist = |node| Ok(Call::insistent(node));
    let answers = ask_all(nodes.clone().rev(), command, insist, released);
    let mut has_woken = false;
    let reports = nodes.zip(answers.into_iter().rev());
    let reports = reports.map(|((node, _), answer)| {
        let Some(answer) = answer else {
            return node.report(Vote::NotAsked, Duration::ZERO, None);
        };
        let vote = match answer.result {
            Ok(reply) => {
                has_woken |= reply.has_woken;
                reply.vote
            }
            Err(fault) => Vote::Failed(fault),
        };
        node.report(vote, answer.elapsed, answer.server)
    });
    let mut nodes: Vec<NodeReport> = reports.collect();
    one_vote_each(&mut nodes);
    Released { nodes, has_woken }
}

/// What came of a call.
pub(super) struct Answer<T> {
    pub(super) result: Result<T, NodeError>,
    pub(super) elapsed: Duration,
    /// The run id of the server that answered, where it is known.
    pub(super) server: Option<Arc<str>>,
}

/// Sends a packed command to every node that is asked, and then reads the replies. It is one that does no harm when it is
/// executed twice. A node whose connections are all in use comes last, and `wait` says for what.
pub(super) fn ask_all<'n, T>(
    nodes: impl Iterator<Item = (&'n Node, bool)>,
    command: &Packed,
    wait: impl Fn(&'n Node) -> Result<Call<'n>, NodeError>,
    read: impl Fn(&mut Call<'n>, &dyn Fn() -> Packed) -> Result<T, NodeError>,
) -> Vec<Option<Answer<T>>> {
    let again = || command.clone();
    let send = |call: &mut Call<'n>| call.send_anew(command, &again);
    send_to_all(nodes, send, wait, |call| read(call, &again))
}

/// Sends something to every node that is asked, and then reads the replies.
pub(super) fn send_to_all<'n, T>(
    nodes: impl Iterator<Item = (&'n Node, bool)>,
    send: impl Fn(&mut Call<'n>) -> Result<(), NodeError>,
    wait: impl Fn(&'n Node) -> Result<Call<'n>, NodeError>,
    read: impl Fn(&mut Call<'n>) -> Result<T, NodeError>,
) -> Vec<Option<Answer<T>>> {
    let mut steps: Vec<Step<'n, T>> = nodes
        .map(|(node, asked)| Step::begin(node, asked))
        .collect();
    // On the open connections first: connecting to a dead node takes time, and must not delay the others.
    for step in &mut steps {
        step.advance(|call| call.is_warm().then(|| send(call)));
    }
    for step in &mut steps {
        step.advance(|call| (!call.is_sent()).then(|| send(call)));
    }
    loop {
        let under_way = steps.iter().filter(|step| step.is_under_way()).count();
        let waiting = steps.iter_mut().find(|step| step.has_no_slot());
        match (under_way, waiting) {
            (0, None) => break,
            // Only now, with all others given back, to a node whose connections were all in use: whoever kept some while
            // it waits for others could wait for someone who does the same.
            (0, Some(step)) => step.wait_for_a_slot(&wait),
            // Nobody is left whom it could keep waiting.
            (1, None) => {
                for step in &mut steps {
                    step.advance(|call| (!call.is_sent()).then(|| send(call)));
                    step.finish(|call| Some(read(call)));
                }
            }
            // From those that have answered: a node that hangs must not keep the connections to the others busy. One is
            // waited for at a time, so that nobody's answer lies there for longer than that.
            _ => {
                let mut patience = PATIENCE;
                for step in &mut steps {
                    step.look_for_a_slot();
                    if step.is_under_way() {
                        step.go_on(patience, &send, &read);
                        patience = Duration::ZERO;
                    }
                }
            }
        }
    }
    steps.into_iter().map(Step::answer).collect()
}

/// Where one node is in [`send_to_all`].
enum Step<'n, T> {
    NotAsked,
    NoSlot(&'n Node),
    UnderWay(Call<'n>),
    Ended(Answer<T>),
}

impl<'n, T> Step<'n, T> {
    fn begin(node: &'n Node, asked: bool) -> Self {
        if !asked {
            return Self::NotAsked;
        }
        Call::at_once(node).map_or(Self::NoSlot(node), Self::UnderWay)
    }

    fn is_under_way(&self) -> bool {
        matches!(self, Self::UnderWay(_))
    }

    fn has_no_slot(&self) -> bool {
        matches!(self, Self::NoSlot(_))
    }

    fn look_for_a_slot(&mut self) {
        if let Self::NoSlot(node) = self
            && let Some(call) = Call::at_once(node)
        {
            *self = Self::UnderWay(call);
        }
    }

    fn wait_for_a_slot(&mut self, wait: impl Fn(&'n Node) -> Result<Call<'n>, NodeError>) {
        if let Self::NoSlot(node) = self {
            let started = node.now();
            *self = match wait(node) {
                Ok(call) => Self::UnderWay(call),
                Err(fault) => Self::Ended(Answer {
                    result: Err(fault),
                    elapsed: node.now().saturating_since(started),
                    server: None,
                }),
            };
        }
    }

    /// Sends, and reads once that needs no waiting or there is no time left to wait.
    fn go_on(
        &mut self,
        patience: Duration,
        send: impl Fn(&mut Call<'n>) -> Result<(), NodeError>,
        read: impl Fn(&mut Call<'n>) -> Result<T, NodeError>,
    ) {
        self.advance(|call| (!call.is_sent()).then(|| send(call)));
        self.finish(|call| {
            let can_read = call.is_sent() && (call.is_ready(patience) || call.is_overdue());
            can_read.then(|| read(call))
        });
    }

    /// Does something with a call that is under way, which ends if that fails.
    fn advance(&mut self, act: impl FnOnce(&mut Call<'n>) -> Option<Result<(), NodeError>>) {
        self.finish(|call| match act(call)? {
            Ok(()) => None,
            Err(fault) => Some(Err(fault)),
        });
    }

    /// Does something with a call that is under way, which ends if there is a result.
    fn finish(&mut self, act: impl FnOnce(&mut Call<'n>) -> Option<Result<T, NodeError>>) {
        if let Self::UnderWay(call) = self
            && let Some(result) = act(call)
        {
            *self = Self::Ended(Answer::of(call, result));
        }
    }

    fn answer(self) -> Option<Answer<T>> {
        match self {
            Self::NotAsked => None,
            Self::Ended(answer) => Some(answer),
            Self::UnderWay(call) => Some(Answer::of(&call, Err(NodeError::TimedOut))),
            Self::NoSlot(_) => Some(Answer {
                result: Err(NodeError::TimedOut),
                elapsed: Duration::ZERO,
                server: None,
            }),
        }
    }
}

impl<T> Answer<T> {
    fn of(call: &Call<'_>, result: Result<T, NodeError>) -> Self {
        Self {
            result,
            elapsed: call.elapsed(),
            server: call.server(),
        }
    }
}

/// What one node answers to a release.
struct ReleaseReply {
    vote: Vote,
    has_woken: bool,
}

/// Reads one node's vote. When the command was sent twice because the connection broke, the first may have deleted the
/// key, so that the second finds none or a successor's: then nobody can tell.
fn released(call: &mut Call<'_>, again: &dyn Fn() -> Packed) -> Result<ReleaseReply, NodeError> {
    let reply = call.reply(again, release_reply)?;
    match (call.first_fault(), &reply.vote) {
        (Some(fault), Vote::Missing | Vote::Held { .. }) => Err(fault),
        _ => Ok(reply),
    }
}

/// Reads the reply of release.lua.
fn release_reply(reply: &Reply) -> Option<ReleaseReply> {
    let has_woken = *reply == Reply::Int(2);
    let vote = match own_key_vote(reply) {
        Some(Vote::Granted) => Vote::Released,
        None if has_woken => Vote::Released,
        vote => vote?,
    };
    Some(ReleaseReply { vote, has_woken })
}

/// Reads what extend.lua answers for one lock, and release.lua where nobody was woken.
pub(super) fn own_key_vote(reply: &Reply) -> Option<Vote> {
    let why_not = match reply {
        Reply::Int(1) => return Some(Vote::Granted),
        Reply::Error(error) => return Some(refused(error)),
        Reply::Array(items) => items.as_slice(),
        Reply::Nil | Reply::Okay | Reply::Text(_) | Reply::Bulk(_) | Reply::Int(_) => &[],
    };
    match why_not {
        [Reply::Int(-2)] => Some(Vote::Missing),
        [Reply::Int(pttl)] => not_ours(*pttl),
        _ => None,
    }
}

/// Reads what the scripts say of a key that is not ours.
pub(super) fn not_ours(pttl: i64) -> Option<Vote> {
    match pttl {
        -1 => Some(not_a_lock("never expires")),
        -3 => Some(not_a_lock("holds a value of another type")),
        0.. => Some(Vote::Held {
            remaining: Some(Duration::from_millis(pttl.unsigned_abs())),
        }),
        _ => None,
    }
}

fn not_a_lock(reason: &'static str) -> Vote {
    let length = None;
    Vote::Failed(NodeError::NotALock { reason, length })
}
