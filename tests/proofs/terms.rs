//! Locks with a validity, model-checked: every order of events in a small world.
//!
//! A holder extends its lock. With the classic protocol it also sets its key again on nodes that have none. Contenders try to
//! get locks. Each client wants to write one resource, to read it, or to lock two resources at once.
//!
//! # What is promised
//!
//! - No two clients have valid locks at the same time, unless they share no resource, or both are readers.
//! - No lock is valid that such another client has had since it was acquired.
//! - As long as a lock is valid, a majority of the nodes has its keys, and keeps them for as long. (Not where nodes may lose
//!   their data.)
//! - A node has all keys of a lock on two resources, or none, until the first term has ended.
//! - When a lock was given back and nothing is on the way any more, no node has its key. So no two clients are in each other's
//!   way for ever with a half of what they want.
//!
//! # What can happen
//!
//! Three nodes, of which two are a quorum. There is no clock. Each acquisition and each extension is a *term*. The end of a
//! term comes at any time after its beginning, and the ends come in the order of the terms. A key that was set or extended
//! for a term expires at any time after the end of that term, and not before. That is what times to live and drifts are for.
//! Each entry of a reader has an end of its own, and so has each key of several.
//!
//! A message arrives at any later step or never; but an undo arrives after the command that it is behind. A reply counts
//! from the moment when the node gives it, and the client reads it at any later step, or gives the node up, also when the
//! reply is on its way.
//!
//! A server that stays away for longer than every ttl, and comes back empty, needs no step of its own. To the clients it is
//! a node that does not answer, and whose keys expire. `Restarts` is about servers that come back sooner. With the fenced
//! protocol such a server grants nothing before all terms have ended that had begun before (`Node::closed_until`).
//!
//! A contender asks all nodes once, waits for each, and does not extend: it is there to get what it must not get.
//!
//! In the fenced protocol a node grants only what is above its counter. Here it grants whatever it has no key against: what
//! holds there holds where it grants less. Of the counter is left whose token it is, for extensions make a key again only
//! where that is their own. Nor are the writers that wait in the model, for whom a node refuses readers.
//!
//! Not in the model: two extensions of one lock at the same time, and connections that break while a heal is under way. The
//! right to heal keeps two of them from healing at once, and tests with peers that follow a script are about the others; after
//! the second the node is released with the others.
//!
//! # Where states are left out
//!
//! The number of clients and terms is small. Of all states that differ by the names of nodes only, one is looked at. What makes
//! no difference any more is forgotten (`State::forget`).

use stateright::{Model, Property};

use crate::subject::Subject;

mod healing;
mod lively;
mod mixed;
mod node;
mod passed;
mod readers;
mod rested;
mod rule;
mod sets;
mod state;
mod steps;

pub(crate) use self::rule::Rule;
use self::state::{CLIENTS, Client, HOLDER, Minimum, NODES, State, Term};

/// What can happen, and how often.
#[derive(Clone, Debug)]
pub(crate) struct World {
    /// By which protocol each client takes its locks.
    pub(crate) protocols: [Protocol; CLIENTS],
    pub(crate) rule: Rule,
    pub(crate) restarts: Restarts,
    /// What each client wants.
    pub(crate) subjects: [Subject; CLIENTS],
    pub(crate) patience: Patience,
    pub(crate) start: Start,
    pub(crate) end: End,
    /// How many terms each client has at most: one for the acquisition, and one for each extension.
    pub(crate) terms: [Term; CLIENTS],
}

/// How a key is set again on a node that has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// By a heal, which the holder sends.
    Classic,
    /// By the extension, if the node has granted nobody else since.
    Fenced,
}

/// How it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// Nobody has asked for anything.
    Free,
    /// The holder has the lock on two nodes, and nothing of it has reached the third.
    Held,
}

/// How the holder may end its guard, beside giving its lock back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    GivesBack,
    /// The release and the attempt of the next client go to each node in one command.
    Passes,
    /// The lock rests until a minimum is over: the keys get another value, which is nobody's.
    Rests,
}

/// What the holder does where a node does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// It leaves a node out that can't be reached, and gives up on others.
    GivesUp,
    /// It waits, as a contender does. Nor does it pass its lock on.
    Waits,
}

/// When a server may come back empty before its keys have expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Restarts {
    /// Never.
    Late,
    /// When every node has the key of the last term, and nothing is under way that could delete one.
    WhenHealed,
    /// At any time: what the algorithm does not survive.
    AtAnyTime,
}

/// A client is named by its number, a node by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Asks all nodes for the lock, or all but one that can't be reached.
    Begin(Client, Option<usize>),
    /// The nodes that were asked have answered or were given up, and a quorum has granted.
    Return(Client),
    /// As before, without a quorum.
    Fail(Client),
    Extend(Client),
    Heal(Client, usize),
    /// Reads the reply to a SET.
    Read(Client, usize),
    /// Waits no longer for the reply to a SET.
    GiveUp(Client, usize),
    /// A quorum has granted the extension.
    Confirm(Client),
    /// The extension ends without a quorum.
    Abandon(Client),
    GiveBack(Client),
    /// The guard ends, and the lock goes to the next holder with its token.
    PassOn(Client),
    /// A heal ends whose guard has ended.
    EndOrphan(Client, usize),
    /// The end of the next term comes.
    EndTerm(Client),
    /// The guard ends, and the attempt of another client goes with the release.
    Pass(Client, Client),
    /// The guard ends, and its lock is to rest.
    Rest(Client),
    /// The minimum is over.
    EndRest(Client),
    RestArrives(Client, usize),
    ExpireRest(Client, usize, usize),
    SetArrives(Client, usize),
    ExtensionArrives(Client, usize),
    UndoArrives(Client, usize),
    ReleaseArrives(Client, usize),
    Expire(Client, usize, usize),
    Restart(usize),
}

