//! The state of everything: nodes, clients, and what is on the way between them.

use super::{Action, Rule};

pub(crate) const NODES: usize = 3;
pub(crate) const QUORUM: usize = 2;
/// The holder and the contender.
pub(crate) const CLIENTS: usize = 2;
pub(crate) const CONTENDER: Client = 1;

pub(crate) type Client = usize;

/// Terms are numbered from 1.
pub(crate) type Term = u8;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// In no order: of all states that differ by the names of nodes only, one is looked at.
    pub(crate) nodes: [Node; NODES],
    pub(crate) holders: [Holder; CLIENTS],
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Node {
    pub(crate) key: Option<Key>,
    pub(crate) links: [Link; CLIENTS],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) client: Client,
    /// It expires after the end of this term.
    pub(crate) term: Term,
}

/// What is between a client and a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and the states of a model are all their combinations"
)]
pub(crate) struct Link {
    pub(crate) standing: Standing,
    /// The answer to the last command but releases, if it was given. It is another question whether it was read.
    pub(crate) answer: Option<Answer>,
    /// The messages that may yet arrive: a SET for a term; an undo behind it, or one whose SET has arrived; an extension for
    /// a term; a release.
    pub(crate) set: Option<Term>,
    pub(crate) undo_is_behind: bool,
    pub(crate) undo_arrives: bool,
    pub(crate) extension: Option<Term>,
    pub(crate) release: bool,
    /// A heal is under way whose guard has ended.
    pub(crate) is_orphan: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Standing {
    /// Before the attempt.
    #[default]
    None,
    /// Nothing was sent to it.
    Untouched,
    /// A SET was sent, and its reply was not read.
    Waiting,
    MayHaveKey,
    Undone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Answer {
    Granted,
    /// There is no key.
    Missing,
    /// There is another client's key, or to a SET any key.
    Held,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and the states of a model are all their combinations"
)]
pub(crate) struct Holder {
    pub(crate) phase: Phase,
    /// The last term that has begun, the last one that is the lock's validity, and the last one that has ended.
    pub(crate) begun: Term,
    pub(crate) confirmed: Term,
    pub(crate) ended: Term,
    pub(crate) is_extending: bool,
    /// Whether nodes were healed by the extension that is under way; and whether the last one needed their votes.
    heals: u8,
    pub(crate) needed_a_heal: bool,
    pub(crate) was_passed_on: bool,
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

    pub(crate) fn has_its_majority(&self, client: Client) -> bool {
        let confirmed = self.holders[client].confirmed;
        let keys = self.nodes.iter().filter_map(|node| node.key);
        let own = keys.filter(|key| key.client == client && key.term >= confirmed);
        !self.is_valid(client) || own.count() >= QUORUM
    }

    pub(crate) fn has_left_nothing(&self, client: Client) -> bool {
        let is_over = self.holders[client].phase == Phase::Over;
        let is_quiet = |link: &Link| {
            link.set.is_none() && !link.undo_arrives && !link.release && !link.is_orphan
        };
        !is_over
            || self.nodes.iter().all(|node| {
                let is_own = node.key.is_some_and(|key| key.client == client);
                !(is_own && is_quiet(&node.links[client]))
            })
    }

