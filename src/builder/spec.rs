//! A node as it was given to the builder.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use scheduled_thread_pool::ScheduledThreadPool;

use crate::clock::Clock;
use crate::fake::{FakeClock, FakeNode};
use crate::wire::address::{Address, Means, NEEDS_TLS};
use crate::wire::transport::Connect;

/// A node as it was given, or why it can't be used. Holds a password, so it says no more than the name.
#[derive(Clone)]
pub(super) enum Spec {
    Server(Box<Result<Address, String>>),
    Fake(FakeNode),
}

impl Spec {
    pub(super) fn parse(url: &str) -> Self {
        // The error of redis is left out: nothing of a URL, which can hold a password, may come into a message.
        let has_fragment = redis::parse_redis_url(url).is_some_and(|url| url.fragment().is_some());
        let address = match redis::Client::open(url) {
            Ok(client) if has_fragment && !url.ends_with("#insecure") => {
                drop(client);
                Err("a # outside a password; percent-encode it as %23 within one".into())
            }
            Ok(client) => return Self::from_client(&client),
            Err(_) if url.starts_with("rediss://") && cfg!(not(feature = "tls-rustls")) => {
                Err(NEEDS_TLS.into())
            }
            Err(_) => Err(
                "not a URL of a Redis server; expected redis://[user:password@]host[:port][/db], \
                 rediss://… or unix:///path (percent-encode special characters of a password)"
                    .into(),
            ),
        };
        Self::Server(Box::new(address))
    }

    pub(super) fn from_client(client: &redis::Client) -> Self {
        Self::Server(Box::new(Address::new(client.get_connection_info().clone())))
    }

    pub(super) fn name(&self) -> String {
        match self {
            Self::Server(address) => match address.as_ref() {
                Ok(address) => address.name(),
                Err(_) => String::new(),
            },
            Self::Fake(node) => node.name().to_owned(),
        }
    }

    /// What two specs of one server have in common, and what the canonical order sorts by.
    pub(super) fn identity(&self) -> Result<String, String> {
        match self {
            Self::Server(address) => address
                .as_ref()
                .as_ref()
                .map(Address::identity)
                .map_err(Clone::clone),
            Self::Fake(node) => Ok(node.identity()),
        }
    }

    pub(super) fn connector(
        self,
        clock: &Clock,
        lookups: Option<&Arc<ScheduledThreadPool>>,
        timeout: Duration,
        means: &Means,
    ) -> Option<Box<dyn Connect>> {
        match self {
            Self::Server(address) => {
                let address = (*address).ok()?;
                Some(address.connector(clock, lookups, timeout, means))
            }
            Self::Fake(node) => Some(Box::new(node)),
        }
    }

    #[cfg(feature = "tls-rustls")]
    pub(super) fn has_tls(&self) -> bool {
        match self {
            Self::Server(address) => address.as_ref().as_ref().is_ok_and(Address::has_tls),
            Self::Fake(_) => false,
        }
    }

    pub(super) fn needs_lookups(&self) -> bool {
        match self {
            Self::Server(address) => address.as_ref().as_ref().is_ok_and(Address::has_host_name),
            Self::Fake(_) => false,
        }
    }

    pub(super) fn fake_clock(&self) -> Option<&FakeClock> {
        match self {
            Self::Server(_) => None,
            Self::Fake(node) => node.fake_clock(),
        }
    }
}

impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}
