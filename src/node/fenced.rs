//! What a node answers to the commands of the fenced protocol; and how nodes are opened.

use std::time::Duration;

use super::command::eval;
use super::release::not_ours;
use super::request::{Kind, Request};
use super::together::exchange_all;
use super::{Node, refused};
use crate::error::{NodeError, NodeReport, QuarantineCause, Vote, one_vote_each};
use crate::fencing::{FencingToken, Rules};
use crate::wire::pack::{Packed, Word, millis};
use crate::wire::resp::{Reply, ServerError};
use crate::wire::scripts::fenced::OPEN;
use crate::wire::transport::clean;

/// What is done about the marker of a node that may never have been in use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opening {
    /// Nothing: says whether the node is fresh.
    Look,
    /// A fresh node votes from now on.
    Open,
    /// A node that was opened is fresh again.
    Close,
}

impl Opening {
    pub(crate) fn command(self, rules: &Rules) -> Packed {
        let action = Word::from(match self {
            Self::Look => "look",
            Self::Open => "open",
            Self::Close => "close",
        });
        let (marker, config) = (rules.marker.as_str(), rules.config.as_str());
        let rest = [
            "1".into(),
            marker.into(),
            action,
            millis(rules.quarantine),
            config.into(),
        ];
        Packed::new("open", &eval(OPEN, rest))
    }
}

/// Sends open.lua to every node, before it reads any reply.
pub(crate) fn open_all<'n>(
    nodes: impl Iterator<Item = &'n Node> + Clone,
    rules: &Rules,
    opening: Opening,
) -> Vec<NodeReport> {
    let command = opening.command(rules);
    let request = Request {
        packed: &command,
        kind: Kind::Look,
    };
    let all = nodes.clone().map(|node| (node, true));
    let read = |node: &Node, reply: &Reply| {
        let counter = rules.marker.clone();
        Some(node.read(answer(reply)?, rules, counter))
    };
    let answers = exchange_all(all, &request, read);
    let reports = nodes.zip(answers.into_iter().flatten());
    let reports = reports.map(|(node, answer)| {
        let vote = answer.result.unwrap_or_else(Vote::Failed);
        node.report(vote, answer.elapsed, answer.server)
    });
    let mut reports: Vec<NodeReport> = reports.collect();
    one_vote_each(&mut reports);
    reports
}

/// What a node answers to the acquire of the fenced protocol, or to open.lua.
#[derive(Debug)]
pub(super) enum Answer {
    Granted,
    /// The lock is held, or its key is no lock.
    Taken(Vote),
    Marker,
    Counter,
    Config(String),
    Closed(u64, QuarantineCause),
    Future(u64),
    /// The node's time.
    Skew(u64),
    /// The node's counter, or what stands in for it.
    Stale(u64),
    Serving,
    /// The server does not say which process it is.
    Unknown(String),
    Error(ServerError),
}

/// Reads an answer. Anything but exactly one of those of the scripts is none.
pub(super) fn answer(reply: &Reply) -> Option<Answer> {
    let items = match reply {
        Reply::Okay => return Some(Answer::Granted),
        Reply::Error(error) => return Some(Answer::Error(error.clone())),
        Reply::Array(items) => items.as_slice(),
        Reply::Nil | Reply::Text(_) | Reply::Int(_) | Reply::Bulk(_) => return None,
    };
    if let [Reply::Int(pttl)] = items {
        return not_ours(*pttl).map(Answer::Taken);
    }
    let (word, rest) = items.split_first()?;
    match (bytes(word)?, rest) {
        (b"MARKER", []) => Some(Answer::Marker),
        (b"COUNTER", []) => Some(Answer::Counter),
        (b"SERVING", []) => Some(Answer::Serving),
        (b"UNKNOWN", [reason]) => {
            let reason = String::from_utf8_lossy(bytes(reason)?);
            Some(Answer::Unknown(clean(&reason)))
        }
        (b"CONFIG", [config]) => {
            let config = String::from_utf8_lossy(bytes(config)?);
            Some(Answer::Config(clean(&config)))
        }
        (b"CLOSED", [left, why]) => {
            let why = match bytes(why)? {
                b"new" => QuarantineCause::Unmarked,
                _ => QuarantineCause::Reborn,
            };
            Some(Answer::Closed(number(left)?, why))
        }
        (b"FUTURE", [ahead]) => Some(Answer::Future(number(ahead)?)),
        (b"SKEW", [now]) => Some(Answer::Skew(number(now)?)),
        (b"STALE", [counter]) => Some(Answer::Stale(number(counter)?)),
        _ => None,
    }
}

