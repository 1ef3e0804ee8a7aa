//! Pure: what a call for a lock does next, from what the nodes said and what this process knows. [`Wait`] has no clock, no network
//! and no randomness: `manager/acquire.rs` does what it says, and tells it what came of that.
//!
//! | what was done | and | what is done next |
//! |---|---|---|
//! | nothing yet | it is a reader, which has no turn | `Attempt` at the nodes that the caller names |
//! | `Turn` | the thread before has made the first attempt | `Attempt` at all nodes, which is that one |
//! | | that one was called off, because a client was woken that comes first | `Sleep` for a moment, and then look |
//! | | a client that this manager has woken comes first | `Look`, and leave the lock to that client |
//! | | another reader of the line has the lock | `Attempt` at the first node, without a turn |
//! | | a reader that was refused has its turn | as a reader with a turn after `Tell` |
//! | | else | `FindSlots` of a semaphore; `Attempt` at all nodes |
//! | `FindSlots` | all are taken, no attempt was made, and there is time | `Look` |
//! | | else | `Attempt` at all nodes, for one slot after the other |
//! | `Attempt`, which was refused | the nodes would grant another fencing token: up to 8 times | the same `Attempt` |
//! | | silent nodes had old connections, and may decide: once, if there is time | the same `Attempt` |
//! | | the key of this slot is in the way, and another slot may be granted | `Attempt` for that slot |
//! | | else | `Tell` the threads behind this one |
//! | `Tell` | the time is over, and all nodes were asked, or a writer keeps this reader out | `End` |
//! | | the time is over | the last round |
//! | | it is a reader without a turn | `Queue` |
//! | | another client has the lock | `Look` |
//! | | else | `Pause` |
//! | `Look` | no node tells, or one tells of a key that never expires | `Pause` |
//! | | the lock is free, and not left to another client | a hint: `Attempt` at the first node |
//! | | an intent of a writer was left, and the key is held there | `Look` again, now to listen |
//! | | else | `Listen` until the key ends or the delay is over; `Sleep` for as long if that can't be |
//! | `Listen` | the bell has rung | a hint: `Attempt` at the first node; of slots and several resources `Look` |
//! | | it has not | `Look` |
//! | | the node has failed | `Sleep` until the delay is over |
//! | `Sleep` | | `Look` |
//! | `Pause` | | the last round; where a writer keeps this reader out `Attempt` at the first node |
//!
//! In place of a `Look` comes what follows a `Pause` after eight looks, or when the time is over; and a `Pause` after too many hints
//! in succession that led to no lock. The last round is an `Attempt` at all nodes; of a semaphore `FindSlots`, and then that.

use std::mem::replace;
use std::time::Duration;

use super::refusal::{names_a_holder, needs_another_token, needs_new_connections, place_read};
use crate::claim::Resource;
use crate::clock::Timestamp;
use crate::cluster::Places;
use crate::error::{Error, Vote};
use crate::node::command::WhenFree;
use crate::node::reply::{LockState, LookReply};
use crate::node::wait::ListenOutcome;

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

/// How often a larger fencing token is proposed at once. Each time, another client has been granted one meanwhile.
const MOST_RAISES: u32 = 8;

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

/// What a call does next.
#[derive(Debug)]
pub(crate) enum Do {
    /// Asks for the lock, or for this slot of a semaphore. Without a slot, guards of this manager have all slots.
    Attempt(Reach, Option<u32>),
    /// Tells the threads behind this one what the attempts have met ([`Wait::met`]), and ends if the call was cancelled.
    Tell,
    /// Waits for the turn among the threads of this manager.
    Queue,
    /// Asks a quorum which of so many slots are free.
    FindSlots(u32),
    /// Looks at the lock at the first node that tells of it, or at the key in this place alone.
    Look(WhenFree, Option<usize>),
    /// Listens there to the bell for `span`, and for no longer than `longest` if the server is late.
    Listen {
        span: Duration,
        longest: Duration,
    },
    Sleep(Duration),
    /// Sleeps for a random delay.
    Pause,
    End(Error),
}

