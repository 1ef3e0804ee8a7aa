//! The wait while another process holds the lock: at one node, which wakes a waiting client when the lock is released.

use std::time::Duration;

use super::cancel::Cancel;
use super::demand::Patience;
use super::held::Held;
use crate::claim::{Kind, Resource};
use crate::cluster::{Cluster, Places};
use crate::error::{Error, Vote};
use crate::node::command::WhenFree;
use crate::node::key_report::{LockState, LookReply};
use crate::node::wait::{ListenOutcome, Listener};
use crate::quorum::quorum;

/// After so many looks at the one node all nodes are asked. The key on the one node may be left over from an attempt that had no
/// majority, so that nobody has the lock.
const MOST_POLLS: u32 = 8;

/// A hint is a look, or a bell, that says that the lock may be free. After so many hints in succession that led to no lock, the
/// client sleeps. It does not listen meanwhile, because a bell that it would ignore has to wake another client.
const MOST_HINTS: u32 = 3;

/// As [`MOST_HINTS`], for a reader or a permit. The bell of readers rings for all of them, and each slot that is released wakes one
/// who may find it taken. So many of their hints lead to no lock. And a reader that sleeps misses its turn: the next writer gets the
/// lock before it.
const MOST_HINTS_OF_MANY: u32 = 16;

/// How long a client that has just had the lock waits for the client that it woke to ask for the lock.
const POLITENESS: Duration = Duration::from_millis(10);

/// How long a client that has just had the lock leaves it to the readers that it has woken, before it says that it waits. The
/// script has it too.
const LONGEST_TURN: Duration = Duration::from_millis(20);

/// A node tells the time to live in whole milliseconds, and other nodes set the key a little later. After this time more, the key
/// is gone on all of them.
const PRECISION: Duration = Duration::from_millis(2);

/// How many slots of a semaphore are asked for in succession, without a wait in between.
const MOST_SLOTS: usize = 8;

/// Which nodes one attempt asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// One node after the other until a majority is impossible, whatever the first one says; or all at once.
    AllNodes,
    /// The first node that answers, and the others only if it grants.
    ///
    /// Under contention, the node that all contenders ask first is the arbiter: only the contender that gets its vote asks
    /// the other nodes, so that contenders don't split the votes.
    ArbiterFirst,
}

/// The next attempts of a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Round {
    pub(crate) reach: Reach,
    /// The slots of a semaphore that are asked for, one after the other until one is granted.
    pub(crate) slots: Vec<u32>,
    /// Whether no node calls any of them free. One refusal tells who is in the way then.
    pub(crate) is_in_vain: bool,
}

/// The wait of one call for a lock that another process holds.
pub(crate) struct Wait<'c> {
    cluster: &'c Cluster,
    held: &'c Held,
    resource: &'c Resource,
    patience: &'c Patience,
    /// How many hints in succession led to no lock.
    hints: u32,
    /// Whether the last attempt was that of a reader, and a node told it that a writer waits.
    writer_waits: bool,
    /// The nodes at which a look would tell nothing of the lock. The node failed in the last attempt, as one that abstains does. Or it
    /// granted the lock although others named a holder, so the holder has no key there.
    passed_over: Places,
    /// Where a look said that the next attempt makes sense.
    hinted_by: Option<usize>,
    /// The key for which readers of other nodes refused the last attempt, if the first node granted it.
    read_elsewhere: Option<&'c str>,
}

/// The next step after a look at the one node.
enum Next {
    /// An attempt: the node in this place may grant the lock now, or these slots.
    Attempt(usize, Vec<u32>),
    /// Another look.
    Look,
    /// To see which slot was released, or which other one of several resources is in the way, or to be
    /// announced.
    LookAtOnce,
    /// A sleep, and then an attempt at all nodes.
    Sleep,
}

