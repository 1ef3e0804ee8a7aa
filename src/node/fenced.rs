//! Reads the replies of the fenced protocol, and opens nodes for it.

use std::time::Duration;

use super::command::eval;
use super::readers::{refusal, refusal_of_a_reader};
use super::request::{Kind, Request, Rule};
use super::round::exchange_all;
use super::{Node, refused};
use crate::error::{NodeError, NodeReport, QuarantineCause, Vote, one_vote_each};
use crate::fencing::{FencingToken, Rules};
use crate::wire::pack::{Packed, Word, millis};
use crate::wire::resp::{Reply, ServerError};
use crate::wire::scripts::fenced::OPEN;
use crate::wire::transport::clean;

/// What to do with the marker of a node that was perhaps never in use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum MarkerAction {
    /// Nothing: says whether the node is fresh.
    Look,
    /// A fresh node votes from now on.
    Open,
    /// A node that was opened is fresh again.
    Close,
}

impl MarkerAction {
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
    action: MarkerAction,
) -> Vec<NodeReport> {
    let command = action.command(rules);
    let rule = Rule::new(|reply, _| is_fenced_reply(reply), 0);
    let request = Request::new(&command, Kind::Inspect, rule);
    let all = nodes.clone().map(|node| (node, true));
    let answers = exchange_all(all, &request);
    let reports = nodes.zip(answers.into_iter().flatten());
    let reports = reports.map(|(node, answer)| {
        let answer = answer.read(|reply| node.fenced_vote(reply, rules, &[], refusal));
        let vote = answer.result.unwrap_or_else(Vote::Failed);
        node.report(vote, answer.elapsed, answer.server)
    });
    let mut reports: Vec<NodeReport> = reports.collect();
    one_vote_each(&mut reports);
    reports
}

impl Node {
    /// Reads a reply of the fenced protocol, as the rules and the wall clock of this client take it, and a refusal as `why_not`
    /// does. It is about these keys of locks.
    pub(super) fn fenced_vote(
        &self,
        reply: &Reply,
        rules: &Rules,
        locks: &[String],
        why_not: WhyNot,
    ) -> Option<Vote> {
        let client = Client {
            rules,
            locks,
            wall_micros: self.clock.wall_micros(),
        };
        read_reply(reply, why_not).map(|reply| client.vote(reply))
    }
}

/// Reads what a script returns where another has the lock.
pub(super) type WhyNot = fn(&[Reply]) -> Option<Vote>;

