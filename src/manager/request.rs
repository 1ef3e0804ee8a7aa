//! A request for a lock with more options than its name and ttl.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::LockManager;
use super::acquire;
use crate::claim::{Kind, MOST_RESOURCES, shown};
use crate::clock;
use crate::contend::cancel::Cancel;
use crate::contend::spec::Spec;
use crate::error::Error;
use crate::guard::LockGuard;
use crate::holder::Label;
use crate::renewal::KeepAlive;

/// A lock to be taken, made by [`LockManager::request`] or [`LockManager::request_all`], or a permit, made by
/// [`LockManager::semaphore`].
///
/// ```
/// # use std::time::Duration;
/// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
/// let wait = Duration::from_secs(1);
/// let guard = manager.request("invoices").ttl(Duration::from_secs(5)).try_lock_for(wait)?;
/// # Ok::<(), redlatch::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "a request does nothing until one of its lock methods is called"]
pub struct LockRequest<'a> {
    manager: &'a LockManager,
    name: Arc<str>,
    pub(super) kind: Kind,
    ttl: Option<Duration>,
    keep_alive: Option<KeepAlive>,
    cancel: Option<Cancel>,
    at_least: Option<Duration>,
    /// What the holder calls itself, if not as the builder says.
    holder: Option<Result<Label, String>>,
}

impl LockManager {
    /// Starts a request for the lock on `resource`, to set more than its name.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let guard = manager.request("invoices").ttl(Duration::from_secs(5)).try_lock()?;
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn request(&self, resource: &str) -> LockRequest<'_> {
        LockRequest::new(self, resource, Kind::Lock)
    }
}

impl<'a> LockRequest<'a> {
    pub(super) fn new(manager: &'a LockManager, name: &str, kind: Kind) -> Self {
        Self {
            manager,
            name: name.into(),
            kind,
            ttl: None,
            keep_alive: None,
            cancel: None,
            at_least: None,
            holder: None,
        }
    }

    /// Sets the time to live: more than the drift, at most `max_ttl`; with [`keep_alive`](Self::keep_alive) at least three node
    /// timeouts and at most `max_hold`.
    ///
    /// Defaults to the builder's `default_ttl` (30 s unless set), or to [`KeepAlive::max_hold`] if that is shorter.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let clock = redlatch::fake::FakeClock::new();
    /// # let nodes = redlatch::fake::FakeNode::cluster_on(3, &clock);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// let guard = manager.request("invoices").ttl(Duration::from_secs(5)).lock()?;
    /// assert_eq!(nodes[0].ttl_of("invoices"), Some(Duration::from_secs(5)));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
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
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let two_hours = KeepAlive::max_hold(Duration::from_secs(2 * 3600));
    /// let guard = manager.request("nightly-report").keep_alive(two_hours).lock()?;
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn keep_alive(mut self, keep_alive: KeepAlive) -> Self {
        self.keep_alive = Some(keep_alive);
        self
    }

