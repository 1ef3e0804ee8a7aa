//! Renewals: the extensions of many locks in one round over the nodes.

use std::sync::Arc;
use std::time::Duration;

use super::Keeper;
use super::agenda::Purpose;
use super::schedule::{due, pause};
use crate::callbacks::despite_panics;
use crate::clock::Timestamp;
use crate::error::{Error, LossCause};
use crate::lease::state::LeaseState;
use crate::node::Node;
use crate::node::command::{EXTENSION, KEY, MOST_AT_ONCE, MOST_BYTES};
use crate::protocol::extend::{Extension, NextStep};
use crate::verdict::Verdict;

/// After so many writes in succession, a step is made for the locks that wait for nodes which failed.
const MOST_WRITES: usize = 64;

impl Keeper {
    /// Renews locks. One write to a node renews all locks whose keys are on the same nodes.
    ///
    /// First only on the nodes that have not failed lately, so without a wait for a failed node. The locks that get no
    /// majority there are asked about on all nodes, the most urgent first. Nodes that have no key of a lock are healed, one
    /// lock after the other. Each such step can cost a node timeout, so locks that become due meanwhile are renewed in
    /// between.
    pub(super) fn renew_all(self: &Arc<Self>, mut due: Vec<Arc<LeaseState>>) {
        let mut unfinished = Unfinished::default();
        while !due.is_empty() || !unfinished.is_empty() {
            let mut writes = 0..MOST_WRITES;
            while writes.next().is_some()
                && let Some(chunk) = next_chunk(&mut due)
            {
                self.step(&chunk, &mut unfinished, |later| {
                    self.renew(&chunk, Node::is_well, later);
                });
                due.extend(self.due_by_now());
            }
            if let Some(chunk) = next_chunk(&mut unfinished.undecided) {
                self.step(&chunk, &mut unfinished, |later| {
                    self.renew(&chunk, |_| true, later);
                });
            }
            if let Some(mut extension) = unfinished.next_heal() {
                let lease = [Arc::clone(&extension.lease)];
                self.step(&lease, &mut unfinished, |later| {
                    extension.heal(&self.cluster, self.agendas.of(Purpose::Renew).next_due());
                    self.advance(extension, later);
                });
            }
            due.extend(self.due_by_now());
        }
    }

    /// Without a head start, which would repeat a renewal that has just failed without a pause.
    fn due_by_now(&self) -> Vec<Arc<LeaseState>> {
        let agenda = self.agendas.of(Purpose::Renew);
        agenda.take_due(self.cluster.clock.now(), Duration::ZERO)
    }

    /// Does this for these locks. Plans the renewal of those for which nothing was decided: they were healed meanwhile, or the
    /// job has panicked.
    fn step(
        self: &Arc<Self>,
        locks: &[Arc<LeaseState>],
        unfinished: &mut Unfinished,
        job: impl FnOnce(&mut Unfinished),
    ) {
        let mut later = Unfinished::default();
        // After a panic, the other locks have to be renewed nevertheless.
        despite_panics(|| job(&mut later));
        let now = self.cluster.clock.now();
        for lease in locks {
            if !self.agendas.of(Purpose::Renew).has(lease) && !later.has(lease) {
                self.retry_soon(lease, now);
            }
        }
        unfinished.append(later);
    }

    /// Renews locks whose keys are on the same nodes. Asks those of the nodes for which `is_asked` holds.
    fn renew(
        self: &Arc<Self>,
        chunk: &[Arc<LeaseState>],
        is_asked: impl Fn(&Node) -> bool,
        unfinished: &mut Unfinished,
    ) {
        let started = self.cluster.clock.now();
        let extensions = chunk.iter().filter_map(|lease| self.begin(lease, started));
        let mut extensions: Vec<Extension> = extensions.collect();
        let Some(counted) = extensions.first().map(|first| first.counted.clone()) else {
            return;
        };
        // A call of `extend` may have healed one of them just now. That lock is planned again.
        extensions.retain(|extension| extension.counted == counted);
        let asked = self.cluster.only(&counted, is_asked);
        if asked.is_empty() && !counted.is_empty() {
            let locks = extensions.iter().map(|it| Arc::clone(&it.lease));
            unfinished.undecided.extend(locks);
            return;
        }
        // A lock that becomes due must not wait for long.
        let next = self.agendas.of(Purpose::Renew).next_due();
        Extension::ask(&mut extensions, &self.cluster, &asked, next);
        for extension in extensions {
            self.advance(extension, unfinished);
        }
    }

    /// The extension of a lock, if it is still kept alive.
    fn begin(&self, lease: &Arc<LeaseState>, now: Timestamp) -> Option<Extension> {
        if lease.loss_by(now).is_some() {
            return None;
        }
        let renewal = lease.renewal()?;
        // An error means that max_hold leaves too little time for an extension.
        let term = self.cluster.term_until(renewal.until, renewal.ttl, now);
        let term = term.ok()?;
        Some(Extension::begin(&self.cluster, lease, term, now))
    }

