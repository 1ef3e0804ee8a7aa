//! The options of a manager, and what is computed from them.

use std::time::Duration;

use crate::error::Error;
use crate::fanout::Fanout;
use crate::fencing::{Protocol, Rules};
use crate::holder::Label;
use crate::node::wait::SERVER_TICK;
use crate::quorum::{self, Term};

#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) key_prefix: String,
    pub(crate) node_timeout: Duration,
    /// None means four node timeouts.
    pub(crate) connect_timeout: Option<Duration>,
    /// None means the ttl and ten seconds.
    pub(crate) acquire_timeout: Option<Duration>,
    pub(crate) pool_size: u32,
    pub(crate) retry_min: Duration,
    pub(crate) retry_max: Duration,
    pub(crate) default_ttl: Duration,
    pub(crate) drift_factor: f64,
    pub(crate) max_ttl: Duration,
    pub(crate) protocol: Protocol,
    pub(crate) fanout: Fanout,
    /// What holders call themselves, where a call does not say.
    pub(crate) holder: Option<Label>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            key_prefix: String::new(),
            node_timeout: Duration::from_millis(50),
            connect_timeout: None,
            acquire_timeout: None,
            pool_size: 10,
            retry_min: Duration::from_millis(50),
            retry_max: Duration::from_millis(250),
            default_ttl: Duration::from_secs(30),
            drift_factor: 0.01,
            max_ttl: Duration::from_secs(60 * 60),
            protocol: Protocol::Classic,
            fanout: Fanout::Sequential,
            holder: None,
        }
    }
}

impl Options {
    /// The part of a time to live by which clocks may differ at its end.
    pub(crate) fn drift(&self, ttl: Duration) -> Duration {
        quorum::drift(ttl, self.drift_factor)
    }

    /// The shortest ttl, up to rounding, whose validity is this long.
    pub(crate) fn ttl_for(&self, validity: Duration) -> Duration {
        quorum::ttl_for(validity, self.drift_factor)
    }

    /// Returns how long a connection may take. Name lookup, TCP, TLS and the login are several round trips.
    pub(crate) fn connect_timeout(&self) -> Duration {
        let four = || self.node_timeout.saturating_mul(4);
        self.connect_timeout.unwrap_or_else(four)
    }

    /// How long a call waits that does not say so. The key of a holder that has crashed ends before that.
    pub(crate) fn acquire_timeout(&self, ttl: Duration) -> Duration {
        let beyond_ttl = || ttl.saturating_add(Duration::from_secs(10));
        self.acquire_timeout.unwrap_or_else(beyond_ttl)
    }

    /// For how long it may be announced at a node that this client waits.
    pub(crate) fn longest_announcement(&self) -> Duration {
        let wait = self.retry_max.saturating_add(SERVER_TICK);
        wait.saturating_add(self.node_timeout)
    }

    /// The settings that all clients of the fenced protocol have to share; none with the classic protocol.
    pub(crate) fn rules(&self, nodes: usize) -> Option<Rules> {
        let drift = self.drift(self.max_ttl);
        let rules = || Rules::new(&self.key_prefix, nodes, self.max_ttl, drift);
        (self.protocol == Protocol::Fenced).then(rules)
    }

    /// Refuses a minimum hold that can't be promised.
    pub(crate) fn check_minimum(&self, at_least: Duration) -> Result<(), Error> {
        if at_least.is_zero() {
            let reason = "a lock is held for longer than 0 s anyway; ask for more, or leave it out";
            return Err(Error::invalid("at_least", reason));
        }
        if at_least > self.max_ttl {
            return Err(self.too_long("at_least", at_least));
        }
        Ok(())
    }

    fn too_long(&self, field: &'static str, span: Duration) -> Error {
        let reason = format!(
            "{span:?} is too long: the longest is max_ttl, {:?}; ask for less or raise max_ttl",
            self.max_ttl
        );
        Error::invalid(field, reason)
    }

    /// The ttl in whole milliseconds, and the validity that it gives.
    pub(crate) fn term(&self, ttl: Duration) -> Result<Term, Error> {
        self.term_of("ttl", ttl)
    }

    /// The same, for a ttl that is called so.
    pub(crate) fn term_of(&self, field: &'static str, ttl: Duration) -> Result<Term, Error> {
        if ttl > self.max_ttl {
            return Err(self.too_long(field, ttl));
        }
        let whole = Duration::from_millis(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
        let drift = quorum::drift(whole, self.drift_factor);
        let validity = whole.saturating_sub(drift);
        if validity.is_zero() {
            let reason = format!(
                "{ttl:?} is too short: the clocks' drift alone, {drift:.1?}, uses it up; ask for more"
            );
            return Err(Error::invalid(field, reason));
        }
        Ok(Term {
            ttl: whole,
            validity,
        })
    }
}