    /// Keeps everybody else from the lock for this time from when it was acquired, also when it is given back before.
    ///
    /// It is for jobs that may be over before a machine with a late clock begins the same job. Given back early, by
    /// [`unlock`](LockGuard::unlock) or a drop, the lock *rests*: its key stays on the nodes, with `rest:` in front of its
    /// value, until the time is over. Nobody gets it before, in this process or another, and no late command of the former
    /// holder touches it. [`LockManager::release`] of that value ends a rest. It costs no round trip more.
    ///
    /// The lock is given back at once by [`unlock_now`](LockGuard::unlock_now), by a drop while the thread panics, and after
    /// it was lost. A holder that dies, or loses its lock, does not keep the minimum: its lock is free when its time to live
    /// ends. The minimum may be longer than the ttl and than `max_hold`, which say for how long a lock is held at most.
    ///
    /// A [lease](LockGuard::into_lease) takes the minimum along.
    ///
    /// A rest is as safe as a lock: a majority of the nodes has to get it, or `unlock` says [`Error::Unconfirmed`], and these
    /// have to remember it. A node that was down at that moment keeps its key until the ttl ends; one that executes the
    /// command late rests for as much longer.
    ///
    /// The longest is the builder's `max_ttl`. A lock with zero or with more is refused, as [`Error::Invalid`].
    /// Defaults to a lock that is free when it is given back.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::Error;
    /// # use redlatch::fake::{FakeClock, FakeNode};
    /// # let clock = FakeClock::new();
    /// # let manager = redlatch::LockManager::builder().fakes(&FakeNode::cluster_on(3, &clock)).build()?;
    /// let ttl = Duration::from_secs(30);
    /// let guard = manager.request("nightly-report").at_least(Duration::from_secs(600)).lock()?;
    /// // It took a hundred milliseconds.
    /// guard.unlock()?;
    ///
    /// // On another machine, by a clock that is a second late:
    /// assert!(matches!(manager.try_lock("nightly-report", ttl), Err(Error::Held { .. })));
    /// # clock.advance(Duration::from_secs(607));
    /// # assert!(manager.try_lock("nightly-report", ttl).is_ok());
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn at_least(mut self, minimum: Duration) -> Self {
        self.at_least = Some(minimum);
        self
    }

