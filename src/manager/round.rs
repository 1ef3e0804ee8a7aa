//! One attempt: a round over the nodes, and what it comes to.

use std::sync::Arc;
use std::time::Duration;

use super::LockManager;
use super::order::Order;
use crate::error::{Error, NodeError, NodeReport, Vote};
use crate::guard::LockGuard;
use crate::guard::held::{Held, Tokens};
use crate::keep_alive::KeepAlive;
use crate::node::acquire::{Attempt, acquire_all};
use crate::node::ask_all::release_all;
use crate::node::command::Command;
use crate::node::fenced::Fence;
use crate::node::{Ballot, Node};
use crate::token::Token;
use crate::verdict::{self, Tally};

impl LockManager {
    /// One attempt, with a token of its own: one round over the nodes, and the release of what it left if it failed.
    pub(super) fn attempt(
        &self,
        resource: &Arc<str>,
        key: &str,
        (ttl, validity): (Duration, Duration),
        order: Order,
        keep_alive: Option<KeepAlive>,
    ) -> Result<LockGuard, Error> {
        let token = Token::random().map_err(|source| Error::NoRandomness { source })?;
        let rules = self.shared.rules.as_ref();
        let mut handover = self.shared.options.handover;
        let mut reserve = handover.map_or(0, |some| some.times);
        let claim = rules.map(|rules| {
            let wall = self.clock().wall_micros();
            let proposals = &self.shared.proposals;
            let (claim, reserved) = proposals.next(wall, reserve, rules.lead);
            reserve = reserved;
            claim
        });
        if let Some(handover) = &mut handover {
            handover.times = reserve;
        }
        let fence = rules.zip(claim);
        let command = Command {
            key,
            token: token.as_str().as_bytes(),
            fence: fence.map(|(rules, token)| Fence {
                rules,
                token,
                reserve,
            }),
        };
        let attempt = Attempt::new(command, ttl);

        let started = self.clock().now();
        let ballots = self.round(&attempt, order);
        let votes = ballots.iter().map(|ballot| &ballot.report.vote);
        if Tally::of(votes).is_won() {
            let deadline = started.saturating_add(validity);
            let owed = ballots.iter().map(|ballot| ballot.owed).collect();
            let tokens = Tokens {
                token,
                fencing: claim.map(|claim| claim.below(reserve)),
                claim,
            };
            let held = Held::new(self.clock(), resource, tokens, owed, (started, deadline));
            let votes = ballots.into_iter().map(|ballot| ballot.report).collect();
            let cohort = handover.map(|allowance| allowance.begin(started));
            let guard = LockGuard::new(self, held, votes).with_cohort(cohort);
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
        let released = release_all(self.each().zip(owed), attempt.release()).nodes;
        let nodes: Vec<NodeReport> = ballots.into_iter().zip(released).map(settle).collect();
        Err(verdict::why_not(nodes))
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

    /// Asks the nodes in this order, until a majority is impossible.
    ///
    /// Nodes that failed a moment ago come last, and only if a majority needs them.
    fn round(&self, attempt: &Attempt<'_>, order: Order) -> Vec<Ballot> {
        let heed_breakers = self.heeds_breakers();
        let failure = |node: &Node| node.recent_failure().filter(|_| heed_breakers);
        let mut round = Round {
            nodes: self.nodes(),
            ballots: Vec::with_capacity(self.nodes().len()),
        };
        for node in self.each() {
            let why_not = failure(node).map_or(Vote::NotAsked, |failure| {
                Vote::Failed(NodeError::BreakerOpen { failure })
            });
            round.ballots.push(node.unasked(why_not));
        }
        let (left_out, closed): (Vec<usize>, Vec<usize>) =
            (0..round.nodes.len()).partition(|place| round.is_left_out(*place));
        // Nodes that were not asked since they came up have not begun their quarantine. They do so now, with those that
        // abstain, and not when these vote again.
        let is_worth_it = |tally: Tally| !tally.is_lost() || tally.has_an_abstention();
        round.ask_in(order, &closed, attempt, is_worth_it);
        round.ask_in(order, &left_out, attempt, Tally::is_open);
        round.ballots
    }
}

/// The votes of a round that is under way.
struct Round<'m> {
    nodes: &'m [Arc<Node>],
    ballots: Vec<Ballot>,
}

impl Round<'_> {
    /// Asks these nodes in this order, for as long as there is something to gain.
    fn ask_in(
        &mut self,
        order: Order,
        mut places: &[usize],
        attempt: &Attempt<'_>,
        is_worth_it: impl Fn(Tally) -> bool,
    ) {
        loop {
            let tally = self.tally();
            if !is_worth_it(tally) || (order.is_by_arbiter() && tally.is_taken()) {
                return;
            }
            let together = order.together(tally.has_a_vote()).min(places.len());
            let Some((wave, later)) = places.split_at_checked(together) else {
                return;
            };
            if wave.is_empty() {
                return;
            }
            self.ask(wave, attempt);
            places = later;
        }
    }

    /// Asks these nodes.
    fn ask(&mut self, places: &[usize], attempt: &Attempt<'_>) {
        if let [place] = places {
            let ballot = self.nodes.get(*place).map(|node| node.acquire(attempt));
            self.cast(*place, ballot);
            return;
        }
        let nodes = self.nodes.iter().enumerate();
        let nodes = nodes.map(|(place, node)| (&**node, places.contains(&place)));
        for (place, ballot) in acquire_all(nodes, attempt).into_iter().enumerate() {
            self.cast(place, ballot);
        }
    }

    /// Puts a node's ballot to the others, if it was asked.
    fn cast(&mut self, place: usize, ballot: Option<Ballot>) {
        let Some(mut ballot) = ballot else {
            return;
        };
        let others = self.ballots.iter().map(|other| &other.report);
        ballot.report.be_an_alias_of(others);
        if let Some(empty) = self.ballots.get_mut(place) {
            *empty = ballot;
        }
    }

    fn tally(&self) -> Tally {
        Tally::of(self.ballots.iter().map(|ballot| &ballot.report.vote))
    }

    fn is_left_out(&self, place: usize) -> bool {
        self.ballots.get(place).is_some_and(Ballot::is_left_out)
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
            | Vote::Released
            | Vote::Failed(_)
            | Vote::Stale { .. }
            | Vote::NotAsked => {}
        }
    }
    report
}
