//! One node: what it has of each resource, what it does with each command, and what is on the way between it and the clients.

use super::state::State;
use super::{CLIENTS, Client, Protocol, Restarts, Rule, Term, World};
use crate::checks::Steps;
use crate::subject::{RESOURCES, Subject};

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Node {
    pub(crate) locks: [Lock; RESOURCES],
    pub(crate) links: [Link; CLIENTS],
    /// In the fenced protocol, after a loss of data: it grants nothing before the ends of these terms of each client. They
    /// are all that had begun, because no time to live is longer than the quarantine.
    pub(crate) closed_until: Option<[Term; CLIENTS]>,
}

/// What is there of one resource: the key of one writer, or the entries of any number of readers.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Lock {
    /// For each client the term after whose end its key, or its entry, expires.
    pub(crate) keys: [Option<Term>; CLIENTS],
    /// In the fenced protocol, whose token the counter is. Nobody's, if it was raised since.
    pub(crate) counter_of: Option<Client>,
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
    /// The messages that may yet arrive: an acquire for a term; an undo behind it, or one whose acquire has arrived; an
    /// extension for a term; a release.
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
    /// An acquire was sent, and its reply was not read.
    Waiting,
    MayHaveKey,
    /// An undo was sent behind the acquire.
    Undone,
    /// The heal of a guard that passed its token on, which its keeper undoes.
    LeftToKeeper,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Answer {
    Granted,
    /// There is no key, or one is missing.
    Missing,
    /// There is another client's key, or to an acquire any key that excludes it.
    Held,
}

impl World {
    /// What can happen at a node.
    pub(super) fn steps_at(&self, place: usize, steps: &mut Steps<'_, State>) {
        let (state, node) = (steps.from, &steps.from.nodes[place]);
        let mut add = |name: String, happens: &dyn Fn(&mut Node)| {
            steps.add(format!("{name} {place}"), |state| {
                happens(&mut state.nodes[place]);
            });
        };
        for (client, link) in node.links.iter().enumerate() {
            if link.set.is_some() {
                add(format!("an acquire of {client} arrives at"), &|node| {
                    node.set(self, client);
                });
            }
            if link.extension.is_some() {
                add(format!("an extension of {client} arrives at"), &|node| {
                    node.extend(self, client);
                });
            }
            if link.undo_arrives {
                add(format!("an undo of {client} arrives at"), &|node| {
                    node.links[client].undo_arrives = false;
                    node.delete(self, client);
                });
            }
            if link.release {
                add(format!("a release of {client} arrives at"), &|node| {
                    node.links[client].release = false;
                    node.delete(self, client);
                });
            }
            for (resource, lock) in node.locks.iter().enumerate() {
                if lock.keys[client].is_some_and(|term| state.holders[client].ended >= term) {
                    add(
                        format!("{client}'s key of {resource} expires at"),
                        &|node| {
                            node.locks[resource].keys[client] = None;
                        },
                    );
                }
            }
        }
        let mut clients = (0..CLIENTS).filter(|client| node.has_any(*client));
        let may_restart = match self.restarts {
            Restarts::Late => false,
            Restarts::WhenHealed => clients.any(|client| self.is_healed(state, client)),
            Restarts::AtAnyTime => clients.next().is_some(),
        };
        if may_restart {
            let is_fenced = self.protocols == [Protocol::Fenced; CLIENTS];
            let begun = state.holders.each_ref().map(|holder| holder.begun);
            add("empty comes back".to_owned(), &|node| {
                node.locks = Default::default();
                if is_fenced {
                    node.closed_until = Some(begun);
                }
            });
        }
    }
}

impl Link {
    /// Sends an undo behind the acquire, on the same connection.
    pub(crate) fn undo(&mut self) {
        if self.set.is_some() {
            self.undo_is_behind = true;
        } else {
            self.undo_arrives = true;
        }
    }
}

impl Node {
    /// Whether the node has the key of every resource that the client wants, for this term at least.
    pub(crate) fn has_all(&self, world: &World, client: Client, term: Term) -> bool {
        let mut resources = world.subjects[client].resources();
        resources.all(|resource| self.locks[resource].keys[client] >= Some(term))
    }

    pub(crate) fn has_any(&self, client: Client) -> bool {
        let mut locks = self.locks.iter();
        locks.any(|lock| lock.keys[client].is_some())
    }

