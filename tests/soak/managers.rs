//! The managers of the workers and of the driver.

use std::net::Ipv4Addr;
use std::time::Duration;

use redlatch::{Builder, LockManager, Protocol};

use crate::keys::LAST;

/// The ttl of the last locks: beyond all that the driver waits for.
pub(crate) const LAST_TTL: Duration = Duration::from_mins(1);

/// The nodes as the workers of a group name them.
pub(crate) fn urls(host: Ipv4Addr, ports: &[u16]) -> Vec<String> {
    let url = |port| format!("redis://{host}:{port}");
    ports.iter().map(url).collect()
}

/// With the fenced protocol all have the same longest ttl, and it is the quarantine of a node, too. That of the last locks is
/// another, and so are their prefix and their markers.
pub(crate) fn builder(
    urls: &[String],
    prefix: &str,
    protocol: Protocol,
    longest_ms: u64,
) -> Builder {
    let builder = LockManager::builder().nodes(urls).key_prefix(prefix);
    if protocol == Protocol::Classic {
        return builder;
    }
    let longest = if prefix == LAST {
        LAST_TTL
    } else {
        Duration::from_millis(longest_ms)
    };
    builder.protocol(protocol).max_ttl(longest)
}
