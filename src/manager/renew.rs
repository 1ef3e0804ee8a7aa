//! Renewals: the extensions of many locks in one round over the nodes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::LockManager;
use crate::clock::Timestamp;
use crate::error::{Error, NodeReport, Vote, one_vote_each};
use crate::guard::held::{Held, Purpose, is_gone};
use crate::keep_alive::Renewal;
use crate::keeper::in_any_case;
use crate::node::Node;
use crate::node::command::Packed;
use crate::node::extend::{MOST_AT_ONCE, extend_all};
use crate::quorum;

/// The renewal of one lock.
struct Round<'h> {
    held: &'h Arc<Held>,
    key: String,
    ttl: Duration,
    validity: Duration,
    nodes: Vec<NodeReport>,
}

impl LockManager {
    /// Renews locks, as many in one write as have their keys on the same nodes.
    pub(super) fn renew_all(&self, due: &[Arc<Held>]) {
        let mut groups: BTreeMap<&[bool], Vec<&Arc<Held>>> = BTreeMap::new();
        for held in due {
            groups.entry(&held.owed).or_default().push(held);
        }
        let chunks = groups.values().flat_map(|group| group.chunks(MOST_AT_ONCE));
        for chunk in chunks {
            // The program's logger may panic, and the locks have to be renewed.
            in_any_case(|| self.renew(chunk));
            let now = self.clock().now();
            for held in chunk {
                if !held.stands(Purpose::Renew) {
                    self.repeat(held, now);
                }
            }
        }
    }

    fn renew(&self, locks: &[&Arc<Held>]) {
        let started = self.clock().now();
        let rounds = locks.iter().filter_map(|held| self.begin(held, started));
        let mut rounds: Vec<Round<'_>> = rounds.collect();
        let Some(owed) = rounds.first().map(|round| &round.held.owed) else {
            return;
        };
        let is_closed = |(node, owed): (&Node, &bool)| node.is_closed() && *owed;
        let closed: Vec<bool> = self.each().zip(owed).map(is_closed).collect();
        let votes = closed.iter().filter(|closed| **closed).count();
        let heeds_breakers = quorum::is_reached(closed.len(), votes);
        if !heeds_breakers {
            self.ask(&mut rounds, owed);
            return rounds
                .into_iter()
                .for_each(|round| self.settle(round, started));
        }
        self.ask(&mut rounds, &closed);
        let (decided, mut open): (Vec<_>, Vec<_>) =
            rounds.into_iter().partition(|round| !round.is_open());
        for round in decided {
            self.settle(round, started);
        }
        // Nodes that failed a moment ago may take a node timeout each, so they are asked only about the locks that need
        // them.
        let left_out = closed.iter().zip(owed);
        let left_out: Vec<bool> = left_out.map(|(closed, owed)| *owed && !closed).collect();
        if left_out.contains(&true) {
            self.ask(&mut open, &left_out);
        }
        for round in open {
            self.settle(round, started);
        }
    }

    /// What to ask for a lock, if it is still to be renewed.
    fn begin<'h>(&self, held: &'h Arc<Held>, now: Timestamp) -> Option<Round<'h>> {
        if held.loss_at(now).is_some() {
            return None;
        }
        let options = &self.shared.options;
        let ttl = held.renewal()?.ttl(now, |ttl| options.drift(ttl));
        // An error means that max_hold leaves no time to speak of.
        let (ttl, validity) = self.validity(ttl).ok()?;
        Some(Round {
            held,
            key: self.key(&held.resource),
            ttl,
            validity,
            nodes: Vec::new(),
        })
    }

    /// Asks these nodes, and takes their answers in.
    fn ask(&self, rounds: &mut [Round<'_>], asked: &[bool]) {
        let rules = self.rules();
        let mut commands = rounds
            .iter()
            .map(|round| round.held.command(&round.key, rules).extend(round.ttl));
        let Some(first) = commands.next() else {
            return;
        };
        let command: Packed = first.followed_by(commands.collect());
        let nodes = self.each().zip(asked.iter().copied());
        let answers = extend_all(nodes.clone(), &command, rounds.len());
        for (round, answers) in rounds.iter_mut().zip(answers) {
            round.take(nodes.clone(), answers);
        }
    }

    /// Takes in what came of a renewal, and plans the next one.
    fn settle(&self, round: Round<'_>, started: Timestamp) {
        let now = self.clock().now();
        let lease = (started, round.validity);
        match round.held.extended(lease, round.nodes, now) {
            Ok(()) => {
                let due = Renewal::due(started, round.ttl);
                self.queue(Purpose::Renew, round.held, due);
            }
            Err(Error::Unavailable { nodes } | Error::TooSlow { nodes, .. }) => {
                round.held.not_renewed(&nodes);
                self.repeat(round.held, now);
            }
            // Lost, which is told there.
            Err(_) => self.repeat(round.held, now),
        }
    }

    /// Plans another renewal soon; or has it told that the lock is lost.
    fn repeat(&self, held: &Arc<Held>, now: Timestamp) {
        if held.loss_at(now).is_some() {
            return self.watch(held);
        }
        if held.renewal().is_some() {
            let pause = Renewal::pause(held.deadline().saturating_since(now));
            self.queue(Purpose::Renew, held, now.saturating_add(pause));
        }
    }
}

impl Round<'_> {
    /// Takes the answers of the nodes that were asked; of the others stays what they said before.
    fn take<'n>(
        &mut self,
        nodes: impl Iterator<Item = (&'n Node, bool)>,
        answers: Vec<NodeReport>,
    ) {
        if self.nodes.is_empty() {
            self.nodes = answers;
            for ((report, (node, asked)), owed) in
                self.nodes.iter_mut().zip(nodes).zip(&self.held.owed)
            {
                // It may well have the key.
                if *owed && !asked {
                    let failure = node.recent_failure().unwrap_or_default();
                    report.vote = Vote::BreakerOpen { failure };
                }
            }
            return;
        }
        for ((mine, (_, asked)), answer) in self.nodes.iter_mut().zip(nodes).zip(answers) {
            if asked {
                *mine = answer;
            }
        }
        one_vote_each(&mut self.nodes);
    }

    /// Whether further answers can decide it.
    fn is_open(&self) -> bool {
        let granted = self.nodes.iter().filter(|report| report.vote.is_granted());
        !quorum::is_reached(self.nodes.len(), granted.count()) && !is_gone(&self.nodes)
    }
}