fn bytes(value: &Reply) -> Option<&[u8]> {
    if let Reply::Bulk(bytes) = value {
        Some(bytes)
    } else {
        None
    }
}

fn number(value: &Reply) -> Option<u64> {
    if let Reply::Int(number) = value {
        u64::try_from(*number).ok()
    } else {
        None
    }
}

/// What an answer means for a client whose wall clock shows this.
pub(super) struct Reading<'a> {
    pub(super) rules: &'a Rules,
    /// The counter that a vote is about.
    pub(super) counter: String,
    pub(super) wall_micros: u64,
}

impl Reading<'_> {
    pub(super) fn vote(self, answer: Answer) -> Vote {
        let error = match answer {
            Answer::Granted => return Vote::Granted,
            Answer::Taken(vote) => return vote,
            Answer::Error(error) => return refused(&error),
            Answer::Stale(counter) if counter <= self.latest() => {
                let counter = FencingToken::new(counter);
                return Vote::Stale { counter };
            }
            // To follow it would be to propose what no other node takes.
            Answer::Stale(counter) => self.skew(counter),
            Answer::Skew(now) => self.skew(now),
            Answer::Marker => NodeError::InvalidKey {
                key: self.rules.marker.clone(),
                reason: "it is not a marker of the fenced protocol",
            },
            Answer::Counter => NodeError::InvalidKey {
                key: self.counter,
                reason: "it is not a counter of fencing tokens",
            },
            Answer::Config(theirs) => NodeError::ConfigMismatch {
                ours: self.rules.config.clone(),
                theirs,
            },
            Answer::Closed(left, cause) => NodeError::Quarantined {
                remaining: Duration::from_micros(left),
                cause,
            },
            Answer::Future(ahead) => NodeError::FutureCounter {
                ahead: Duration::from_micros(ahead),
            },
            Answer::Serving => NodeError::Serving,
            Answer::Unknown(why) if why == "CLUSTER" => NodeError::InCluster,
            Answer::Unknown(why) => {
                let (code, message) = why.split_once(' ').unwrap_or((&why, ""));
                let (code, message) = (code.to_owned(), message.to_owned());
                let reason = NodeError::Refused { code, message }.to_string();
                NodeError::Unidentified { reason }
            }
        };
        Vote::Failed(error)
    }

    /// The largest counter that a client of this time can go above, and be granted by nodes that share its time.
    fn latest(&self) -> u64 {
        let span = u64::try_from(self.rules.quarantine.as_micros()).unwrap_or(u64::MAX);
        self.wall_micros.saturating_add(span)
    }

    fn skew(&self, node_micros: u64) -> NodeError {
        NodeError::ClockSkew {
            difference: Duration::from_micros(node_micros.abs_diff(self.wall_micros)),
            node_is_ahead: node_micros > self.wall_micros,
            allowed: self.rules.skew,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anything_but_the_answers_of_the_scripts_is_none() {
        let word = |word: &str| Reply::Bulk(word.into());
        let good = [
            Reply::Okay,
            Reply::Array(vec![Reply::Int(5)]),
            Reply::Array(vec![word("CLOSED"), Reply::Int(5), word("new")]),
            Reply::Array(vec![word("STALE"), Reply::Int(5)]),
        ];
        assert!(good.iter().all(|reply| answer(reply).is_some()));
        for bad in [
            Reply::Nil,
            Reply::Int(1),
            word("OK"),
            Reply::Text("ok".into()),
            Reply::Array(vec![]),
            Reply::Array(vec![Reply::Int(-4)]),
            Reply::Array(vec![Reply::Int(-2)]),
            Reply::Array(vec![word("OK")]),
            Reply::Array(vec![Reply::Okay]),
            Reply::Array(vec![word("STALE")]),
            Reply::Array(vec![word("STALE"), Reply::Int(-1)]),
            Reply::Array(vec![word("STALE"), word("5")]),
            Reply::Array(vec![word("CLOSED"), Reply::Int(5)]),
            Reply::Array(vec![word("MARKER"), Reply::Int(5)]),
        ] {
            assert!(answer(&bad).is_none(), "{bad:?}");
        }
    }
}
