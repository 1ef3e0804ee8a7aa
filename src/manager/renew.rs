//! Renewals: the extensions of many locks in one round over the nodes.

use std::sync::Arc;
use std::time::Duration;

use super::LockManager;
use crate::clock::Timestamp;
use crate::error::{Error, LossCause, NodeError, NodeReport, Vote};
use crate::foreign::in_any_case;
use crate::guard::held::{Held, Purpose};
use crate::keep_alive::Renewal;
use crate::node::Node;
use crate::node::command::Packed;
use crate::node::extend::{EXTENSION, MOST_AT_ONCE, MOST_BYTES, extend_all};
use crate::verdict::{self, Verdict};

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
    ///
    /// First on the nodes that have not failed lately, which does not wait. The locks for which these are not enough come
    /// later, the most urgent first: each time that costs a node timeout, and in between comes what has become due.
    pub(super) fn renew_all(&self, due: Vec<Arc<Held>>) {
        let mut left = self.renew_where_it_is_quick(due);
        while let Some(chunk) = next_chunk(&mut left) {
            // The program's logger may panic, and the locks have to be renewed.
            in_any_case(|| {
                let started = self.clock().now();
                let mut rounds = self.begin(&chunk, started);
                let Some(owed) = rounds.first().map(|round| round.held.owed.clone()) else {
                    return;
                };
                self.ask(&mut rounds, &owed);
                for round in rounds {
                    self.settle(round, started);
                }
            });
            self.repeat_others(&chunk);
            // Not sooner than they are due: one that has just failed would be asked about without a pause.
            let due = self.take_due(Duration::ZERO);
            left.extend(self.renew_where_it_is_quick(due));
        }
    }

    /// Asks only the nodes that have not failed lately. Returns the locks for which they were not enough.
    fn renew_where_it_is_quick(&self, mut due: Vec<Arc<Held>>) -> Vec<Arc<Held>> {
        let mut undecided = Vec::new();
        while let Some(chunk) = next_chunk(&mut due) {
            let mut open = Vec::new();
            in_any_case(|| open = self.renew_quickly(&chunk));
            let is_open = |held: &Arc<Held>| open.iter().any(|other| Arc::ptr_eq(held, other));
            let (later, others): (Vec<_>, Vec<_>) = chunk.into_iter().partition(is_open);
            undecided.extend(later);
            self.repeat_others(&others);
        }
        undecided
    }

    fn renew_quickly(&self, chunk: &[Arc<Held>]) -> Vec<Arc<Held>> {
        let started = self.clock().now();
        let mut rounds = self.begin(chunk, started);
        let Some(owed) = rounds.first().map(|round| &round.held.owed) else {
            return Vec::new();
        };
        let is_closed = |(node, owed): (&Node, &bool)| node.is_closed() && *owed;
        let closed: Vec<bool> = self.each().zip(owed).map(is_closed).collect();
        if !closed.contains(&true) {
            return rounds.iter().map(|round| Arc::clone(round.held)).collect();
        }
        let is_whole = closed.iter().zip(owed).all(|(closed, owed)| closed == owed);
        self.ask(&mut rounds, &closed);
        let mut open = Vec::new();
        for round in rounds {
            if is_whole || !round.is_open() {
                self.settle(round, started);
            } else {
                open.push(Arc::clone(round.held));
            }
        }
        open
    }

    /// Plans what is still to be renewed and was not planned, because it was not asked about.
    fn repeat_others(&self, locks: &[Arc<Held>]) {
        let now = self.clock().now();
        for held in locks {
            if !held.stands(Purpose::Renew) {
                self.repeat(held, now);
            }
        }
    }

    /// What to ask for these locks, as far as they are still to be renewed.
    fn begin<'h>(&self, locks: &'h [Arc<Held>], now: Timestamp) -> Vec<Round<'h>> {
        let rounds = locks.iter().filter_map(|held| self.round_of(held, now));
        rounds.collect()
    }

    fn round_of<'h>(&self, held: &'h Arc<Held>, now: Timestamp) -> Option<Round<'h>> {
        if held.loss_at(now).is_some() {
            return None;
        }
        let ttl = held.renewal()?.ttl;
        // An error means that max_hold leaves no time to speak of.
        let (ttl, validity) = self.fitting(held.limit(), ttl, now).ok()?;
        Some(Round {
            held,
            key: self.key(&held.resource),
            ttl,
            validity,
            nodes: Vec::new(),
        })
    }

    /// The ttl to ask for, and its validity: no longer than `max_hold` leaves, or hardly, so that others need not wait longer
    /// for a holder that hangs.
    pub(crate) fn fitting(
        &self,
        limit: Option<Timestamp>,
        ttl: Duration,
        now: Timestamp,
    ) -> Result<(Duration, Duration), Error> {
        let longest = limit.map_or(Duration::MAX, |limit| {
            self.shared.options.ttl_for(limit.saturating_since(now))
        });
        self.validity(ttl.min(longest))
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
            round.nodes = answers;
            let owed = round.held.owed.iter();
            for ((report, (node, asked)), owed) in
                round.nodes.iter_mut().zip(nodes.clone()).zip(owed)
            {
                // It may well have the key.
                if *owed && !asked {
                    let failure = node.recent_failure().unwrap_or_default();
                    report.vote = Vote::Failed(NodeError::BreakerOpen { failure });
                }
            }
        }
    }

    /// Takes in what came of a renewal, and plans the next one.
    fn settle(&self, round: Round<'_>, started: Timestamp) {
        let now = self.clock().now();
        let lease = (started, round.validity);
        match round.held.extended(lease, None, round.nodes, now) {
            Ok(()) => {
                let due = Renewal::due(started, round.validity);
                self.queue(Purpose::Renew, round.held, due);
                self.recorder().renewed.count();
            }
            Err(Error::Unavailable { nodes } | Error::TooSlow { nodes, .. }) => {
                self.recorder().failed_renewals.count();
                round.held.not_renewed(&nodes);
                self.repeat(round.held, now);
            }
            // It was given back meanwhile.
            Err(Error::Lost {
                cause: LossCause::Released,
            }) => {}
            // Lost, which is told there.
            Err(_) => {
                self.recorder().failed_renewals.count();
                self.repeat(round.held, now);
            }
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
    /// Whether further answers can decide it.
    fn is_open(&self) -> bool {
        verdict::of_held(&self.nodes) == Verdict::Unknown
    }
}

/// Takes locks that can go in one write: the most urgent, and others whose keys are on the same nodes.
fn next_chunk(locks: &mut Vec<Arc<Held>>) -> Option<Vec<Arc<Held>>> {
    locks.sort_by_key(|held| held.deadline());
    let owed = locks.first()?.owed.clone();
    let (mut count, mut bytes) = (0_usize, 0_usize);
    let fits = |held: &mut Arc<Held>| {
        if held.owed != owed || (count > 0 && bytes >= MOST_BYTES) || count >= MOST_AT_ONCE {
            return false;
        }
        count = count.saturating_add(1);
        bytes = bytes.saturating_add(EXTENSION.saturating_add(held.resource.len()));
        true
    };
    Some(locks.extract_if(.., fits).collect())
}
