//! One node: what its scripts do, and what is on the way between it and the attempts.

use super::state::{Extension, Phase, State};
use super::{Rule, World};
use crate::checks::Steps;
use crate::subject::{RESOURCES, Subject};

/// Room for 2 clients with 3 attempts each, or 3 with 2.
pub(crate) const MOST_ATTEMPTS: usize = 6;

/// The number of an attempt, which also stands for the random value of its key.
pub(crate) type AttemptId = usize;

/// For each attempt, whether it is in the set.
pub(crate) type AttemptSet = [bool; MOST_ATTEMPTS];

/// A token, or a counter of tokens. Nobody proposes 0: it is the counter that does not exist.
pub(crate) type Token = u8;

/// What an attempt asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Claim {
    pub(crate) subject: Subject,
    /// What it proposes. A reader has none.
    pub(crate) token: Token,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Node {
    pub(crate) locks: [Lock; RESOURCES],
    /// From a loss of data until `reopen`, the marker is not of this process.
    pub(crate) is_closed: bool,
    /// 0 in a new deployment. No token that the node granted before it closed is larger, and all that it grants later are.
    open_at: Token,
    /// The largest token that it has granted. No script reads it: it is what `open_at` has to be above.
    granted: Token,
    /// What is on disk, if anything. A loss of data brings it back.
    pub(crate) saved: Option<[Lock; RESOURCES]>,
    /// The attempts that count its vote.
    pub(crate) votes: AttemptSet,
    /// The late extensions that it has granted.
    pub(crate) renewed: AttemptSet,
    /// Messages that may yet arrive.
    pub(crate) acquires: AttemptSet,
    pub(crate) extensions: AttemptSet,
    pub(crate) releases: AttemptSet,
}

/// What is there of one resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Lock {
    /// Whose lock key is there.
    pub(crate) key: Option<AttemptId>,
    /// Which readers have an entry there.
    pub(crate) readers: AttemptSet,
    counter: Token,
}

impl Lock {
    fn is_free(self) -> bool {
        self.key.is_none() && self.readers == AttemptSet::default()
    }
}

impl Node {
    /// The script that acquires: all resources, or nothing. Returns whether it grants. Above `most`, one counter is like another:
    /// nobody proposes so much.
    fn acquire(&mut self, rule: Rule, id: AttemptId, claim: Claim, most: Token) -> bool {
        if self.is_closed {
            return false;
        }
        if claim.subject.is_reader() {
            return self.read(rule, id, most);
        }
        let locks = &mut self.locks[claim.subject.resources()];
        let is_free = if rule == Rule::SetOnHalf {
            locks.iter().any(|lock| lock.is_free())
        } else {
            locks.iter().all(|lock| lock.is_free())
        };
        let counters = locks.iter().map(|lock| lock.counter);
        let counter = if rule == Rule::AboveOneCounter {
            counters.min()
        } else {
            counters.max()
        };
        let counter = counter.expect("a resource");
        let floor = counter.max(self.open_at);
        let is_enough = rule == Rule::EqualIsEnough && claim.token == floor;
        if !is_free || (claim.token <= floor && !is_enough) {
            return false;
        }
        for lock in locks.iter_mut().filter(|lock| lock.is_free()) {
            lock.key = Some(id);
            lock.counter = lock.counter.max(claim.token);
        }
        self.granted = self.granted.max(claim.token);
        true
    }

    /// The script that lets a reader in.
    fn read(&mut self, rule: Rule, id: AttemptId, most: Token) -> bool {
        let lock = &mut self.locks[0];
        let is_free = lock.key.is_none() || rule == Rule::ReadsPastWriters;
        if !is_free || lock.readers[id] {
            return false;
        }
        lock.readers[id] = true;
        if lock.counter > 0 && rule != Rule::ReadersDontCount {
            lock.counter = most.min(lock.counter + 1);
        }
        true
    }

    /// The script that extends: each resource by itself. Returns whether all of them are extended. Times to live are not in the
    /// model: a key ends when it ends.
    fn extend(&mut self, rule: Rule, id: AttemptId, claim: Claim) -> bool {
        let is_open = matches!(rule, Rule::BlindExtension | Rule::RecreationWithoutFloor)
            || !self.is_closed && claim.token > self.open_at;
        let mut is_renewed = true;
        for lock in &mut self.locks[claim.subject.resources()] {
            let is_own = lock.key == Some(id) || lock.readers[id];
            // The key is made again if the node has granted nothing since, and lost nothing.
            let is_last = lock.counter == claim.token || rule == Rule::BlindExtension;
            let is_remade = lock.is_free() && is_open && is_last && !claim.subject.is_reader();
            if is_remade {
                lock.key = Some(id);
            }
            is_renewed &= is_own || is_remade;
        }
        is_renewed
    }