/// What was done, and what came of it.
pub(crate) enum Done {
    Started(Start),
    /// These slots may be granted, in any order. They are taken if a quorum says that none is free.
    FoundSlots {
        slots: Vec<u32>,
        are_taken: bool,
    },
    Refused(Error),
    Told,
    /// None if no node has told of the lock in time.
    Looked(Option<Sighting>),
    Listened(ListenOutcome),
    Slept,
    Paused,
}

/// How a thread began, or what it got when it waited for its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// It reads, and asks so before it has a turn.
    Unqueued(Reach),
    Turn,
    /// A turn, and the thread before has made the first attempt.
    Passed,
    /// A turn, and the thread before has called that off, because its release has woken another client.
    CalledOff,
    /// A turn, but a client that this manager has just woken comes first.
    Yield,
    /// No turn: it reads, and another reader of its line has got the lock.
    GoAhead,
}

/// What a node has told of the lock.
pub(crate) struct Sighting {
    /// That of the node.
    pub(crate) place: usize,
    /// Its free slots are those that no guard of this manager has. It is announced if this client can listen now.
    pub(crate) look: LookReply,
    /// A random time, within what was left before.
    pub(crate) delay: Duration,
}

/// What time it is for a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) now: Timestamp,
    /// The time that is left: zero once the call is cancelled.
    pub(crate) left: Duration,
}

/// The wait of one call. See the table above.
pub(crate) struct Wait<'c> {
    resource: &'c Resource,
    /// Whether the call waits, or asks once.
    waits: bool,
    has_turn: bool,
    /// Which nodes the last attempt asked.
    reach: Option<Reach>,
    /// The slot that was asked for, and those that are next.
    slot: Option<u32>,
    slots: Vec<u32>,
    /// Whether no node calls any of the slots free. One refusal tells who is in the way then.
    are_taken: bool,
    /// How many larger tokens were proposed, and new connections tried, for the same lock.
    raises: u32,
    renewals: u32,
    /// Why the last attempts have failed.
    met: Option<Error>,
    /// How many looks there were since then.
    looks: u32,
    /// How many hints in succession led to no lock.
    hints: u32,
    /// The nodes at which a look would tell nothing of the lock. The node failed in the last attempt, as one that abstains does. Or it
    /// granted the lock although others named a holder, so the holder has no key there.
    passed_over: Places,
    /// Where a look said that the next attempt makes sense.
    hinted_by: Option<usize>,
    /// What the present look is for, at which node, and until when that is listened for.
    when_free: WhenFree,
    place: usize,
    until: Timestamp,
}

impl<'c> Wait<'c> {
    pub(crate) fn new(resource: &'c Resource, waits: bool) -> Self {
        Self {
            resource,
            waits,
            has_turn: true,
            reach: None,
            slot: None,
            slots: Vec::new(),
            are_taken: false,
            raises: 0,
            renewals: 0,
            met: None,
            looks: 0,
            hints: 0,
            passed_over: Places::new(),
            hinted_by: None,
            when_free: WhenFree::Take,
            place: 0,
            until: Timestamp::from_nanos(0),
        }
    }

    /// Why the last attempts have failed, if they have.
    pub(crate) fn met(&self) -> Option<&Error> {
        self.met.as_ref()
    }

    /// Whether a look at the node in this place would tell nothing of the lock.
    pub(crate) fn passes_over(&self, node: usize) -> bool {
        self.passed_over.contains(&node)
    }

    pub(crate) fn start(&mut self, start: Start) -> Do {
        self.has_turn = !matches!(start, Start::Unqueued(_) | Start::GoAhead);
        match start {
            Start::Unqueued(reach) => self.attempt(reach, Vec::new()),
            Start::GoAhead => self.attempt(Reach::ArbiterFirst, Vec::new()),
            Start::Turn if self.met.is_some() => self.after_refusal(),
            Start::Turn | Start::Passed => self.last_round(),
            Start::Yield => self.look_for(WhenFree::Yield, None),
            // This client announces nothing at the node. The client that was woken may come while the keys are still being released,
            // and listens again then. The next bell has to wake that client and not this one.
            Start::CalledOff => Do::Sleep(POLITENESS),
        }
    }

