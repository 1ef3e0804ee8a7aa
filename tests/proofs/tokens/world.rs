//! The model that the checker walks through: what can happen in a state, and what becomes of it.

use std::collections::HashSet;

use stateright::{Model, Property};

use super::Rule;
use super::node::{AttemptId, Claim, MOST_ATTEMPTS, Token};
use super::state::{Attempt, Extension, Phase, State, numberings};
use crate::subject::Subject;

/// What happens, and how often, so that there is an end.
#[derive(Clone, Debug)]
pub(crate) struct World {
    rule: Rule,
    network: Network,
    loss: Loss,
    /// Whether a client that is still asking gives up on single nodes. Only for `Network::Repeating`, where what was sent
    /// is known for ever.
    undoes: bool,
    /// What each client wants.
    subjects: Vec<Subject>,
    /// How often each client tries to get the lock, one attempt after the other.
    attempts: usize,
    /// Every proposal is any number from 1 to this, whatever the client has seen: a clock that is wrong and a memory
    /// that is lost cost liveness only.
    largest_proposal: Token,
    numberings: Vec<[AttemptId; MOST_ATTEMPTS]>,
}

/// A message arrives at any later time, before or behind any other, or never. That it is lost needs no step of its
/// own: it is a message that has not arrived yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Network {
    /// At most once, as over TCP. Counterexamples are found here, so that none needs a repetition.
    Once,
    /// Any number of times, as when a client repeats a command on another connection. Whatever can happen in `Once`
    /// can happen here, so this is where the protocol is checked.
    Repeating,
}

/// What a node loses when it loses data, and how many times one does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    Never,
    /// Everything, as by `FLUSHALL` or a restart without persistence.
    Everything(u8),
    /// What came after some earlier moment, or everything: as by a snapshot that is read back, or the promotion of a
    /// replica that lags. The moments of two nodes do not overlap, or there would be too many states.
    TheLatest(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// A client begins its next attempt, and sends this proposal to all nodes.
    Begin(AttemptId, Token),
    /// A quorum has voted for the attempt, and the client has its guard.
    Return(AttemptId),
    /// A client gives up, or a holder gives back: a release goes to all nodes.
    GiveUp(AttemptId),
    /// A holder asks all nodes to extend that it sent no undo, however long ago it lost the lock.
    Extend(AttemptId),
    AcquireArrives(AttemptId, usize),
    ExtensionArrives(AttemptId, usize),
    ReleaseArrives(AttemptId, usize),
    /// The key of an attempt, or its entry, ends on a node, early or late: no clock has a say.
    Expire(AttemptId, usize, usize),
    /// What the node has now is on its disk.
    Save(usize),
    LoseData(usize),
    /// A node that lost data has closed, and opens.
    Reopen(usize),
    /// A client that is still asking no longer waits for a node, and sends a release behind the acquire.
    Undo(AttemptId, usize),
}

pub(crate) const UNIQUE: &str = "no two winners of a resource have the same token";
pub(crate) const REAL_TIME: &str = "who began when another had returned has the larger token";
pub(crate) const NO_REVIVAL: &str =
    "no extension succeeds that began when a newer holder had returned";

/// What has to happen in some state, lest the model be empty.
const SUCCESSION: &str = "a lock is given back and won again";

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut state = State::default();
        for (id, attempt) in state.attempts.iter_mut().enumerate() {
            let subject = self.subjects.get(id / self.attempts).copied();
            attempt.claim.subject = subject.unwrap_or_default();
        }
        if let Loss::Everything(times) | Loss::TheLatest(times) = self.loss {
            state.losses = times;
        }
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for id in self.ids() {
            self.steps_of(state, id, actions);
        }
        for place in 0..state.nodes.len() {
            self.events_at(state, place, actions);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let next = self.after(last, action);
        // What changes nothing leads nowhere.
        (next != *last).then(|| next.representative(&self.numberings))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(UNIQUE, |_, state| tokens_are_unique(state)),
            Property::always(REAL_TIME, |_, state: &State| {
                let mut winners = state.attempts.iter().filter(|attempt| attempt.won());
                winners.all(|winner| winner.is_reader() || winner.claim.token > winner.behind)
            }),
            Property::always(NO_REVIVAL, nothing_is_revived),
            Property::sometimes(SUCCESSION, |_, state: &State| {
                let has = |phase| state.attempts.iter().any(|attempt| attempt.phase == phase);
                has(Phase::Released) && has(Phase::Holding)
            }),
        ]
    }
}

fn tokens_are_unique(state: &State) -> bool {
    let winners = state.attempts.iter().filter(|attempt| attempt.won());
    let writers = winners.filter(|winner| !winner.is_reader());
    let mut tokens = writers.flat_map(|winner| {
        let Claim { subject, token } = winner.claim;
        subject.resources().map(move |resource| (resource, token))
    });
    let mut seen = HashSet::new();
    tokens.all(|token| seen.insert(token))
}

/// A reader leaves no tombstone, so this is promised to it only where no acquire arrives twice.
fn nothing_is_revived(world: &World, state: &State) -> bool {
    let is_promised = |attempt: &Attempt| {
        let is_late = attempt.extension == Extension::Late;
        is_late && (!attempt.is_reader() || world.network == Network::Once)
    };
    let mut late = (0..MOST_ATTEMPTS).filter(|id| is_promised(&state.attempts[*id]));
    !late.any(|id| state.has_quorum(|node| node.renewed.contains(id)))
}

