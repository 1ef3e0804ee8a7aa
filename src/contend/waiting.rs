//! Pure: what a call for a lock does next, by what the nodes said and what this process knows. [`Wait`] has no clock, network or
//! randomness: `manager/acquire.rs` does what it says, and reports what came of that.
//!
//! | after | if | next |
//! |---|---|---|
//! | the start, a reader | | `Attempt`, at all nodes or at the first one |
//! | the start, with a turn | a client that was just woken comes first | `Look`; `Listen` before that if the lock was about to be passed on |
//! | | else | the last round |
//! | `Queue` | another reader of the line has the lock | `Attempt` at the first node |
//! | | else, a turn | as a refusal with a turn |
//! | `Attempt`: a refusal | the nodes may grant another fencing token, up to 8 times | the same `Attempt` |
//! | | nodes were silent on old connections and may decide, once, while there is time | the same `Attempt` |
//! | | the key of this slot is in the way, and another slot may be free | `Attempt` for that slot |
//! | | the time is over, and all nodes were asked or a writer keeps this reader out | `End` |
//! | | the time is over | the last round |
//! | | a reader has no turn | `Queue` |
//! | | another client has the lock | `Look` |
//! | | else | `Pause` |
//! | `FindSlots` | none is free, nothing was asked or looked at before, and there is time | `Look` |
//! | | else | `Attempt` at all nodes for each slot |
//! | `Look` | all nodes were passed over for a permit, before eight hints | `Look`, and none is passed over |
//! | | no node tells of the lock, or its key never expires | `Pause` |
//! | | the lock is free, and not left to another client | a hint: `Attempt` at the first node |
//! | | an intent was left for a key that is held there | `Look` |
//! | | else | `Listen` until the key ends, for a delay at most |
//! | `Listen` | the bell has rung | a hint: `Attempt` at the first node; `Look` for a semaphore or several resources |
//! | | else | `Look` |
//! | `Pause` | a writer keeps this reader out, and there is time | `Attempt` at the first node |
//! | | else | the last round |
//!
//! The last round is an `Attempt` at all nodes, for a semaphore after `FindSlots`. After too many hints in succession that led to
//! no lock, a `Pause` replaces a `Look`. After eight looks, or when the time is over, the next step is the one after a `Pause`.

use std::time::Duration;

use super::refusal::{needs_another_token, needs_new_connections, read_elsewhere, useless_nodes};
use crate::claim::Resource;
use crate::cluster::Places;
use crate::error::Error;
use crate::node::command::WhenFree;
use crate::node::key_report::{LockState, LookReply};
use crate::node::wait::ListenOutcome;

/// After so many looks at the one node all nodes are asked. The key on the one node may be left over from an attempt that had no
/// majority, so that nobody has the lock.
const MOST_POLLS: u32 = 8;

/// A hint is a look, or a bell, that says that the lock may be free. After so many hints in succession that led to no lock, the
/// client sleeps. It does not listen meanwhile, because a bell that it would ignore has to wake another client.
const MOST_HINTS: u32 = 3;

/// As [`MOST_HINTS`], for a reader or a permit. The bell of readers rings for all of them, and each slot that is released wakes a
/// client that may find it taken. So many of their hints lead to no lock. A reader that sleeps misses its turn: the next writer
/// gets the lock before it.
const MOST_HINTS_OF_MANY: u32 = 16;

/// A call for a permit that has passed over all nodes looks at them again, until it has had so many hints in succession. Keys and
/// releases of other clients may have been on their way. After so many hints, the nodes have forgotten slots.
const MOST_HINTS_OF_ALL: u32 = 8;

/// How often a larger fencing token is proposed at once. Each time, another client has been granted one meanwhile.
const MOST_RAISES: u32 = 8;

/// How long a client that has just had the lock waits for the client that it woke to ask for the lock.
const POLITENESS: Duration = Duration::from_millis(10);

/// How long a client that has just had the lock leaves it to the readers that it has woken, before it says that it waits. The
/// script `look.lua` has the same time.
const LONGEST_TURN: Duration = Duration::from_millis(20);

