//! Asks nodes for their votes: one node, or all of them in one round trip. Also what a node of the fenced protocol means by a word.

use std::time::Duration;

use smallvec::SmallVec;

use super::command::{self, MarkerAction, Times};
use super::repair::Repair;
use super::reply::{Said, Taker, Verb, Word};
use super::request::{Answer, Kind, Request};
use super::round::{exchange, exchange_all};
use super::{Ballot, Node};
use crate::claim::Claim;
use crate::error::{NodeError, NodeReport, Vote, one_vote_each};
use crate::fencing::{FencingToken, Rules};
use crate::wire::pack::Packed;

/// One attempt, packed once for all nodes.
pub(crate) struct Attempt<'a> {
    pub(super) claim: &'a Claim,
    set: Packed,
    pub(super) repair: Repair<'a>,
}

impl<'a> Attempt<'a> {
    pub(crate) fn new(claim: &'a Claim, ttl: Duration) -> Self {
        Self {
            set: command::take(claim, ttl, Times::First),
            repair: Repair::new(claim, ttl),
            claim,
        }
    }

    /// As [`Self::new`], for a node that has no key of a lock that is held; of several resources, that lacks one at least. There
    /// the others count as set, with this time to live. A reader that has the lock does not heed a writer that waits for its end.
    pub(crate) fn healing(claim: &'a Claim, ttl: Duration) -> Self {
        let mut attempt = Self::new(claim, ttl);
        if claim.resource.is_read() || claim.resource.keys.len() != 1 {
            attempt.set = command::take(claim, ttl, Times::Heal);
            attempt.repair.times = Times::Heal;
        }
        attempt
    }

    /// As [`Self::new`], of a lock that nobody asks for again. Its undo leaves nothing for longer than the lock lasts.
    pub(crate) fn once(claim: &'a Claim, ttl: Duration) -> Self {
        let mut attempt = Self::new(claim, ttl);
        attempt.repair.idle = ttl;
        attempt
    }

    /// Releases the keys of the attempt.
    pub(crate) fn undo(&self) -> Packed {
        self.repair.undo()
    }

    pub(super) fn taker(&self) -> Taker {
        Taker {
            is_fenced: self.claim.fence.is_some(),
            is_reader: self.claim.resource.is_read(),
        }
    }

    fn request(&self) -> Request<'_> {
        let kind = Kind::Acquire(self.repair.clone());
        Request::new(&self.set, kind, Verb::Take(self.taker()))
    }

    /// The vote in what the node says.
    pub(super) fn vote(&self, node: &Node, said: Said) -> Vote {
        match (said, &self.claim.fence) {
            (Said::Word(word), Some(fence)) => {
                node.judge(word, &fence.rules, &self.claim.resource.keys)
            }
            (said, _) => said.vote(),
        }
    }
}

impl Node {
    /// Asks the node for its vote.
    pub(crate) fn acquire(&self, attempt: &Attempt<'_>) -> Ballot {
        self.ballot(attempt, exchange(self, &attempt.request()))
    }

    fn ballot(&self, attempt: &Attempt<'_>, answer: Answer) -> Ballot {
        let vote = answer
            .result
            .map_or_else(Vote::Failed, |said| attempt.vote(self, said));
        Ballot {
            report: self.report(vote, answer.elapsed, answer.server),
            trace: answer.trace,
        }
    }

    /// What a word means for a client of these rules and with this wall clock. It is about locks with these keys.
    fn judge(&self, word: Word, rules: &Rules, keys: &[String]) -> Vote {
        meaning(word, rules, keys, self.clock.wall_micros())
    }
}

/// Asks these nodes for their votes before any reply is read. Returns a ballot for each node that is asked.
pub(crate) fn acquire_all<'n>(
    nodes: impl Iterator<Item = (&'n Node, bool)> + Clone,
    attempt: &Attempt<'_>,
) -> SmallVec<[Option<Ballot>; 5]> {
    let answers = exchange_all(nodes.clone(), &attempt.request());
    let answers = nodes.zip(answers);
    answers
        .map(|((node, _), answer)| answer.map(|answer| node.ballot(attempt, answer)))
        .collect()
}

/// Opens or closes nodes of the fenced protocol, or asks whether they are fresh: all, before any reply is read.
pub(crate) fn open_all<'n>(
    nodes: impl Iterator<Item = &'n Node> + Clone,
    rules: &Rules,
    action: MarkerAction,
) -> Vec<NodeReport> {
    let command = command::open(rules, action);
    let request = Request::new(&command, Kind::Inspect, Verb::Open);
    let answers = exchange_all(nodes.clone().map(|node| (node, true)), &request);
    let answers = nodes.zip(answers.into_iter().flatten());
    let reports = answers.map(|(node, answer)| {
        let vote = answer.result.map_or_else(Vote::Failed, |said| {
            if let Said::Word(word) = said {
                node.judge(word, rules, &[])
            } else {
                said.vote()
            }
        });
        node.report(vote, answer.elapsed, answer.server)
    });
    let mut reports: Vec<NodeReport> = reports.collect();
    one_vote_each(&mut reports);
    reports
}