impl World {
    /// The protocol as it is, over a network that repeats messages, and nodes that lose nothing.
    pub(crate) fn new(subjects: &[Subject], attempts: usize, largest_proposal: Token) -> Self {
        Self {
            rule: Rule::AsItIs,
            network: Network::Repeating,
            loss: Loss::Never,
            undoes: false,
            subjects: subjects.to_vec(),
            attempts,
            largest_proposal,
            numberings: numberings(subjects.len(), attempts),
        }
    }

    pub(crate) fn by(self, rule: Rule) -> Self {
        Self { rule, ..self }
    }

    pub(crate) fn once(self) -> Self {
        let network = Network::Once;
        Self { network, ..self }
    }

    pub(crate) fn losing(self, loss: Loss) -> Self {
        Self { loss, ..self }
    }

    pub(crate) fn undoing(self) -> Self {
        let undoes = true;
        Self { undoes, ..self }
    }

    /// What becomes of a state, with all names as they were.
    pub(crate) fn after(&self, last: &State, action: Action) -> State {
        let mut state = last.clone();
        match action {
            Action::Begin(id, token) => state.begin(id, token),
            Action::Return(id) => state.return_guard(self.rule, id),
            Action::GiveUp(id) => state.give_up(id),
            Action::Extend(id) => state.extend(self.rule, id),
            Action::AcquireArrives(id, place) => self.acquire_arrives(&mut state, id, place),
            Action::ExtensionArrives(id, place) => self.extension_arrives(&mut state, id, place),
            Action::ReleaseArrives(id, place) => {
                let node = &mut state.nodes[place];
                node.release(id, state.attempts[id].claim);
                if self.network == Network::Once {
                    node.releases.remove(id);
                }
            }
            Action::Expire(id, place, resource) => state.nodes[place].expire(id, resource),
            Action::Undo(id, place) => state.undo(id, place),
            Action::Reopen(place) => state.nodes[place].reopen(self.rule),
            Action::Save(place) => {
                let node = &mut state.nodes[place];
                node.saved = Some(node.locks);
            }
            Action::LoseData(place) => {
                state.losses -= 1;
                state.nodes[place].lose_data(self.rule);
            }
        }
        state
    }

    fn acquire_arrives(&self, state: &mut State, id: AttemptId, place: usize) {
        let attempt = state.attempts[id];
        let node = &mut state.nodes[place];
        let is_granted = node.acquire(self.rule, id, attempt.claim, self.largest_proposal + 1);
        // Otherwise it leaves a key behind that nobody counts any more.
        if is_granted && attempt.phase == Phase::Asking && !node.releases.contains(id) {
            node.votes.insert(id);
        }
        if self.network == Network::Once {
            node.acquires.remove(id);
        }
    }

    /// The answer to an extension that no promise asks about is forgotten.
    fn extension_arrives(&self, state: &mut State, id: AttemptId, place: usize) {
        let attempt = state.attempts[id];
        let node = &mut state.nodes[place];
        if node.extend(self.rule, id, attempt.claim) && attempt.extension == Extension::Late {
            node.renewed.insert(id);
        }
        if self.network == Network::Once {
            node.extensions.remove(id);
        }
    }

    fn ids(&self) -> std::ops::Range<AttemptId> {
        0..self.subjects.len() * self.attempts
    }

    /// What a client can do about one of its attempts.
    fn steps_of(&self, state: &State, id: AttemptId, actions: &mut Vec<Action>) {
        let attempt = &state.attempts[id];
        match attempt.phase {
            Phase::NotBegun => {
                if id.is_multiple_of(self.attempts) || state.attempts[id - 1].is_over() {
                    let proposals = if attempt.is_reader() {
                        0..=0
                    } else {
                        1..=self.largest_proposal
                    };
                    actions.extend(proposals.map(|token| Action::Begin(id, token)));
                }
            }
            Phase::Asking => {
                if state.has_quorum(|node| node.votes.contains(id)) {
                    actions.push(Action::Return(id));
                }
                if self.undoes {
                    let places = 0..state.nodes.len();
                    actions.extend(places.map(|place| Action::Undo(id, place)));
                }
                actions.push(Action::GiveUp(id));
            }
            Phase::Holding => {
                // Over TCP one extension is enough for a counterexample. What a second one of the same attempt sends
                // is what the first one sent, so where messages are repeated there are as many as it likes.
                if self.network == Network::Repeating || attempt.extension == Extension::None {
                    actions.push(Action::Extend(id));
                }
                actions.push(Action::GiveUp(id));
            }
            Phase::Failed | Phase::Released => {}
        }
    }

    /// What can happen to a node.
    fn events_at(&self, state: &State, place: usize, actions: &mut Vec<Action>) {
        let node = &state.nodes[place];
        for id in self.ids() {
            if node.acquires.contains(id) {
                actions.push(Action::AcquireArrives(id, place));
            }
            if node.extensions.contains(id) {
                actions.push(Action::ExtensionArrives(id, place));
            }
            if node.releases.contains(id) {
                actions.push(Action::ReleaseArrives(id, place));
            }
            for (resource, lock) in node.locks.iter().enumerate() {
                if lock.key == Some(id) || lock.readers.contains(id) {
                    actions.push(Action::Expire(id, place, resource));
                }
            }
        }
        if node.open_at.is_none() {
            actions.push(Action::Reopen(place));
        }
        if state.losses > 0 {
            actions.push(Action::LoseData(place));
            let saves = matches!(self.loss, Loss::TheLatest(_));
            if saves && state.nodes.iter().all(|node| node.saved.is_none()) {
                actions.push(Action::Save(place));
            }
        }
    }
}