/// A node tells the time to live in whole milliseconds, and other nodes set the key a little later. After this additional time, the
/// key is gone on all of them.
pub(super) const PRECISION: Duration = Duration::from_millis(2);

/// How many slots of a semaphore are asked for in succession, without a wait in between.
const MOST_SLOTS: usize = 8;

/// Which nodes one attempt asks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Reach {
    #[default]
    /// One node after the other until a majority is impossible, whatever the first one says; or all at once.
    AllNodes,
    /// The first node that answers, and the others only if it grants.
    ///
    /// Under contention, the node that all contenders ask first is the arbiter: only the contender that gets its vote asks
    /// the other nodes, so that contenders don't split the votes.
    ArbiterFirst,
}

/// What a call does next.
#[derive(Debug)]
pub(crate) enum Do {
    /// Asks for the lock, or for this slot of a semaphore. Without a slot, guards of this manager have all slots.
    Attempt(Reach, Option<u32>),
    /// Waits for its turn among the threads of this manager.
    Queue,
    /// Asks a quorum which of so many slots are free.
    FindSlots(u32),
    /// Looks at the lock at the first node that knows of it. With the index of a key, leaves an intent for this key there.
    Look(WhenFree, Option<usize>),
    /// Waits for the bell of the last look, for this time at most. A client that can't listen sleeps.
    Listen(Duration),
    /// Sleeps for a random delay.
    Pause,
    End(Error),
}

/// How a call begins, or goes on when it had to wait for other threads.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Start {
    /// The call is for a reader, and asks these nodes without a turn.
    Unqueued(Reach),
    Turn,
    /// The call has its turn, but a client that this manager has just woken comes first.
    Yield,
    /// As `Yield`. The thread before has called off the first attempt of this call, because its release has just woken that client.
    CalledOff,
}

/// What a look has found.
pub(crate) struct Sighting {
    /// The index of the node.
    pub(crate) index: usize,
    /// Its free slots are those that no guard of this manager has.
    pub(crate) look: LookReply,
    /// A random time, within what was left.
    pub(crate) delay: Duration,
}

/// The wait of one call. See the table above.
pub(crate) struct Wait<'c> {
    resource: &'c Resource,
    /// Whether the call waits, or asks once.
    waits: bool,
    has_turn: bool,
    round: Attempts,
    /// Why the last round has failed.
    pub(crate) met: Option<Error>,
    /// How many looks there were since then.
    looks: u32,
    /// How many hints in succession led to no lock.
    hints: u32,
    /// The nodes at which a look is useless. Each of them failed or abstained in the last attempt, or granted the lock although
    /// other nodes named a holder. The holder has no key there.
    pub(crate) passed_over: Places,
    /// The node of the last look, if the next attempt follows from that.
    hinted_by: Option<usize>,
}

/// Attempts in succession, without a wait in between.
#[derive(Default)]
struct Attempts {
    reach: Reach,
    /// The slot that is asked for, and those that are next.
    slot: Option<u32>,
    slots: Vec<u32>,
    /// Whether no node calls any of the slots free. One refusal is enough then: it names the holder in the way.
    are_taken: bool,
    /// The error that says most, among those of the slots before.
    met: Option<Error>,
    /// How many larger tokens, and new connections, were tried for the same lock.
    raises: u32,
    renewals: u32,
}

impl<'c> Wait<'c> {
    pub(crate) fn new(resource: &'c Resource, waits: bool) -> Self {
        Self {
            resource,
            waits,
            has_turn: true,
            round: Attempts::default(),
            met: None,
            looks: 0,
            hints: 0,
            passed_over: Places::new(),
            hinted_by: None,
        }
    }

