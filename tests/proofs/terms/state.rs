//! The state of everything: nodes, clients, and what is on the way between them.

use super::node::{Answer, Link, Node, Standing};
use super::world::{Action, Rule, World};

pub(crate) const NODES: usize = 3;
pub(crate) const QUORUM: usize = 2;
/// The holder, and those who are there to get what they must not get.
pub(crate) const CLIENTS: usize = 3;
pub(crate) const HOLDER: Client = 0;

pub(crate) type Client = usize;

/// Terms are numbered from 1.
pub(crate) type Term = u8;

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
    pub(crate) is_extending: bool,
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

impl State {
    pub(crate) fn is_valid(&self, client: Client) -> bool {
        let holder = &self.holders[client];
        holder.phase == Phase::Holding && holder.confirmed > holder.ended
    }

    pub(crate) fn has_its_majority(&self, world: &World, client: Client) -> bool {
        let confirmed = self.holders[client].confirmed;
        let nodes = self.nodes.iter();
        let own = nodes.filter(|node| node.has_all(world, client, confirmed));
        !self.is_valid(client) || own.count() >= QUORUM
    }

    pub(crate) fn is_whole(&self, world: &World, client: Client) -> bool {
        let has_a_part = |node: &Node| node.has_any(client) && !node.has_all(world, client, 1);
        self.holders[client].ended > 0 || !self.nodes.iter().any(has_a_part)
    }

    pub(crate) fn has_left_nothing(&self, client: Client) -> bool {
        let is_over = self.holders[client].phase == Phase::Over;
        let is_quiet = |link: &Link| {
            link.set.is_none() && !link.undo_arrives && !link.release && !link.is_orphan
        };
        let is_passed = |node: &Node| {
            let mut links = node.links.iter();
            links.any(|link| link.passes_from == Some(client))
        };
        let is_left =
            |node: &Node| node.has_any(client) && is_quiet(&node.links[client]) && !is_passed(node);
        !is_over || !self.nodes.iter().any(is_left)
    }

    /// Whether every node has the client's key of its last term, no renewal is half done, and nothing is under way that
    /// deletes a key.
    pub(crate) fn is_healed(&self, world: &World, client: Client) -> bool {
        let last = self.holders[client].begun;
        self.is_valid(client)
            && self.nodes.iter().all(|node| {
                let link = &node.links[client];
                let counts = link.standing == Standing::MayHaveKey;
                let is_safe = counts && !link.undo_arrives && !link.release;
                is_safe && node.has_all(world, client, last)
            })
    }

    /// The votes that the client counts.
    pub(crate) fn votes(&self, client: Client) -> usize {
        let links = self.nodes.iter().map(|node| &node.links[client]);
        let votes = links.filter(|link| {
            link.standing == Standing::MayHaveKey && link.answer == Some(Answer::Granted)
        });
        votes.count()
    }

    fn links(&mut self, client: Client) -> impl Iterator<Item = &mut Link> {
        self.nodes
            .iter_mut()
            .map(move |node| &mut node.links[client])
    }

    pub(crate) fn take(&mut self, world: &World, action: Action) {
        let rule = world.rule;
        match action {
            Action::Begin(client, left_out) => self.begin(client, left_out),
            Action::Return(client) => self.returns(world, client),
            Action::Fail(client) => self.release(client),
            Action::Extend(client) => self.extend(client),
            Action::Heal(client, place) => {
                let term = self.holders[client].begun;
                let link = &mut self.nodes[place].links[client];
                (link.standing, link.set, link.answer) = (Standing::Waiting, Some(term), None);
            }
            Action::Read(client, place) => {
                self.nodes[place].links[client].standing = Standing::MayHaveKey;
            }
            Action::GiveUp(client, place) => self.give_up(rule, client, place),
            Action::Confirm(client) => {
                self.holders[client].confirmed = self.holders[client].begun;
                self.end_extension(client);
            }
            Action::Abandon(client) => self.end_extension(client),
            Action::GiveBack(client) => {
                self.orphan(client, Standing::Undone);
                self.release(client);
                if rule == Rule::KeeperForgets {
                    self.links(client).for_each(|link| link.is_orphan = false);
                }
            }
            Action::PassOn(client) => {
                let standing = if rule == Rule::PassesOn {
                    Standing::MayHaveKey
                } else {
                    Standing::Undone
                };
                self.orphan(client, standing);
                self.end_extension(client);
            }
            Action::Pass(client, next) => self.pass(rule, client, next),
            Action::EndOrphan(client, place) => self.end_orphan(client, place),
            Action::EndTerm(client) => {
                self.holders[client].ended += 1;
            }
            Action::SetArrives(client, place) => self.nodes[place].set(world, client),
            Action::ExtensionArrives(client, place) => self.nodes[place].extend(world, client),
            Action::UndoArrives(client, place) => {
                self.nodes[place].links[client].undo_arrives = false;
                self.nodes[place].delete(world, client);
            }
            Action::ReleaseArrives(client, place) => {
                self.nodes[place].links[client].release = false;
                self.nodes[place].delete(world, client);
            }
            Action::Expire(client, place, resource) => {
                self.nodes[place].locks[resource].keys[client] = None;
            }
            Action::Restart(place) => {
                let begun = self.holders.each_ref().map(|holder| holder.begun);
                self.nodes[place].restart(world, begun);
            }
        }
    }