impl<'c> Wait<'c> {
    pub(crate) fn new(
        cluster: &'c Cluster,
        held: &'c Held,
        resource: &'c Resource,
        patience: &'c Patience,
    ) -> Self {
        Self {
            cluster,
            held,
            resource,
            patience,
            hints: 0,
            writer_waits: false,
            passed_over: Places::new(),
            hinted_by: None,
            read_elsewhere: None,
        }
    }

    /// The last attempt was refused.
    pub(crate) fn refused(&mut self, error: &Error) {
        let (_, nodes) = error.round();
        let votes = nodes.iter().map(|report| &report.vote);
        // Of the slots of a semaphore, this is the last one that was asked for. A release that is on its way frees it on the first node
        // before the others.
        let has_holder = votes.clone().any(names_a_holder);
        let hinted_by = self.hinted_by.take();
        // Of slots, one node may have forgotten these and another one those. So the nodes are passed over together.
        if self.permits().is_none() || self.hints <= 1 {
            self.passed_over.clear();
        }
        for (place, vote) in votes.clone().enumerate() {
            // An attempt by the arbiter ends where the key is no lock, so that is where one looks as well.
            let failed = vote.is_silent() && !vote.is_left_out();
            // It called free what others hold.
            let is_wrong = vote.is_granted() || hinted_by == Some(place) && !names_a_holder(vote);
            if failed || has_holder && is_wrong {
                self.passed_over.push(place);
            }
        }
        self.writer_waits = error.writer_waits();
        self.read_elsewhere = None;
        let mut answers = votes.filter(|vote| !vote.is_failure());
        if !has_holder && answers.next().is_some_and(Vote::is_granted) {
            self.read_elsewhere = answers.find_map(|vote| self.read_by_others(vote));
        }
    }

