//! A node as it was given to the builder.

use std::fmt;
use std::sync::Arc;

use scheduled_thread_pool::ScheduledThreadPool;

use super::url;
use crate::clock::Clock;
#[cfg(feature = "fake")]
use crate::fake::{FakeClock, FakeNode};
use crate::wire::address::{Address, Security};
use crate::wire::transport::Connect;

/// A node as it was given, or why it can't be used. It can hold a password, so its `Debug` shows only the name.
#[derive(Clone)]
pub(super) enum NodeSpec {
    Server(Box<Result<Address, String>>),
    #[cfg(feature = "fake")]
    Fake(FakeNode),
}

impl NodeSpec {
    pub(super) fn parse(url: &str) -> Self {
        Self::Server(Box::new(url::read(url).and_then(Address::new)))
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
            #[cfg(feature = "fake")]
            Self::Fake(node) => node.name().to_owned(),
        }
    }

    /// A text that is equal for two specs of one server. The canonical order sorts by it.
    pub(super) fn identity(&self) -> Result<String, String> {
        match self {
            Self::Server(address) => address
                .as_ref()
                .as_ref()
                .map(Address::identity)
                .map_err(Clone::clone),
            #[cfg(feature = "fake")]
            Self::Fake(node) => Ok(node.identity()),
        }
    }

    pub(super) fn connector(
        self,
        clock: &Clock,
        lookups: Option<&Arc<ScheduledThreadPool>>,
        security: &Security,
    ) -> Option<Box<dyn Connect>> {
        match self {
            Self::Server(address) => {
                let address = (*address).ok()?;
                Some(address.connector(clock, lookups, security))
            }
            #[cfg(feature = "fake")]
            Self::Fake(node) => Some(Box::new(node)),
        }
    }

    #[cfg(feature = "tls-rustls")]
    pub(super) fn has_tls(&self) -> bool {
        match self {
            Self::Server(address) => address.as_ref().as_ref().is_ok_and(Address::has_tls),
            #[cfg(feature = "fake")]
            Self::Fake(_) => false,
        }
    }

    pub(super) fn needs_lookups(&self) -> bool {
        match self {
            Self::Server(address) => address.as_ref().as_ref().is_ok_and(Address::has_host_name),
            #[cfg(feature = "fake")]
            Self::Fake(_) => false,
        }
    }

    /// Whether the URL has a user and no password.
    pub(super) fn has_user_alone(&self) -> bool {
        match self {
            Self::Server(address) => address.as_ref().as_ref().is_ok_and(Address::has_user_alone),
            #[cfg(feature = "fake")]
            Self::Fake(_) => false,
        }
    }

    #[cfg(feature = "fake")]
    pub(super) fn fake_clock(&self) -> Option<&FakeClock> {
        match self {
            Self::Server(_) => None,
            #[cfg(feature = "fake")]
            Self::Fake(node) => node.fake_clock(),
        }
    }
}

impl fmt::Debug for NodeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}
