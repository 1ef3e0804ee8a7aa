//! `Locks`: the locks that are held, one after the other.

use std::fmt;
use std::iter::FusedIterator;
use std::vec;

use super::LockManager;
use crate::error::Error;
use crate::protocol::list::List;
use crate::status::ListedLock;

/// The locks that are held, shared by readers or at rest, found one after the other. Made by [`LockManager::locks`].
///
/// It asks the servers while it is iterated, and keeps only the locks of one step. Dropping it ends the list.
#[must_use = "no server is asked before the first call of next"]
pub struct Locks {
    manager: LockManager,
    /// None after its end.
    list: Option<List>,
    found: vec::IntoIter<ListedLock>,
    on_progress: Option<Box<dyn FnMut(f64) + Send>>,
}

impl LockManager {
    /// Lists the locks that are held, shared by readers or at rest, on resources whose names begin with `prefix`; all of them for
    /// an empty one.
    ///
    /// It is for people and for monitoring: a lock may be gone, or have another holder, as soon as it is returned. Nothing
    /// is changed on any node. Each lock comes with its [`LockStatus`](crate::LockStatus):
    /// [`Held`](crate::LockStatus::Held); [`Read`](crate::LockStatus::Read) where readers share it;
    /// [`Resting`](crate::LockStatus::Resting) where nobody has it and nobody gets it yet; or [`Unknown`](crate::LockStatus::Unknown) where a node that is silent may complete a majority. What nobody
    /// holds is left out, and so are keys of a contender without a majority.
    ///
    /// **What is found.** Every lock whose keys are on the same majority of the nodes for the whole time of the list, and
    /// none twice (of more than a million locks, some may come twice). A lock that is acquired, released, or changes hands
    /// meanwhile may be missing. Of a semaphore, each slot that is held is a lock, and so is each of several resources that
    /// are locked together. Locks of other programs are listed if their names are UTF-8 and their values have no more than 512 bytes.
    ///
    /// **What it costs.** Any majority of N nodes has one among N/2 (rounded up), so that many are asked for the names of
    /// their keys, one after the other, by a `SCAN` of 250 keys a step. A step takes a server less than a millisecond.
    /// Keys that can't be locks are passed over by the server: those without a time to live, of another type, or of another
    /// prefix. A million of them take a node some 2 s; of another type and with a time to live, some 4 s. All nodes are asked
    /// about each key that may be a lock, 64 at once. Memory is taken for one step, and some 18 bytes for each lock that was found.
    ///
    /// **Nodes that fail.** A node that fails three times in a row is given up, and another one takes its place, from its
    /// first key on. Nodes that failed a moment ago are asked last. So a node that hangs costs a few node timeouts.
    ///
    /// # Errors
    ///
    /// The list ends with its first error:
    ///
    /// - [`Error::Incomplete`] if no majority of the nodes answers. So it is also where the user's ACL does not allow `SCAN`
    ///   and `STRLEN`, which taking locks does not need, or, where readers share a lock, what status needs of them.
    /// - [`Error::Forked`] in a forked child.
    ///
    /// Returned at once, without asking any node: [`Error::Invalid`] for a prefix of more than 64 KiB, and
    /// [`Error::Forked`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let nodes = redlatch::fake::FakeNode::cluster(5);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// let ttl = Duration::from_secs(10);
    /// let _guards = [manager.lock("report-4", ttl)?, manager.lock("report-5", ttl)?];
    ///
    /// let locks = manager.locks("report-")?;
    /// let mut names = Vec::new();
    /// for lock in locks.on_progress(|share| eprintln!("{:.0} %", share * 100.0)) {
    ///     names.push(lock?.resource);
    /// }
    /// names.sort();
    /// assert_eq!(names, ["report-4", "report-5"]);
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn locks(&self, prefix: &str) -> Result<Locks, Error> {
        self.cluster().refuse_fork()?;
        Ok(Locks {
            list: Some(List::new(self.cluster(), prefix)?),
            manager: self.clone(),
            found: Vec::new().into_iter(),
            on_progress: None,
        })
    }
}

impl Locks {
    /// Calls a hook after each step, with the part of the work that is done: from 0.0 to 1.0, and never less than before.
    ///
    /// It is an estimate. Steps take about a millisecond each, so a hook that draws should not do so each time. A call of
    /// [`next`](Iterator::next) calls it many times where there are few locks among many other keys.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use std::sync::mpsc;
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// let _guard = manager.lock("invoices", Duration::from_secs(10))?;
    /// let (tell, told) = mpsc::channel();
    /// let locks = manager.locks("")?.on_progress(move |share| drop(tell.send(share)));
    /// assert_eq!(locks.count(), 1);
    /// assert_eq!(told.iter().last(), Some(1.0));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn on_progress(mut self, hook: impl FnMut(f64) + Send + 'static) -> Self {
        self.on_progress = Some(Box::new(hook));
        self
    }
}

impl Iterator for Locks {
    type Item = Result<ListedLock, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(lock) = self.found.next() {
                return Some(Ok(lock));
            }
            let list = self.list.as_mut()?;
            match list.step(self.manager.cluster()) {
                Ok(Some(found)) => self.found = found.into_iter(),
                Ok(None) => self.list = None,
                Err(error) => {
                    self.list = None;
                    return Some(Err(error));
                }
            }
            let share = self.list.as_ref().map_or(1.0, List::share);
            if let Some(hook) = &mut self.on_progress {
                hook(share);
            }
        }
    }
}

impl FusedIterator for Locks {}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locks")
            .field("manager", &self.manager)
            .field("share", &self.list.as_ref().map_or(1.0, List::share))
            .finish_non_exhaustive()
    }
}
