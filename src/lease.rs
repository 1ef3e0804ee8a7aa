//! `Lease`: a held lock as text, on its way from one guard to the next. `text` writes and reads that text.

use std::time::{Duration, SystemTime};

#[cfg(test)]
mod heals;
#[cfg(test)]
#[path = "../tests/rooms/lease/model.rs"]
mod model;
#[cfg(test)]
#[path = "../tests/rooms/lease/sequences.rs"]
mod sequences;
pub(crate) mod state;
mod text;
pub(crate) mod votes;
mod watch;

use self::state::holding::Holding;
pub use self::watch::LeaseWatch;
use crate::claim::{Claim, Kind};
use crate::clock::nap;
use crate::cluster::{Places, places};
use crate::sync;
use crate::value::Value;

/// A held lock without a guard, made by [`LockGuard::into_lease`](crate::LockGuard::into_lease) and taken over by
/// [`LockManager::adopt`](crate::LockManager::adopt).
///
/// As text it is one word of printable ASCII characters that can pass through an environment variable, a command line
/// or a queue; with the cargo feature `serde` it is serialised as that text. Anybody with the text can take the lock
/// over or release it. So give it to one process only: two processes that adopt the same lease both hold the lock.
///
/// The text begins with the version of its format. Later versions of this crate read this format. If the holder has a
/// [label](crate::Builder::holder), the text has it as well. A lock that was taken [for a time at
/// least](crate::LockRequest::at_least) takes that along, by the wall clock, until that time is over. In both cases the text
/// begins with `redlatch2:`, which older versions don't read.
/// A lock on several resources, or of a reader, has that in the place of the name, where older versions don't read it either.
///
/// ```
/// # use std::time::Duration;
/// use redlatch::Lease;
/// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
/// let lease = manager.lock("the invoices", Duration::from_secs(10))?.into_lease();
/// assert_eq!(lease.resource(), "the invoices");
///
/// let text = lease.to_string();
/// assert!(text.starts_with("redlatch1:") && text.ends_with(":the%20invoices"));
/// assert_eq!(text.parse::<Lease>()?, lease);
/// # Ok::<(), redlatch::Error>(())
/// ```
#[derive(Debug, PartialEq, Eq, Hash)]
#[must_use = "the lock is held until someone adopts it, or until its time to live ends"]
pub struct Lease {
    resource: String,
    pub(crate) kind: Kind,
    pub(crate) value: Value,
    fencing: Option<u64>,
    pub(crate) nodes: usize,
    /// The nodes that may have the key. A release may be on its way to the others, so their answers don't count.
    pub(crate) may_have_key: Places,
    /// When the validity ends by the wall clock, in milliseconds since the Unix epoch.
    expires_ms: u64,
    /// Until when the lock has to rest if it is given back before, by the wall clock in milliseconds.
    rests_until_ms: Option<u64>,
}

impl Lease {
    /// The lease of a lock whose validity ends at `expires` after the Unix epoch, and that has to rest until `rests_until`
    /// after it if it is given back before.
    pub(crate) fn of(
        claim: &Claim,
        nodes: &[Holding],
        expires: Duration,
        rests_until: Option<Duration>,
    ) -> Self {
        let whole_ms = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        Self {
            resource: String::from(&*claim.resource.name),
            kind: claim.resource.kind.clone(),
            value: claim.value.clone(),
            fencing: claim.token().map(u64::from),
            nodes: nodes.len(),
            // A node that is being healed is not among them: the heal is undone when its reply comes.
            may_have_key: places(nodes, |node| node.counts()),
            expires_ms: whole_ms(expires),
            // Rounded up, so that the rest is not too short.
            rests_until_ms: rests_until.map(|until| whole_ms(until).saturating_add(1)),
        }
    }

    /// Returns the name of the locked resource, or of the semaphore, without the manager's key prefix. Of several resources,
    /// it is a text for messages, with the first of them; [`resources`](Self::resources) has all names.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let lease = manager.lock("invoices", Duration::from_secs(10))?.into_lease();
    /// assert_eq!(lease.resource(), "invoices");
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// Returns the names of all locked resources, in order: one, unless the lock was asked for with
    /// [`request_all`](crate::LockManager::request_all).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let guard = manager.lock_all(["account:2", "account:1"], Duration::from_secs(10))?;
    /// assert_eq!(guard.into_lease().resources(), ["account:1", "account:2"]);
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn resources(&self) -> Vec<&str> {
        match self.kind.names() {
            Some(names) => names.iter().map(|name| &**name).collect(),
            None => vec![&self.resource],
        }
    }

    /// Whether it is of a [reader](crate::LockManager::rw_lock), who shares the lock with other readers.
    ///
    /// ```
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let lease = manager.rw_lock("ledger").read()?.into_lease();
    /// assert!(lease.is_read());
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn is_read(&self) -> bool {
        self.kind == Kind::Read
    }

    /// Returns the slot of the semaphore, as [`LockGuard::slot`](crate::LockGuard::slot) does.
    ///
    /// ```
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let permit = manager.semaphore("exports", 2).lock()?;
    /// let slot = permit.slot();
    /// assert_eq!(permit.into_lease().slot(), slot);
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn slot(&self) -> Option<u32> {
        self.kind.slot()
    }

    /// Returns the token, as [`LockGuard::token`](crate::LockGuard::token) does.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// let lease = manager.lock("invoices", Duration::from_secs(10))?.into_lease();
    /// assert_eq!(nodes[0].token_of("invoices").as_deref(), Some(lease.token()));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn token(&self) -> &str {
        self.value.token()
    }

    /// Returns the fencing token, or none with [`Protocol::Classic`](crate::Protocol::Classic) and for a
    /// [reader](crate::LockManager::rw_lock).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).protocol(redlatch::Protocol::Fenced).build()?;
    /// # manager.open_nodes()?;
    /// let guard = manager.lock("invoices", Duration::from_secs(10))?;
    /// let token = guard.fencing_token();
    /// assert_eq!(guard.into_lease().fencing_token(), token);
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn fencing_token(&self) -> Option<u64> {
        self.fencing
    }

    /// Returns when the validity ends, by the wall clock of the machine that made the lease.
    ///
    /// It is an estimate, for people and to skip an adoption that is too late. The validity of an adopted lock comes
    /// from the nodes.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let lease = manager.lock("invoices", Duration::from_secs(10))?.into_lease();
    /// assert!(lease.expires_at() < SystemTime::now() + Duration::from_secs(10));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn expires_at(&self) -> SystemTime {
        let expires = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(self.expires_ms));
        expires.unwrap_or(SystemTime::UNIX_EPOCH)
    }

    pub(crate) fn has_expired(&self, wall_micros: u64) -> bool {
        self.expires_ms <= wall_micros / 1000
    }

    /// For how long the lock would have to rest if it were given back now, if it has a minimum.
    pub(crate) fn rest_left(&self, wall_micros: u64) -> Option<Duration> {
        let until = self.rests_until_ms?.saturating_mul(1000);
        Some(Duration::from_micros(until.saturating_sub(wall_micros)))
    }
}