    pub(crate) fn step(&mut self, done: Done, Moment { now, left }: Moment) -> Do {
        match done {
            Done::Started(start) => self.start(start),
            Done::FoundSlots { slots, are_taken } => {
                let is_first = self.reach.is_none() && self.looks == 0;
                if is_first && are_taken && !left.is_zero() {
                    // Not as with a lock: a slot would be asked for that is held.
                    return self.look_for(WhenFree::Take, None);
                }
                let next = self.attempt(Reach::AllNodes, slots);
                self.are_taken = are_taken;
                next
            }
            Done::Refused(error) => self.refused(error, left),
            // The last attempt goes on past a refusal until no majority is possible, so its error reports on more than the first node.
            // A reader that a writer keeps out asks no further node: its keys there would be in the way of the writer.
            Done::Told if left.is_zero() => {
                let has_asked_all = self.reach == Some(Reach::AllNodes);
                let is_last = |met: &mut Error| has_asked_all || met.writer_waits();
                let met = self.met.take_if(is_last);
                met.map_or_else(|| self.last_round(), Do::End)
            }
            Done::Told if self.has_turn => self.after_refusal(),
            Done::Told => Do::Queue,
            Done::Looked(sighting) => self.looked(sighting, now, left),
            Done::Listened(ListenOutcome::Release) => {
                // Another slot may be free, or another one of several resources be held.
                if self.is_semaphore() || self.resource.kind.names().is_some() {
                    self.look_again(left)
                } else {
                    self.hint(Vec::new())
                }
            }
            Done::Listened(ListenOutcome::Failed) => Do::Sleep(self.until.saturating_since(now)),
            Done::Listened(ListenOutcome::Nothing) | Done::Slept => {
                self.hints = 0;
                self.look_again(left)
            }
            Done::Paused => self.ask(left),
        }
    }

    fn is_semaphore(&self) -> bool {
        self.resource.kind.permits().is_some()
    }

    /// Attempts that ask all nodes, also for slots that too few nodes told of: what is on the first node may be a remainder without a
    /// majority.
    fn last_round(&mut self) -> Do {
        match self.resource.kind.permits() {
            Some(permits) => Do::FindSlots(permits),
            None => self.attempt(Reach::AllNodes, Vec::new()),
        }
    }

    /// Begins attempts for one of these slots after the other, until one is granted.
    fn attempt(&mut self, reach: Reach, mut slots: Vec<u32>) -> Do {
        slots.truncate(MOST_SLOTS);
        (self.reach, self.met) = (Some(reach), None);
        (self.slots, self.are_taken) = (slots, false);
        self.next_slot(reach)
    }

    fn next_slot(&mut self, reach: Reach) -> Do {
        (self.raises, self.renewals) = (0, 0);
        self.slot = self.slots.pop();
        Do::Attempt(reach, self.slot)
    }

    fn refused(&mut self, error: Error, left: Duration) -> Do {
        let is_late = self.waits && left.is_zero();
        let reach = self.reach.unwrap_or(Reach::AllNodes);
        if self.raises < MOST_RAISES && needs_another_token(&error) {
            // This is no contention, so there is nothing to wait for.
            self.raises = self.raises.saturating_add(1);
            return Do::Attempt(reach, self.slot);
        }
        if self.renewals == 0 && !is_late && needs_new_connections(&error) {
            self.renewals = 1;
            return Do::Attempt(reach, self.slot);
        }
        // Where something else is under the keys of a slot, the others tell whether all permits are held.
        let is_of_slot = self.is_semaphore() && error.is_of_one_key();
        // A call that may not wait asks for all that were called free.
        let is_enough = error.is_held() && (self.are_taken || is_late);
        if !is_of_slot || error.is_held() || self.met.is_none() {
            self.met = Some(error);
        }
        if is_of_slot && !is_enough && !self.slots.is_empty() {
            return self.next_slot(reach);
        }
        Do::Tell
    }

    /// A thread that has its turn waits, for another client or for nodes to come back.
    fn after_refusal(&mut self) -> Do {
        if self.met.as_ref().is_none_or(|met| !met.is_held()) {
            return Do::Pause;
        }
        let read_elsewhere = self.learn();
        self.look_for(WhenFree::Take, read_elsewhere)
    }