    /// The script that acquires, and heals.
    pub(crate) fn set(&mut self, world: &World, client: Client) {
        let link = &mut self.links[client];
        let Some(term) = link.set.take() else {
            return;
        };
        link.undo_arrives |= std::mem::take(&mut link.undo_is_behind);
        let standing = link.standing;
        let is_granted = self.grants(world, client, term);
        if is_granted {
            for resource in world.subjects[client].resources() {
                self.grant(world, client, term, resource);
            }
        }
        if standing == Standing::Waiting {
            let link = &mut self.links[client];
            link.answer = Some(if is_granted {
                Answer::Granted
            } else {
                Answer::Held
            });
            if world.is_patient(client) {
                // Whether it has read the reply changes nothing for it.
                link.standing = Standing::MayHaveKey;
            }
        }
    }

    /// Whether all that the client wants is free: all or nothing.
    fn grants(&self, world: &World, client: Client, term: Term) -> bool {
        let subject = world.subjects[client];
        let is_heal = term > 1;
        if self.closed_until.is_some()
            && !(world.rule == Rule::ReadsInQuarantine && subject.is_reader())
        {
            return false;
        }
        let ignores_keys = world.rule == Rule::HealsTaken && is_heal
            || world.rule == Rule::ReadsPastWriters && subject.is_reader();
        let mut free = subject
            .resources()
            .map(|resource| ignores_keys || self.is_free(world, client, resource));
        if world.rule == Rule::SetOnHalf {
            free.any(|is_free| is_free)
        } else {
            free.all(|is_free| is_free)
        }
    }

    fn is_free(&self, world: &World, client: Client, resource: usize) -> bool {
        let keys = self.locks[resource].keys.iter().enumerate();
        let mut there = keys.filter(|(_, key)| key.is_some());
        let subject = world.subjects[client];
        there.all(|(other, _)| {
            // A heal of several resources finds those of its keys that are left.
            let is_ours = other == client && subject == Subject::Both;
            is_ours || !subject.excludes(world.subjects[other])
        })
    }

    fn grant(&mut self, world: &World, client: Client, term: Term, resource: usize) {
        let subject = world.subjects[client];
        let is_free = self.is_free(world, client, resource);
        let lock = &mut self.locks[resource];
        if !is_free && !subject.is_reader() {
            if world.rule == Rule::SetOnHalf {
                return;
            }
            lock.keys = Default::default();
        }
        lock.keys[client] = lock.keys[client].max(Some(term));
        if world.protocols[client] == Protocol::Fenced {
            lock.counter_of = Some(client).filter(|_| !subject.is_reader());
        }
    }

    /// The script that extends: for each key by itself.
    pub(crate) fn extend(&mut self, world: &World, client: Client) {
        let Some(term) = self.links[client].extension.take() else {
            return;
        };
        let is_open = self.closed_until.is_none();
        let mut answer = Answer::Granted;
        for resource in world.subjects[client].resources() {
            let is_free = self.is_free(world, client, resource);
            let lock = &mut self.locks[resource];
            let is_own = lock.keys[client].is_some();
            let is_fenced = world.protocols[client] == Protocol::Fenced;
            let is_recreated = is_fenced && is_open && is_free && lock.counter_of == Some(client);
            if is_own || is_recreated {
                lock.keys[client] = lock.keys[client].max(Some(term));
            } else if is_free {
                answer = answer.max(Answer::Missing);
            } else {
                answer = Answer::Held;
            }
        }
        self.links[client].answer = Some(answer);
    }

    /// The script that releases.
    pub(crate) fn delete(&mut self, world: &World, client: Client) {
        for resource in world.subjects[client].resources() {
            let lock = &mut self.locks[resource];
            lock.keys[client] = None;
            if lock.counter_of == Some(client) {
                // The tombstone.
                lock.counter_of = None;
            }
            if world.rule == Rule::LeavesOneKey {
                break;
            }
        }
    }

    /// Forgets what makes no difference any more: of a client whose lock is over, where it has no key, and where no acquire can
    /// make one.
    pub(crate) fn forget(&mut self, client: Client) {
        let link = &mut self.links[client];
        if link.set.is_none() && self.locks.iter().all(|lock| lock.keys[client].is_none()) {
            *link = Link::default();
        }
    }
}