    fn end_orphan(&mut self, client: Client, place: usize) {
        let link = &mut self.nodes[place].links[client];
        link.is_orphan = false;
        if link.set.is_some() {
            link.undo();
        } else {
            link.release = true;
        }
    }

    fn returns(&mut self, world: &World, client: Client) {
        let holder = &mut self.holders[client];
        (holder.phase, holder.confirmed) = (Phase::Holding, 1);
        for (other, holder) in self.holders.iter_mut().enumerate() {
            let is_other = other != client && holder.phase == Phase::Holding;
            let excludes = world.subjects[client].excludes(world.subjects[other]);
            holder.had_a_successor |= is_other && excludes;
        }
        self.forget_answers(client);
    }

    /// Forgets what makes no difference any more, so that fewer states are looked at.
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
            let mut links = self.nodes.iter().map(|node| node.links[client]);
            if links.all(|link| link == Link::default()) {
                self.holders[client] = Holder {
                    phase: Phase::Over,
                    ..Holder::default()
                };
                let closed = self
                    .nodes
                    .iter_mut()
                    .filter_map(|node| node.closed_until.as_mut());
                closed.for_each(|terms| terms[client] = 0);
            }
        }
        self.open_nodes();
    }

    /// Opens the nodes that lost their data and have waited until all that they may have granted has ended. A node that opens
    /// later is one that does not answer until then.
    fn open_nodes(&mut self) {
        let ended = self.holders.each_ref().map(|holder| holder.ended);
        for node in &mut self.nodes {
            node.closed_until = node
                .closed_until
                .filter(|terms| terms.iter().zip(ended).any(|(term, ended)| ended < *term));
        }
    }

    fn pass(&mut self, rule: Rule, client: Client, next: Client) {
        if rule != Rule::PassesTooEarly {
            self.orphan(client, Standing::Undone);
            self.end_extension(client);
            self.holders[client].phase = Phase::Over;
        }
        self.begin(next, None);
        for link in self.links(next) {
            link.passes_from = Some(client);
        }
    }

    fn give_up(&mut self, rule: Rule, client: Client, place: usize) {
        let is_heal = self.holders[client].is_extending;
        let undoes = !(is_heal && rule == Rule::NoUndo);
        let link = &mut self.nodes[place].links[client];
        (link.standing, link.answer) = (Standing::Undone, None);
        if undoes {
            link.undo();
        }
    }

    fn begin(&mut self, client: Client, left_out: Option<usize>) {
        let holder = &mut self.holders[client];
        (holder.phase, holder.begun) = (Phase::Asking, 1);
        for (place, link) in self.links(client).enumerate() {
            if Some(place) == left_out {
                link.standing = Standing::Untouched;
            } else {
                (link.standing, link.set) = (Standing::Waiting, Some(1));
            }
        }
    }

    fn extend(&mut self, client: Client) {
        self.forget_answers(client);
        let holder = &mut self.holders[client];
        holder.begun += 1;
        holder.is_extending = true;
        let term = holder.begun;
        for link in self.links(client) {
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
        for link in self.links(client) {
            (link.answer, link.extension) = (None, None);
        }
    }

    /// The guard ends. What it waits for is left to the keeper.
    fn orphan(&mut self, client: Client, standing: Standing) {
        for link in self.links(client) {
            if link.standing == Standing::Waiting {
                (link.standing, link.is_orphan) = (standing, true);
            }
        }
    }

    fn release(&mut self, client: Client) {
        self.end_extension(client);
        self.holders[client].phase = Phase::Over;
        for link in self.links(client) {
            link.release |= link.standing == Standing::MayHaveKey;
        }
    }
}