    /// Learns from a refusal where looks make sense. Returns the place of the key for which readers of other nodes refused a writer,
    /// if the first node granted it. The bell of the first node does not ring when these release it. The intent that a look leaves
    /// there keeps further readers out. It needs no bell, so it is left also where this client can't listen.
    fn learn(&mut self) -> Option<usize> {
        let (_, nodes) = self.met.as_ref()?.round();
        let votes = nodes.iter().map(|report| &report.vote);
        // Of the slots of a semaphore, this is the last one that was asked for. A release that is on its way frees it on the first node
        // before the others.
        let has_holder = votes.clone().any(names_a_holder);
        let hinted_by = self.hinted_by.take();
        // Of slots, one node may have forgotten these and another one those. So the nodes are passed over together.
        if !self.is_semaphore() || self.hints <= 1 {
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
        let mut answers = votes.filter(|vote| !vote.is_failure());
        let is_granted = !has_holder && answers.next().is_some_and(Vote::is_granted);
        let read_elsewhere = |vote| place_read(self.resource, vote);
        answers.filter(|_| is_granted).find_map(read_elsewhere)
    }

    /// Begins to look. Of the key in this place, only an intent is left.
    fn look_for(&mut self, when_free: WhenFree, intended: Option<usize>) -> Do {
        self.looks = 0;
        self.when_free = intended.map_or(when_free, |_| WhenFree::Intend);
        self.look(intended)
    }

    fn look_again(&mut self, left: Duration) -> Do {
        if self.looks >= MOST_POLLS || left.is_zero() {
            return self.ask(left);
        }
        self.look(None)
    }

    fn look(&mut self, intended: Option<usize>) -> Do {
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
        Do::Look(self.when_free, intended)
    }

    fn looked(&mut self, sighting: Option<Sighting>, now: Timestamp, left: Duration) -> Do {
        let when_free = replace(&mut self.when_free, WhenFree::Take);
        let Some(Sighting { place, look, delay }) = sighting else {
            return self.pause();
        };
        self.place = place;
        let span = match (look.state, when_free) {
            (LockState::Stuck, _) => return self.pause(),
            // The node has forgotten slots that this manager has.
            (LockState::Free | LockState::Deserted, _)
                if self.is_semaphore() && look.free.is_empty() =>
            {
                delay
            }
            (LockState::Free, WhenFree::Take) | (LockState::Deserted, _) => {
                return self.hint(look.free);
            }
            (LockState::Free, WhenFree::Yield) => delay.min(POLITENESS),
            (LockState::Free, WhenFree::Intend) => delay,
            // The node has not announced this client, which is to listen now.
            (LockState::Held(_), WhenFree::Intend) => return self.look_again(left),
            (LockState::Held(held), WhenFree::Take) => delay.min(held.saturating_add(PRECISION)),
            // Readers that were just woken have the time that the node names, also where this client looks more often.
            (LockState::Held(held), WhenFree::Yield) => {
                let turn = held.saturating_add(PRECISION);
                delay.max(LONGEST_TURN).min(turn).min(left)
            }
        };
        if !look.is_announced {
            return Do::Sleep(span);
        }
        self.until = now.saturating_add(span);
        // A server may end the wait later than it was asked to. The call must not be late for that reason.
        let longest = left.saturating_add(PRECISION);
        Do::Listen { span, longest }
    }

    /// Asks for the lock that the node calls free, or for these slots.
    fn hint(&mut self, slots: Vec<u32>) -> Do {
        self.hinted_by = Some(self.place);
        self.hints = self.hints.saturating_add(1);
        self.attempt(Reach::ArbiterFirst, slots)
    }

    fn pause(&mut self) -> Do {
        self.hints = 0;
        Do::Pause
    }

    /// Asks without a hint.
    fn ask(&mut self, left: Duration) -> Do {
        let is_kept_out = self.met.as_ref().is_some_and(Error::writer_waits);
        if is_kept_out && !left.is_zero() {
            // The first node refuses readers for the writer. Keys of this reader on the other nodes would only be in its way.
            return self.attempt(Reach::ArbiterFirst, Vec::new());
        }
        self.last_round()
    }
}