    /// Lets another thread end the wait for the lock; see [`Cancel`].
    ///
    /// A call that was cancelled before it begins asks no node. Defaults to a wait that only its timeout ends.
    ///
    /// ```
    /// use redlatch::{Cancel, Error};
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let shutdown = Cancel::new();
    /// let request = manager.request("invoices").cancelled_by(&shutdown);
    /// request.lock()?.unlock()?;
    /// shutdown.cancel();
    /// assert!(matches!(request.lock(), Err(Error::Cancelled { .. })));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn cancelled_by(mut self, cancel: &Cancel) -> Self {
        self.cancel = Some(cancel.clone());
        self
    }

    /// Says who takes the lock: `label` is what [`Holder::label`](crate::Holder::label) shows to others, in place of the
    /// label of [`Builder::holder`](crate::Builder::holder), which says what a label may be and who can read it.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let guard = manager.request("invoices").holder("web-3 nightly").lock()?;
    /// println!("{}", manager.status("invoices")?); // held by web-3 nightly since …
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn holder(mut self, label: &str) -> Self {
        self.holder = Some(Label::new(label));
        self
    }

    /// Takes the lock as [`LockManager::lock`] does.
    ///
    /// # Errors
    ///
    /// As for [`LockManager::lock`]; [`Error::Invalid`] also for an [`at_least`](Self::at_least) that can't be kept, a label
    /// that can't be used, and, with keep-alive, a ttl of less than three node timeouts or of more than `max_hold`, or a margin
    /// that is too long; [`Error::Cancelled`] if its [`Cancel`] was cancelled; with keep-alive, [`Error::NoThread`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let request = manager.request("invoices").ttl(Duration::from_secs(5));
    /// let guard = request.lock()?;
    /// assert_eq!(guard.resource(), "invoices");
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn lock(&self) -> Result<LockGuard, Error> {
        self.take(None)
    }

    /// Takes the lock as [`LockManager::try_lock`] does.
    ///
    /// # Errors
    ///
    /// As for [`lock`](Self::lock).
    ///
    /// ```
    /// use redlatch::Error;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let request = manager.request("invoices");
    /// let guard = request.try_lock()?;
    /// assert!(matches!(request.try_lock(), Err(Error::Held { .. })));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn try_lock(&self) -> Result<LockGuard, Error> {
        self.take(Some(Duration::ZERO))
    }

    /// Takes the lock as [`LockManager::try_lock_for`] does.
    ///
    /// # Errors
    ///
    /// As for [`lock`](Self::lock).
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::Error;
    /// # let clock = redlatch::fake::FakeClock::new();
    /// # let nodes = redlatch::fake::FakeNode::cluster_on(3, &clock);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// let request = manager.request("invoices");
    /// # for node in &nodes { node.hold("invoices", "another", Duration::from_secs(60)); }
    /// // Another process has it for a minute.
    /// let result = request.try_lock_for(Duration::from_secs(1));
    /// assert!(matches!(result, Err(Error::Held { .. })));
    /// assert!(request.try_lock_for(Duration::MAX).is_ok());
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn try_lock_for(&self, timeout: Duration) -> Result<LockGuard, Error> {
        self.take(Some(timeout))
    }

    /// Takes the lock as [`LockManager::try_lock_until`] does.
    ///
    /// # Errors
    ///
    /// As for [`lock`](Self::lock).
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let request = manager.request("invoices");
    /// let guard = request.try_lock_until(Instant::now() + Duration::from_secs(2))?;
    /// // A deadline that is over leaves one attempt.
    /// assert!(request.try_lock_until(Instant::now()).is_err());
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn try_lock_until(&self, deadline: Instant) -> Result<LockGuard, Error> {
        self.take(Some(clock::until_instant(deadline)))
    }

    /// Without a timeout, it waits for as long as the builder says. All options are checked before anything is sent.
    fn take(&self, timeout: Option<Duration>) -> Result<LockGuard, Error> {
        let shared = &self.manager.shared;
        let cluster = self.manager.cluster()?;
        let options = &cluster.options;
        if let Some(minimum) = self.at_least {
            if self.kind == Kind::Read {
                let reason = "readers share the lock, so none of them can keep the others from it; set it to write, and not to read";
                return Err(Error::invalid("at_least", reason));
            }
            options.check_minimum(minimum)?;
        }
        let limit = self.keep_alive.and_then(KeepAlive::limit);
        let default = options.default_ttl.min(limit.unwrap_or(Duration::MAX));
        let ttl = self.ttl.unwrap_or(default);
        let term = options.term_of("ttl", ttl)?;
        if let Some(keep_alive) = self.keep_alive {
            shared.keeper.prepare(ttl, keep_alive)?;
        }
        let (name, kind) = match self.kind.names() {
            Some(names) => in_order(names)?,
            None => (Arc::clone(&self.name), self.kind.clone()),
        };
        let resource = Arc::new(cluster.resource(name, kind)?);
        let label = self.holder.clone().transpose();
        let label = label.map_err(|reason| Error::invalid("holder", reason))?;
        let timeout = timeout.unwrap_or_else(|| options.acquire_timeout(ttl));
        let spec = Spec {
            resource,
            term,
            label: label.or_else(|| options.holder.clone()),
            waits: !timeout.is_zero(),
            // None, which is no bound, if the sum overflows.
            end: cluster.clock.now().checked_add(timeout),
            cancel: self.cancel.clone(),
        };
        acquire::run(shared, &spec, self.keep_alive, self.at_least)
    }
}

/// A lock on these names, in the order in which everybody asks for them, so that two calls never wait for each other.
fn in_order(names: &[Arc<str>]) -> Result<(Arc<str>, Kind), Error> {
    let mut sorted = names.to_vec();
    sorted.sort_unstable();
    let twice = sorted.windows(2).find(|pair| pair.first() == pair.last());
    let reason = match (names.len(), twice) {
        (0, _) => "there is no name; give the name of one resource at least".to_owned(),
        (count, _) if count > MOST_RESOURCES => format!(
            "a lock is on {MOST_RESOURCES} resources at most, and these are {count}; give fewer names, or one name that stands for all"
        ),
        (_, Some([name, ..])) => {
            format!("the name {name:?} is given twice; give each resource once")
        }
        (1, _) => return Ok((sorted.concat().into(), Kind::Lock)),
        _ => return Ok((shown(&sorted), Kind::Several(sorted.into()))),
    };
    Err(Error::invalid("resource", reason))
}
