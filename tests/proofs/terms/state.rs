//! The state of everything: nodes, clients, and what is on the way between them; what clients do, and what holds of them.

use super::node::{Answer, Link, Node, Standing};
use super::{CLIENTS, Client, HOLDER, Protocol, Rule, Term, World};
use crate::checks::Steps;
use crate::subject::{NODES, QUORUM};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// In no order: of all states that differ by the names of nodes only, one is looked at.
    pub(crate) nodes: [Node; NODES],
    pub(crate) holders: [Holder; CLIENTS],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Holder {
    pub(crate) phase: Phase,
    /// The last term that has begun, the last one that is the lock's validity, and the last one that has ended.
    pub(crate) begun: Term,
    pub(crate) confirmed: Term,
    pub(crate) ended: Term,
    is_extending: bool,
    /// Whether another client has got the lock since.
    pub(crate) had_a_successor: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    #[default]
    Idle,
    Asking,
    Holding,
    /// It has failed, or was given back.
    Over,
}

impl World {
    /// What a client can do.
    pub(super) fn steps_of(&self, client: Client, steps: &mut Steps<'_, State>) {
        let (state, is_patient) = (steps.from, self.is_patient(client));
        let holder = state.holders[client];
        let mut links = state.links(client);
        let is_waiting = links.any(|link| link.standing == Standing::Waiting);
        if holder.ended < holder.begun {
            steps.add(format!("a term of {client} ends"), |state| {
                state.holders[client].ended += 1;
            });
        }
        for place in 0..NODES {
            self.steps_at_node(client, place, steps);
        }
        match holder.phase {
            Phase::Idle if self.terms[client] > 0 => {
                let unreached = (0..NODES).map(Some).filter(|_| !is_patient);
                for left_out in unreached.chain([None]) {
                    let name = format!("{client} asks all nodes but {left_out:?}");
                    steps.add(name, |state| state.begin(client, left_out));
                }
            }
            // The nodes that were asked have answered, or were given up.
            Phase::Asking if !is_waiting => {
                if state.votes(client) >= QUORUM && holder.ended == 0 {
                    steps.add(format!("{client} returns"), |state| {
                        state.return_guard(self, client);
                    });
                } else {
                    steps.add(format!("{client} fails"), |state| state.release(client));
                }
            }
            Phase::Holding => self.steps_of_holder(client, is_waiting, steps),
            Phase::Idle | Phase::Asking | Phase::Over => {}
        }
    }

    fn steps_of_holder(&self, client: Client, is_waiting: bool, steps: &mut Steps<'_, State>) {
        let (state, is_patient) = (steps.from, self.is_patient(client));
        let holder = state.holders[client];
        if !(is_waiting && is_patient) {
            steps.add(format!("{client} gives back"), |state| {
                state.end_guard(client, Standing::Undone);
                state.release(client);
                if self.rule == Rule::KeeperForgets {
                    let links = state.links_mut(client);
                    links.for_each(|link| link.is_orphan = false);
                }
            });
        }
        if holder.is_extending && !is_patient {
            // The guard ends, and the lock goes to the next holder with its token.
            steps.add(format!("{client} passes its token on"), |state| {
                let may_have_key = self.rule == Rule::PassesOn;
                let standing = if may_have_key {
                    Standing::MayHaveKey
                } else {
                    Standing::LeftToKeeper
                };
                state.end_guard(client, standing);
            });
        }
        if holder.is_extending && !is_waiting {
            steps.add(format!("{client} abandons its extension"), |state| {
                state.end_extension(client);
            });
            let is_in_time = holder.ended < holder.confirmed;
            let counts = is_in_time || self.rule == Rule::CountsAfterTheEnd;
            if counts && state.votes(client) >= QUORUM {
                steps.add(format!("{client} has extended"), |state| {
                    state.holders[client].confirmed = holder.begun;
                    state.end_extension(client);
                });
            }
        }
        let has_terms = holder.begun < self.terms[client];
        if has_terms && !holder.is_extending && state.is_valid(client) {
            steps.add(format!("{client} extends"), |state| state.extend(client));
        }
    }

