//! The model that the checker walks through: what can happen in a state, and what becomes of it.

use std::ops::RangeInclusive;

use stateright::{Model, Property};

use crate::node::{AttemptId, MOST_ATTEMPTS, Node, Renewal, Token};
use crate::properties;
use crate::state::{Extension, Phase, QUORUM, State, numberings};
use crate::subject::Subject;
use crate::variant::Variant;

/// What happens, and how often, so that there is an end.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) rules: Variant,
    pub(crate) network: Network,
    pub(crate) loss: Loss,
    pub(crate) answers: Answers,
    pub(crate) clients: usize,
    /// What each attempt wants: the same for all of a client.
    pub(crate) subjects: [Subject; MOST_ATTEMPTS],
    /// How often each client tries to get the lock, one attempt after the other.
    pub(crate) attempts: usize,
    /// Every proposal is any number from 1 to this, whatever the client has seen: a clock that is wrong and a memory
    /// that is lost cost liveness only.
    pub(crate) largest_proposal: Token,
    pub(crate) undo: Undo,
    /// None where `open_at` is what the clocks are for, above all that the node has granted. Else it comes from them.
    pub(crate) clocks: Option<Clocks>,
    numberings: Vec<[AttemptId; MOST_ATTEMPTS]>,
}

/// A message arrives at any later time, before or behind any other, or never. That it is lost needs no step of its
/// own: it is a message that has not arrived yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
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

/// Clocks that differ. Those of clients are right or behind, and so is that of a node; a
/// node that lost everything is replaced by one whose clock is behind by as much as is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clocks {
    /// By how much two clocks may differ.
    pub(crate) skew: Token,
    /// How long a node that lost everything abstains.
    pub(crate) quarantine: Token,
    /// When time ends.
    pub(crate) until: Token,
}

/// Whether a client that is still asking gives up on single nodes. Only for `Network::Repeating`, where what was sent
/// is known for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undo {
    Never,
    AtAnyNode,
}

/// Which answers to extensions are kept in the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answers {
    All,
    /// Those to late extensions, which are what must not succeed. What a node does is the same for all of them. It
    /// takes a third of the states.
    ToLateExtensions,
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
    /// Time goes on.
    Tick,
    /// A client that is still asking no longer waits for a node, and sends a release behind the acquire.
    Undo(AttemptId, usize),
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let losses = match self.loss {
            Loss::Never => 0,
            Loss::Everything(times) | Loss::TheLatest(times) => times,
        };
        vec![State::new(self.subjects, losses)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for id in self.ids() {
            self.steps_of(state, id, actions);
        }
        for place in 0..state.nodes.len() {
            self.events_at(state, place, actions);
        }
        if self.clocks.is_some_and(|clocks| state.now < clocks.until) {
            actions.push(Action::Tick);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let next = self.after(last, action);
        // What changes nothing leads nowhere.
        (next != *last).then(|| self.representative(&next))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::of(self)
    }
}

impl World {
    /// The protocol as it is, over a network that repeats messages, and nodes that lose nothing.
    pub(crate) fn new(clients: usize, attempts: usize, largest_proposal: Token) -> Self {
        assert!(clients * attempts <= MOST_ATTEMPTS, "no room for them");
        Self {
            rules: Variant::Fenced,
            network: Network::Repeating,
            loss: Loss::Never,
            answers: Answers::ToLateExtensions,
            clients,
            subjects: Default::default(),
            attempts,
            largest_proposal,
            undo: Undo::Never,
            clocks: None,
            numberings: numberings(clients, attempts),
        }
    }

    /// The same, with these clients.
    pub(crate) fn of(mut self, subjects: &[Subject]) -> Self {
        assert_eq!(subjects.len(), self.clients);
        for (attempts, subject) in self.subjects.chunks_mut(self.attempts).zip(subjects) {
            attempts.fill(*subject);
        }
        self
    }

    /// The state that stands for all that differ from this one by the names of nodes and clients only.
    pub(crate) fn representative(&self, state: &State) -> State {
        state.representative(&self.numberings)
    }

