//! One node: what its scripts do, and what is on the way between it and the attempts.

use crate::state::Attempt;
use crate::subject::RESOURCES;
use crate::variant::Variant;

/// Room for 2 clients with 3 attempts each, or 3 with 2.
pub(crate) const MOST_ATTEMPTS: usize = 6;

/// The number of an attempt, which also stands for the random value of its key.
pub(crate) type AttemptId = usize;

/// A token, or a counter of tokens. Nobody proposes 0: it is the counter that does not exist.
pub(crate) type Token = u8;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Node {
    pub(crate) locks: [Lock; RESOURCES],
    /// `open_at`, if the marker is of this process: 0 in a new deployment, none from a loss of data until `reopen`. No
    /// token that the node granted before it closed is larger, and all that it grants later are.
    pub(crate) open_at: Option<Token>,
    /// When it lost data, in a world that has clocks.
    pub(crate) lost_at: Token,
    /// The largest token that it has granted. No script reads it: it is what `open_at` has to be above.
    pub(crate) granted: Token,
    /// What is on disk, if anything. A loss of data brings it back.
    pub(crate) saved: Option<[Lock; RESOURCES]>,
    /// Votes for attempts that are still asking, with the number that each came with; 0 is no vote.
    pub(crate) votes: [Token; MOST_ATTEMPTS],
    /// The attempts that have counted its vote, where that makes a difference.
    pub(crate) voters: AttemptSet,
    /// What it answered to extensions that are still going on.
    pub(crate) renewals: [Renewal; MOST_ATTEMPTS],
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
    pub(crate) counter: Token,
}

impl Lock {
    fn is_free(self) -> bool {
        self.key.is_none() && self.readers == AttemptSet::default()
    }

