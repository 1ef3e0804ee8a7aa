//! Passes a lock on: releases it and asks for it again, in one request to each node.

use std::borrow::Cow;
use std::time::Duration;

use super::acquire::{Attempt, acquire_vote};
use super::exchange::Answer;
use super::fenced::is_fenced_reply;
use super::release::{ReleaseReply, Released, Woken, final_vote, release_reply};
use super::request::{Kind, Request, Rule};
use super::round::exchange_all;
use super::{Ballot, Node, Trace};
use crate::error::{Vote, one_vote_each};
use crate::wire::pack::Packed;
use crate::wire::resp::Reply;

/// The result of a pass.
pub(crate) struct PassAnswers {
    /// What the nodes say of the release.
    pub(crate) released: Released,
    /// What they say of the attempt that rode with it; none of a node that was not asked.
    pub(crate) ballots: Vec<Option<Ballot>>,
    /// Whether the node was asked and has not answered.
    pub(crate) is_silent: Vec<bool>,
}

/// What one node answers.
struct PassReply {
    released: ReleaseReply,
    /// None if the release has woken a client: then nothing was asked for.
    vote: Option<Vote>,
}

/// Sends a packed pass to every node that is asked, before it reads any reply: one round trip for all, in the order of a
/// release.
///
/// As a release, it ignores breakers, and connects beside a pool that is used up. As an acquire, it is undone where no reply
/// comes.
pub(crate) fn pass_all<'n>(
    nodes: impl Iterator<Item = (&'n Node, bool)> + Clone,
    command: &Packed,
    attempt: &Attempt<'_>,
) -> PassAnswers {
    let undo = Cow::Borrowed(attempt.undo());
    let rule = if attempt.is_fenced() {
        Rule::new(|reply, _| is_pass_reply(reply, is_fenced_reply), 0)
    } else {
        Rule::new(|reply, _| is_pass_reply(reply, is_acquire_reply), 0)
    };
    let request = Request::new(command, Kind::Pass { undo }, rule);
    let answers = nodes.clone().zip(exchange_all(nodes, &request));
    let (mut reports, mut ballots, mut woken) = (Vec::new(), Vec::new(), Woken::default());
    let mut is_silent = Vec::new();
    for ((node, _), answer) in answers {
        let Some(answer) = answer else {
            reports.push(node.report(Vote::NotAsked, Duration::ZERO, None));
            ballots.push(None);
            is_silent.push(false);
            continue;
        };
        let answer = answer.read(|reply| pass_reply(reply, |reply| attempt.vote(node, reply)));
        if let Ok(reply) = &answer.result {
            woken = woken.or(reply.released.woken);
        }
        ballots.push(Some(ballot(node, &answer)));
        is_silent.push(answer.result.is_err());
        let vote = answer
            .result
            .map_or_else(Vote::Failed, |reply| reply.released.vote);
        let vote = final_vote(vote, answer.first_failure);
        reports.push(node.report(vote, answer.elapsed, answer.server));
    }
    one_vote_each(&mut reports);
    let nodes = reports;
    PassAnswers {
        released: Released { nodes, woken },
        ballots,
        is_silent,
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

/// What is in a reply of pass.lua about the attempt.
enum Asked<'r> {
    /// The release has woken a client, and nothing was asked for.
    Nothing,
    /// The same as about the release: the key is another holder's, or an error.
    Same,
    Reply(&'r Reply),
}

/// Reads a reply of pass.lua, all but the part about the attempt.
fn parts(reply: &Reply) -> Option<(ReleaseReply, Asked<'_>)> {
    if let Reply::Array(replies) = reply
        && let [released, asked] = replies.as_slice()
        && !matches!(asked, Reply::Bulk(_) | Reply::Int(_))
    {
        let released = release_reply(released).filter(|released| !released.woken.any())?;
        return Some((released, Asked::Reply(asked)));
    }
    let released = release_reply(reply)?;
    match (&released.vote, released.woken.any()) {
        (_, true) => Some((released, Asked::Nothing)),
        // Whoever releases is told about the attempt as well.
        (Vote::Released, false) => None,
        _ => Some((released, Asked::Same)),
    }
}

fn is_pass_reply(reply: &Reply, is_vote: impl Fn(&Reply) -> bool) -> bool {
    match parts(reply) {
        Some((_, Asked::Reply(asked))) => is_vote(asked),
        Some((_, Asked::Nothing | Asked::Same)) => true,
        None => false,
    }
}

fn pass_reply(reply: &Reply, vote: impl Fn(&Reply) -> Option<Vote>) -> Option<PassReply> {
    let (released, asked) = parts(reply)?;
    let vote = match asked {
        Asked::Nothing => None,
        Asked::Same => Some(released.vote.clone()),
        Asked::Reply(asked) => Some(vote(asked)?),
    };
    Some(PassReply { released, vote })
}

fn is_acquire_reply(reply: &Reply) -> bool {
    acquire_vote(reply).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::resp::ServerError;

    fn read(reply: &Reply) -> Option<(Vote, bool, Option<Vote>)> {
        let read = pass_reply(reply, acquire_vote);
        assert_eq!(read.is_some(), is_pass_reply(reply, is_acquire_reply));
        read.map(|reply| (reply.released.vote, reply.released.woken.any(), reply.vote))
    }

    fn pair(first: Reply, second: Reply) -> Reply {
        Reply::Array(vec![first, second])
    }

    #[test]
    fn each_answer_of_the_script_is_read() {
        let missing = || Reply::Array(vec![Reply::Int(-2)]);
        let error = || Reply::Error(ServerError::new("OOM command not allowed"));
        let value = || Reply::Bulk(b"a value".to_vec());
        let read = |reply| read(&reply).unwrap();
        let is_held = |vote: &Vote| matches!(vote, Vote::Held { .. });

        let answer = read(pair(Reply::Int(1), Reply::Okay));
        assert!(matches!(
            answer,
            (Vote::Released, false, Some(Vote::Granted))
        ));
        let answer = read(pair(missing(), Reply::Okay));
        assert!(matches!(
            answer,
            (Vote::Missing, false, Some(Vote::Granted))
        ));
        let answer = read(pair(Reply::Int(1), error()));
        assert!(matches!(
            answer,
            (Vote::Released, false, Some(Vote::Failed(_)))
        ));
        let answer = read(Reply::Int(2));
        assert!(matches!(answer, (Vote::Released, true, None)));
        let answer = read(error());
        assert!(matches!(
            answer,
            (Vote::Failed(_), false, Some(Vote::Failed(_)))
        ));
        for held in [
            Reply::Array(vec![Reply::Int(2)]),
            pair(Reply::Int(1), value()),
            // A millisecond is left to one reader.
            pair(Reply::Int(1), Reply::Int(1)),
        ] {
            let (released, has_woken, vote) = read(held);
            assert!(is_held(&released) && !has_woken && vote.is_some_and(|vote| is_held(&vote)));
        }
    }

    #[test]
    fn nothing_else_is() {
        let bulk = || Reply::Bulk(b"OK".to_vec());
        for bad in [
            Reply::Int(1),
            Reply::Int(0),
            Reply::Okay,
            Reply::Nil,
            bulk(),
            Reply::Array(vec![]),
            pair(Reply::Int(2), Reply::Okay),
            pair(Reply::Int(1), Reply::Int(-1)),
            pair(Reply::Okay, Reply::Okay),
            pair(Reply::Int(1), Reply::Text("PONG".into())),
            pair(Reply::Int(3), Reply::Okay),
            Reply::Array(vec![Reply::Int(1), Reply::Okay, Reply::Okay]),
        ] {
            assert!(read(&bad).is_none(), "{bad:?}");
        }
    }
}