    /// The script that releases. It leaves a tombstone: what arrives later of this attempt is refused. That of a reader
    /// leaves none.
    fn release(&mut self, id: AttemptId, claim: Claim) {
        for lock in &mut self.locks[claim.subject.resources()] {
            lock.readers[id] = false;
            if claim.subject.is_reader() {
                continue;
            }
            lock.counter = lock.counter.max(claim.token + 1);
            lock.key = lock.key.filter(|key| *key != id);
        }
    }

    /// The node dies, and comes up with what was on its disk.
    fn lose_data(&mut self, rule: Rule) {
        (self.is_closed, self.open_at) = (rule != Rule::NoFloor, 0);
        self.locks = self.saved.take().unwrap_or_default();
    }

    /// An acquire, of whatever resource, finds no marker of this process and writes one; and `open_at` has come.
    fn reopen(&mut self, rule: Rule) {
        let steps_back = Token::from(rule == Rule::ClockSteppedBack);
        (self.is_closed, self.open_at) = (false, self.granted.saturating_sub(steps_back));
    }

    /// The key of an attempt, or the entry of a reader, has come to its end. In a snapshot it has the same one, or an
    /// earlier one.
    fn expire(&mut self, id: AttemptId, resource: usize) {
        let saved = self.saved.as_mut().map(|locks| &mut locks[resource]);
        for lock in saved.into_iter().chain([&mut self.locks[resource]]) {
            lock.key = lock.key.filter(|key| *key != id);
            lock.readers[id] = false;
        }
    }
}

impl World {
    /// What can happen to an attempt at a node.
    pub(super) fn steps_of_at(&self, id: AttemptId, place: usize, steps: &mut Steps<'_, State>) {
        let (state, node) = (steps.from, &steps.from.nodes[place]);
        let (attempt, is_once) = (state.attempts[id], !self.repeats);
        let is_asking = attempt.phase == Phase::Asking;
        let mut add = |name: String, happens: &dyn Fn(&mut Node)| {
            steps.add(name, |state| happens(&mut state.nodes[place]));
        };
        if is_asking && self.undoes {
            // A client that is still asking no longer waits for a node, and sends a release behind the acquire.
            add(format!("{id} undoes at {place}"), &|node| {
                node.releases[id] = true;
                node.votes[id] = false;
            });
        }
        if node.acquires[id] {
            add(format!("an acquire of {id} arrives at {place}"), &|node| {
                let most = self.largest_proposal + 1;
                let is_granted = node.acquire(self.rule, id, attempt.claim, most);
                // Otherwise it leaves a key behind that nobody counts any more.
                if is_granted && is_asking && !node.releases[id] {
                    node.votes[id] = true;
                }
                node.acquires[id] &= !is_once;
            });
        }
        if node.extensions[id] {
            add(
                format!("an extension of {id} arrives at {place}"),
                &|node| {
                    // The answer to an extension that no promise asks about is forgotten.
                    let is_renewed = node.extend(self.rule, id, attempt.claim);
                    if is_renewed && attempt.extension == Extension::Late {
                        node.renewed[id] = true;
                    }
                    node.extensions[id] &= !is_once;
                },
            );
        }
        if node.releases[id] {
            add(format!("a release of {id} arrives at {place}"), &|node| {
                node.release(id, attempt.claim);
                node.releases[id] &= !is_once;
            });
        }
        for (resource, lock) in node.locks.iter().enumerate() {
            if lock.key == Some(id) || lock.readers[id] {
                // Early or late: no clock has a say.
                add(
                    format!("{id}'s key of {resource} ends at {place}"),
                    &|node| {
                        node.expire(id, resource);
                    },
                );
            }
        }
    }

    /// What else can happen to a node.
    pub(super) fn steps_at(&self, place: usize, steps: &mut Steps<'_, State>) {
        let (state, node) = (steps.from, &steps.from.nodes[place]);
        if node.is_closed {
            steps.add(format!("{place} opens"), |state| {
                state.nodes[place].reopen(self.rule);
            });
        }
        if state.losses > 0 {
            steps.add(format!("{place} loses data"), |state| {
                state.losses -= 1;
                state.nodes[place].lose_data(self.rule);
            });
            if self.saves && state.nodes.iter().all(|node| node.saved.is_none()) {
                steps.add(format!("what {place} has now is on its disk"), |state| {
                    let node = &mut state.nodes[place];
                    node.saved = Some(node.locks);
                });
            }
        }
    }
}
