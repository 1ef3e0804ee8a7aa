//! Locks on several resources at once.

use std::sync::Arc;
use std::time::Duration;

use super::{LockManager, LockRequest};
use crate::claim::Kind;
use crate::error::Error;
use crate::guard::LockGuard;

impl LockManager {
    /// Takes the locks on all of these resources at once, or none of them, waiting up to the builder's `acquire_timeout`.
    ///
    /// It is [`request_all`](Self::request_all) with a `ttl`, and says more there.
    ///
    /// # Errors
    ///
    /// As for [`request_all`](Self::request_all).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let guard = manager.lock_all(["account:1", "account:2"], Duration::from_secs(10))?;
    /// println!("the money moves between {}", guard.resource());
    /// guard.unlock()?;
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn lock_all<I>(&self, resources: I, ttl: Duration) -> Result<LockGuard, Error>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        self.request_all(resources).ttl(ttl).lock()
    }

    /// Starts a request for the locks on all of these resources at once: the guard has all of them, and nobody else has any.
    ///
    /// The request has the same options and methods as that for one lock, and the guard is the same: it is checked, extended,
    /// kept alive, handed on as a lease and given back as a whole. Its [`resources`](LockGuard::resources) are the names in
    /// order. The order in which they are given means nothing. 1 to 64 different names are allowed; one name is an ordinary
    /// lock.
    ///
    /// Each key is an ordinary lock to every other client, with the same value under all of them. A node grants all keys or
    /// none, in one step, so the call costs the round trips of one lock, and nobody has one part and waits for another. A node
    /// votes for the lock if it has all its keys. So it is lost, and its guard says so, where a majority of the nodes lacks one
    /// key or the other. With [`Protocol::Fenced`](crate::Protocol::Fenced) there is one fencing token, larger than the tokens of
    /// all earlier guards of each of the resources, and each of them accepts it.
    ///
    /// # Waiting
    ///
    /// Threads of this manager that want several resources wait for them in the order of the names, so two of them never wait
    /// for each other. Each resource has one line of threads, first in, first out, for those who want it alone and for those who
    /// want others as well. While a thread waits for the second resource, it keeps its turn for the first one. So in each line
    /// it waits only for the threads that were there when it entered that line; nobody who comes later is before it. For as long as it
    /// waits, the threads behind it wait as well, also for resources that are free.
    ///
    /// While another process has one of the resources, the first thread waits at one node, which wakes it when that resource
    /// is free. If [readers](Self::rw_lock) have that resource, they keep it until they are done, and no further reader gets
    /// it meanwhile, as with one lock. That is so for the resource in the way alone: readers come and go on the others.
    /// Among processes there is no order, as with one lock. A process that often takes one of the resources alone can keep
    /// one waiting for long that needs all of them free at the same moment.
    ///
    /// A thread that has a guard and asks for more resources can wait for another thread that does the same, until one of
    /// them gives up. Ask for all of them at once.
    ///
    /// # Errors
    ///
    /// The methods of the request fail as they do for one lock. [`Error::Held`] names the resource that was in the way; the
    /// other errors have the first three names. [`Error::Invalid`] also if there is no name, more than 64, or one of
    /// them twice.
    ///
    /// ```
    /// use std::time::Duration;
    /// use redlatch::Error;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(5)).build()?;
    ///
    /// let ttl = Duration::from_secs(30);
    /// let _other = manager.lock("account:2", ttl)?;
    /// let request = manager.request_all(["account:1", "account:2"]).ttl(ttl);
    /// match request.try_lock() {
    ///     Err(Error::Held { resource, .. }) => assert_eq!(&*resource, "account:2"),
    ///     other => panic!("{other:?}"),
    /// }
    /// // It has not taken the other one meanwhile.
    /// assert!(manager.try_lock("account:1", ttl).is_ok());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn request_all<I>(&self, resources: I) -> LockRequest<'_>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let names = resources.into_iter().map(|name| Arc::from(name.as_ref()));
        LockRequest::new(self, "", Kind::Several(names.collect()))
    }
}
