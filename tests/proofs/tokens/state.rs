//! The state of everything: nodes, attempts, and what is on the way between them; what clients do.

use super::node::{AttemptId, AttemptSet, Claim, MOST_ATTEMPTS, Node, Token};
use super::{Rule, World};
use crate::checks::Steps;
use crate::subject::{NODES, QUORUM, Subject};

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct State {
    pub(crate) nodes: [Node; NODES],
    /// Those of the first client, in order, then those of the second, and so on.
    pub(crate) attempts: [Attempt; MOST_ATTEMPTS],
    /// How many more times a node can lose data.
    pub(crate) losses: u8,
}

/// One attempt of a client to get the lock, and the guard that it may have led to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Attempt {
    pub(crate) claim: Claim,
    pub(crate) phase: Phase,
    /// The token, if one that is no smaller had been returned to anyone when it began: then it must not win, by however much
    /// it is too small. 0 if it may win.
    pub(crate) behind: Token,
    /// While it is asking: the guards that there were when it began, and that it excludes. Only if it is a reader, or they
    /// are; of writers, the tokens say who is newer.
    newer_than: AttemptSet,
    /// Whether one of these attempts has been returned since.
    is_overtaken: bool,
    pub(crate) extension: Extension,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Phase {
    #[default]
    NotBegun,
    /// It has sent its proposal to all nodes.
    Asking,
    /// It was returned as a guard, which believes for ever that it has the lock.
    Holding,
    /// It was given up, and never won.
    Failed,
    /// It won, and was given back.
    Released,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Extension {
    #[default]
    None,
    /// It began while no newer guard had been returned.
    Timely,
    /// It began when a newer guard had been returned, so it must never get a quorum.
    Late,
}

impl Attempt {
    pub(crate) fn won(self) -> bool {
        matches!(self.phase, Phase::Holding | Phase::Released)
    }

    fn is_over(self) -> bool {
        matches!(self.phase, Phase::Failed | Phase::Released)
    }

    pub(crate) fn is_reader(self) -> bool {
        self.claim.subject.is_reader()
    }
}

impl World {
    /// What a client can do about one of its attempts.
    pub(super) fn steps_of(&self, id: AttemptId, steps: &mut Steps<'_, State>) {
        let state = steps.from;
        let attempt = &state.attempts[id];
        let is_first = id.is_multiple_of(self.attempts);
        if attempt.phase == Phase::NotBegun && (is_first || state.attempts[id - 1].is_over()) {
            let proposals = if attempt.is_reader() {
                0..=0
            } else {
                1..=self.largest_proposal
            };
            // Clients that want the same are alike: they are numbered in the order of what they propose at first.
            let firsts = || state.attempts.iter().enumerate().step_by(self.attempts);
            let is_in_order = |(other, first): (usize, &Attempt), token: Token| {
                let [lower, higher] = if other < id {
                    [first.claim.token, token]
                } else {
                    [token, first.claim.token]
                };
                let is_alike = first.claim.subject == attempt.claim.subject;
                first.phase == Phase::NotBegun || !is_alike || lower <= higher
            };
            for token in proposals {
                if is_first && !firsts().all(|first| is_in_order(first, token)) {
                    continue;
                }
                steps.add(format!("{id} begins with {token}"), |state| {
                    state.begin(id, token);
                });
            }
        }
        if attempt.phase == Phase::Asking && state.has_quorum(|node| node.votes[id]) {
            steps.add(format!("{id} returns"), |state| {
                state.return_guard(self.rule, id);
            });
        }
        // Over TCP one extension is enough for a counterexample. What a second one of the same attempt sends is what the first
        // one sent, so where messages are repeated there are as many as it likes.
        let may_extend = self.repeats || attempt.extension == Extension::None;
        if attempt.phase == Phase::Holding && may_extend {
            steps.add(format!("{id} extends"), |state| state.extend(self.rule, id));
        }
        if matches!(attempt.phase, Phase::Asking | Phase::Holding) {
            steps.add(format!("{id} gives up"), |state| state.give_up(id));
        }
    }
}

impl State {
    fn begin(&mut self, id: AttemptId, token: Token) {
        let subject = self.attempts[id].claim.subject;
        let newest = self.largest_returned(subject);
        let mut newer_than = AttemptSet::default();
        for (other, attempt) in self.attempts.iter().enumerate() {
            let one_reads = subject.is_reader() || attempt.is_reader();
            let is_held = attempt.phase == Phase::Holding;
            if is_held && one_reads && subject.excludes(attempt.claim.subject) {
                newer_than[other] = true;
            }
        }
        let may_win = subject.is_reader() || token > newest;
        self.attempts[id] = Attempt {
            claim: Claim { subject, token },
            phase: Phase::Asking,
            behind: if may_win { 0 } else { token },
            newer_than,
            ..Attempt::default()
        };
        for node in &mut self.nodes {
            node.acquires[id] = true;
        }
    }

    fn return_guard(&mut self, rule: Rule, id: AttemptId) {
        let attempt = &mut self.attempts[id];
        attempt.phase = Phase::Holding;
        let overtakes = std::mem::take(&mut attempt.newer_than);
        for (other, attempt) in self.attempts.iter_mut().enumerate() {
            let is_held = attempt.phase == Phase::Holding;
            attempt.is_overtaken |= is_held && overtakes[other];
        }
        if rule != Rule::ExtendsByVotes {
            // They make no difference any more.
            self.nodes
                .iter_mut()
                .for_each(|node| node.votes[id] = false);
        }
    }

    fn give_up(&mut self, id: AttemptId) {
        let attempt = &mut self.attempts[id];
        attempt.phase = if attempt.won() {
            Phase::Released
        } else {
            Phase::Failed
        };
        attempt.extension = Extension::None;
        (attempt.newer_than, attempt.is_overtaken) = Default::default();
        for attempt in &mut self.attempts {
            attempt.newer_than[id] = false;
        }
        for node in &mut self.nodes {
            node.releases[id] = true;
            node.votes[id] = false;
            node.renewed[id] = false;
        }
    }

    /// A holder asks all nodes to extend that it sent no undo.
    fn extend(&mut self, rule: Rule, id: AttemptId) {
        let newest = self.largest_returned(self.attempts[id].claim.subject);
        let attempt = &mut self.attempts[id];
        let has_smaller_token = newest > attempt.claim.token && !attempt.is_reader();
        attempt.extension = if has_smaller_token || attempt.is_overtaken {
            Extension::Late
        } else {
            Extension::Timely
        };
        for node in &mut self.nodes {
            // While an attempt has a guard, its only releases are undos, and they stay where messages are repeated.
            let is_undone = node.releases[id] && rule != Rule::UndoneIsExtended;
            if !is_undone && (node.votes[id] || rule != Rule::ExtendsByVotes) {
                node.extensions[id] = true;
            }
            node.renewed[id] = false;
        }
    }

    /// The largest token that was returned for a resource that such an attempt wants.
    fn largest_returned(&self, subject: Subject) -> Token {
        let winners = self.attempts.iter().filter(|attempt| attempt.won());
        let claims = winners.map(|winner| winner.claim);
        let claims = claims.filter(|claim| claim.subject.excludes(subject));
        claims.map(|claim| claim.token).max().unwrap_or(0)
    }

    pub(crate) fn has_quorum(&self, is_vote: impl Fn(&Node) -> bool) -> bool {
        self.nodes.iter().filter(|node| is_vote(node)).count() >= QUORUM
    }
}