    /// Whether every node has the client's key of its last term, no renewal is half done, and nothing is under way that
    /// deletes a key.
    pub(crate) fn is_healed(&self, client: Client) -> bool {
        let last = self.holders[client].begun;
        self.is_valid(client)
            && self.nodes.iter().all(|node| {
                let key = node
                    .key
                    .filter(|key| key.client == client && key.term >= last);
                let link = &node.links[client];
                let counts = link.standing == Standing::MayHaveKey;
                key.is_some() && counts && !link.undo_arrives && !link.release
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

    pub(crate) fn take(&mut self, rule: Rule, action: Action) {
        match action {
            Action::Begin(client, left_out) => self.begin(client, left_out),
            Action::Return(client) => self.returns(client),
            Action::Fail(client) => self.release(client),
            Action::Extend(client) => self.extend(client),
            Action::Heal(client, place) => {
                let term = self.holders[client].begun;
                self.holders[client].heals += 1;
                let link = &mut self.nodes[place].links[client];
                (link.standing, link.set, link.answer) = (Standing::Waiting, Some(term), None);
            }
            Action::Read(client, place) => {
                self.nodes[place].links[client].standing = Standing::MayHaveKey;
            }
            Action::GiveUp(client, place) => self.give_up(rule, client, place),
            Action::Confirm(client) => {
                let votes = self.votes(client);
                let holder = &mut self.holders[client];
                holder.confirmed = holder.begun;
                holder.needed_a_heal = votes < QUORUM + usize::from(holder.heals);
                self.end_extension(client);
            }
            Action::Abandon(client) => self.end_extension(client),
            Action::GiveBack(client) => self.give_back(rule, client),
            Action::PassOn(client) => self.pass_on(rule, client),
            Action::EndOrphan(client, place) => {
                let link = &mut self.nodes[place].links[client];
                link.is_orphan = false;
                if link.set.is_some() {
                    link.undo();
                } else {
                    link.release = true;
                }
            }
            Action::EndTerm(client) => self.holders[client].ended += 1,
            Action::SetArrives(client, place) => self.nodes[place].set(rule, client),
            Action::ExtensionArrives(client, place) => self.nodes[place].extend(client),
            Action::UndoArrives(client, place) => {
                self.nodes[place].links[client].undo_arrives = false;
                self.nodes[place].delete(client);
            }
            Action::ReleaseArrives(client, place) => {
                self.nodes[place].links[client].release = false;
                self.nodes[place].delete(client);
            }
            Action::Expire(place) | Action::Restart(place) => self.nodes[place].key = None,
        }
    }

    fn returns(&mut self, client: Client) {
        let holder = &mut self.holders[client];
        (holder.phase, holder.confirmed) = (Phase::Holding, 1);
        for (other, holder) in self.holders.iter_mut().enumerate() {
            holder.had_a_successor |= other != client && holder.phase == Phase::Holding;
        }
        self.forget_answers(client);
    }

    fn give_back(&mut self, rule: Rule, client: Client) {
        self.orphan(client, Standing::Undone);
        self.release(client);
        if rule == Rule::KeeperForgets {
            self.links(client).for_each(|link| link.is_orphan = false);
        }
    }

    fn pass_on(&mut self, rule: Rule, client: Client) {
        let standing = if rule == Rule::PassesOn {
            Standing::MayHaveKey
        } else {
            Standing::Undone
        };
        self.orphan(client, standing);
        self.end_extension(client);
        self.holders[client].was_passed_on = true;
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
        (holder.is_extending, holder.heals) = (true, 0);
        let term = holder.begun;
        for link in self.links(client) {
            let is_asked = link.standing == Standing::MayHaveKey;
            link.extension = is_asked.then_some(term);
        }
    }

    fn end_extension(&mut self, client: Client) {
        let holder = &mut self.holders[client];
        (holder.is_extending, holder.heals) = (false, 0);
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

impl Link {
    /// Sends an undo behind the SET, on the same connection.
    fn undo(&mut self) {
        if self.set.is_some() {
            self.undo_is_behind = true;
        } else {
            self.undo_arrives = true;
        }
    }
}

impl Node {
    fn set(&mut self, rule: Rule, client: Client) {
        let link = &mut self.links[client];
        let Some(term) = link.set.take() else {
            return;
        };
        link.undo_arrives |= std::mem::take(&mut link.undo_is_behind);
        let is_heal = term > 1;
        let is_free = self.key.is_none() || (is_heal && rule == Rule::HealsTaken);
        if is_free {
            self.key = Some(Key { client, term });
        }
        if link.standing == Standing::Waiting {
            let answer = if is_free {
                Answer::Granted
            } else {
                Answer::Held
            };
            link.answer = Some(answer);
            if client == CONTENDER {
                // Whether it has read the reply changes nothing for it.
                link.standing = Standing::MayHaveKey;
            }
        }
    }

    fn extend(&mut self, client: Client) {
        let link = &mut self.links[client];
        let Some(term) = link.extension.take() else {
            return;
        };
        let answer = match &mut self.key {
            None => Answer::Missing,
            Some(key) if key.client == client => {
                key.term = key.term.max(term);
                Answer::Granted
            }
            Some(_) => Answer::Held,
        };
        link.answer = Some(answer);
    }

    fn delete(&mut self, client: Client) {
        self.key = self.key.filter(|key| key.client != client);
    }
}
