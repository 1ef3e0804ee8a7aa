//! A node as it was given to the builder.

use std::sync::Arc;

use redis::ConnectionInfo;
use scheduled_thread_pool::ScheduledThreadPool;

use super::url;
use crate::clock::Clock;
#[cfg(feature = "fake")]
use crate::fake::FakeNode;
use crate::wire::address::{Address, Security};
use crate::wire::transport::Connect;

/// A node as it was given. An address can hold a password, and its `Debug` shows only its name.
#[derive(Debug, Clone)]
pub(super) enum GivenNode {
    Server(Box<Address>),
    #[cfg(feature = "fake")]
    Fake(FakeNode),
}

impl GivenNode {
    /// The server at this URL, or why the URL can't be used.
    pub(super) fn at(url: &str) -> Result<Self, String> {
        url::read(url).and_then(Self::of)
    }

    pub(super) fn of(info: ConnectionInfo) -> Result<Self, String> {
        Ok(Self::Server(Box::new(Address::new(info)?)))
    }

    pub(super) fn name(&self) -> String {
        match self {
            Self::Server(address) => address.name(),
            #[cfg(feature = "fake")]
            Self::Fake(node) => node.name().to_owned(),
        }
    }

    /// A text that is equal for two nodes that are one server. The canonical order sorts by it.
    pub(super) fn identity(&self) -> String {
        match self {
            Self::Server(address) => address.identity(),
            #[cfg(feature = "fake")]
            Self::Fake(node) => node.identity(),
        }
    }

    /// The address, if it is a server.
    #[cfg_attr(
        not(feature = "fake"),
        expect(clippy::unnecessary_wraps, reason = "a fake node has none")
    )]
    pub(super) fn address(&self) -> Option<&Address> {
        match self {
            Self::Server(address) => Some(address),
            #[cfg(feature = "fake")]
            Self::Fake(_) => None,
        }
    }

    pub(super) fn connector(
        &self,
        clock: &Clock,
        lookups: Option<&Arc<ScheduledThreadPool>>,
        security: &Security,
    ) -> Box<dyn Connect> {
        match self {
            Self::Server(address) => address.clone().connector(clock, lookups, security),
            #[cfg(feature = "fake")]
            Self::Fake(node) => Box::new(node.clone()),
        }
    }
}