    /// Settles an extension, unless it needs a heal or the answers of further nodes before. These take time, so they are left for
    /// later, and so is a heal after that.
    fn advance(self: &Arc<Self>, mut extension: Extension, later: &mut Unfinished) {
        loop {
            match extension.next(&self.cluster) {
                NextStep::Settle => self.settle(&mut extension),
                NextStep::Heal => return later.heals.push(extension),
                NextStep::AskAll => return later.undecided.push(Arc::clone(&extension.lease)),
                NextStep::End => return,
            }
        }
    }

    /// Applies the result of a renewal, and plans the next one.
    fn settle(self: &Arc<Self>, extension: &mut Extension) {
        let now = self.cluster.clock.now();
        let settled = extension.settle(now, None);
        let lease = &extension.lease;
        self.tell_news(lease);
        match settled {
            Ok(()) => {
                // Without a keep-alive, nothing is planned.
                let margin = lease.renewal().map_or(Duration::ZERO, |it| it.margin);
                let due = due(extension.started, extension.term, margin);
                self.plan(Purpose::Renew, lease, |_| due);
                self.cluster.stats.renewed.count();
            }
            // Its guard released it meanwhile.
            Err(Error::Lost {
                cause: LossCause::Released,
                ..
            }) => {}
            // If the lock is lost, `retry_soon` has its hooks called.
            Err(error) => {
                self.cluster.stats.failed_renewals.count();
                lease.note_failed_renewal(error.round().1);
                self.retry_soon(lease, now);
            }
        }
    }

    /// Plans another renewal after a pause, or has the hooks called if the lock is lost.
    fn retry_soon(self: &Arc<Self>, lease: &Arc<LeaseState>, now: Timestamp) {
        if lease.loss_by(now).is_some() {
            return self.watch(lease);
        }
        if lease.renewal().is_some() {
            let pause = pause(lease.deadline().saturating_since(now));
            self.plan(Purpose::Renew, lease, |_| now.saturating_add(pause));
        }
    }
}

/// What is left to do for locks that are renewed together, until no other lock is due.
#[derive(Default)]
struct Unfinished {
    /// Locks that got no majority from the nodes that have not failed lately.
    undecided: Vec<Arc<LeaseState>>,
    /// Extensions of locks whose key is missing on some nodes. They have succeeded, or the votes of nodes that are healed may
    /// decide.
    heals: Vec<Extension>,
}

impl Unfinished {
    fn is_empty(&self) -> bool {
        self.undecided.is_empty() && self.heals.is_empty()
    }

    fn has(&self, lease: &Arc<LeaseState>) -> bool {
        let heals = self.heals.iter().map(|heal| &heal.lease);
        let mut all = heals.chain(&self.undecided);
        all.any(|other| Arc::ptr_eq(lease, other))
    }

    fn append(&mut self, mut other: Self) {
        self.undecided.append(&mut other.undecided);
        self.heals.append(&mut other.heals);
    }

    /// Takes the most urgent heal: of those that may decide, and else of the others, the one of the lock that ends first.
    fn next_heal(&mut self) -> Option<Extension> {
        let urgency =
            |heal: &Extension| (heal.verdict() == Verdict::Confirmed, heal.lease.deadline());
        let heals = self.heals.iter().map(urgency).enumerate();
        let (first, _) = heals.min_by_key(|(_, urgency)| *urgency)?;
        Some(self.heals.swap_remove(first))
    }
}

/// Takes locks for one write: the most urgent lock, and others whose keys are on the same nodes.
fn next_chunk(locks: &mut Vec<Arc<LeaseState>>) -> Option<Vec<Arc<LeaseState>>> {
    locks.sort_by_key(|lease| lease.deadline());
    let counted = locks.first()?.nodes(|nodes| nodes.counted());
    let (mut count, mut bytes) = (0_usize, 0_usize);
    let fits = |lease: &mut Arc<LeaseState>| {
        let names = lease.claim.resource.names();
        let after = count.saturating_add(names.len());
        let is_full = count > 0 && (after > MOST_AT_ONCE || bytes >= MOST_BYTES);
        if is_full || lease.nodes(|nodes| nodes.counted()) != counted {
            return false;
        }
        count = after;
        let of_names = names.iter().map(|name| name.len().saturating_add(KEY));
        bytes = of_names.fold(bytes.saturating_add(EXTENSION), usize::saturating_add);
        true
    };
    Some(locks.extract_if(.., fits).collect())
}

#[cfg(test)]
#[path = "../../tests/rooms/renewal/rounds/tests.rs"]
mod tests;