pub(crate) const EXCLUSION: &str = "no two clients have valid locks";
pub(crate) const NO_REVIVAL: &str = "no lock is valid that another client has had since";
pub(crate) const MAJORITY: &str = "a majority has the key of a valid lock for as long";
pub(crate) const WHOLE: &str =
    "a node has all keys of a lock, or none, until its first term has ended";
pub(crate) const NOTHING_LEFT: &str = "no key is left of a lock that was given back";

pub(crate) const RESTS: &str = "nobody has a lock that rests on a majority";

const RESTED: &str = "a lock rests on a majority";
const BY_PASS: &str = "a lock is valid that was passed";
const HEALED: &str = "a lock is valid by the vote of a healed node";
const SUCCESSION: &str = "the contender gets the lock";
const PASSED_ON: &str = "a lock is valid for the next holder";

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut state = State::default();
        if self.start == Start::Held {
            let way = [
                Action::Begin(HOLDER, Some(2)),
                Action::SetArrives(HOLDER, 0),
                Action::SetArrives(HOLDER, 1),
                Action::Read(HOLDER, 0),
                Action::Read(HOLDER, 1),
                Action::Return(HOLDER),
            ];
            for action in way {
                state.take(self, action);
            }
        }
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for client in 0..CLIENTS {
            self.steps_of(state, client, actions);
        }
        for place in 0..NODES {
            self.events_at(state, place, actions);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        state.take(self, action);
        state.forget(self);
        state.nodes.sort();
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(EXCLUSION, |world: &Self, state: &State| {
                world.is_exclusive(state)
            }),
            Property::always(WHOLE, |world: &Self, state: &State| {
                (0..CLIENTS).all(|client| state.is_whole(world, client))
            }),
            Property::always(NOTHING_LEFT, |_, state: &State| {
                (0..CLIENTS).all(|client| state.has_left_nothing(client))
            }),
            Property::always(NO_REVIVAL, |_, state: &State| {
                (0..CLIENTS).all(|client| {
                    !(state.is_valid(client) && state.holders[client].had_a_successor)
                })
            }),
        ];
        if self.end == End::Rests {
            properties.push(Property::always(RESTS, |world: &Self, state: &State| {
                world.is_left_alone(state)
            }));
        }
        if self.remember() {
            properties.push(Property::always(MAJORITY, |world: &Self, state: &State| {
                (0..CLIENTS).all(|client| state.has_its_majority(world, client))
            }));
        }
        properties.extend(self.what_has_to_happen());
        properties
    }
}

impl World {
    /// What has to happen in some state, lest the world be empty.
    fn what_has_to_happen(&self) -> Vec<Property<Self>> {
        let mut properties = Vec::new();
        if self.terms[1] > 0 {
            properties.push(Property::sometimes(SUCCESSION, |_, state: &State| {
                state.is_valid(1)
            }));
        }
        if self.terms[HOLDER] > 2 {
            properties.push(Property::sometimes(PASSED_ON, |_, state: &State| {
                let holder = &state.holders[HOLDER];
                holder.was_passed_on && state.is_valid(HOLDER) && holder.confirmed == 3
            }));
        }
        match self.end {
            End::GivesBack => {}
            End::Passes => properties.push(Property::sometimes(BY_PASS, |_, state: &State| {
                (0..CLIENTS)
                    .any(|client| state.is_valid(client) && state.holders[client].came_by_pass)
            })),
            End::Rests => properties.push(Property::sometimes(RESTED, |_, state: &State| {
                state.holders[HOLDER].minimum == Minimum::Confirmed
            })),
        }
        if self.terms[HOLDER] > 1 && self.protocols[HOLDER] == Protocol::Classic {
            properties.push(Property::sometimes(HEALED, |_, state: &State| {
                state.is_valid(HOLDER) && state.holders[HOLDER].needed_a_heal
            }));
        }
        properties
    }

    /// Whether nodes keep what they have, or break what they must not.
    fn remember(&self) -> bool {
        self.protocols.contains(&Protocol::Classic) || self.restarts == Restarts::Late
    }

    /// Whether nobody has a lock that rests.
    fn is_left_alone(&self, state: &State) -> bool {
        let resting = |client: &Client| state.holders[*client].minimum == Minimum::Confirmed;
        let mut resting = (0..CLIENTS).filter(resting);
        resting.all(|client| {
            (0..CLIENTS).all(|other| {
                let excludes = self.subjects[client].excludes(self.subjects[other]);
                other == client || !excludes || !state.is_valid(other)
            })
        })
    }

    /// Whether no two valid locks exclude each other.
    fn is_exclusive(&self, state: &State) -> bool {
        let valid = || (0..CLIENTS).filter(|client| state.is_valid(*client));
        let excludes = |a: Client, b: Client| self.subjects[a].excludes(self.subjects[b]);
        valid().all(|a| valid().all(|b| a == b || !excludes(a, b)))
    }

    /// Whether the client asks all nodes, and waits for each.
    fn is_patient(&self, client: Client) -> bool {
        client != HOLDER || self.patience == Patience::Waits
    }
}