    pub(crate) fn start(&mut self, start: Start) -> Do {
        self.has_turn = !matches!(start, Start::Unqueued(_));
        match start {
            Start::Unqueued(reach) => self.attempt(reach, Vec::new()),
            Start::Turn if self.met.is_some() => self.after_refusal(),
            Start::Turn => self.last_round(),
            Start::Yield => self.begin_to_look(WhenFree::Yield, None),
            // This client announces nothing at the node. The client that was woken may come while the keys are still being released,
            // and listens again then. The next bell has to wake that client and not this one.
            Start::CalledOff => Do::Listen(POLITENESS),
        }
    }

    /// These slots may be granted, in any order. They `are_taken` if a quorum calls none of them free.
    pub(crate) fn found(&mut self, slots: Vec<u32>, are_taken: bool, left: Duration) -> Do {
        let is_first = self.met.is_none() && self.looks == 0;
        if is_first && are_taken && !left.is_zero() {
            // A lock is asked for at once, and this is not, because each slot is known to be held.
            return self.begin_to_look(WhenFree::Take, None);
        }
        let next = self.attempt(Reach::AllNodes, slots);
        self.round.are_taken = are_taken;
        next
    }

    pub(crate) fn refused(&mut self, error: Error, left: Duration) -> Do {
        let is_late = self.waits && left.is_zero();
        let is_of_slot = self.is_semaphore() && error.is_of_one_key();
        let round = &mut self.round;
        if round.raises < MOST_RAISES && needs_another_token(&error) {
            // This is no contention, so there is nothing to wait for.
            round.raises = round.raises.saturating_add(1);
            return Do::Attempt(round.reach, round.slot);
        }
        if round.renewals == 0 && !is_late && needs_new_connections(&error) {
            round.renewals = 1;
            return Do::Attempt(round.reach, round.slot);
        }
        // A call that may not wait asks for all slots that were called free. If the key of a slot is no lock, the other slots show
        // whether all permits are held.
        let is_enough = error.is_held() && (round.are_taken || is_late);
        let met = match round.met.take() {
            Some(before) if is_of_slot && !error.is_held() => before,
            _ => error,
        };
        if is_of_slot
            && !is_enough
            && let Some(slot) = round.slots.pop()
        {
            (round.slot, round.met) = (Some(slot), Some(met));
            (round.raises, round.renewals) = (0, 0);
            return Do::Attempt(round.reach, round.slot);
        }
        let is_last = round.reach == Reach::AllNodes || met.writer_waits();
        if left.is_zero() && is_last {
            return Do::End(met);
        }
        self.met = Some(met);
        if left.is_zero() {
            self.last_round()
        } else if self.has_turn {
            self.after_refusal()
        } else {
            Do::Queue
        }
    }

    /// After a look. There is no `sighting` if no node has replied in time.
    pub(crate) fn looked(
        &mut self,
        when_free: WhenFree,
        sighting: Option<Sighting>,
        left: Duration,
    ) -> Do {
        let Some(Sighting { index, look, delay }) = sighting else {
            let has_passed_all = self.is_semaphore() && !self.passed_over.is_empty();
            if has_passed_all && self.hints < MOST_HINTS_OF_ALL {
                self.passed_over.clear();
                return self.look_again(left);
            }
            return self.pause();
        };
        self.hinted_by = Some(index);
        let is_held = matches!(look.state, LockState::Held(_));
        let span = match (look.state, when_free) {
            (LockState::Stuck, _) => return self.pause(),
            // The node has forgotten slots that this manager has.
            _ if !is_held && self.is_semaphore() && look.free.is_empty() => delay,
            (LockState::Free, WhenFree::Take) | (LockState::Deserted, _) => {
                return self.hint(look.free);
            }
            (LockState::Free, WhenFree::Yield) => delay.min(POLITENESS),
            (LockState::Free, WhenFree::Intend) => delay,
            // The node has not announced this client, which is to listen now.
            (LockState::Held(_), WhenFree::Intend) => return self.look_again(left),
            (LockState::Held(held), WhenFree::Take) => delay.min(held.saturating_add(PRECISION)),
            // Readers that were just woken have the time that the node names, even if the delay of this client is shorter.
            (LockState::Held(held), WhenFree::Yield) => {
                let turn = held.saturating_add(PRECISION);
                delay.max(LONGEST_TURN).min(turn).min(left)
            }
        };
        Do::Listen(span)
    }

