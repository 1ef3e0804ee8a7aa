//! The classic protocol with extensions that heal, model-checked: every order of events in a small world.
//!
//! A holder extends its lock, and sets its key again on nodes that have none. A contender tries to get the lock.
//!
//! # What is promised
//!
//! - No two clients have valid locks at the same time.
//! - No lock is valid that another client has had since it was acquired.
//! - As long as a lock is valid, a majority of the nodes has its key, and keeps it for as long.
//! - When a lock was given back and nothing is on the way any more, no node has its key.
//!
//! # What can happen
//!
//! Three nodes, of which two are a quorum. There is no clock. Each acquisition and each extension is a *term*. The end of a
//! term comes at any time after its beginning, and the ends come in the order of the terms. A key that was set or extended
//! for a term expires at any time after the end of that term, and not before. That is what times to live and drifts are for.
//!
//! A message arrives at any later step or never; but an undo arrives after the command that it is behind. A reply counts
//! from the moment when the node gives it, and the client reads it at any later step, or gives the node up, also when the
//! reply is on its way.
//!
//! A server that stays away for longer than every ttl, and comes back empty, needs no step of its own. To the clients it is
//! a node that does not answer, and whose keys expire. `Restarts` is about servers that come back sooner.
//!
//! The contender asks all nodes once, waits for each, and does not extend: it is there to get what it must not get.
//!
//! Not in the model: two extensions of one lock at the same time, and connections that break while a heal is under way. The
//! right to heal keeps two of them from healing at once, and tests with peers that follow a script are about the others; after
//! the second the node is released with the others.

use stateright::{Model, Property};

mod state;
mod worlds;

use self::state::{CLIENTS, CONTENDER, Client, Link, NODES, Phase, QUORUM, Standing, State, Term};

/// What can happen, and how often.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) rule: Rule,
    pub(crate) restarts: Restarts,
    /// How many terms each client has at most: one for the acquisition, and one for each extension.
    pub(crate) terms: [Term; CLIENTS],
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

/// The rule, or one without a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    AsItIs,
    /// A node that was sent an undo is healed as well.
    HealsUndone,
    /// Votes of an extension count also when the old end has come before they are all there.
    CountsAfterTheEnd,
    /// A heal replaces another client's key.
    HealsTaken,
    /// No undo is sent behind a heal whose reply does not come.
    NoUndo,
    /// A heal that is under way when the lock is given back is not undone.
    KeeperForgets,
    /// A node that is being healed is passed on to the next holder.
    PassesOn,
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
    SetArrives(Client, usize),
    ExtensionArrives(Client, usize),
    UndoArrives(Client, usize),
    ReleaseArrives(Client, usize),
    Expire(usize),
    Restart(usize),
}

pub(crate) const EXCLUSION: &str = "no two clients have valid locks";
pub(crate) const NO_REVIVAL: &str = "no lock is valid that another client has had since";
pub(crate) const MAJORITY: &str = "a majority has the key of a valid lock for as long";
pub(crate) const NOTHING_LEFT: &str = "no key is left of a lock that was given back";

const HEALED: &str = "a lock is valid by the vote of a healed node";
const SUCCESSION: &str = "the contender gets the lock";
const PASSED_ON: &str = "a lock is valid for the next holder";

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::default()]
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
        state.take(self.rule, action);
        state.nodes.sort();
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(EXCLUSION, |_, state: &State| {
                !(0..CLIENTS).all(|client| state.is_valid(client))
            }),
            Property::always(MAJORITY, |_, state: &State| {
                (0..CLIENTS).all(|client| state.has_its_majority(client))
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
        if self.terms[CONTENDER] > 0 {
            properties.push(Property::sometimes(SUCCESSION, |_, state: &State| {
                state.is_valid(CONTENDER)
            }));
        }
        if self.terms[0] > 2 {
            properties.push(Property::sometimes(PASSED_ON, |_, state: &State| {
                let holder = &state.holders[0];
                holder.was_passed_on && state.is_valid(0) && holder.confirmed == 3
            }));
        }
        if self.terms[0] > 1 {
            properties.push(Property::sometimes(HEALED, |_, state: &State| {
                state.is_valid(0) && state.holders[0].needed_a_heal
            }));
        }
        properties
    }
}

