//! One attempt: a round over the nodes, and what it comes to.

use std::time::Duration;

use super::LockManager;
use crate::error::{Error, NodeError, NodeReport, Vote};
use crate::guard::LockGuard;
use crate::guard::held::Held;
use crate::keep_alive::KeepAlive;
use crate::node::ask_all::release_all;
use crate::node::command::Command;
use crate::node::fenced::Fence;
use crate::node::{Ballot, Node};
use crate::quorum;
use crate::token::Token;

impl LockManager {
    /// One attempt, with a token of its own: one round over the nodes, and the release of what it left if it failed.
    pub(super) fn attempt(
        &self,
        resource: &str,
        key: &str,
        (ttl, validity): (Duration, Duration),
        keep_alive: Option<KeepAlive>,
    ) -> Result<LockGuard, Error> {
        let token = Token::random().map_err(|source| Error::NoRandomness { source })?;
        let rules = self.shared.rules.as_ref();
        let fencing = rules.map(|_| self.shared.proposals.next(self.clock().wall_micros()));
        let fence = rules.zip(fencing);
        let command = Command {
            key,
            token: token.as_str(),
            fence: fence.map(|(rules, token)| Fence { rules, token }),
        };
        let set = command.acquire(ttl);
        let release = command.release();

        let started = self.clock().now();
        let ballots = self.round(|node| node.acquire(command, ttl, &set, &release));
        let granted = ballots
            .iter()
            .filter(|b| b.report.vote.is_granted())
            .count();

        if quorum::is_reached(self.nodes().len(), granted) {
            let deadline = started.saturating_add(validity);
            let owed = ballots.iter().map(|ballot| ballot.owed).collect();
            let tokens = (token, fencing);
            let held = Held::new(self.clock(), resource, tokens, owed, (started, deadline));
            let votes = ballots.into_iter().map(|ballot| ballot.report).collect();
            let guard = LockGuard::new(self, held, votes);
            if let Some(keep_alive) = keep_alive {
                guard.keep_from_the_beginning((ttl, validity), keep_alive);
            }
            // The last look at the clock. A guard that is dropped gives everything back.
            if !guard.remaining().is_zero() {
                return Ok(guard);
            }
            let elapsed = self.clock().now().saturating_since(started);
            let nodes = guard.votes().to_vec();
            return Err(Error::TooSlow { elapsed, nodes });
        }

        self.learn(&ballots);
        let owed = ballots.iter().map(|ballot| ballot.owed);
        let released = release_all(self.each().zip(owed), &release);
        let nodes: Vec<NodeReport> = ballots.into_iter().zip(released).map(settle).collect();
        let failed = nodes
            .iter()
            .filter(|report| report.vote.is_failure())
            .count();
        if quorum::is_ruled_out(nodes.len(), failed) {
            Err(Error::Unavailable { nodes })
        } else {
            Err(Error::Held { nodes })
        }
    }

    /// Makes the next proposal one that these nodes can grant.
    fn learn(&self, ballots: &[Ballot]) {
        let proposals = &self.shared.proposals;
        let votes = || ballots.iter().map(|ballot| &ballot.report.vote);
        let is_skewed = |vote: &Vote| matches!(vote, Vote::Failed(NodeError::ClockSkew { .. }));
        if votes().any(is_skewed) {
            // Whoever is ahead: it may have been this machine's clock of a while ago.
            proposals.reset();
        }
        for vote in votes() {
            if let Vote::Stale { counter } = vote {
                proposals.saw(u64::from(*counter));
            }
        }
    }

    /// Asks the nodes one after the other, in the canonical order, until a majority is impossible.
    ///
    /// Nodes that failed a moment ago come last, and only if a majority needs them.
    fn round(&self, ask: impl Fn(&Node) -> Ballot) -> Vec<Ballot> {
        let nodes = self.nodes();
        let heed_breakers = self.heeds_breakers();

        let mut round = Round::new(nodes.len());
        for node in nodes {
            let ballot = match node.recent_failure() {
                Some(failure) if heed_breakers => node.unasked(Vote::BreakerOpen { failure }),
                _ => round.cast(node, &ask),
            };
            round.ballots.push(ballot);
        }
        for (place, node) in nodes.iter().enumerate() {
            let is_left_out = round.ballots.get(place).is_some_and(Ballot::is_left_out);
            if is_left_out && round.is_open() {
                let ballot = round.cast(node, &ask);
                if let Some(left_out) = round.ballots.get_mut(place) {
                    *left_out = ballot;
                }
            }
        }
        round.ballots
    }
}

/// The count of a round that is under way.
struct Round {
    nodes: usize,
    granted: usize,
    /// Nodes that were asked and did not grant.
    against: usize,
    ballots: Vec<Ballot>,
}

impl Round {
    fn new(nodes: usize) -> Self {
        Self {
            nodes,
            granted: 0,
            against: 0,
            ballots: Vec::with_capacity(nodes),
        }
    }

    /// Asks the node, unless a majority is impossible already.
    fn cast(&mut self, node: &Node, ask: impl Fn(&Node) -> Ballot) -> Ballot {
        if self.is_lost() {
            return node.unasked(Vote::NotAsked);
        }
        let mut ballot = ask(node);
        let others = self.ballots.iter().map(|other| &other.report);
        ballot.report.be_an_alias_of(others);
        let count = if ballot.report.vote.is_granted() {
            &mut self.granted
        } else {
            &mut self.against
        };
        *count = count.saturating_add(1);
        ballot
    }

    fn is_lost(&self) -> bool {
        quorum::is_ruled_out(self.nodes, self.against)
    }

    /// Whether further votes can decide it.
    fn is_open(&self) -> bool {
        !self.is_lost() && !quorum::is_reached(self.nodes, self.granted)
    }
}

/// Puts into a node's vote what its answer to the release has told about the key that was in the way.
fn settle((ballot, released): (Ballot, NodeReport)) -> NodeReport {
    let mut report = ballot.report;
    if matches!(report.vote, Vote::Held { .. }) {
        match released.vote {
            Vote::Held { .. } | Vote::Failed(NodeError::NotALock { .. }) => {
                report.vote = released.vote;
            }
            Vote::Missing => {
                let remaining = Some(Duration::ZERO);
                report.vote = Vote::Held { remaining };
            }
            Vote::Granted
            | Vote::TimedOut
            | Vote::Failed(_)
            | Vote::BreakerOpen { .. }
            | Vote::Stale { .. }
            | Vote::NotAsked => {}
        }
    }
    report
}
