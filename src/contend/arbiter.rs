//! The looks of a call at a lock that another client has. They go to one node, which all clients that wait ask first: the arbiter.

use std::sync::Arc;
use std::time::Duration;

use super::cancel::Cancel;
use super::held::Held;
use super::spec::Spec;
use super::waiting::{PRECISION, Sighting, Wait};
use crate::claim::Resource;
use crate::cluster::Cluster;
use crate::error::Error;
use crate::node::Node;
use crate::node::command::WhenFree;
use crate::node::key_report::LockState;
use crate::node::wait::{ListenOutcome, Listener};
use crate::quorum::quorum;

pub(crate) struct Arbiter<'c> {
    cluster: &'c Cluster,
    held: &'c Held,
    spec: &'c Spec,
    /// The right to listen at the node of the last look, and the bell there.
    listener: Option<(Listener<'c>, String)>,
}

impl<'c> Arbiter<'c> {
    pub(crate) fn new(cluster: &'c Cluster, held: &'c Held, spec: &'c Spec) -> Self {
        Self {
            cluster,
            held,
            spec,
            listener: None,
        }
    }

    /// Looks at the lock at the first node that knows of it. If a key is `intended`, by its index, leaves the intent of a writer
    /// there. Announces this client as a waiter for the delay of the sighting.
    pub(crate) fn look(
        &mut self,
        wait: &Wait<'_>,
        when_free: WhenFree,
        intended: Option<usize>,
    ) -> Result<Option<Sighting>, Error> {
        let (cluster, spec) = (self.cluster, self.spec);
        let left = || spec.left(&cluster.clock);
        let delay = cluster.delay()?.min(left());
        let of_key = intended.map(|index| Resource::of_key(spec.resource.key_at(index)));
        let resource = of_key.as_ref().unwrap_or(&spec.resource);
        let is_to_listen = intended.is_none() && !delay.is_zero();
        // The listener of the last look would keep the new one away.
        self.listener = None;
        // A node that hangs may use up the remaining time.
        for (index, node) in worth_a_look(cluster, wait).take_while(|_| !left().is_zero()) {
            let listener = is_to_listen.then(|| node.listener()).flatten();
            // A client that can't listen is not announced.
            let is_deaf = is_to_listen && listener.is_none();
            let announced = if is_deaf { Duration::ZERO } else { delay };
            let rules = cluster.rules.as_deref();
            let Some(mut look) = node.look(resource, announced, when_free, rules) else {
                continue;
            };
            look.free = self.free_slots(look.free)?;
            // A client does not wait for a key that never expires.
            let is_listening = look.is_announced && look.state != LockState::Stuck;
            let bell = |listener| (listener, resource.bell(look.index));
            self.listener = listener.filter(|_| is_listening).map(bell);
            return Ok(Some(Sighting { index, look, delay }));
        }
        Ok(None)
    }

    /// Waits for the bell at the node of the last look. A client that can't listen there sleeps.
    pub(crate) fn listen(&mut self, span: Duration) -> ListenOutcome {
        let (clock, spec) = (&self.cluster.clock, self.spec);
        let over = clock.now().saturating_add(span);
        // A server may end the wait later than it was asked to. The call must not be late for that reason.
        let longest = spec.left(clock).saturating_add(PRECISION);
        let given_up = spec.cancel.as_ref().map(Cancel::flag);
        let listener = self.listener.take();
        let heard = listener.map(|(node, bell)| node.listen(&bell, span, longest, given_up));
        let outcome = heard.unwrap_or(ListenOutcome::Failed);
        match outcome {
            ListenOutcome::Release => self.cluster.stats.woken.count(),
            ListenOutcome::Failed => spec.sleep(clock, over.saturating_since(clock.now())),
            ListenOutcome::Nothing => {}
        }
        outcome
    }

    /// The slots of the semaphore that may be granted, and whether a quorum calls none of them free.
    ///
    /// A slot that may be granted is free on a majority, so a node of each quorum reports it. The first node that reports free
    /// slots is believed. If none does, these are all slots that no guard of this manager has.
    pub(crate) fn find_slots(
        &self,
        wait: &Wait<'_>,
        permits: u32,
    ) -> Result<(Vec<u32>, bool), Error> {
        let (spec, rules) = (self.spec, self.cluster.rules.as_deref());
        let slots = self.free_slots((0..permits).collect())?;
        let mut missing = quorum(self.cluster.nodes().len());
        let is_over = || slots.is_empty() || spec.is_cancelled();
        let nodes = worth_a_look(self.cluster, wait).take_while(|_| !is_over());
        let look =
            |node: &Arc<Node>| node.look(&spec.resource, Duration::ZERO, WhenFree::Take, rules);
        let looks = nodes.filter_map(|(_, node)| look(node)).take(missing);
        for look in looks {
            let free = self.free_slots(look.free)?;
            if !free.is_empty() {
                return Ok((free, false));
            }
            missing = missing.saturating_sub(1);
        }
        Ok((slots, missing == 0))
    }

    /// Returns the slots that no guard of this manager has. They begin at a random one, so that contenders begin at different slots.
    fn free_slots(&self, slots: Vec<u32>) -> Result<Vec<u32>, Error> {
        if slots.is_empty() {
            return Ok(slots);
        }
        let (clock, semaphore) = (&self.cluster.clock, &self.spec.resource.name);
        let random = clock.random().map_err(Error::no_randomness)?;
        let random = usize::try_from(random).unwrap_or_default();
        let mut free = self.held.free_slots(semaphore, slots, clock.now());
        let first = random.checked_rem(free.len()).unwrap_or_default();
        free.rotate_left(first);
        Ok(free)
    }
}

/// The nodes at which a look is of use: they are well, and were not passed over.
fn worth_a_look<'c>(
    cluster: &'c Cluster,
    wait: &Wait<'_>,
) -> impl Iterator<Item = (usize, &'c Arc<Node>)> {
    let nodes = cluster.nodes().iter().enumerate();
    nodes.filter(|(index, node)| !wait.passed_over.contains(index) && node.is_well())
}

#[cfg(test)]
#[path = "../../tests/rooms/contend/arbiter/tests.rs"]
mod tests;