    /// The key that readers have, by this vote of a node that refused a writer. Where the first node refuses the writer, a look
    /// there leaves an intent in any case.
    fn read_by_others(&self, vote: &Vote) -> Option<&'c str> {
        let Vote::Read { resource, .. } = vote else {
            return None;
        };
        match (&self.resource.kind, resource) {
            (Kind::Lock, _) => Some(self.resource.key()),
            (Kind::Several(names), Some(name)) if names.contains(name) => {
                Some(self.resource.key_of(Some(name)))
            }
            _ => None,
        }
    }

    /// How many permits there are, if the call asks for one of them.
    fn permits(&self) -> Option<u32> {
        self.resource.kind.permits()
    }

    /// The first attempts of a call.
    pub(crate) fn first_round(&mut self) -> Result<Round, Error> {
        match self.slots_called_free() {
            // Not as with a lock: it would be asked for a slot that is held.
            Some(free) if free.is_empty() && !self.patience.left(&self.cluster.clock).is_zero() => {
                self.wait(WhenFree::Take)
            }
            free => self.at_all_nodes_for(free),
        }
    }

    /// Attempts that ask all nodes, also for slots that too few nodes told of: what is on the first node may be a remainder without a
    /// majority.
    pub(crate) fn at_all_nodes(&self) -> Result<Round, Error> {
        self.at_all_nodes_for(self.slots_called_free())
    }

    fn at_all_nodes_for(&self, called_free: Option<Vec<u32>>) -> Result<Round, Error> {
        let none_is_free = called_free.as_ref().is_some_and(Vec::is_empty);
        let slots = called_free.filter(|free| !free.is_empty()).or_else(|| {
            let permits = self.permits()?;
            Some(self.free_slots(0..permits))
        });
        let round = self.round(Reach::AllNodes, slots.unwrap_or_default())?;
        Ok(Round {
            is_in_vain: none_is_free,
            ..round
        })
    }

    /// The slots that a node calls free: the first one of a quorum that has any. A slot that can be had is free on a majority, so one
    /// of a quorum tells of it. `None` if fewer answer, or this manager has all slots itself, or it is no semaphore.
    fn slots_called_free(&self) -> Option<Vec<u32>> {
        let permits = self.permits()?;
        if self.free_slots(0..permits).is_empty() {
            return None;
        }
        let is_over = || self.patience.is_cancelled();
        let mut looks = self.looks(Duration::ZERO, self.resource, WhenFree::Take, is_over);
        for _ in 0..quorum(self.cluster.nodes().len()) {
            let (_, look, _) = looks.next()?;
            if !look.free.is_empty() {
                return Some(look.free);
            }
        }
        Some(Vec::new())
    }

    /// Slots are asked for from a random one on, so that contenders begin at different slots. Of a lock there are none.
    pub(crate) fn round(&self, reach: Reach, mut slots: Vec<u32>) -> Result<Round, Error> {
        if !slots.is_empty() {
            let random = self.cluster.clock.random().map_err(Error::no_randomness)?;
            let random = usize::try_from(random).unwrap_or_default();
            let first = random.checked_rem(slots.len()).unwrap_or_default();
            slots.rotate_left(first);
            slots.truncate(MOST_SLOTS);
        }
        Ok(Round {
            reach,
            slots,
            is_in_vain: false,
        })
    }

    /// Those of these slots that no guard of this manager has.
    fn free_slots(&self, slots: impl IntoIterator<Item = u32>) -> Vec<u32> {
        let now = self.cluster.clock.now();
        self.held.free_slots(&self.resource.name, slots, now)
    }

    /// Stays away for a moment and announces nothing at the node. The client that was woken may come while the keys are still being
    /// released, and listens again then. The next bell has to wake that client and not this one.
    pub(crate) fn stay_away(&self) {
        self.patience.sleep(&self.cluster.clock, POLITENESS);
    }

    /// Waits until an attempt makes sense: the first node would grant the lock, or reports its release, or too much
    /// time has passed. Returns the attempts to make.
    pub(crate) fn wait(&mut self, mut when_free: WhenFree) -> Result<Round, Error> {
        let cluster = self.cluster;
        let most_hints = if self.resource.is_read() || self.permits().is_some() {
            MOST_HINTS_OF_MANY
        } else {
            MOST_HINTS
        };
        let elsewhere = self.read_elsewhere.map(Resource::of_key);
        let mut resource = self.resource;
        if let Some(elsewhere) = &elsewhere {
            // Readers have the lock on other nodes, and the bell of the first node does not ring when they release it. The intent that
            // this look leaves there keeps further readers out. It needs no bell, so it is left also where this client can't listen.
            (resource, when_free) = (elsewhere, WhenFree::Intend);
        }
        self.hinted_by = None;
        for _ in 0..MOST_POLLS {
            let next = if self.hints < most_hints || when_free == WhenFree::Intend {
                self.poll(cluster.delay()?, resource, when_free)
            } else {
                Next::Sleep
            };
            (resource, when_free) = (self.resource, WhenFree::Take);
            match next {
                Next::Attempt(place, slots) => {
                    self.hinted_by = Some(place);
                    self.hints = self.hints.saturating_add(1);
                    return self.round(Reach::ArbiterFirst, slots);
                }
                Next::Look => self.hints = 0,
                Next::LookAtOnce => {}
                Next::Sleep => {
                    self.hints = 0;
                    self.patience.sleep(&cluster.clock, cluster.delay()?);
                    break;
                }
            }
            if self.patience.left(&cluster.clock).is_zero() {
                break;
            }
        }
        if self.writer_waits && !self.patience.left(&cluster.clock).is_zero() {
            // The first node refuses readers for the writer. Keys of this reader on the other nodes would only be in its way.
            return self.round(Reach::ArbiterFirst, Vec::new());
        }
        self.at_all_nodes()
    }

    /// Looks at the lock on one node after the other that answers before it `is_over`, and is not passed over. Announces that it is
    /// waited for, for this long.
    fn looks(
        &self,
        span: Duration,
        resource: &Resource,
        when_free: WhenFree,
        is_over: impl Fn() -> bool,
    ) -> impl Iterator<Item = (usize, LookReply, Option<Listener<'c>>)> {
        let nodes = self.cluster.each().enumerate();
        let telling =
            nodes.filter(|(place, node)| !self.passed_over.contains(place) && node.is_well());
        let in_time = telling.take_while(move |_| !is_over());
        in_time.filter_map(move |(place, node)| {
            let listens = !span.is_zero() && when_free != WhenFree::Intend;
            let listener = listens.then(|| node.listener()).flatten();
            // One that can't listen is not announced.
            let is_deaf = listens && listener.is_none();
            let announced = if is_deaf { Duration::ZERO } else { span };
            let rules = self.cluster.rules.as_deref();
            let mut look = node.look(resource, announced, when_free, rules)?;
            if self.permits().is_some() {
                look.free = self.free_slots(look.free);
            }
            let is_announced = look.is_announced;
            Some((place, look, listener.filter(|_| is_announced)))
        })
    }

    /// Looks at the lock. Waits for its release, for the end of the key, or for `delay`.
    fn poll(&self, delay: Duration, resource: &Resource, when_free: WhenFree) -> Next {
        let cluster = self.cluster;
        let left = || self.patience.left(&cluster.clock);
        let delay = delay.min(left());
        // A node that hangs may use up the remaining time.
        let mut looks = self.looks(delay, resource, when_free, || left().is_zero());
        let Some((place, look, listener)) = looks.next() else {
            return Next::Sleep;
        };
        let is_semaphore = self.permits().is_some();
        let span = match (look.state, when_free) {
            (LockState::Stuck, _) => return Next::Sleep,
            // The node has forgotten slots that this manager has.
            (LockState::Free | LockState::Deserted, _) if is_semaphore && look.free.is_empty() => {
                delay
            }
            (LockState::Free, WhenFree::Take) | (LockState::Deserted, _) => {
                return Next::Attempt(place, look.free);
            }
            (LockState::Free, WhenFree::Yield) => delay.min(POLITENESS),
            (LockState::Free, WhenFree::Intend) => delay,
            // The node has not announced this client, which is to listen now.
            (LockState::Held(_), WhenFree::Intend) => return Next::LookAtOnce,
            (LockState::Held(held), WhenFree::Take) => delay.min(held.saturating_add(PRECISION)),
            // Readers that were just woken have the time that the node names, also where this client looks more often.
            (LockState::Held(held), WhenFree::Yield) => {
                let turn = held.saturating_add(PRECISION);
                delay.max(LONGEST_TURN).min(turn).min(left())
            }
        };
        let over = cluster.clock.now().saturating_add(span);
        // A server may end the wait later than it was asked to. The call must not be late for that reason.
        let longest = left().saturating_add(PRECISION);
        let given_up = self.patience.cancel.as_ref().map(Cancel::flag);
        let listen = |listener: Listener<'_>| {
            let bell = resource.bell(look.place);
            listener.listen(&bell, span, longest, given_up)
        };
        match listener.map(listen) {
            Some(ListenOutcome::Release) => {
                cluster.stats.woken.count();
                // Another slot may be free, or another one of several resources be held.
                if is_semaphore || self.resource.kind.names().is_some() {
                    Next::LookAtOnce
                } else {
                    Next::Attempt(place, Vec::new())
                }
            }
            Some(ListenOutcome::Nothing) => Next::Look,
            Some(ListenOutcome::Failed) | None => {
                let rest = over.saturating_since(cluster.clock.now());
                self.patience.sleep(&cluster.clock, rest);
                Next::Look
            }
        }
    }
}

fn names_a_holder(vote: &Vote) -> bool {
    matches!(
        vote,
        Vote::Held { remaining: Some(left), .. } | Vote::WriterWaits { remaining: left } if !left.is_zero()
    )
}

#[cfg(test)]
#[path = "../../tests/rooms/contend/arbiter/tests.rs"]
mod tests;
