//! Passes a lock on: releases it and asks for it again, in one request to each node.

use std::time::Duration;

use super::acquire::Attempt;
use super::exchange::Answer;
use super::release::{ReleaseReply, Released, final_vote, release_reply};
use super::request::{Kind, Request};
use super::together::exchange_all;
use super::{Ballot, Node, Trace};
use crate::error::{Vote, one_vote_each};
use crate::wire::pack::Packed;
use crate::wire::resp::Reply;

/// The result of a pass.
pub(crate) struct Answers {
    /// What the nodes say of the release.
    pub(crate) released: Released,
    /// What they say of the attempt that rode with it; none of a node that was not asked.
    pub(crate) ballots: Vec<Option<Ballot>>,
}

/// What one node answers.
struct PassReply {
    released: ReleaseReply,
    /// None if the release has woken a client: then nothing was asked for.
    vote: Option<Vote>,
}

/// Sends a packed pass to every node that is asked, before it reads any reply: one round trip for all. The first node of the
/// canonical order comes last, because that is where clients wait.
///
/// As a release, it ignores breakers, and connects beside a pool that is used up. As an acquire, it is undone where no reply
/// comes.
pub(crate) fn pass_all<'n>(
    nodes: impl DoubleEndedIterator<Item = (&'n Node, bool)> + Clone,
    command: &Packed,
    attempt: &Attempt<'_>,
) -> Answers {
    let undo = attempt.release();
    let request = Request::new(command, Kind::Pass { undo });
    let read = |node: &Node, reply: &Reply| pass_reply(reply, |reply| attempt.vote(node, reply));
    let answers = exchange_all(nodes.clone().rev(), &request, read);
    let answers = nodes.zip(answers.into_iter().rev());
    let (mut reports, mut ballots, mut has_woken) = (Vec::new(), Vec::new(), false);
    for ((node, _), answer) in answers {
        let Some(answer) = answer else {
            reports.push(node.report(Vote::NotAsked, Duration::ZERO, None));
            ballots.push(None);
            continue;
        };
        has_woken |= matches!(&answer.result, Ok(reply) if reply.released.has_woken);
        ballots.push(Some(ballot(node, &answer)));
        let vote = answer
            .result
            .map_or_else(Vote::Failed, |reply| reply.released.vote);
        let vote = final_vote(vote, answer.first_failure);
        reports.push(node.report(vote, answer.elapsed, answer.server));
    }
    one_vote_each(&mut reports);
    let nodes = reports;
    Answers {
        released: Released { nodes, has_woken },
        ballots,
    }
}

fn ballot(node: &Node, answer: &Answer<PassReply>) -> Ballot {
    let (vote, trace) = match &answer.result {
        Ok(PassReply { vote: None, .. }) => (Vote::NotAsked, Trace::None),
        Ok(PassReply {
            vote: Some(vote), ..
        }) => (vote.clone(), answer.trace),
        Err(error) => (Vote::Failed(error.clone()), answer.trace),
    };
    Ballot {
        report: node.report(vote, answer.elapsed, answer.server.clone()),
        trace,
    }
}

/// Reads the reply of pass.lua. One that is not a pair answers both: the key is another holder's, or an error.
fn pass_reply(reply: &Reply, vote: impl Fn(&Reply) -> Option<Vote>) -> Option<PassReply> {
    if let Reply::Array(replies) = reply
        && let [released, asked] = replies.as_slice()
        && !matches!(asked, Reply::Bulk(_))
    {
        return Some(PassReply {
            released: release_reply(released).filter(|reply| !reply.has_woken)?,
            vote: Some(vote(asked)?),
        });
    }
    let released = release_reply(reply)?;
    let is_for_both = !released.vote.is_granted();
    (is_for_both || released.has_woken).then(|| PassReply {
        vote: is_for_both.then(|| released.vote.clone()),
        released,
    })
}