impl World {
    /// What a client can do.
    fn steps_of(&self, state: &State, client: Client, actions: &mut Vec<Action>) {
        let holder = &state.holders[client];
        let links = || state.nodes.iter().map(|node| &node.links[client]);
        let is_waiting = links().any(|link| link.standing == Standing::Waiting);
        if holder.ended < holder.begun {
            actions.push(Action::EndTerm(client));
        }
        for (place, link) in links().enumerate() {
            if link.standing == Standing::Waiting {
                if client != CONTENDER {
                    actions.push(Action::GiveUp(client, place));
                }
                if link.answer.is_some() {
                    actions.push(Action::Read(client, place));
                }
            }
            if link.is_orphan {
                actions.push(Action::EndOrphan(client, place));
            }
            if holder.is_extending && self.may_heal(link) {
                actions.push(Action::Heal(client, place));
            }
        }
        match holder.phase {
            Phase::Idle if self.terms[client] == 0 => {}
            Phase::Idle => {
                actions.push(Action::Begin(client, None));
                if client == CONTENDER {
                    return;
                }
                actions.extend((0..NODES).map(|place| Action::Begin(client, Some(place))));
            }
            Phase::Asking if is_waiting => {}
            Phase::Asking if state.votes(client) >= QUORUM && holder.ended == 0 => {
                actions.push(Action::Return(client));
            }
            Phase::Asking => actions.push(Action::Fail(client)),
            Phase::Holding => {
                actions.push(Action::GiveBack(client));
                if holder.is_extending {
                    actions.push(Action::PassOn(client));
                }
                if holder.is_extending && !is_waiting {
                    actions.push(Action::Abandon(client));
                    let is_in_time =
                        holder.ended < holder.confirmed || self.rule == Rule::CountsAfterTheEnd;
                    if is_in_time && state.votes(client) >= QUORUM {
                        actions.push(Action::Confirm(client));
                    }
                }
                if !holder.is_extending
                    && state.is_valid(client)
                    && holder.begun < self.terms[client]
                {
                    actions.push(Action::Extend(client));
                }
            }
            Phase::Over => {}
        }
    }

    /// Whether the key may be set again on a node.
    fn may_heal(&self, link: &Link) -> bool {
        if link.set.is_some() {
            return false;
        }
        match link.standing {
            Standing::MayHaveKey => link.answer == Some(state::Answer::Missing),
            Standing::Untouched => true,
            Standing::Undone => self.rule == Rule::HealsUndone,
            Standing::None | Standing::Waiting => false,
        }
    }

    /// What can happen at a node.
    fn events_at(&self, state: &State, place: usize, actions: &mut Vec<Action>) {
        let node = &state.nodes[place];
        for (client, link) in node.links.iter().enumerate() {
            if link.set.is_some() {
                actions.push(Action::SetArrives(client, place));
            }
            if link.extension.is_some() {
                actions.push(Action::ExtensionArrives(client, place));
            }
            if link.undo_arrives {
                actions.push(Action::UndoArrives(client, place));
            }
            if link.release {
                actions.push(Action::ReleaseArrives(client, place));
            }
        }
        let Some(key) = node.key else {
            return;
        };
        if state.holders[key.client].ended >= key.term {
            actions.push(Action::Expire(place));
        }
        let may_restart = match self.restarts {
            Restarts::Late => false,
            Restarts::WhenHealed => state.is_healed(key.client),
            Restarts::AtAnyTime => true,
        };
        if may_restart {
            actions.push(Action::Restart(place));
        }
    }
}