    /// What a client can do about a single node.
    fn steps_at_node(&self, client: Client, place: usize, steps: &mut Steps<'_, State>) {
        let link = &steps.from.nodes[place].links[client];
        let holder = steps.from.holders[client];
        let is_waiting = link.standing == Standing::Waiting;
        let mut add = |name: &str, happens: &dyn Fn(&mut Link)| {
            steps.add(format!("{client} {name} {place}"), |state| {
                happens(&mut state.nodes[place].links[client]);
            });
        };
        if is_waiting && !self.is_patient(client) {
            let undoes = !(holder.is_extending && self.rule == Rule::NoUndo);
            add("waits no longer for", &|link| {
                (link.standing, link.answer) = (Standing::Undone, None);
                if undoes {
                    link.undo();
                }
            });
        }
        if is_waiting && link.answer.is_some() {
            add("reads the reply of", &|link| {
                link.standing = Standing::MayHaveKey;
            });
        }
        if link.is_orphan {
            add("undoes its heal of", &|link| {
                link.is_orphan = false;
                if link.set.is_some() {
                    link.undo();
                } else {
                    link.release = true;
                }
            });
        }
        let may_heal = match link.standing {
            Standing::MayHaveKey => link.answer == Some(Answer::Missing),
            Standing::Untouched => true,
            // The node has executed the acquire and the undo behind it, and the client has read both replies.
            Standing::Undone => !link.undo_arrives || self.rule == Rule::HealsUndone,
            Standing::LeftToKeeper => self.rule == Rule::HealsForKeeper,
            Standing::None | Standing::Waiting => false,
        };
        let heals = holder.is_extending && self.protocols[client] == Protocol::Classic;
        if heals && may_heal && link.set.is_none() {
            add("heals", &|link| {
                (link.standing, link.answer) = (Standing::Waiting, None);
                link.set = Some(holder.begun);
            });
        }
    }

    /// Whether the client asks all nodes, and waits for each.
    pub(super) fn is_patient(&self, client: Client) -> bool {
        client != HOLDER || !self.gives_up
    }

    /// Whether no two valid locks exclude each other.
    pub(super) fn is_exclusive(&self, state: &State) -> bool {
        let valid = || (0..CLIENTS).filter(|client| state.is_valid(*client));
        let excludes = |a: Client, b: Client| self.subjects[a].excludes(self.subjects[b]);
        valid().all(|a| valid().all(|b| a == b || !excludes(a, b)))
    }

    pub(super) fn has_its_majority(&self, state: &State, client: Client) -> bool {
        let confirmed = state.holders[client].confirmed;
        let nodes = state.nodes.iter();
        let own = nodes.filter(|node| node.has_all(self, client, confirmed));
        !state.is_valid(client) || own.count() >= QUORUM
    }

    pub(super) fn is_whole(&self, state: &State, client: Client) -> bool {
        let has_a_part = |node: &Node| node.has_any(client) && !node.has_all(self, client, 1);
        state.holders[client].ended > 0 || !state.nodes.iter().any(has_a_part)
    }

    /// Whether every node has the client's key of its last term, no renewal is half done, and nothing is under way that
    /// deletes a key.
    pub(super) fn is_healed(&self, state: &State, client: Client) -> bool {
        let last = state.holders[client].begun;
        let is_safe = |node: &Node| {
            let link = &node.links[client];
            let counts = link.standing == Standing::MayHaveKey;
            counts && !link.undo_arrives && !link.release && node.has_all(self, client, last)
        };
        state.is_valid(client) && state.nodes.iter().all(is_safe)
    }
}

impl State {
    pub(crate) fn is_valid(&self, client: Client) -> bool {
        let holder = &self.holders[client];
        holder.phase == Phase::Holding && holder.confirmed > holder.ended
    }

    pub(crate) fn has_left_nothing(&self, client: Client) -> bool {
        let is_over = self.holders[client].phase == Phase::Over;
        let is_left = |node: &Node| {
            let link = &node.links[client];
            let is_undone = link.set.is_some() || link.undo_arrives || link.is_orphan;
            node.has_any(client) && !is_undone && !link.release
        };
        !is_over || !self.nodes.iter().any(is_left)
    }