fn meaning(word: Word, rules: &Rules, keys: &[String], wall_micros: u64) -> Vote {
    let skew = |node_micros: u64| NodeError::ClockSkew {
        difference: Duration::from_micros(node_micros.abs_diff(wall_micros)),
        node_is_ahead: node_micros > wall_micros,
        allowed: rules.skew,
    };
    // The largest counter above which nodes with the same wall clock still grant a token.
    let span = u64::try_from(rules.quarantine.as_micros()).unwrap_or(u64::MAX);
    let latest = wall_micros.saturating_add(span);
    Vote::Failed(match word {
        Word::Done => return Vote::Granted,
        Word::Stale(counter) if counter <= latest => {
            let counter = FencingToken::new(counter);
            return Vote::Stale { counter };
        }
        // A proposal above this counter would be refused by every other node.
        Word::Stale(node_micros) | Word::Skew(node_micros) => skew(node_micros),
        Word::Marker => NodeError::InvalidKey {
            key: rules.marker.clone(),
            reason: "it is not a marker of the fenced protocol",
        },
        Word::Counter(place) => NodeError::InvalidKey {
            key: Rules::fence(keys.get(place).map_or("", String::as_str)),
            reason: "it is not a counter of fencing tokens",
        },
        Word::Config(theirs) => NodeError::ConfigMismatch {
            ours: rules.config.clone(),
            theirs,
        },
        Word::Closed(remaining, cause) => NodeError::Quarantined { remaining, cause },
        Word::Future(ahead) => NodeError::FutureCounter { ahead },
        Word::Serving => NodeError::Serving,
        Word::Unknown(why) if why == "CLUSTER" => NodeError::InCluster,
        Word::Unknown(why) => {
            let (code, message) = why.split_once(' ').unwrap_or((&why, ""));
            let (code, message) = (code.to_owned(), message.to_owned());
            let reason = NodeError::Refused { code, message }.to_string();
            NodeError::Unidentified { reason }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::QuarantineCause;

    /// What a client whose wall clock shows this takes a word for.
    fn told(word: Word, wall_micros: u64) -> Vote {
        let rules = Rules::new("", 3, Duration::from_mins(1), Duration::from_secs(1));
        meaning(word, &rules, &["job".into()], wall_micros)
    }

    #[test]
    fn each_word_is_told_as_what_it_is() {
        let told = |word| {
            let vote = told(word, 0);
            let Vote::Failed(error) = vote else {
                panic!("{vote:?}");
            };
            error
        };
        let is_of = |word, name: &str| matches!(told(word), NodeError::InvalidKey { key, .. } if key.contains(name));
        assert!(is_of(Word::Marker, "redlatch"));
        assert!(is_of(Word::Counter(0), "job"));
        assert!(matches!(told(Word::Serving), NodeError::Serving));
        let cluster = told(Word::Unknown("CLUSTER".into()));
        assert!(matches!(cluster, NodeError::InCluster));
        let refused = told(Word::Unknown("NOPERM no".into()));
        assert!(
            matches!(&refused, NodeError::Unidentified { reason } if reason.contains("NOPERM")),
            "{refused}"
        );
        let theirs = told(Word::Config("5:3".into()));
        assert!(matches!(theirs, NodeError::ConfigMismatch { theirs, .. } if theirs == "5:3"));
        let span = Duration::from_micros(5);
        let closed = told(Word::Closed(span, QuarantineCause::Reborn));
        let is_reborn = |cause| matches!(cause, QuarantineCause::Reborn);
        assert!(
            matches!(closed, NodeError::Quarantined { remaining, cause } if remaining == span && is_reborn(cause))
        );
        let future = told(Word::Future(span));
        assert!(matches!(future, NodeError::FutureCounter { ahead } if ahead == span));
    }

    #[test]
    fn a_counter_that_no_client_with_this_clock_can_pass_is_the_fault_of_a_clock() {
        let quarantine = 61_001_000;
        let stale = told(Word::Stale(1_000 + quarantine), 1_000);
        assert!(matches!(stale, Vote::Stale { .. }), "{stale:?}");
        for (word, is_ahead) in [
            (Word::Stale(1_001 + quarantine), true),
            (Word::Skew(1_001), true),
            (Word::Skew(999), false),
        ] {
            let vote = told(word, 1_000);
            let Vote::Failed(NodeError::ClockSkew { node_is_ahead, .. }) = vote else {
                panic!("{vote:?}");
            };
            assert_eq!(node_is_ahead, is_ahead);
        }
    }
}