/// What a node answers to the acquire of the fenced protocol, or to open.lua.
#[derive(Debug)]
enum FencedReply {
    Granted,
    /// The lock is held, or its key is no lock.
    Taken(Vote),
    Marker,
    /// The counter of the lock at this place is none.
    Counter(usize),
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

/// Whether this is an answer of the scripts of the fenced protocol.
pub(super) fn is_fenced_reply(reply: &Reply) -> bool {
    read_reply(reply, refusal).is_some()
}

/// As [`is_fenced_reply`], to a reader.
pub(super) fn is_fenced_read(reply: &Reply) -> bool {
    read_reply(reply, refusal_of_a_reader).is_some()
}

/// Reads a reply. Accepts exactly what the scripts return.
fn read_reply(reply: &Reply, why_not: WhyNot) -> Option<FencedReply> {
    let items = match reply {
        Reply::Okay => return Some(FencedReply::Granted),
        Reply::Error(error) => return Some(FencedReply::Error(error.clone())),
        Reply::Array(items) => items.as_slice(),
        Reply::Nil | Reply::Text(_) | Reply::Int(_) | Reply::Bulk(_) => return None,
    };
    if let [Reply::Int(_), ..] = items {
        return why_not(items).map(FencedReply::Taken);
    }
    let (word, rest) = items.split_first()?;
    match (bytes(word)?, rest) {
        (b"MARKER", []) => Some(FencedReply::Marker),
        (b"COUNTER", []) => Some(FencedReply::Counter(0)),
        (b"COUNTER", [place]) => {
            let place = usize::try_from(number(place)?).ok()?;
            Some(FencedReply::Counter(place.checked_sub(1)?))
        }
        (b"SERVING", []) => Some(FencedReply::Serving),
        (b"UNKNOWN", [reason]) => {
            let reason = String::from_utf8_lossy(bytes(reason)?);
            Some(FencedReply::Unknown(clean(&reason)))
        }
        (b"CONFIG", [config]) => {
            let config = String::from_utf8_lossy(bytes(config)?);
            Some(FencedReply::Config(clean(&config)))
        }
        (b"CLOSED", [left, why]) => {
            let why = match bytes(why)? {
                b"new" => QuarantineCause::Unmarked,
                _ => QuarantineCause::Reborn,
            };
            Some(FencedReply::Closed(number(left)?, why))
        }
        (b"FUTURE", [ahead]) => Some(FencedReply::Future(number(ahead)?)),
        (b"SKEW", [now]) => Some(FencedReply::Skew(number(now)?)),
        (b"STALE", [counter]) => Some(FencedReply::Stale(number(counter)?)),
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

/// A client, as far as the meaning of a reply depends on it.
struct Client<'a> {
    rules: &'a Rules,
    /// The keys of the locks that the reply is about.
    locks: &'a [String],
    wall_micros: u64,
}

impl Client<'_> {
    fn vote(self, reply: FencedReply) -> Vote {
        let error = match reply {
            FencedReply::Granted => return Vote::Granted,
            FencedReply::Taken(vote) => return vote,
            FencedReply::Error(error) => return refused(&error),
            FencedReply::Stale(counter) if counter <= self.latest() => {
                let counter = FencingToken::new(counter);
                return Vote::Stale { counter };
            }
            // A proposal above this counter would be refused by every other node.
            FencedReply::Stale(counter) => self.skew(counter),
            FencedReply::Skew(now) => self.skew(now),
            FencedReply::Marker => NodeError::InvalidKey {
                key: self.rules.marker.clone(),
                reason: "it is not a marker of the fenced protocol",
            },
            FencedReply::Counter(place) => NodeError::InvalidKey {
                key: Rules::fence(self.locks.get(place).map_or("", String::as_str)),
                reason: "it is not a counter of fencing tokens",
            },
            FencedReply::Config(theirs) => NodeError::ConfigMismatch {
                ours: self.rules.config.clone(),
                theirs,
            },
            FencedReply::Closed(left, cause) => NodeError::Quarantined {
                remaining: Duration::from_micros(left),
                cause,
            },
            FencedReply::Future(ahead) => NodeError::FutureCounter {
                ahead: Duration::from_micros(ahead),
            },
            FencedReply::Serving => NodeError::Serving,
            FencedReply::Unknown(why) if why == "CLUSTER" => NodeError::InCluster,
            FencedReply::Unknown(why) => {
                let (code, message) = why.split_once(' ').unwrap_or((&why, ""));
                let (code, message) = (code.to_owned(), message.to_owned());
                let reason = NodeError::Refused { code, message }.to_string();
                NodeError::Unidentified { reason }
            }
        };
        Vote::Failed(error)
    }

    /// The largest counter above which nodes with the same wall clock still grant a token.
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
            Reply::Array(vec![Reply::Int(5), word("a value")]),
            Reply::Array(vec![Reply::Int(5), Reply::Int(5)]),
            Reply::Array(vec![word("CLOSED"), Reply::Int(5), word("new")]),
            Reply::Array(vec![word("STALE"), Reply::Int(5)]),
            Reply::Array(vec![word("COUNTER")]),
            Reply::Array(vec![word("COUNTER"), Reply::Int(2)]),
        ];
        assert!(good.iter().all(is_fenced_reply));
        for bad in [
            Reply::Nil,
            Reply::Int(1),
            word("OK"),
            Reply::Text("ok".into()),
            Reply::Array(vec![]),
            Reply::Array(vec![Reply::Int(-4)]),
            Reply::Array(vec![Reply::Int(-2)]),
            Reply::Array(vec![Reply::Int(-2), word("a value")]),
            Reply::Array(vec![Reply::Int(5), Reply::Int(-1)]),
            Reply::Array(vec![Reply::Int(5), word("a value"), word("another")]),
            Reply::Array(vec![word("OK")]),
            Reply::Array(vec![Reply::Okay]),
            Reply::Array(vec![word("STALE")]),
            Reply::Array(vec![word("STALE"), Reply::Int(-1)]),
            Reply::Array(vec![word("STALE"), word("5")]),
            Reply::Array(vec![word("CLOSED"), Reply::Int(5)]),
            Reply::Array(vec![word("MARKER"), Reply::Int(5)]),
            Reply::Array(vec![word("COUNTER"), Reply::Int(0)]),
            Reply::Array(vec![word("COUNTER"), word("2")]),
        ] {
            assert!(!is_fenced_reply(&bad), "{bad:?}");
        }
    }

    /// What a client whose wall clock shows this takes a reply of these words for.
    fn vote(words: &[Reply], wall_micros: u64) -> Vote {
        let rules = Rules::new("", 3, Duration::from_mins(1), Duration::from_secs(1));
        let client = Client {
            rules: &rules,
            locks: &["job".into()],
            wall_micros,
        };
        let reply = Reply::Array(words.to_vec());
        assert!(is_fenced_reply(&reply) && is_fenced_read(&reply));
        client.vote(read_reply(&reply, refusal).unwrap())
    }

    #[test]
    fn each_reason_of_the_scripts_is_told_as_what_it_is() {
        let word = |word: &str| Reply::Bulk(word.into());
        let told = |words: &[Reply]| {
            let vote = vote(words, 0);
            let Vote::Failed(error) = vote else {
                panic!("{vote:?}");
            };
            error
        };
        let is_of = |words: &[Reply], name: &str| matches!(told(words), NodeError::InvalidKey { key, .. } if key.contains(name));
        assert!(is_of(&[word("MARKER")], "redlatch"));
        assert!(is_of(&[word("COUNTER")], "job"));
        assert!(matches!(told(&[word("SERVING")]), NodeError::Serving));
        let cluster = told(&[word("UNKNOWN"), word("CLUSTER")]);
        assert!(matches!(cluster, NodeError::InCluster));
        let refused = told(&[word("UNKNOWN"), word("NOPERM no")]);
        assert!(
            matches!(&refused, NodeError::Unidentified { reason } if reason.contains("NOPERM")),
            "{refused}"
        );
        let theirs = told(&[word("CONFIG"), word("5:3")]);
        assert!(matches!(theirs, NodeError::ConfigMismatch { theirs, .. } if theirs == "5:3"));
        for (why, cause) in [
            ("new", QuarantineCause::Unmarked),
            ("reborn", QuarantineCause::Reborn),
        ] {
            let closed = told(&[word("CLOSED"), Reply::Int(5), word(why)]);
            let NodeError::Quarantined {
                remaining,
                cause: found,
            } = closed
            else {
                panic!("{closed}");
            };
            assert_eq!((remaining, found), (Duration::from_micros(5), cause));
        }
        let future = told(&[word("FUTURE"), Reply::Int(5)]);
        let ahead_by = Duration::from_micros(5);
        assert!(matches!(future, NodeError::FutureCounter { ahead } if ahead == ahead_by));
    }

    #[test]
    fn a_counter_that_no_client_with_this_clock_can_pass_is_the_fault_of_a_clock() {
        let told =
            |word: &str, number| vote(&[Reply::Bulk(word.into()), Reply::Int(number)], 1_000);
        let quarantine = 61_001_000;
        let stale = told("STALE", 1_000 + quarantine);
        assert!(matches!(stale, Vote::Stale { .. }), "{stale:?}");
        for (word, number, is_ahead) in [
            ("STALE", 1_001 + quarantine, true),
            ("SKEW", 1_001, true),
            ("SKEW", 999, false),
        ] {
            let vote = told(word, number);
            let Vote::Failed(NodeError::ClockSkew { node_is_ahead, .. }) = vote else {
                panic!("{vote:?}");
            };
            assert_eq!(node_is_ahead, is_ahead);
        }
    }

    #[test]
    fn a_reader_is_answered_as_others_are_or_that_a_writer_waits() {
        let numbers = |numbers: &[i64]| {
            Reply::Array(numbers.iter().map(|number| Reply::Int(*number)).collect())
        };
        assert!(is_fenced_read(&numbers(&[5, -1])) && !is_fenced_reply(&numbers(&[5, -1])));
        for bad in [Reply::Nil, Reply::Int(1), numbers(&[-2]), numbers(&[5, -2])] {
            assert!(!is_fenced_read(&bad), "{bad:?}");
        }
    }
}