    fn links(&self, client: Client) -> impl Iterator<Item = &Link> {
        self.nodes.iter().map(move |node| &node.links[client])
    }

    fn links_mut(&mut self, client: Client) -> impl Iterator<Item = &mut Link> {
        let nodes = self.nodes.iter_mut();
        nodes.map(move |node| &mut node.links[client])
    }

    /// The votes that the client counts.
    fn votes(&self, client: Client) -> usize {
        let is_vote = |link: &&Link| {
            link.standing == Standing::MayHaveKey && link.answer == Some(Answer::Granted)
        };
        self.links(client).filter(is_vote).count()
    }

    /// Asks all nodes for the lock, or all but one that can't be reached.
    pub(crate) fn begin(&mut self, client: Client, left_out: Option<usize>) {
        let holder = &mut self.holders[client];
        (holder.phase, holder.begun) = (Phase::Asking, 1);
        for (place, link) in self.links_mut(client).enumerate() {
            if Some(place) == left_out {
                link.standing = Standing::Untouched;
            } else {
                (link.standing, link.set) = (Standing::Waiting, Some(1));
            }
        }
    }

    pub(crate) fn return_guard(&mut self, world: &World, client: Client) {
        let holder = &mut self.holders[client];
        (holder.phase, holder.confirmed) = (Phase::Holding, 1);
        for (other, holder) in self.holders.iter_mut().enumerate() {
            let is_other = other != client && holder.phase == Phase::Holding;
            let excludes = world.subjects[client].excludes(world.subjects[other]);
            holder.had_a_successor |= is_other && excludes;
        }
        self.forget_answers(client);
    }

    fn extend(&mut self, client: Client) {
        self.forget_answers(client);
        let holder = &mut self.holders[client];
        (holder.begun, holder.is_extending) = (holder.begun + 1, true);
        let term = holder.begun;
        for link in self.links_mut(client) {
            let is_asked = link.standing == Standing::MayHaveKey;
            link.extension = is_asked.then_some(term);
        }
    }

    fn end_extension(&mut self, client: Client) {
        self.holders[client].is_extending = false;
        self.forget_answers(client);
    }

    /// Answers that come later are answers to nobody.
    fn forget_answers(&mut self, client: Client) {
        for link in self.links_mut(client) {
            (link.answer, link.extension) = (None, None);
        }
    }

    /// The guard ends. What it waits for is left to the keeper.
    fn end_guard(&mut self, client: Client, standing: Standing) {
        for link in self.links_mut(client) {
            if link.standing == Standing::Waiting {
                (link.standing, link.is_orphan) = (standing, true);
            }
        }
        self.end_extension(client);
    }

    fn release(&mut self, client: Client) {
        self.end_extension(client);
        self.holders[client].phase = Phase::Over;
        for link in self.links_mut(client) {
            link.release |= link.standing == Standing::MayHaveKey;
        }
    }

    /// Forgets what makes no difference any more, so that fewer states are looked at. Opens the nodes that lost their data and have
    /// waited until all that they may have granted has ended: a node that opens later is one that does not answer until then.
    pub(crate) fn forget(&mut self) {
        for client in 0..CLIENTS {
            let is_valid = self.is_valid(client);
            let holder = &mut self.holders[client];
            if holder.phase == Phase::Holding && !is_valid && !holder.is_extending {
                // It will not be valid again.
                holder.had_a_successor = false;
            }
            if holder.phase != Phase::Over {
                continue;
            }
            self.nodes.iter_mut().for_each(|node| node.forget(client));
            if self.links(client).all(|link| *link == Link::default()) {
                self.holders[client] = Holder {
                    phase: Phase::Over,
                    ..Holder::default()
                };
                let nodes = self.nodes.iter_mut();
                let closed = nodes.filter_map(|node| node.closed_until.as_mut());
                closed.for_each(|terms| terms[client] = 0);
            }
        }
        let ended = self.holders.each_ref().map(|holder| holder.ended);
        for node in &mut self.nodes {
            node.closed_until = node
                .closed_until
                .filter(|terms| terms.iter().zip(ended).any(|(term, ended)| ended < *term));
        }
    }
}
