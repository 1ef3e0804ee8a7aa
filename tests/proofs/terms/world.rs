//! What can happen, and what must hold in every state.

use stateright::{Model, Property};

use super::state::{CLIENTS, Client, HOLDER, NODES, State, Term};
use crate::subject::Subject;

/// What can happen, and how often.
#[derive(Clone, Debug)]
pub(super) struct World {
    /// By which protocol each client takes its locks.
    pub(super) protocols: [Protocol; CLIENTS],
    pub(super) rule: Rule,
    pub(super) restarts: Restarts,
    /// What each client wants.
    pub(super) subjects: [Subject; CLIENTS],
    /// Whether the holder leaves a node out that can't be reached, and gives up on others that don't answer. Otherwise it
    /// waits, as a contender does. Nor does it pass its lock on to the next holder then.
    pub(super) gives_up: bool,
    /// Whether the holder has the lock on two nodes, and nothing of it has reached the third. Otherwise nobody has asked for
    /// anything.
    pub(super) is_held: bool,
    /// Whether the release and the attempt of the next client may go to each node in one command.
    pub(super) passes: bool,
    /// How many terms each client has at most: one for the acquisition, and one for each extension.
    pub(super) terms: [Term; CLIENTS],
}

/// How a key is set again on a node that has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// By a heal, which the holder sends.
    Classic,
    /// By the extension, if the node has granted nobody else since.
    Fenced,
}

/// When a server may come back empty before its keys have expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Restarts {
    /// Never.
    Late,
    /// When every node has the key of the last term, and nothing is under way that could delete one.
    WhenHealed,
    /// At any time: what the algorithm does not survive.
    AtAnyTime,
}

/// A client is named by its number, a node by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
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
    SetArrives(Client, usize),
    ExtensionArrives(Client, usize),
    UndoArrives(Client, usize),
    ReleaseArrives(Client, usize),
    Expire(Client, usize, usize),
    Restart(usize),
}

pub(super) const EXCLUSION: &str = "no two clients have valid locks";
pub(super) const NO_REVIVAL: &str = "no lock is valid that another client has had since";
pub(super) const MAJORITY: &str = "a majority has the key of a valid lock for as long";
pub(super) const WHOLE: &str =
    "a node has all keys of a lock, or none, until its first term has ended";
pub(super) const NOTHING_LEFT: &str = "no key is left of a lock that was given back";

/// What has to happen in some state, lest the world be empty.
pub(super) const SUCCESSION: &str = "the contender gets the lock";

/// The rules, or what becomes of them without a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
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
    /// A reader is granted while a writer's key is there.
    ReadsPastWriters,
    /// A node that has lost its data grants readers at once.
    ReadsInQuarantine,
    /// A node grants several resources if one of them is free.
    SetOnHalf,
    /// The release of several resources deletes the first key only.
    LeavesOneKey,
    /// A pass sets the new key whatever is there.
    PassesBlindly,
    /// A guard is valid until its pass has arrived.
    PassesTooEarly,
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut state = State::default();
        if self.is_held {
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
        state.forget();
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
        if self.remember() {
            properties.push(Property::always(MAJORITY, |world: &Self, state: &State| {
                (0..CLIENTS).all(|client| state.has_its_majority(world, client))
            }));
        }
        if self.terms[1] > 0 {
            properties.push(Property::sometimes(SUCCESSION, |_, state: &State| {
                state.is_valid(1)
            }));
        }
        properties
    }
}

impl World {
    /// Clients of the classic protocol that wait for every node, and servers that stay away, unless these words say otherwise.
    pub(super) fn of(subjects: [Subject; CLIENTS], terms: [Term; CLIENTS], words: &str) -> Self {
        let mut world = Self {
            protocols: [Protocol::Classic; CLIENTS],
            rule: Rule::AsItIs,
            restarts: Restarts::Late,
            subjects,
            gives_up: false,
            is_held: false,
            passes: false,
            terms,
        };
        let (classic, fenced) = (Protocol::Classic, Protocol::Fenced);
        for word in words.split_whitespace() {
            match word {
                "gives-up" => world.gives_up = true,
                "held" => world.is_held = true,
                "passes" => world.passes = true,
                "fenced" => world.protocols = [fenced; CLIENTS],
                "fenced-holder" => world.protocols = [fenced, classic, classic],
                "classic-holder" => world.protocols = [classic, fenced, fenced],
                "restarts" => world.restarts = Restarts::AtAnyTime,
                "restarts-when-healed" => world.restarts = Restarts::WhenHealed,
                other => panic!("what is {other}?"),
            }
        }
        world
    }

    pub(super) fn by(self, rule: Rule) -> Self {
        Self { rule, ..self }
    }

    /// Whether nodes keep what they have, or break what they must not.
    pub(super) fn remember(&self) -> bool {
        self.protocols.contains(&Protocol::Classic) || self.restarts == Restarts::Late
    }

    /// Whether no two valid locks exclude each other.
    fn is_exclusive(&self, state: &State) -> bool {
        let valid = || (0..CLIENTS).filter(|client| state.is_valid(*client));
        let excludes = |a: Client, b: Client| self.subjects[a].excludes(self.subjects[b]);
        valid().all(|a| valid().all(|b| a == b || !excludes(a, b)))
    }

    /// Whether the client asks all nodes, and waits for each.
    pub(super) fn is_patient(&self, client: Client) -> bool {
        client != HOLDER || !self.gives_up
    }
}