    fn renumbered(self, numbers: &[AttemptId; MOST_ATTEMPTS]) -> Self {
        Self {
            key: self.key.map(|attempt| numbers[attempt]),
            readers: self.readers.renumbered(numbers),
            counter: self.counter,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Renewal {
    #[default]
    None,
    /// The key was there.
    Renewed,
    /// The key was gone, and is back.
    Recreated,
}

impl Default for Node {
    fn default() -> Self {
        Self {
            locks: Default::default(),
            open_at: Some(0),
            lost_at: 0,
            granted: 0,
            saved: None,
            votes: Default::default(),
            voters: AttemptSet::default(),
            renewals: Default::default(),
            acquires: AttemptSet::default(),
            extensions: AttemptSet::default(),
            releases: AttemptSet::default(),
        }
    }
}

impl Node {
    /// The script that acquires: all resources, or nothing.
    pub(crate) fn acquire(&mut self, rules: Variant, id: AttemptId, attempt: Attempt, most: Token) {
        if attempt.subject.is_reader() {
            return self.read(rules, id, most);
        }
        let resources = attempt.subject.resources();
        let locks = &mut self.locks[resources];
        let is_free = if rules == Variant::SetOnHalf {
            locks.iter().any(|lock| lock.is_free())
        } else {
            locks.iter().all(|lock| lock.is_free())
        };
        let counters = locks.iter().map(|lock| lock.counter);
        let counter = if rules == Variant::AboveOneCounter {
            counters.min()
        } else {
            counters.max()
        };
        let counter = counter.expect("a resource");
        let Some(open_at) = self.open_at.filter(|_| is_free) else {
            return;
        };
        if let Some((vote, counter)) = rules.grant(open_at, counter, attempt.token) {
            for lock in locks.iter_mut().filter(|lock| lock.is_free()) {
                lock.key = Some(id);
                lock.counter = lock.counter.max(counter);
            }
            self.granted = self.granted.max(vote);
            self.votes[id] = vote;
        }
    }

    /// The script that lets a reader in. Above `most`, one counter is like another: nobody proposes so much.
    fn read(&mut self, rules: Variant, id: AttemptId, most: Token) {
        let lock = &mut self.locks[0];
        let is_free = lock.key.is_none() || rules == Variant::ReadsPastWriters;
        if self.open_at.is_some() && is_free && !lock.readers.contains(id) {
            lock.readers.insert(id);
            if lock.counter > 0 && rules != Variant::ReadersDontCount {
                lock.counter = most.min(lock.counter + 1);
            }
            self.votes[id] = 1;
        }
    }

    /// The script that extends: each resource by itself. Times to live are not in the model: a key ends when it ends.
    pub(crate) fn extend(&mut self, rules: Variant, id: AttemptId, attempt: Attempt) {
        let open_at = self.open_at;
        let extend = |lock: &mut Lock| {
            if lock.key == Some(id) || lock.readers.contains(id) {
                Renewal::Renewed
            } else if lock.is_free() && rules.may_recreate(open_at, *lock, attempt) {
                lock.key = Some(id);
                Renewal::Recreated
            } else {
                Renewal::None
            }
        };
        let renewals: Vec<Renewal> = self.locks[attempt.subject.resources()]
            .iter_mut()
            .map(extend)
            .collect();
        if !renewals.contains(&Renewal::None) {
            let renewal = renewals.into_iter().max().expect("a resource");
            // A message that arrives again does not hide what the first one did.
            self.renewals[id] = self.renewals[id].max(renewal);
        }
    }

    /// The script that releases. It leaves a tombstone: what arrives later of this attempt is refused. That of a reader
    /// leaves none.
    pub(crate) fn release(&mut self, rules: Variant, id: AttemptId, attempt: Attempt) {
        for lock in &mut self.locks[attempt.subject.resources()] {
            lock.readers.remove(id);
            if attempt.subject.is_reader() {
                continue;
            }
            lock.counter = lock.counter.max(rules.tombstone(attempt.token));
            if lock.key == Some(id) {
                lock.key = None;
            }
        }
    }

    /// The node dies, and comes up with what was on its disk.
    pub(crate) fn lose_data(&mut self, rules: Variant) {
        self.open_at = rules.open_at_after_loss();
        self.locks = self.saved.take().unwrap_or_default();
    }

    /// An acquire, of whatever resource, finds no marker of this process and writes one; and `open_at` has come.
    pub(crate) fn reopen(&mut self, rules: Variant) {
        self.open_at = Some(rules.floor(self));
    }

    /// The key of an attempt, or the entry of a reader, has come to its end. In a snapshot it has the same one, or an
    /// earlier one.
    pub(crate) fn expire(&mut self, id: AttemptId, resource: usize) {
        let saved = self.saved.as_mut().map(|locks| &mut locks[resource]);
        for lock in saved.into_iter().chain([&mut self.locks[resource]]) {
            lock.key = lock.key.filter(|key| *key != id);
            lock.readers.remove(id);
        }
    }

    /// Moves everything of an attempt to another number.
    pub(crate) fn renumbered(&self, numbers: &[AttemptId; MOST_ATTEMPTS]) -> Self {
        let locks = |locks: [Lock; RESOURCES]| locks.map(|lock| lock.renumbered(numbers));
        let mut new = Self {
            locks: locks(self.locks),
            saved: self.saved.map(locks),
            voters: self.voters.renumbered(numbers),
            acquires: self.acquires.renumbered(numbers),
            extensions: self.extensions.renumbered(numbers),
            releases: self.releases.renumbered(numbers),
            ..*self
        };
        for (old, number) in numbers.iter().enumerate() {
            new.votes[*number] = self.votes[old];
            new.renewals[*number] = self.renewals[old];
        }
        new
    }
}

/// A set of attempts, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct AttemptSet(u8);

impl AttemptSet {
    pub(crate) fn contains(self, attempt: AttemptId) -> bool {
        self.0 & (1 << attempt) != 0
    }

    pub(crate) fn insert(&mut self, attempt: AttemptId) {
        self.0 |= 1 << attempt;
    }

    pub(crate) fn remove(&mut self, attempt: AttemptId) {
        self.0 &= !(1 << attempt);
    }

    pub(crate) fn renumbered(self, numbers: &[AttemptId; MOST_ATTEMPTS]) -> Self {
        let mut new = Self::default();
        for (old, number) in numbers.iter().enumerate() {
            if self.contains(old) {
                new.insert(*number);
            }
        }
        new
    }
}
