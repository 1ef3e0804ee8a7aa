//! The list of the locks that are held.

use std::iter::from_fn;

use super::LockManager;
use crate::error::Error;
use crate::protocol::list::List;
use crate::status::ListedLock;

impl LockManager {
    /// Lists the locks that are held, shared by readers or at rest, on resources whose names begin with `prefix`; all of them for
    /// an empty one.
    ///
    /// The servers are asked while it is iterated, and only the locks of one step are kept. Dropping it ends the list.
    ///
    /// It is for people and for monitoring: a lock may be gone, or have another holder, as soon as it is returned. Nothing
    /// is changed on any node. Each lock comes with its [`LockStatus`](crate::LockStatus):
    /// [`Held`](crate::LockStatus::Held); [`Read`](crate::LockStatus::Read) where readers share it;
    /// [`Resting`](crate::LockStatus::Resting) where nobody has it and nobody gets it yet; or
    /// [`Unknown`](crate::LockStatus::Unknown) where a node that is silent may complete a majority. What nobody holds is
    /// left out, and so are keys of a contender without a majority.
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
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(5)).build()?;
    /// let ttl = Duration::from_secs(10);
    /// let _guards = [manager.lock("report-4", ttl)?, manager.lock("report-5", ttl)?];
    ///
    /// let mut names = Vec::new();
    /// for lock in manager.locks("report-")? {
    ///     names.push(lock?.resource);
    /// }
    /// names.sort();
    /// assert_eq!(names, ["report-4", "report-5"]);
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn locks(
        &self,
        prefix: &str,
    ) -> Result<impl Iterator<Item = Result<ListedLock, Error>> + Send + use<>, Error> {
        self.locks_with_progress(prefix, |_| {})
    }

    /// As [`locks`](Self::locks), and calls a hook after each step, with the part of the work that is done: from 0.0 to 1.0, and
    /// never less than before.
    ///
    /// It is an estimate. Steps take about a millisecond each, so a hook that draws should not do so each time. A call of
    /// [`next`](Iterator::next) calls it many times where there are few locks among many other keys.
    ///
    /// # Errors
    ///
    /// As for [`locks`](Self::locks).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let _guard = manager.lock("invoices", Duration::from_secs(10))?;
    /// let locks = manager.locks_with_progress("", |share| eprintln!("{:.0} %", share * 100.0))?;
    /// assert_eq!(locks.count(), 1);
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn locks_with_progress<F: FnMut(f64) + Send + 'static>(
        &self,
        prefix: &str,
        mut on_progress: F,
    ) -> Result<impl Iterator<Item = Result<ListedLock, Error>> + Send + use<F>, Error> {
        let mut list = List::new(self.cluster().refuse_fork()?, prefix)?;
        let manager = self.clone();
        let batches = from_fn(move || {
            let locks = list.step(manager.cluster())?;
            on_progress(list.share());
            let locks = locks.map_or_else(
                |error| vec![Err(error)],
                |locks| locks.into_iter().map(Ok).collect(),
            );
            Some(locks)
        });
        Ok(batches.flatten())
    }
}