    /// What becomes of a state, with all names as they were.
    pub(crate) fn after(&self, last: &State, action: Action) -> State {
        let mut state = last.clone();
        match action {
            Action::Begin(id, token) => state.begin(id, token),
            Action::Return(id) => state.return_guard(self.rules, id),
            Action::GiveUp(id) => state.give_up(id),
            Action::Extend(id) => state.extend(self.rules, id),
            Action::AcquireArrives(id, place) => self.acquire_arrives(&mut state, id, place),
            Action::ExtensionArrives(id, place) => self.extension_arrives(&mut state, id, place),
            Action::ReleaseArrives(id, place) => {
                let node = &mut state.nodes[place];
                node.release(self.rules, id, state.attempts[id]);
                if self.network == Network::Once {
                    node.releases.remove(id);
                    if !state.attempts[id].is_over() {
                        // An undo is behind its acquire on one connection: what has not arrived is lost.
                        node.acquires.remove(id);
                    }
                }
            }
            Action::Expire(id, place, resource) => state.nodes[place].expire(id, resource),
            Action::Undo(id, place) => state.undo(id, place),
            Action::Reopen(place) => self.reopen(&mut state.nodes[place]),
            Action::Tick => state.now += 1,
            Action::Save(place) => {
                let node = &mut state.nodes[place];
                node.saved = Some(node.locks);
            }
            Action::LoseData(place) => {
                state.losses -= 1;
                state.nodes[place].lose_data(self.rules);
                state.nodes[place].lost_at = state.now;
            }
        }
        state
    }

    fn reopen(&self, node: &mut Node) {
        node.reopen(self.rules);
        if let Some(clocks) = self.clocks {
            // By its own clock, which is behind.
            let open_at = (node.lost_at + clocks.quarantine).saturating_sub(clocks.skew);
            node.open_at = Some(open_at);
        }
    }

    fn acquire_arrives(&self, state: &mut State, id: AttemptId, place: usize) {
        let attempt = state.attempts[id];
        let node = &mut state.nodes[place];
        node.acquire(self.rules, id, attempt, self.largest_proposal + 1);
        if attempt.phase != Phase::Asking || node.releases.contains(id) {
            // It left a key behind, but nobody counts it any more.
            node.votes[id] = 0;
        }
        if self.network == Network::Once {
            node.acquires.remove(id);
        }
    }

    fn extension_arrives(&self, state: &mut State, id: AttemptId, place: usize) {
        let attempt = state.attempts[id];
        let node = &mut state.nodes[place];
        node.extend(self.rules, id, attempt);
        node.renewals[id] = match (attempt.extension, self.answers) {
            (Extension::Timely | Extension::Late, Answers::All) => node.renewals[id],
            (Extension::Late, Answers::ToLateExtensions) => node.renewals[id].min(Renewal::Renewed),
            (Extension::Timely, Answers::ToLateExtensions) | (Extension::None, _) => Renewal::None,
        };
        if self.network == Network::Once {
            node.extensions.remove(id);
        }
    }

    fn ids(&self) -> std::ops::Range<AttemptId> {
        0..self.clients * self.attempts
    }

    fn proposals(&self, subject: Subject, now: Token) -> RangeInclusive<Token> {
        if self.rules.proposes() && !subject.is_reader() {
            let latest = self.clocks.map_or(Token::MAX, |_| now);
            1..=self.largest_proposal.min(latest)
        } else {
            0..=0
        }
    }

    /// What a client can do about one of its attempts.
    fn steps_of(&self, state: &State, id: AttemptId, actions: &mut Vec<Action>) {
        let attempt = &state.attempts[id];
        match attempt.phase {
            Phase::NotBegun => {
                if id.is_multiple_of(self.attempts) || state.attempts[id - 1].is_over() {
                    let proposals = self.proposals(attempt.subject, state.now);
                    actions.extend(proposals.map(|token| Action::Begin(id, token)));
                }
            }
            Phase::Asking => {
                if state.votes(id).count() >= QUORUM {
                    actions.push(Action::Return(id));
                }
                if self.undo == Undo::AtAnyNode {
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
        }
        for (resource, lock) in node.locks.iter().enumerate() {
            for id in self.ids() {
                if lock.key == Some(id) || lock.readers.contains(id) {
                    actions.push(Action::Expire(id, place, resource));
                }
            }
        }
        let is_over = |clocks: Clocks| state.now >= node.lost_at + clocks.quarantine;
        if node.open_at.is_none() && self.clocks.is_none_or(is_over) {
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