    pub(crate) fn listened(&mut self, outcome: ListenOutcome, left: Duration) -> Do {
        let has_rung = outcome == ListenOutcome::Release;
        if has_rung && !self.is_semaphore() && self.resource.kind.names().is_none() {
            return self.hint(Vec::new());
        }
        // The look says which slot is free, or whether another one of several resources is held.
        if !has_rung {
            self.hints = 0;
        }
        self.look_again(left)
    }

    /// Asks without a hint, after a pause or instead of a further look.
    pub(crate) fn paused(&mut self, left: Duration) -> Do {
        self.hinted_by = None;
        let is_kept_out = self.met.as_ref().is_some_and(Error::writer_waits);
        if is_kept_out && !left.is_zero() {
            // The first node refuses readers for the writer. Keys of this reader on the other nodes would only be in its way.
            return self.attempt(Reach::ArbiterFirst, Vec::new());
        }
        self.last_round()
    }

    fn is_semaphore(&self) -> bool {
        self.resource.kind.permits().is_some()
    }

    /// Asks all nodes, even for slots that too few nodes call free. The key on the first node may be left over from an attempt
    /// without a majority.
    fn last_round(&mut self) -> Do {
        match self.resource.kind.permits() {
            Some(permits) => Do::FindSlots(permits),
            None => self.attempt(Reach::AllNodes, Vec::new()),
        }
    }

    /// Begins attempts for one of these slots after the other, until one is granted.
    fn attempt(&mut self, reach: Reach, mut slots: Vec<u32>) -> Do {
        slots.truncate(MOST_SLOTS);
        let slot = slots.pop();
        self.round = Attempts {
            reach,
            slot,
            slots,
            ..Attempts::default()
        };
        Do::Attempt(reach, slot)
    }

    /// A thread that has its turn waits, for another client or for nodes to come back.
    fn after_refusal(&mut self) -> Do {
        let Some(met) = self.met.as_ref().filter(|met| met.is_held()) else {
            return Do::Pause;
        };
        // The nodes are passed over together for a semaphore, because each node may have forgotten other slots.
        if !self.is_semaphore() || self.hints <= 1 {
            self.passed_over.clear();
        }
        let useless = useless_nodes(met, self.hinted_by.take());
        self.passed_over.extend(useless);
        let intended = read_elsewhere(met, self.resource);
        let when_free = intended.map_or(WhenFree::Take, |_| WhenFree::Intend);
        self.begin_to_look(when_free, intended)
    }

    fn begin_to_look(&mut self, when_free: WhenFree, intended: Option<usize>) -> Do {
        self.looks = 0;
        self.look(when_free, intended)
    }

    fn look_again(&mut self, left: Duration) -> Do {
        if self.looks >= MOST_POLLS || left.is_zero() {
            return self.paused(left);
        }
        self.look(WhenFree::Take, None)
    }

    fn look(&mut self, when_free: WhenFree, intended: Option<usize>) -> Do {
        let is_one_of_many = self.resource.is_read() || self.is_semaphore();
        let most_hints = if is_one_of_many {
            MOST_HINTS_OF_MANY
        } else {
            MOST_HINTS
        };
        if self.hints >= most_hints && intended.is_none() {
            return self.pause();
        }
        self.looks = self.looks.saturating_add(1);
        Do::Look(when_free, intended)
    }

    /// Asks for the lock that the node calls free, or for these slots.
    fn hint(&mut self, slots: Vec<u32>) -> Do {
        self.hints = self.hints.saturating_add(1);
        self.attempt(Reach::ArbiterFirst, slots)
    }

    fn pause(&mut self) -> Do {
        self.hints = 0;
        Do::Pause
    }
}

#[cfg(test)]
#[path = "../../tests/rooms/contend/waiting/table.rs"]
mod table;
