//! The turns of a call or of a guard: one, or one for each of several resources.

use std::iter::once;
use std::sync::Arc;

use super::queue::{Queue, Tenant, Turn, TurnNumber};

/// The turns in the lines of the resources that a lock is on, in their order.
///
/// Threads enter the lines of several resources in the order of the names, so two of them never wait for each other. A thread
/// has its turn in the first lines while it waits in the next one, so nobody comes before it there: it is overtaken only by
/// the threads that are in a line when it enters it.
pub(crate) struct Turns<T: Tenant> {
    /// None where another thread has the turn.
    first: Option<Turn<T>>,
    /// One for each further resource.
    others: Vec<Option<Turn<T>>>,
}

/// What is left of turns that are [kept](Turns::keep).
#[derive(Debug, Default)]
pub(crate) struct TurnNumbers {
    pub(crate) first: Option<TurnNumber>,
    pub(crate) others: Box<[Option<TurnNumber>]>,
}

/// Of each resource in order, its turn if there is one.
impl<T: Tenant> FromIterator<Option<Turn<T>>> for Turns<T> {
    fn from_iter<I: IntoIterator<Item = Option<Turn<T>>>>(turns: I) -> Self {
        // Fused, because a thread that gave up in one line must not enter the next one.
        let mut turns = turns.into_iter().fuse();
        Self {
            first: turns.next().flatten(),
            others: turns.collect(),
        }
    }
}

impl<T: Tenant> Turns<T> {
    pub(crate) fn one(turn: Option<Turn<T>>) -> Self {
        let others = Vec::new();
        Self {
            first: turn,
            others,
        }
    }

    /// The turns with these numbers, in these lines.
    pub(crate) fn of(queue: &Arc<Queue<T>>, lines: &[Arc<str>], numbers: &TurnNumbers) -> Self {
        let turn = |(line, number): (&Arc<str>, &Option<TurnNumber>)| {
            number.map(|number| queue.turn(line, number))
        };
        let numbers = once(&numbers.first).chain(&numbers.others);
        lines.iter().zip(numbers).map(turn).collect()
    }

    /// The turn, if there is one alone.
    pub(crate) fn only(&self) -> Option<&Turn<T>> {
        self.first.as_ref().filter(|_| self.others.is_empty())
    }

    /// Tells those who wait that these turns have a lock.
    pub(crate) fn got(&self, lock: &T::Lock) {
        self.each().for_each(|turn| turn.got(lock.clone()));
    }

    /// Tells those who wait the error of an attempt.
    pub(crate) fn met(&self, error: &T::Error) {
        self.each().for_each(|turn| turn.met(error));
    }

    /// Tells those who wait that the release has begun.
    pub(crate) fn release_begins(&self) {
        self.each().for_each(Turn::release_begins);
    }

    /// Keeps the turns as their numbers.
    pub(crate) fn keep(self) -> TurnNumbers {
        let keep = |turn: Option<Turn<T>>| turn.and_then(Turn::keep);
        TurnNumbers {
            first: keep(self.first),
            others: self.others.into_iter().map(keep).collect(),
        }
    }

    /// Ends the turns and their lines: each thread that waits there gets one of these.
    pub(crate) fn dismiss(self, each: impl Fn() -> T::Guard) {
        let all = self
            .first
            .into_iter()
            .chain(self.others.into_iter().flatten());
        all.for_each(|turn| turn.dismiss(&each));
    }

    /// Gives each turn to the next thread, where it is known that this is not the child of a fork.
    pub(crate) fn end(self) {
        let all = self
            .first
            .into_iter()
            .chain(self.others.into_iter().flatten());
        all.for_each(Turn::end);
    }

    fn each(&self) -> impl Iterator<Item = &Turn<T>> {
        self.first.iter().chain(self.others.iter().flatten())
    }
}
