//! A request for a lock with more options than its name and ttl.

use std::time::{Duration, Instant};

use super::LockManager;
use super::acquire::LockOptions;
use crate::clock;
use crate::contend::cancel::Cancel;
use crate::error::Error;
use crate::guard::LockGuard;
use crate::holder::Label;
use crate::renewal::KeepAlive;

/// A lock to be taken, made by [`LockManager::request`].
///
/// ```
/// # use std::time::Duration;
/// # let nodes = redlatch::fake::FakeNode::cluster(3);
/// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
/// let wait = Duration::from_secs(1);
/// let guard = manager.request("invoices").ttl(Duration::from_secs(5)).try_lock_for(wait)?;
/// # Ok::<(), redlatch::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "a request does nothing until one of its lock methods is called"]
pub struct LockRequest<'a> {
    manager: &'a LockManager,
    resource: &'a str,
    ttl: Option<Duration>,
    options: LockOptions,
}

impl<'a> LockRequest<'a> {
    pub(crate) fn new(manager: &'a LockManager, resource: &'a str, permits: Option<u32>) -> Self {
        Self {
            manager,
            resource,
            ttl: None,
            options: LockOptions {
                permits,
                ..LockOptions::default()
            },
        }
    }

    /// Sets the time to live.
    ///
    /// Defaults to the builder's `default_ttl` (30 s unless set), or to [`KeepAlive::max_hold`] if that is shorter.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Renews the lock in the background for as long as the guard exists, or up to a limit; see [`KeepAlive`].
    ///
    /// Defaults to a lock that ends with its time to live, unless it is extended.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::KeepAlive;
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// let two_hours = KeepAlive::max_hold(Duration::from_secs(2 * 3600));
    /// let guard = manager.request("nightly-report").keep_alive(two_hours).lock()?;
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn keep_alive(mut self, keep_alive: KeepAlive) -> Self {
        self.options.keep_alive = Some(keep_alive);
        self
    }

    /// Lets another thread end the wait for the lock; see [`Cancel`].
    ///
    /// A call that was cancelled before it begins asks no node. Defaults to a wait that only its timeout ends.
    pub fn cancelled_by(mut self, cancel: &Cancel) -> Self {
        self.options.cancel = Some(cancel.clone());
        self
    }

    /// Says who takes the lock: `label` is what [`Holder::label`](crate::Holder::label) shows to others, in place of the
    /// label of [`Builder::holder`](crate::Builder::holder), which says what a label may be and who can read it.
    ///
    /// Calls with another label than the holder's get no [local hand-over](crate::Builder::local_handover), so that
    /// nobody is named who does not have the lock.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// let guard = manager.request("invoices").holder("web-3 nightly").lock()?;
    /// println!("{}", manager.status("invoices")?); // held by web-3 nightly since …
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn holder(mut self, label: &str) -> Self {
        self.options.holder = Some(Label::new(label));
        self
    }

    /// Takes the lock as [`LockManager::lock`] does.
    ///
    /// # Errors
    ///
    /// As for [`LockManager::lock`]; [`Error::Cancelled`] if its [`Cancel`] was cancelled; [`Error::InvalidHolder`] for a
    /// label that can't be used; with keep-alive,
    /// [`Error::InvalidTtl`] also for a ttl of less than three node timeouts, or of more than `max_hold`, and
    /// [`Error::NoThread`].
    pub fn lock(&self) -> Result<LockGuard, Error> {
        self.acquire(self.manager.cluster().options.acquire_timeout)
    }

    /// Takes the lock as [`LockManager::try_lock`] does.
    ///
    /// # Errors
    ///
    /// As for [`LockManager::lock`]; [`Error::Cancelled`] if its [`Cancel`] was cancelled; [`Error::InvalidHolder`] for a
    /// label that can't be used; with keep-alive,
    /// [`Error::InvalidTtl`] also for a ttl of less than three node timeouts, or of more than `max_hold`, and
    /// [`Error::NoThread`].
    pub fn try_lock(&self) -> Result<LockGuard, Error> {
        self.acquire(Duration::ZERO)
    }

    /// Takes the lock as [`LockManager::try_lock_for`] does.
    ///
    /// # Errors
    ///
    /// As for [`LockManager::lock`]; [`Error::Cancelled`] if its [`Cancel`] was cancelled; [`Error::InvalidHolder`] for a
    /// label that can't be used; with keep-alive,
    /// [`Error::InvalidTtl`] also for a ttl of less than three node timeouts, or of more than `max_hold`, and
    /// [`Error::NoThread`].
    pub fn try_lock_for(&self, timeout: Duration) -> Result<LockGuard, Error> {
        self.acquire(timeout)
    }

    /// Takes the lock as [`LockManager::try_lock_until`] does.
    ///
    /// # Errors
    ///
    /// As for [`LockManager::lock`]; [`Error::Cancelled`] if its [`Cancel`] was cancelled; [`Error::InvalidHolder`] for a
    /// label that can't be used; with keep-alive,
    /// [`Error::InvalidTtl`] also for a ttl of less than three node timeouts, or of more than `max_hold`, and
    /// [`Error::NoThread`].
    pub fn try_lock_until(&self, deadline: Instant) -> Result<LockGuard, Error> {
        self.acquire(clock::until_instant(deadline))
    }

    /// Checks the options before anything is sent.
    fn acquire(&self, timeout: Duration) -> Result<LockGuard, Error> {
        let keep_alive = self.options.keep_alive;
        let limit = keep_alive.and_then(KeepAlive::limit);
        let default = self.manager.cluster().options.default_ttl;
        let fitting = limit.map_or(default, |limit| default.min(limit));
        let ttl = self.ttl.unwrap_or(fitting);
        if let Some(keep_alive) = keep_alive {
            self.manager.shared.keeper.prepare(ttl, keep_alive)?;
        }
        self.manager
            .acquire(self.resource, ttl, timeout, &self.options)
    }
}
