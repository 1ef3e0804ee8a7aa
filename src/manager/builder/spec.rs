//! A node as it was given to the builder.

use std::fmt;
use std::sync::Arc;

use scheduled_thread_pool::ScheduledThreadPool;

use crate::clock::Clock;
use crate::fake::{FakeClock, FakeNode};
use crate::wire::address::{Address, NEEDS_TLS, Security};
use crate::wire::transport::Connect;

/// A node as it was given, or why it can't be used. It can hold a password, so its `Debug` shows only the name.
#[derive(Clone)]
pub(super) enum NodeSpec {
    Server(Box<Result<Address, String>>),
    Fake(FakeNode),
}

const EXPECTED: &str = "expected redis://[user:password@]host[:port][/db], rediss://… or unix:///path \
                        (percent-encode special characters of a password)";

/// What is wrong with a URL that the redis crate refuses. The text repeats no part of the URL, which may be a password.
fn problem_of(url: &str) -> &'static str {
    if url.is_empty() {
        return "the URL is empty";
    }
    let Some((scheme, rest)) = url.split_once("://") else {
        return "the scheme is missing, redis:// or another one";
    };
    if rest.contains("://") {
        return "it has more than one URL in it; give each URL by itself";
    }
    let scheme = scheme.to_ascii_lowercase();
    if scheme.contains("sentinel") {
        return "Sentinel is not asked for masters, and one that fails over has forgotten locks; give independent \
                servers themselves";
    }
    match scheme.as_str() {
        "redis" | "rediss" | "valkey" | "valkeys" => {}
        "unix" | "redis+unix" | "valkey+unix" => {
            return "the path is not absolute, or the part after it is wrong";
        }
        _ => return "the scheme is not that of a Redis server",
    }
    let (authority, behind) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if behind.contains('@') {
        return "the password has a character in it that ends the host, such as / or #";
    }
    let (_, server) = authority.rsplit_once('@').unwrap_or(("", authority));
    // The colons of an IPv6 address are in brackets.
    let behind_brackets = server.rfind(']').map_or(0, |end| end.saturating_add(1));
    let (in_brackets, port) = server.split_at(behind_brackets);
    let (host, port) = port.split_once(':').unwrap_or((port, "6379"));
    if in_brackets.is_empty() && port.contains(':') {
        return "the host has colons in it; an IPv6 address is in brackets, [::1]:6379";
    }
    if in_brackets.is_empty() && host.is_empty() {
        return "the host is missing";
    }
    if port.parse::<u16>().is_err() {
        return "the port is not a number from 1 to 65535";
    }
    if host == "0.0.0.0" || in_brackets == "[::]" {
        return "0.0.0.0 and [::] are addresses to listen on, and not the address of a server";
    }
    let (path, query) = behind.split_once('?').unwrap_or((behind, ""));
    let db = path.trim_matches('/');
    if !db.is_empty() && db.parse::<i64>().is_err() {
        return "the database, after the slash, is not a number";
    }
    if !query.is_empty() {
        return "the part after the question mark is wrong; it can be protocol=resp2 or protocol=resp3";
    }
    "the host, the user or the password has characters in it that can't be there"
}

impl NodeSpec {
    pub(super) fn parse(url: &str) -> Self {
        // The error of the redis crate is left out, because it may repeat a part of the URL, which can hold a password.
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
            Err(_) => Err(format!("{}; {EXPECTED}", problem_of(url))),
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

    /// A text that is equal for two specs of one server. The canonical order sorts by it.
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
        security: &Security,
    ) -> Option<Box<dyn Connect>> {
        match self {
            Self::Server(address) => {
                let address = (*address).ok()?;
                Some(address.connector(clock, lookups, security))
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

    /// Whether the URL has a user and no password.
    pub(super) fn has_user_alone(&self) -> bool {
        match self {
            Self::Server(address) => address.as_ref().as_ref().is_ok_and(Address::has_user_alone),
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

impl fmt::Debug for NodeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}
