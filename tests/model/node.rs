//! One node: what its three scripts do, and what is on the way between it and the attempts.

use crate::variant::Variant;

/// Room for 2 clients with 3 attempts each, or 3 with 2.
pub(crate) const MOST_ATTEMPTS: usize = 6;

/// The number of an attempt, which also stands for the random value of its key.
pub(crate) type AttemptId = usize;

/// A token, or a counter of tokens. Nobody proposes 0: it is the counter that does not exist.
pub(crate) type Token = u8;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Node {
    /// Whose lock key is there.
    pub(crate) key: Option<AttemptId>,
    pub(crate) counter: Token,
    /// `open_at`, if the marker is of this process: 0 in a new deployment, none from a loss of data until `reopen`. No
    /// token that the node granted before it closed is larger, and all that it grants later are.
    pub(crate) open_at: Option<Token>,
    /// When it lost data, in a world that has clocks.
    pub(crate) lost_at: Token,
    /// The largest token that it has granted. No script reads it: it is what `open_at` has to be above.
    pub(crate) granted: Token,
    /// What is on disk, if anything: lock key and counter. A loss of data brings it back.
    pub(crate) saved: Option<(Option<AttemptId>, Token)>,
    /// Votes for attempts that are still asking, with the number that each came with; 0 is no vote.
    pub(crate) votes: [Token; MOST_ATTEMPTS],
    /// What it answered to extensions that are still going on.
    pub(crate) renewals: [Renewal; MOST_ATTEMPTS],
    /// Messages that may yet arrive.
    pub(crate) acquires: AttemptSet,
    pub(crate) extensions: AttemptSet,
    pub(crate) releases: AttemptSet,
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
            key: None,
            counter: 0,
            open_at: Some(0),
            lost_at: 0,
            granted: 0,
            saved: None,
            votes: Default::default(),
            renewals: Default::default(),
            acquires: AttemptSet::default(),
            extensions: AttemptSet::default(),
            releases: AttemptSet::default(),
        }
    }
}

impl Node {
    /// The script that acquires.
    pub(crate) fn acquire(&mut self, rules: Variant, attempt: AttemptId, proposal: Token) {
        if self.key.is_some() {
            return;
        }
        if let Some((vote, counter)) = rules.grant(self, proposal) {
            self.key = Some(attempt);
            self.counter = counter;
            self.granted = self.granted.max(vote);
            self.votes[attempt] = vote;
        }
    }

    /// The script that extends. Times to live are not in the model: a key ends when it ends.
    pub(crate) fn extend(&mut self, rules: Variant, attempt: AttemptId, token: Token) {
        if self.key == Some(attempt) {
            // A message that arrives again does not hide what the first one did.
            self.renewals[attempt] = self.renewals[attempt].max(Renewal::Renewed);
        } else if self.key.is_none() && rules.may_recreate(self, token) {
            self.key = Some(attempt);
            self.renewals[attempt] = Renewal::Recreated;
        }
    }

    /// The script that releases. It leaves a tombstone: what arrives later of this attempt is refused.
    pub(crate) fn release(&mut self, rules: Variant, attempt: AttemptId, token: Token) {
        self.counter = self.counter.max(rules.tombstone(token));
        if self.key == Some(attempt) {
            self.key = None;
        }
    }

    /// The node dies, and comes up with what was on its disk.
    pub(crate) fn lose_data(&mut self, rules: Variant) {
        self.open_at = rules.open_at_after_loss();
        (self.key, self.counter) = self.saved.take().unwrap_or_default();
    }

    /// An acquire, of whatever resource, finds no marker of this process and writes one; and `open_at` has come.
    pub(crate) fn reopen(&mut self, rules: Variant) {
        self.open_at = Some(rules.floor(self));
    }

    /// The key has come to its end. It has the same one in a snapshot, or an earlier one.
    pub(crate) fn expire(&mut self) {
        if let Some((saved, _)) = &mut self.saved
            && *saved == self.key
        {
            *saved = None;
        }
        self.key = None;
    }

    /// Moves everything of an attempt to another number.
    pub(crate) fn renumbered(&self, numbers: &[AttemptId; MOST_ATTEMPTS]) -> Self {
        let key = |key: Option<AttemptId>| key.map(|attempt| numbers[attempt]);
        let mut new = Self {
            key: key(self.key),
            saved: self.saved.map(|(saved, counter)| (key(saved), counter)),
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

    fn renumbered(self, numbers: &[AttemptId; MOST_ATTEMPTS]) -> Self {
        let mut new = Self::default();
        for (old, number) in numbers.iter().enumerate() {
            if self.contains(old) {
                new.insert(*number);
            }
        }
        new
    }
}
